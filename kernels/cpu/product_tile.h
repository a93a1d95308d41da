/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: micro-kernels of rows by panels, for weights that are floats of any kind and for all sets
 * of kernels. Types of weights differ in what a step down a panel is. Sets differ in their vectors
 * (vector.h): the sixteen outputs of a panel are one vector or two.
 *
 *   one row      every weight is read once and used once, as fast as memory delivers it: a few
 *                panels at a time, so that enough chains hide the latency of the fused operation.
 *                Some CPUs prefetch such streams by themselves, others need instructions for it
 *   more rows    tiles of some rows by two vectors keep their sums in registers over a chunk of
 *                columns, and store them in y from one chunk to the next
 *
 * Invariants: each output is one chain over k, ascending; of a pair of bfloats the odd one comes
 * first. A float that is stored and loaded again is the same float, so chunks, tiles and the two
 * ways above give the same bits.
 *
 * Why not partial sums over k (lanes along a row, as in most dot products): lanes that are outputs
 * need no sum across a register, work the same for one row and for six, and make the plain twin
 * three loops long.
 *
 * `step` is a constant of each caller, and inlined.
 */
#include "kernels/cpu/product_walk.h"
#include "kernels/cpu/vector.h"

#define PANEL_VECTORS   (KERNELS_PANEL_LANES / VECTOR_LANES)
#define TILE_VECTORS    2
#define TILE_PANELS     (TILE_VECTORS / PANEL_VECTORS)
#define TILE_ROWS       (VECTOR_LANES == 8 ? 6 : 8)     /* as many as registers allow */
#define ROW_VECTORS_MAX 8

/* One column, or a pair of columns. */
struct tile_step {
    uint32_t columns;
    uint32_t bytes;             /* of a panel */
    uint32_t x_bytes;           /* of a row of x */
    int row_panels;             /* at a time, for one row */
    vector_bits (*load)(const uint8_t *at);
    /* Adds the weights times the same columns of a row. */
    vector (*add)(vector sums, const uint8_t *x, vector_bits weights);
    bool prefetches;            /* one row: row_of() sets it */
};

ALWAYS_INLINE uint64_t steps_of(uint32_t columns, struct tile_step step)
{
    return (columns + step.columns - UINT64_C(1)) / step.columns;
}

/* Vector j of step i; j counts over neighbouring panels. */
ALWAYS_INLINE vector_bits weights_at(const uint8_t *weights, uint64_t panel_bytes, uint64_t i,
                                     uint64_t j, struct tile_step step)
{
    uint64_t part = j % PANEL_VECTORS * (step.bytes / PANEL_VECTORS);
    return step.load(weights + j / PANEL_VECTORS * panel_bytes + i * step.bytes + part);
}

/* ---- one row ---- */

/* All columns of neighbouring panels. */
ALWAYS_INLINE void row_sum(const struct kernels_product *p, const uint8_t *x, uint32_t panel,
                           int panels, struct tile_step step)
{
    const struct kernels_matrix *m = p->matrix;
    const uint8_t *packed = m->panels + panel * m->panel_bytes;
    float *y = p->y + (uint64_t)panel * KERNELS_PANEL_LANES;
    int vectors = panels * (int)PANEL_VECTORS;
    vector sums[ROW_VECTORS_MAX];
#pragma GCC unroll 8
    for (int j = 0; j < vectors; j++) {
        sums[j] = vector_zero();
    }
    for (uint64_t i = 0; i < steps_of(m->columns, step); i++, x += step.x_bytes) {
#pragma GCC unroll 8
        for (uint64_t j = 0; j < (uint64_t)vectors; j++) {
            if (step.prefetches && j % PANEL_VECTORS == 0) {
                uint64_t at = j / PANEL_VECTORS * m->panel_bytes + i * step.bytes;
                _mm_prefetch(packed + at + p->tuning.prefetch_bytes, _MM_HINT_T0);
            }
            sums[j] = step.add(sums[j], x, weights_at(packed, m->panel_bytes, i, j, step));
        }
    }
#pragma GCC unroll 8
    for (int j = 0; j < vectors; j++) {
        vector_store(y + j * VECTOR_LANES, sums[j]);
    }
}

ALWAYS_INLINE void row_panels(const struct kernels_product *p, const void *x,
                              struct tile_step step)
{
    uint32_t panel = p->panel_first, together = (uint32_t)step.row_panels;
    for (; panel + together <= p->panel_end; panel += together) {
        row_sum(p, x, panel, step.row_panels, step);
    }
    for (; panel < p->panel_end; panel++) {
        row_sum(p, x, panel, 1, step);
    }
}

/* `x` is the row in the form that steps take. */
ALWAYS_INLINE void row_of(const struct kernels_product *p, const void *x, struct tile_step step)
{
    if (p->tuning.prefetch_bytes > 0) {
        step.prefetches = true;
        row_panels(p, x, step);
    } else {
        row_panels(p, x, step);
    }
}

/* ---- more rows ---- */

ALWAYS_INLINE void tile_sum(const struct float_tile *t, int rows, int panels,
                            struct tile_step step)
{
    const uint8_t *x[TILE_ROWS];
    vector sums[TILE_ROWS][TILE_VECTORS];
    int vectors = panels * (int)PANEL_VECTORS;
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        x[r] = t->x + (uint64_t)r * t->x_stride;
        const float *y = t->y + (uint64_t)r * t->y_stride;
#pragma GCC unroll 2
        for (int j = 0; j < vectors; j++) {
            sums[r][j] = t->first ? vector_zero() : vector_load(y + j * VECTOR_LANES);
        }
    }
#pragma GCC unroll 4        /* the loop's own additions delay the multiplications */
    for (uint64_t i = 0; i < steps_of(t->columns, step); i++) {
        vector_bits weights[TILE_VECTORS];
#pragma GCC unroll 2
        for (uint64_t j = 0; j < (uint64_t)vectors; j++) {
            uint64_t next = i * step.columns * t->next_step;
            weights[j] = weights_at(t->weights, t->panel_bytes, i, j, step);
            if (j % PANEL_VECTORS == 0) {
                next += j / PANEL_VECTORS * t->next_panel_bytes;
                _mm_prefetch(t->next + next, _MM_HINT_T1);
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
            for (int j = 0; j < vectors; j++) {
                sums[r][j] = step.add(sums[r][j], x[r] + i * step.x_bytes, weights[j]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        float *y = t->y + (uint64_t)r * t->y_stride;
#pragma GCC unroll 2
        for (int j = 0; j < vectors; j++) {
            vector_store(y + j * VECTOR_LANES, sums[r][j]);
        }
    }
}

ALWAYS_INLINE void tile_rows(const struct float_tile *t, uint32_t rows, int panels,
                             struct tile_step step)
{
    switch (rows) {
    case 1: tile_sum(t, 1, panels, step); break;
    case 2: tile_sum(t, 2, panels, step); break;
    case 3: tile_sum(t, 3, panels, step); break;
    case 4: tile_sum(t, 4, panels, step); break;
    case 5: tile_sum(t, 5, panels, step); break;
#if TILE_ROWS > 6
    case 6: tile_sum(t, 6, panels, step); break;
    case 7: tile_sum(t, 7, panels, step); break;
#endif
    default: tile_sum(t, TILE_ROWS, panels, step); break;
    }
}

ALWAYS_INLINE void tile_of(const struct float_tile *t, uint32_t rows, struct tile_step step)
{
    if (t->panels == TILE_PANELS) {
        tile_rows(t, rows, TILE_PANELS, step);
    } else {
        tile_rows(t, rows, 1, step);
    }
}

/* ---- pairs of bfloats ---- */

#define PAIRS_CHUNK (TILE_PANELS * 512u)    /* columns: y is touched seldom */

/* `run` is a tile_of() of this step. */
ALWAYS_INLINE void pairs_product(const struct kernels_product *p, struct tile_step step,
                                 void (*run)(const struct float_tile *tile, uint32_t rows))
{
    ASSERT(p->rounded.stride >= p->matrix->columns || p->rows <= 1);
    if (p->rows == 1) {
        row_of(p, p->rounded.bfloats, step);
    } else {
        walk_floats(p, (struct float_form){TILE_ROWS, TILE_PANELS, PAIRS_CHUNK, step.x_bytes / 2,
                                           run, NULL});
    }
}
