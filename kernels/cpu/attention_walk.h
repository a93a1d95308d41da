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
#include "kernels/cpu/avx2.h"

#define QUERIES_MAX 6
#define OCTETS_MAX  8           /* of tokens in a stretch */

#define LINE_BYTES 64u

/* The lines of memory that the next stretch will read, in their order, and how far they have been
 * asked for. What a head has of a KV block is a straight piece, too short for the CPU to see a
 * stream in it. */
struct ahead {
    const uint8_t *at, *end;    /* what is left of this piece */
    const uint32_t *block, *last;           /* whose piece it is; the last one to ask for */
};

/* Rows with the same keys and values in a stretch. */
struct run {
    const struct kernels_attention *a;
    uint32_t first;             /* token */
    uint32_t block_first, offset;           /* of that token in a table, and in its KV block */
    uint32_t tokens;            /* of the stretch that the first row sees; no other sees more */
    uint32_t rows_count;
    const struct kernels_attending *rows[KERNELS_BUNDLE_ROWS];
    /* Where each octet of tokens begins; past the last octet, the last one again. */
    const uint8_t *keys[OCTETS_MAX];
    const uint8_t *values[OCTETS_MAX];
    const float *scales[OCTETS_MAX];        /* of levels of what is read now; else unset */
    const uint8_t *pieces;      /* of the keys, or values, that are read now */
    struct ahead ahead;
};

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t tokens_seen(const struct run *run, const struct kernels_attending *row)
{
    return row->tokens > run->first ? smaller(row->tokens - run->first, KERNELS_STRETCH) : 0;
}

/* True when a row that sees `tokens` tokens of the stretch has them where the first row has. */
static bool run_admits(const struct run *run, const struct kernels_attending *row, uint32_t tokens)
{
    const uint32_t *blocks = row->blocks + run->block_first;
    const uint32_t *same = run->rows[0]->blocks + run->block_first;
    if (tokens > run->tokens) {
        return false;
    }
    for (uint32_t i = 0; i * run->a->block_tokens < run->offset + tokens; i++) {
        if (blocks[i] != same[i]) {
            return false;
        }
    }
    return true;
}

static void run_place(struct run *run)
{
    const struct kernels_attention *a = run->a;
    const uint32_t *block = run->rows[0]->blocks + run->block_first;
    uint32_t lanes = kernels_head_lanes(a->head_dim);
    uint32_t offset = run->offset, size = kernels_kv_number_bytes(a->type);
    const uint8_t *keys = a->keys, *values = a->values;
    const uint8_t *scales = run->pieces + kernels_kv_numbers(a->head_dim, a->block_tokens);
    for (uint32_t j = 0; j < OCTETS_MAX; j++) {
        run->keys[j] = keys + *block * a->block_bytes + offset * size;
        run->values[j] = values + *block * a->block_bytes + offset * lanes * size;
        if (a->type == KERNELS_KV_Q8) {
            const void *first = scales + *block * a->block_bytes;
            run->scales[j] = (const float *)first + offset;
        }
        bool is_last = (j + 1) * KERNELS_OCTET >= run->tokens;
        offset += is_last ? 0 : KERNELS_OCTET;
        if (offset == a->block_tokens) {
            offset = 0;
            block++;
        }
    }
}

static inline uint64_t piece_bytes(const struct kernels_attention *a)
{
    return kernels_kv_head_bytes(a->type, a->head_dim, a->block_tokens);
}

/* The next stretch of the run's first row, if it sees that. A larger block than a stretch is one
 * stream by itself. */
static void ahead_begin(struct run *run)
{
    const struct kernels_attention *a = run->a;
    const struct kernels_attending *row = run->rows[0];
    uint32_t first = run->first + KERNELS_STRETCH;
    run->ahead = (struct ahead){0};
    if (row->tokens > first && a->block_tokens <= KERNELS_STRETCH) {
        uint32_t last = smaller(row->tokens, first + KERNELS_STRETCH) - 1;
        const uint32_t *block = row->blocks + first / a->block_tokens;
        const uint8_t *at = run->pieces + *block * a->block_bytes;
        run->ahead = (struct ahead){.at = at, .end = at + piece_bytes(a), .block = block,
                                    .last = row->blocks + last / a->block_tokens};
    }
}

/* Asks for so many more lines: as many as are read meanwhile. */
ALWAYS_INLINE void ahead_ask(struct run *run, int lines)
{
    struct ahead *ahead = &run->ahead;
#pragma GCC unroll 8
    for (int i = 0; i < lines; i++) {
        if (ahead->at == ahead->end) {
            if (ahead->block == ahead->last) {
                return;
            }
            ahead->block++;
            ahead->at = run->pieces + *ahead->block * run->a->block_bytes;
            ahead->end = ahead->at + piece_bytes(run->a);
        }
        _mm_prefetch(ahead->at, _MM_HINT_T0);
        ahead->at += LINE_BYTES;
    }
}

/* Finds the run that begins with the first row from `row` on that sees the stretch; rows that do
 * not see it are passed over. Returns the row after the run. A run without rows: there is none. */
static uint32_t run_find(struct run *run, uint32_t row)
{
    const struct kernels_attention *a = run->a;
    run->rows_count = 0;
    for (; row < a->rows_count; row++) {
        uint32_t tokens = tokens_seen(run, &a->rows[row]);
        if (tokens == 0) {
            continue;
        }
        if (run->rows_count == 0) {
            run->tokens = tokens;
        } else if (!run_admits(run, &a->rows[row], tokens)) {
            break;
        }
        run->rows[run->rows_count++] = &a->rows[row];
    }
    if (run->rows_count > 0) {
        run_place(run);
        ahead_begin(run);
    }
    return row;
}

/* Up to QUERIES_MAX queries of a run. */
struct tile {
    const float *queries[QUERIES_MAX];
    float *scores[QUERIES_MAX];             /* of the stretch */
    float *out[QUERIES_MAX];
    uint32_t tokens[QUERIES_MAX];           /* that each sees of the stretch */
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
    void (*score)(const struct tile *tile, struct run *run, uint32_t queries);
    void (*weigh)(const struct tile *tile, struct run *run, struct span span, uint32_t queries);
};

ALWAYS_INLINE void weigh_queries(const struct tile *t, struct run *run, uint32_t queries,
                                 struct tile_work work)
{
    struct span all = {0, KERNELS_STRETCH};
    for (uint32_t q = 0; q < queries; q++) {
        all.end = smaller(all.end, t->tokens[q]);
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
ALWAYS_INLINE void run_tiles(struct run *run, struct tile_work work)
{
    uint32_t left = run->rows_count * run->a->heads;
    struct cursor at = {0, 0};
    for (uint32_t tiles = (left + QUERIES_MAX - 1) / QUERIES_MAX; tiles > 0; tiles--) {
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
    struct run run = {.a = a, .pieces = work.score != NULL ? a->keys : a->values};
    uint32_t tokens = 0;
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
