/* SPDX-License-Identifier: MIT */
/*
 * What: the attention of a tile: which of its token slots attend together, and the units of work
 * that threads take.
 *
 *   order    slots in the lexicographic order of their block tables: slots that begin with the same
 *            KV blocks are neighbours; of one table, slots that see more come first
 *   bundle   neighbours in that order with at least the same first block; cut so that their scores
 *            stay in the L2 cache, every thread has several units, and queries fill whole tiles
 *   kin      neighbouring bundles that begin with the same block
 *   unit     a bundle and a KV head; a thread that is free takes the next one. Units of kin go head
 *            by head, so that all threads read the same keys and values. Units of bundles that
 *            share nothing go bundle by bundle
 *
 * Invariant: which slots attend together, on which thread and when, never enters a sum
 * (kernels/ops.h).
 * Bounds: a slot is put into the order by a binary search; a comparison reads as many block ids as
 * the two tables have in common. The scores of one slot always fit.
 *
 * Why threads take units, instead of a split beforehand: the lengths of units differ by the context
 * of their rows, and a CPU may be taken away for a while.
 */
#include <string.h>

#include "config/base/bounds.h"
#include "kernels/round/piece.h"

/* ---- which slots attend together ---- */

static uint32_t blocks_seen(const struct kernels *k, const struct kernels_slot *slot)
{
    return slot->position / k->settings.kv_block_tokens + 1;
}

static bool comes_before(const struct kernels *k, const struct kernels_slot *a,
                         const struct kernels_slot *b)
{
    const uint32_t *blocks_a = step_blocks(k->step, a->row);
    const uint32_t *blocks_b = step_blocks(k->step, b->row);
    uint32_t both = lesser(blocks_seen(k, a), blocks_seen(k, b));
    for (uint32_t i = 0; a->row != b->row && i < both; i++) {
        if (blocks_a[i] != blocks_b[i]) {
            return blocks_a[i] < blocks_b[i];
        }
    }
    return a->position > b->position;
}

/* Puts slot `next` among the first `count`, which are in order. */
static void order_insert(struct kernels *k, const struct kernels_slot *slots, uint32_t count,
                         uint32_t next)
{
    uint32_t first = 0, end = count;
    while (first < end) {
        uint32_t middle = first + (end - first) / 2;
        if (comes_before(k, &slots[next], &slots[k->attend_order[middle]])) {
            end = middle;
        } else {
            first = middle + 1;
        }
    }
    memmove(&k->attend_order[first + 1], &k->attend_order[first],
            (count - first) * sizeof *k->attend_order);
    k->attend_order[first] = next;
}

/* So many rows, or a few less, that their queries fill whole tiles of KERNELS_TILE_QUERIES: each
 * tile reads all keys and values. */
static uint32_t whole_tiles(const struct kernels *k, uint64_t rows)
{
    uint32_t group = kernels_group(&k->shape);
    uint32_t least = 1;
    while (least * group % KERNELS_TILE_QUERIES != 0) {
        least++;
    }
    return (uint32_t)(rows > least ? rows - rows % least : rows);
}

/* So few that each thread gets four units or more, but at least KERNELS_TOGETHER_MIN queries. */
static uint32_t bundle_rows_max(const struct kernels *k, uint32_t rows)
{
    uint32_t wanted = rows * k->shape.kv_heads / (4 * k->threads.active);
    uint32_t least = KERNELS_TOGETHER_MIN / kernels_group(&k->shape);
    wanted = wanted > least ? wanted : least;
    return wanted > 1 ? whole_tiles(k, lesser(wanted, kernels_bundle_rows(&k->shape))) : 1;
}

/* True when there is room for the scores of one more slot. */
static bool bundle_has_room(const struct kernels *k, const struct kernels_bundle *bundle,
                            const struct kernels_slot *slot)
{
    uint32_t tokens = slot->position + 1 > bundle->tokens ? slot->position + 1 : bundle->tokens;
    uint64_t row_floats = kernels_scores_stride(tokens) * kernels_group(&k->shape);
    return bundle->end - bundle->first < whole_tiles(k, k->scores_floats / row_floats);
}

/* Adds the bundle that begins with the slot at `first` of the order. */
static struct kernels_bundle *bundle_add(struct kernels *k, uint32_t first, bool is_kin)
{
    uint32_t index = k->bundles_count++;
    k->bundles[index] = (struct kernels_bundle){
        .first = first,
        .kin_first = is_kin ? k->bundles[index - 1].kin_first : index,
    };
    return &k->bundles[index];
}

static void bundles_cut(struct kernels *k, const struct kernels_slot *slots, uint32_t rows)
{
    uint32_t rows_max = bundle_rows_max(k, rows), block_before = 0;
    struct kernels_bundle *bundle = NULL;
    k->bundles_count = 0;
    for (uint32_t i = 0; i < rows; i++) {
        const struct kernels_slot *slot = &slots[k->attend_order[i]];
        uint32_t block = step_blocks(k->step, slot->row)[0], tokens = slot->position + 1;
        bool is_kin = bundle != NULL && block == block_before;
        if (!is_kin || bundle->end - bundle->first == rows_max ||
            !bundle_has_room(k, bundle, slot)) {
            bundle = bundle_add(k, i, is_kin);
        }
        bundle->end = i + 1;
        bundle->tokens = tokens > bundle->tokens ? tokens : bundle->tokens;
        block_before = block;
    }
    for (uint32_t i = 0; i < k->bundles_count; i++) {
        k->bundles[k->bundles[i].kin_first].kin_count++;
    }
}

void kernels_bundle(struct kernels *kernels, const struct kernels_slot *slots, uint32_t rows)
{
    for (uint32_t i = 0; i < rows; i++) {
        order_insert(kernels, slots, i, i);
    }
    bundles_cut(kernels, slots, rows);
}

/* ---- units ---- */

struct unit {
    struct kernels *k;
    struct kernels_scratch *scratch;
    const struct kernels_slot *slots;
    const struct kernels_bundle *bundle;
    uint32_t kv_head;
};

static const struct kernels_slot *unit_slot(const struct unit *u, uint32_t row)
{
    return &u->slots[u->k->attend_order[u->bundle->first + row]];
}

/* Channel 0 of the unit's first head, in the row of a buffer of heads that belongs to the slot. */
static float *unit_heads(const struct unit *u, const struct kernels_buffer *buffer, uint32_t row)
{
    const struct model_shape *shape = &u->k->shape;
    uint64_t slot = u->k->attend_order[u->bundle->first + row];
    return buffer->at + slot * buffer->stride +
           (uint64_t)u->kv_head * kernels_group(shape) * shape->head_dim;
}

static void rows_fill(const struct unit *u, struct kernels_attending *rows,
                      const struct kernels_attention *a)
{
    uint64_t out_floats = (uint64_t)a->heads * kernels_head_lanes(a->head_dim);
    for (uint32_t i = 0; i < a->rows_count; i++) {
        const struct kernels_slot *slot = unit_slot(u, i);
        rows[i] = (struct kernels_attending){
            .blocks = step_blocks(u->k->step, slot->row),
            .tokens = slot->position + 1,
            .queries = unit_heads(u, &u->k->q, i),
            .scores = u->scratch->scores + i * a->heads * a->scores_stride,
            .out = u->scratch->heads + i * out_floats,
        };
    }
}

/* Divides the weighted sums of a row's heads by the sums of their weights. */
static void row_finish(const struct unit *u, const struct kernels_attention *a, uint32_t row)
{
    float *out = unit_heads(u, &u->k->attended, row);
    for (uint32_t h = 0; h < a->heads; h++) {
        const float *head = a->rows[row].out + h * kernels_head_lanes(a->head_dim);
        float inverse = 1.0f / u->scratch->sums[row * a->heads + h];
        for (uint32_t c = 0; c < a->head_dim; c++) {
            out[h * a->head_dim + c] = head[c] * inverse;
        }
    }
}

/* The queries as levels, where the sums of values will be: those come after the scores. */
static void queries_level(const struct unit *u, struct kernels_attending *rows,
                          const struct kernels_attention *a)
{
    uint32_t lanes = kernels_head_lanes(a->head_dim), queries = a->rows_count * a->heads;
    int16_t *levels = (int16_t *)(void *)u->scratch->heads;
    struct kernels_query_frame *frames = (void *)(levels + (uint64_t)queries * lanes);
    STATIC_ASSERT(KERNELS_OCTET * sizeof(int16_t) + sizeof *frames <= KERNELS_OCTET * sizeof(float),
                  "room of a query");
    for (uint32_t q = 0; q < queries; q++) {
        const float *from = rows[q / a->heads].queries + q % a->heads * a->head_dim;
        frames[q] = u->k->ops->level_query(levels + (uint64_t)q * lanes, from, a->head_dim);
    }
    for (uint32_t i = 0; i < a->rows_count; i++) {
        rows[i].query_levels = levels + (uint64_t)i * a->heads * lanes;
        rows[i].query_frames = frames + i * a->heads;
    }
}

static void unit_attend(const struct unit *u, uint32_t layer)
{
    const struct kernels *k = u->k;
    struct kernels_attending rows[KERNELS_BUNDLE_ROWS];
    struct kernels_attention a = {
        .rows = rows,
        .rows_count = u->bundle->end - u->bundle->first,
        .heads = kernels_group(&k->shape),
        .head_dim = k->shape.head_dim,
        .block_tokens = k->settings.kv_block_tokens,
        .type = k->settings.kv_type,
        .keys = kernels_keys(k, 0, layer, u->kv_head).at,
        .values = kernels_values(k, 0, layer, u->kv_head).at,
        .keys_bytes = k->keys_bytes,
        .values_bytes = k->values_bytes,
        .scores_stride = kernels_scores_stride(u->bundle->tokens),
    };
    rows_fill(u, rows, &a);
    if (a.type == KERNELS_KV_Q8) {
        queries_level(u, rows, &a);
    }
    k->ops->scores(&a);
    for (uint32_t q = 0; q < a.rows_count * a.heads; q++) {
        u->scratch->sums[q] = k->ops->exponentiate(u->scratch->scores + q * a.scores_stride,
                                                   rows[q / a.heads].tokens, k->attention_scale);
    }
    k->ops->weigh(&a);
    for (uint32_t i = 0; i < a.rows_count; i++) {
        row_finish(u, &a, i);
    }
}

/* A bundle has as many units as there are KV heads, so unit `index` belongs to the kin of bundle
 * index / kv_heads. */
static void unit_find(struct unit *u, uint32_t index)
{
    const struct kernels *k = u->k;
    uint32_t first = k->bundles[index / k->shape.kv_heads].kin_first;
    uint32_t count = k->bundles[first].kin_count;
    uint32_t of_kin = index - first * k->shape.kv_heads;
    u->kv_head = of_kin / count;
    u->bundle = &k->bundles[first + of_kin % count];
}

/* `taken`: how many the thread has had. In a step that is doubted nothing is left to chance: else a
 * unit might come to the same thread twice. */
static uint32_t unit_take(struct kernels *k, uint32_t thread, uint32_t taken)
{
    return k->is_doubted
               ? thread + taken * k->threads.active
               : atomic_fetch_add_explicit(&k->attend_next, 1, memory_order_relaxed);
}

void kernels_attend(struct kernels *kernels, uint32_t thread, const struct kernels_slot *slots,
                    uint32_t layer)
{
    struct unit unit = {.k = kernels, .scratch = &kernels->scratch[thread], .slots = slots};
    uint32_t units = kernels->bundles_count * kernels->shape.kv_heads;
    for (uint32_t taken = 0;; taken++) {
        uint32_t next = unit_take(kernels, thread, taken);
        if (next >= units) {
            return;
        }
        unit_find(&unit, next);
        unit_attend(&unit, layer);
    }
}
