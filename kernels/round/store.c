/* SPDX-License-Identifier: MIT
 *
 * What: keys and values of one token, put into its KV block as the type of the KV says
 * (kernels/ops.h has the layout).
 *
 * Invariants: a slot writes its own token's numbers, signs and scales, and nothing else. Eight
 * tokens share two bytes of signs; they are of one call, and a head is of one thread, so no two
 * threads write those.
 */
#include <string.h>

#include "config/base/bounds.h"
#include "kernels/round/piece.h"

/* The KV block that the slot writes. */
static uint32_t block_of(const struct kernels_storing *s)
{
    const struct kernels *k = s->k;
    uint32_t index = s->slot->position / k->settings.kv_block_tokens;
    uint32_t block = step_blocks(k->step, s->slot->row)[index];
    ASSERT(block < k->settings.kv_blocks);
    return block;
}

static uint32_t token_of(const struct kernels_storing *s)
{
    return s->slot->position % s->k->settings.kv_block_tokens;
}

/* ---- keys: (channels, tokens) ---- */

/* The channels of the part go from `from` on; `step` numbers lie between two of them. */
static void key_put_floats(float *to, uint64_t step, const float *from, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        to[i * step] = from[i];
    }
}

static void key_put_halves(const struct kernels_ops *ops, uint16_t *to, uint64_t step,
                           const float *from, uint32_t count)
{
    for (uint32_t first = 0; first < count; first += KERNELS_OCTET) {
        uint16_t halves[KERNELS_OCTET];
        uint32_t octet = lesser(count - first, KERNELS_OCTET);
        ops->halve(halves, from + first, octet);
        for (uint32_t i = 0; i < octet; i++) {
            to[(first + i) * step] = halves[i];
        }
    }
}

/* A whole head, two channels at a time: their bytes, and their signs. */
static void key_put_levels(const struct kernels_storing *s, uint8_t *piece, const float *from)
{
    const struct kernels *k = s->k;
    uint32_t head_dim = k->shape.head_dim, tokens = k->settings.kv_block_tokens;
    uint32_t token = token_of(s), bit = token * 2 % 8;
    int16_t *levels = (int16_t *)(void *)s->scratch->heads;
    struct kernels_key_frame frame = k->ops->level_key(levels, from, head_dim);
    uint8_t *bytes = piece + token * 2;
    uint8_t *signs = piece + kernels_kv_numbers(head_dim, tokens) + token * 2 / 8;
    void *steps = piece + kernels_key_steps_at(head_dim, tokens);
    ((uint16_t *)steps)[token] = frame.step;
    ((uint16_t *)steps)[tokens + token] = frame.middle;
    for (uint32_t i = 0; i < head_dim; i += 2) {
        uint8_t *pair = bytes + (uint64_t)i * tokens, *shared = signs + i / 2 * (tokens / 4);
        pair[0] = (uint8_t)levels[i];
        pair[1] = (uint8_t)levels[i + 1];
        uint32_t two = (levels[i] < 0 ? 1u : 0u) | (levels[i + 1] < 0 ? 2u : 0u);
        *shared = (uint8_t)((*shared & ~(3u << bit)) | two << bit);
    }
}

static void key_put(const struct kernels_storing *s, void *piece, const float *from,
                    struct kernels_head_part part)
{
    uint64_t step = s->k->settings.kv_block_tokens, at = part.first * step + token_of(s);
    uint32_t count = part.end - part.first;
    switch (s->k->settings.kv_type) {
    case KERNELS_KV_F16:
        key_put_halves(s->k->ops, (uint16_t *)piece + at, step, from, count);
        break;
    case KERNELS_KV_Q8: key_put_levels(s, piece, from); break;
    default: key_put_floats((float *)piece + at, step, from, count); break;
    }
}

/* ---- values: (tokens, channels) ---- */

static void value_put(const struct kernels_storing *s, void *piece, const float *from,
                      struct kernels_head_part part)
{
    const struct kernels *k = s->k;
    uint32_t head_dim = k->shape.head_dim, token = token_of(s), count = part.end - part.first;
    uint64_t at = (uint64_t)token * kernels_head_lanes(head_dim) + part.first;
    int8_t *levels = piece;
    void *scales = levels + kernels_kv_numbers(head_dim, k->settings.kv_block_tokens);
    switch (k->settings.kv_type) {
    case KERNELS_KV_F16: k->ops->halve((uint16_t *)piece + at, from, count); break;
    case KERNELS_KV_Q8:
        ((float *)scales)[token] = k->ops->level(levels + at, from, count);
        break;
    default: memcpy((float *)piece + at, from, count * sizeof(float)); break;
    }
}

void kernels_kv_store(const struct kernels_storing *storing)
{
    const struct kernels_storing *s = storing;
    const struct model_shape *shape = &s->k->shape;
    uint32_t block = block_of(s);
    for (uint32_t c = s->key.first; c < s->key.end;) {
        struct kernels_head_part part = kernels_head_part_at(shape, c, s->key.end);
        key_put(s, kernels_keys(s->k, block, s->layer, part.head).at, s->keys + c, part);
        c += part.end - part.first;
    }
    for (uint32_t c = s->value.first; c < s->value.end;) {
        struct kernels_head_part part = kernels_head_part_at(shape, c, s->value.end);
        value_put(s, kernels_values(s->k, block, s->layer, part.head).at, s->values + c, part);
        c += part.end - part.first;
    }
}
