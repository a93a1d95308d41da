/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: rows by panels, AVX-512, for weights that are floats of any kind, which differ in what a
 * step down a panel is. The sixteen outputs of a panel are one register.
 *
 *   one row      a few panels at a time, so that there are some chains to hide the latency of the
 *                fused operation
 *   more rows    tiles of up to eight rows by two panels, over chunks of columns
 *
 * `step` is a constant of each caller, and inlined.
 */
#include "kernels/cpu/avx512.h"
#include "kernels/cpu/product_walk.h"

#define TILE_ROWS      8
#define TILE_PANELS    2
#define ROW_PANELS_MAX 4

/* One column, or a pair of them. */
struct tile_step {
    uint32_t columns;
    uint32_t bytes;             /* of a panel */
    uint32_t x_bytes;           /* of a row of x */
    int row_panels;             /* at a time, for one row */
    __m512i (*load)(const uint8_t *at);
    /* Adds them times the same columns of a row. */
    __m512 (*add)(__m512 sums, const uint8_t *x, __m512i weights);
};

ALWAYS_INLINE uint64_t steps_of(uint32_t columns, struct tile_step step)
{
    return (columns + step.columns - UINT64_C(1)) / step.columns;
}

/* ---- one row ---- */

/* All columns of neighbouring panels. */
ALWAYS_INLINE void row_sum(const struct kernels_product *p, const uint8_t *x, uint32_t panel,
                           int panels, struct tile_step step)
{
    const struct kernels_matrix *m = p->matrix;
    const uint8_t *packed = m->panels + panel * m->panel_bytes;
    float *y = p->y + (uint64_t)panel * KERNELS_PANEL_LANES;
    __m512 sums[ROW_PANELS_MAX];
#pragma GCC unroll 4
    for (int j = 0; j < panels; j++) {
        sums[j] = _mm512_setzero_ps();
    }
    for (uint64_t i = 0; i < steps_of(m->columns, step); i++, x += step.x_bytes) {
#pragma GCC unroll 4
        for (int j = 0; j < panels; j++) {
            __m512i weights = step.load(packed + (uint64_t)j * m->panel_bytes + i * step.bytes);
            sums[j] = step.add(sums[j], x, weights);
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < panels; j++) {
        _mm512_storeu_ps(y + j * (int)KERNELS_PANEL_LANES, sums[j]);
    }
}

/* `x` is the row as steps take it. */
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

/* ---- more rows ---- */

ALWAYS_INLINE void tile_sum(const struct float_tile *t, int rows, int panels,
                            struct tile_step step)
{
    const uint8_t *x[TILE_ROWS];
    __m512 sums[TILE_ROWS][TILE_PANELS];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        x[r] = t->x + (uint64_t)r * t->x_stride;
        const float *y = t->y + (uint64_t)r * t->y_stride;
#pragma GCC unroll 2
        for (int j = 0; j < panels; j++, y += KERNELS_PANEL_LANES) {
            sums[r][j] = t->first ? _mm512_setzero_ps() : _mm512_loadu_ps(y);
        }
    }
#pragma GCC unroll 4        /* the loop's own additions take turns from the multiplications */
    for (uint64_t i = 0; i < steps_of(t->columns, step); i++) {
        __m512i weights[TILE_PANELS];
#pragma GCC unroll 2
        for (uint64_t j = 0; j < (uint64_t)panels; j++) {
            uint64_t next = i * step.columns * t->next_step;
            weights[j] = step.load(t->weights + j * t->panel_bytes + i * step.bytes);
            _mm_prefetch(t->next + j * t->next_panel_bytes + next, _MM_HINT_T1);
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
            for (int j = 0; j < panels; j++) {
                sums[r][j] = step.add(sums[r][j], x[r] + i * step.x_bytes, weights[j]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        float *y = t->y + (uint64_t)r * t->y_stride;
#pragma GCC unroll 2
        for (int j = 0; j < panels; j++, y += KERNELS_PANEL_LANES) {
            _mm512_storeu_ps(y, sums[r][j]);
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
    case 6: tile_sum(t, 6, panels, step); break;
    case 7: tile_sum(t, 7, panels, step); break;
    default: tile_sum(t, 8, panels, step); break;
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

#define PAIRS_CHUNK 1024u       /* columns; 64 KiB in two panels: y is touched seldom */

ALWAYS_INLINE __m512i pairs_load(const uint8_t *at)
{
    return _mm512_load_si512(at);
}

/* `run` is a tile_of() of this step. */
ALWAYS_INLINE void pairs_product(const struct kernels_product *p, struct tile_step step,
                                 void (*run)(const struct float_tile *tile, uint32_t rows))
{
    ASSERT(p->rounded.stride >= p->matrix->columns || p->rows <= 1);
    if (p->rows == 1) {
        row_panels(p, p->rounded.bfloats, step);
    } else {
        walk_floats(p, (struct float_form){TILE_ROWS, TILE_PANELS, PAIRS_CHUNK, step.x_bytes / 2,
                                           run, NULL});
    }
}
