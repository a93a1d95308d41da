/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the product of weights that are bfloats, AVX-512, for one way or another to add a pair of
 * columns. It is built as that of halves is (product_avx512.c); a pair of columns of sixteen
 * outputs is one register. `form` is a constant of each caller.
 */
#include "kernels/cpu/avx512.h"
#include "kernels/cpu/product_walk.h"

#define ROWS_MAX   8
#define PANELS_MAX 2            /* of a tile */
#define PANELS_ROW 4            /* at a time, for one row */
#define CHUNK      1024u        /* columns; 64 KiB of bfloats in two panels: y is touched seldom */
#define PAIR_BYTES (KERNELS_PANEL_LANES * 4)

struct pair_form {
    uint32_t x_bytes;           /* of a column of a row */
    /* Adds a pair of columns times the same pair of one row. */
    __m512 (*add)(__m512 sums, const uint8_t *x, __m512i weights);
};

ALWAYS_INLINE __m512i pairs_at(const uint8_t *panel, uint64_t pair)
{
    return _mm512_load_si512(panel + pair * PAIR_BYTES);
}

ALWAYS_INLINE uint64_t pairs_of(uint32_t columns)
{
    return (columns + UINT64_C(1)) / 2;
}

/* ---- one row ---- */

/* All columns of neighbouring panels. */
ALWAYS_INLINE void pairs_row_sum(const struct kernels_product *p, uint32_t panel, int panels,
                                 struct pair_form form)
{
    const struct kernels_matrix *m = p->matrix;
    const uint8_t *packed = m->panels + panel * m->panel_bytes;
    const uint8_t *x = (const uint8_t *)p->rounded.bfloats;
    float *y = p->y + (uint64_t)panel * KERNELS_PANEL_LANES;
    __m512 sums[PANELS_ROW];
#pragma GCC unroll 4
    for (int j = 0; j < panels; j++) {
        sums[j] = _mm512_setzero_ps();
    }
    for (uint64_t pair = 0; pair < pairs_of(m->columns); pair++, x += 2 * form.x_bytes) {
#pragma GCC unroll 4
        for (int j = 0; j < panels; j++) {
            __m512i weights = pairs_at(packed + (uint64_t)j * m->panel_bytes, pair);
            sums[j] = form.add(sums[j], x, weights);
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < panels; j++) {
        _mm512_storeu_ps(y + j * (int)KERNELS_PANEL_LANES, sums[j]);
    }
}

ALWAYS_INLINE void pairs_row(const struct kernels_product *p, struct pair_form form)
{
    uint32_t panel = p->panel_first;
    for (; panel + PANELS_ROW <= p->panel_end; panel += PANELS_ROW) {
        pairs_row_sum(p, panel, PANELS_ROW, form);
    }
    for (; panel < p->panel_end; panel++) {
        pairs_row_sum(p, panel, 1, form);
    }
}

/* ---- more rows ---- */

ALWAYS_INLINE void pairs_tile_sum(const struct float_tile *t, int rows, int panels,
                                  struct pair_form form)
{
    const uint8_t *x[ROWS_MAX];
    __m512 sums[ROWS_MAX][PANELS_MAX];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        x[r] = t->x + (uint64_t)r * t->x_stride;
        const float *y = t->y + (uint64_t)r * t->y_stride;
#pragma GCC unroll 2
        for (int j = 0; j < panels; j++, y += KERNELS_PANEL_LANES) {
            sums[r][j] = t->first ? _mm512_setzero_ps() : _mm512_loadu_ps(y);
        }
    }
    for (uint64_t pair = 0; pair < pairs_of(t->columns); pair++) {
        __m512i weights[PANELS_MAX];
#pragma GCC unroll 2
        for (uint64_t j = 0; j < (uint64_t)panels; j++) {
            weights[j] = pairs_at(t->weights + j * t->panel_bytes, pair);
            _mm_prefetch(t->next + j * t->next_panel_bytes + 2 * pair * t->next_step, _MM_HINT_T1);
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
            for (int j = 0; j < panels; j++) {
                sums[r][j] = form.add(sums[r][j], x[r] + 2 * pair * form.x_bytes, weights[j]);
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

ALWAYS_INLINE void pairs_tile_rows(const struct float_tile *t, uint32_t rows, int panels,
                                   struct pair_form form)
{
    switch (rows) {
    case 1: pairs_tile_sum(t, 1, panels, form); break;
    case 2: pairs_tile_sum(t, 2, panels, form); break;
    case 3: pairs_tile_sum(t, 3, panels, form); break;
    case 4: pairs_tile_sum(t, 4, panels, form); break;
    case 5: pairs_tile_sum(t, 5, panels, form); break;
    case 6: pairs_tile_sum(t, 6, panels, form); break;
    case 7: pairs_tile_sum(t, 7, panels, form); break;
    default: pairs_tile_sum(t, 8, panels, form); break;
    }
}

ALWAYS_INLINE void pairs_tile(const struct float_tile *t, uint32_t rows, struct pair_form form)
{
    if (t->panels == PANELS_MAX) {
        pairs_tile_rows(t, rows, PANELS_MAX, form);
    } else {
        pairs_tile_rows(t, rows, 1, form);
    }
}

/* `run` is a pairs_tile() of this form. */
ALWAYS_INLINE void pairs_product(const struct kernels_product *p, struct pair_form form,
                                 void (*run)(const struct float_tile *tile, uint32_t rows))
{
    ASSERT(p->rounded.stride >= p->matrix->columns || p->rows <= 1);
    if (p->rows == 1) {
        pairs_row(p, form);
    } else {
        walk_floats(p, (struct float_form){ROWS_MAX, PANELS_MAX, CHUNK, form.x_bytes, run, NULL});
    }
}
