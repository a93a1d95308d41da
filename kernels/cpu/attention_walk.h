/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: how the attention of a bundle of rows over paged keys and values is cut into tiles, the
 * same way for AVX2 and AVX-512. They differ in what a tile computes; those functions are constants
 * of each caller.
 *
 *   stretch  KERNELS_STRETCH tokens; all rows go through one stretch before any goes to the next,
 *            so its keys, or values, are in the L1 cache for all rows that share them
 *   run      neighbouring rows with the same KV blocks in the stretch
 *   tile     up to six queries (heads of rows) of a run. Sums are in registers:
 *     scores   lanes are tokens: keys of a block are (head_dim, block_tokens), so the tokens of an
 *              octet are neighbours in one channel
 *     weigh    lanes are channels; the sums go into `out` from one stretch to the next
 *
 * Invariants: a float that is stored and loaded again is the same float, so stretches, runs and
 * tiles never enter a sum. Lanes of tokens that do not exist yet (stale memory of a block) are
 * computed and never read: exponentiate() masks them, and weigh() stops at each row's last token.
 * The rows of a tile go together as far as all of them see, then each goes on alone.
 *
 * Why each stretch looks for shared blocks, instead of the caller: it compares a few block ids for
 * thousands of products, and one rule finds prompts that share, branches that part later, and the
 * rows of one prompt.
 */
#include "kernels/cpu/attention_run.h"

/* Up to KERNELS_TILE_QUERIES queries of a run. */
struct tile {
    const float *queries[KERNELS_TILE_QUERIES];
    float *scores[KERNELS_TILE_QUERIES];            /* of the stretch */
    float *out[KERNELS_TILE_QUERIES];
    uint32_t tokens[KERNELS_TILE_QUERIES];          /* that each sees of the stretch */
    /* The queries as levels, if keys are; else unset. */
    const int16_t *levels[KERNELS_TILE_QUERIES];
    const struct kernels_query_frame *frames[KERNELS_TILE_QUERIES];
};

struct cursor {
    uint32_t row, head;
};

static void tile_fill(struct tile *tile, const struct run *run, struct cursor *at, uint32_t count)
{
    const struct kernels_attention *a = run->a;
    uint32_t lanes = kernels_head_lanes(a->head_dim);
    for (uint32_t q = 0; q < count; q++) {
        const struct kernels_attending *row = run->rows[at->row];
        tile->queries[q] = row->queries + at->head * a->head_dim;
        if (a->type == KERNELS_KV_Q8) {
            tile->levels[q] = row->query_levels + at->head * lanes;
            tile->frames[q] = row->query_frames + at->head;
        }
        tile->scores[q] = row->scores + at->head * a->scores_stride + run->first;
        tile->out[q] = row->out + at->head * lanes;
        tile->tokens[q] = tokens_seen(run, row);
        if (++at->head == a->heads) {
            at->head = 0;
            at->row++;
        }
    }
}

/* Tokens of a stretch: [first, end). */
struct span {
    uint32_t first, end;
};

/* What is done with a tile, one of the two: compute the scores of its queries in the stretch, or
 * add weighted values to their sums. */
struct tile_work {
    void (*score)(const struct tile *tile, const struct run *run, uint32_t queries);
    void (*weigh)(const struct tile *tile, const struct run *run, struct span span,
                  uint32_t queries);
};

ALWAYS_INLINE void weigh_queries(const struct tile *t, const struct run *run, uint32_t queries,
                                 struct tile_work work)
{
    struct span all = {0, KERNELS_STRETCH};
    for (uint32_t q = 0; q < queries; q++) {
        all.end = lesser(all.end, t->tokens[q]);
    }
    work.weigh(t, run, all, queries);
    for (uint32_t q = 0; q < queries; q++) {
        if (t->tokens[q] > all.end) {
            struct tile alone = {.scores = {t->scores[q]}, .out = {t->out[q]}};
            work.weigh(&alone, run, (struct span){all.end, t->tokens[q]}, 1);
        }
    }
}

/* Tiles are even: 16 queries are 6 + 5 + 5 and not 6 + 6 + 4. */
ALWAYS_INLINE void run_tiles(const struct run *run, struct tile_work work)
{
    uint32_t left = run->rows_count * run->a->heads;
    struct cursor at = {0, 0};
    uint32_t tiles = (left + KERNELS_TILE_QUERIES - 1) / KERNELS_TILE_QUERIES;
    for (; tiles > 0; tiles--) {
        struct tile tile;
        uint32_t queries = (left + tiles - 1) / tiles;
        tile_fill(&tile, run, &at, queries);
        if (work.score != NULL) {
            work.score(&tile, run, queries);
        } else {
            weigh_queries(&tile, run, queries, work);
        }
        left -= queries;
    }
}

ALWAYS_INLINE void attention_walk(const struct kernels_attention *a, struct tile_work work)
{
    struct run run = {.a = a, .pieces = a->values, .piece_bytes = a->values_bytes};
    uint32_t tokens = 0;
    run.numbers = kernels_kv_numbers(a->head_dim, a->block_tokens);
    if (work.score != NULL) {
        run.pieces = a->keys;
        run.piece_bytes = a->keys_bytes;
    }
    STATIC_ASSERT(OCTETS_MAX * KERNELS_OCTET == KERNELS_STRETCH, "octets of a stretch");
    ASSERT(a->block_tokens % KERNELS_OCTET == 0);
    ASSERT(a->rows_count <= KERNELS_BUNDLE_ROWS);
    for (uint32_t i = 0; i < a->rows_count; i++) {
        tokens = tokens > a->rows[i].tokens ? tokens : a->rows[i].tokens;
    }
    for (; run.first < tokens; run.first += KERNELS_STRETCH) {
        run.block_first = run.first / a->block_tokens;
        run.offset = run.first % a->block_tokens;
        for (uint32_t row = 0; row < a->rows_count;) {
            row = run_find(&run, row);
            run_tiles(&run, work);
        }
    }
}

/* Sums of values begin at zero, which the first stretch reads from `out`. */
static inline void outs_clear(const struct kernels_attention *a)
{
    uint32_t floats = a->heads * kernels_head_lanes(a->head_dim);
    for (uint32_t i = 0; i < a->rows_count; i++) {
        memset(a->rows[i].out, 0, floats * sizeof(float));
    }
}
