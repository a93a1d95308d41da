/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a run of attention: rows that have the same keys and values in a stretch (attention_walk.h
 * has the words), and where those lie. The KV blocks of a call are mostly neighbours, and so are a
 * head's pieces of them: what is read as it lies is one stream, which the CPU reads ahead by
 * itself, and slower if it is asked to (decision 0121). Only levels, of which a piece has several
 * arrays, are asked for.
 */
#include "config/base/bounds.h"
#include "kernels/cpu/avx2.h"

#define OCTETS_MAX  8           /* of tokens in a stretch */

#define LINE_BYTES 64u
#define PIECES_AHEAD 4u         /* that are asked for, where keys and values are levels */

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
    uint64_t piece_bytes;       /* of one, which is what a head has of a KV block */
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

/* Asks for the line that lies where `at` does in a later piece, as if that were a neighbour. */
ALWAYS_INLINE void ahead_ask(const struct run *run, const void *at)
{
    uintptr_t there = (uintptr_t)at + PIECES_AHEAD * run->piece_bytes;
    _mm_prefetch((const void *)there, _MM_HINT_T0);
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
    }
    return row;
}
