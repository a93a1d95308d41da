/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a run of attention: rows that have the same keys and values in a stretch (attention_walk.h
 * has the words), where those lie, and the lines of the next stretch that are asked for meanwhile.
 */
#include "config/base/bounds.h"
#include "kernels/cpu/avx2.h"

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
    const float *scales[OCTETS_MAX];        /* of values that are levels */
    const uint8_t *pieces;      /* of the keys, or values, that are read now */
    uint64_t piece_bytes;
    struct ahead ahead;
    uint64_t numbers;           /* of the keys, or values, of a block */
    const uint8_t *signs[OCTETS_MAX];       /* of keys that are levels */
    const uint16_t *steps[OCTETS_MAX];      /* the same; the middles are block_tokens numbers on */
};

static uint32_t tokens_seen(const struct run *run, const struct kernels_attending *row)
{
    return row->tokens > run->first ? lesser(row->tokens - run->first, KERNELS_STRETCH) : 0;
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

/* Octet j, at token `offset` of a block's piece, where keys and values are levels. */
ALWAYS_INLINE void levels_place(struct run *run, uint32_t j, const uint8_t *piece, uint32_t offset)
{
    const void *scales = piece + run->numbers, *steps = piece + run->numbers / 8 * 9;
    if (run->pieces == run->a->keys) {
        run->keys[j] = piece + offset * 2;
        run->signs[j] = piece + run->numbers + offset * 2 / 8;
        run->steps[j] = (const uint16_t *)steps + offset;
    } else {
        run->scales[j] = (const float *)scales + offset;
    }
}

static void run_place(struct run *run)
{
    const struct kernels_attention *a = run->a;
    const uint32_t *block = run->rows[0]->blocks + run->block_first;
    uint32_t lanes = kernels_head_lanes(a->head_dim);
    uint32_t offset = run->offset, size = kernels_kv_number_bytes(a->type);
    for (uint32_t j = 0; j < OCTETS_MAX; j++) {
        const uint8_t *piece = run->pieces + *block * run->piece_bytes;
        run->keys[j] = piece + offset * size;
        run->values[j] = piece + offset * lanes * size;
        if (a->type == KERNELS_KV_Q8) {
            levels_place(run, j, piece, offset);
        }
        bool is_last = (j + 1) * KERNELS_OCTET >= run->tokens;
        offset += is_last ? 0 : KERNELS_OCTET;
        if (offset == a->block_tokens) {
            offset = 0;
            block++;
        }
    }
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
        uint32_t last = lesser(row->tokens, first + KERNELS_STRETCH) - 1;
        const uint32_t *block = row->blocks + first / a->block_tokens;
        const uint8_t *at = run->pieces + *block * run->piece_bytes;
        run->ahead = (struct ahead){.at = at, .end = at + run->piece_bytes, .block = block,
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
            ahead->at = run->pieces + *ahead->block * run->piece_bytes;
            ahead->end = ahead->at + run->piece_bytes;
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
