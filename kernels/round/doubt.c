/* SPDX-License-Identifier: MIT
 *
 * What: a second look at a forward pass, for a step that is doubted. Each thread computes the part
 * that the thread before it has computed, over the same slots and KV, and a digest of what came of
 * each part is compared: of the KV blocks that were written, and of the logits. A CPU that computes
 * wrongly, or a value that was lost on its way, is then seen by a CPU that is right.
 *
 * Why the same numbers come out: no result depends on the thread that computes it (kernels.h), and
 * a round writes KV at its own positions only, so that the second pass reads what the first read.
 *
 * What it does not see: what both passes read wrongly in the same way. For weights there is the
 * scrubbing (appliance/keeper/scrub.h), for the rest the canary. With one thread it sees what does
 * not happen twice.
 *
 * Bounds: a forward pass, and twice the blocks and logits of the round at the speed of a digest.
 */
#include "config/base/fnv.h"
#include "kernels/round/piece.h"

static uint32_t block_of(const struct kernels *k, const struct kernels_slot *slot)
{
    return step_blocks(k->step, slot->row)[slot->position / k->settings.kv_block_tokens];
}

/* True when the round's next slot lies in another block. */
static bool is_last_of_block(const struct kernels *k, uint32_t index)
{
    const struct kernels_slot *slot = &k->slots[index];
    return index + 1 == k->slots_count || block_of(k, slot) != block_of(k, slot + 1);
}

static uint64_t digest_of_block(const struct kernels *k, uint32_t block, uint64_t digest)
{
    for (uint32_t i = 0; i < kernels_pieces(k); i++) {
        struct kernels_piece piece = kernels_piece(k, block, i);
        digest = fnv_add_words(digest, piece.at, piece.bytes);
    }
    return digest;
}

static uint64_t digest_of_part(const struct kernels *k, uint32_t part)
{
    uint64_t digest = FNV_START;
    for (uint32_t i = part; i < k->slots_count; i += k->threads.active) {
        if (is_last_of_block(k, i)) {
            digest = digest_of_block(k, block_of(k, &k->slots[i]), digest);
        }
    }
    for (uint32_t g = part; g < k->gathers_count; g += k->threads.active) {
        digest = fnv_add_words(digest, k->logits.at + g * k->logits.stride,
                               k->shape.vocab_tokens * sizeof(float));
    }
    return digest;
}

void kernels_doubt_forward(struct kernels *kernels, uint32_t thread)
{
    uint32_t part = kernels_doubt_part(kernels, thread);
    kernels->scratch[thread].digest = digest_of_part(kernels, thread);
    kernels_threads_wait(&kernels->threads);
    kernels_forward(kernels, part);
    if (digest_of_part(kernels, part) != kernels->scratch[part].digest) {
        kernels->is_refuted = true;
    }
}
