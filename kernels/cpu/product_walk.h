/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: how a product is cut into tiles, the same way for AVX2 and AVX-512. They differ in what a
 * tile computes and in its size; `run` and the sizes are constants of each caller.
 *
 * Rows go in even groups, so that 16 are 6 + 5 + 5 and not 6 + 6 + 4. With several groups, each
 * prefetches its share of the next weights, so that memory works while sums are computed. One row
 * is a straight stream, which some CPUs prefetch better by themselves (struct kernels_tuning).
 *
 * Halves become floats as a tile reads them or, if a form has a function for it, once for all
 * groups that read the same chunk, in a buffer.
 */
#include "kernels/cpu/avx2.h"

/* The rows of the next group, if `groups` groups share `rows` rows. */
static inline uint32_t walk_rows(uint32_t rows, uint32_t groups)
{
    return (rows + groups - 1) / groups;
}

/* ---- weights that are floats ---- */

/* Rows by neighbouring panels, over a chunk of columns. From one chunk to the next the sums are
 * in y. */
struct float_tile {
    const uint8_t *weights;     /* (columns, 16), of this type; the next panel after panel_bytes */
    uint64_t panel_bytes;
    uint32_t panels;
    enum gguf_type type;
    const uint8_t *x;           /* (rows, x_stride bytes): floats, or pairs of bfloats */
    float *y;                   /* (rows, y_stride) */
    uint64_t x_stride, y_stride;
    const uint8_t *next;        /* this tile's part of the next chunk, which it prefetches */
    uint64_t next_step;         /* bytes of it per column, in each panel */
    uint64_t next_panel_bytes;  /* from one panel of it to the next */
    uint32_t columns;
    bool first;                 /* the sums start at zero */
};

/* The largest tile. */
struct float_form {
    uint32_t rows, panels, columns;
    uint32_t x_bytes;           /* of a column of a row */
    void (*run)(const struct float_tile *tile, uint32_t rows);
    /* Converts columns of one panel of halves to floats, in the tuning's memory. NULL: each tile
     * converts for itself. */
    void (*widen)(float *to, const uint8_t *from, uint32_t columns);
};

/* Makes the tile read floats from `widened`, if the form has a function for it. */
ALWAYS_INLINE void walk_widen(struct float_tile *t, float *widened, struct float_form form)
{
    if (form.widen == NULL) {
        return;
    }
    uint64_t panel_floats = (uint64_t)t->columns * KERNELS_PANEL_LANES;
    ASSERT(t->panels <= KERNELS_CHUNK_PANELS && t->columns <= KERNELS_CHUNK_MOST);
    for (uint32_t j = 0; j < t->panels; j++) {
        form.widen(widened + j * panel_floats, t->weights + j * t->panel_bytes, t->columns);
    }
    t->weights = (const uint8_t *)widened;
    t->panel_bytes = panel_floats * sizeof *widened;
    t->type = GGUF_F32;
}

/* All rows times one chunk, which has `bytes` bytes in each panel. */
ALWAYS_INLINE void walk_chunk(struct float_tile *t, const struct kernels_product *p,
                              uint64_t bytes, struct float_form form)
{
    uint32_t groups = (p->rows + form.rows - 1) / form.rows;
    const uint8_t *x = t->x;
    float *y = t->y;
    uint32_t row = 0;
    t->next_step = (bytes + (uint64_t)groups * t->columns - 1) / groups / t->columns;
    for (; groups > 0; groups--) {
        uint32_t rows = walk_rows(p->rows - row, groups);
        t->x = x + row * t->x_stride;
        t->y = y + row * p->y_stride;
        form.run(t, rows);
        t->next += t->next_step * t->columns;
        row += rows;
    }
}

/* All columns of neighbouring panels. Chunks are of whole pairs of columns. */
ALWAYS_INLINE void walk_panels(const struct kernels_product *p, uint32_t panel, uint32_t panels,
                               struct float_form form)
{
    const struct kernels_matrix *m = p->matrix;
    const uint8_t *packed = m->panels + panel * m->panel_bytes;
    const uint8_t *after = packed + panels * m->panel_bytes;
    bool is_rounded = m->type == GGUF_BF16;
    const uint8_t *x = (const uint8_t *)(is_rounded ? p->rounded.bfloats : p->x);
    uint64_t x_stride = sizeof(float) * (is_rounded ? p->rounded.stride : p->x_stride);
    for (uint32_t k = 0; k < m->columns; k += form.columns) {
        bool is_last = m->columns - k <= form.columns;
        uint32_t columns = is_last ? m->columns - k : form.columns;
        uint64_t bytes = kernels_columns_bytes(m->type, columns);
        struct float_tile t = {
            .weights = packed,
            .panel_bytes = m->panel_bytes,
            .panels = panels,
            .type = m->type,
            .x = x + (uint64_t)k * form.x_bytes,
            .y = p->y + (uint64_t)panel * KERNELS_PANEL_LANES,
            .x_stride = x_stride,
            .y_stride = p->y_stride,
            .next = is_last ? after : packed + bytes,
            .next_panel_bytes = m->panel_bytes,
            .columns = columns,
            .first = k == 0,
        };
        walk_widen(&t, p->tuning.widened, form);
        walk_chunk(&t, p, bytes, form);
        packed += bytes;
    }
}

ALWAYS_INLINE void walk_floats(const struct kernels_product *p, struct float_form form)
{
    for (uint32_t panel = p->panel_first; panel < p->panel_end; panel += form.panels) {
        uint32_t left = p->panel_end - panel;
        walk_panels(p, panel, left < form.panels ? left : form.panels, form);
    }
}

/* ---- weights that are bfloats, on CPUs without an instruction for them ---- */

/* Switches the CPU to a mode in which sums below 2^-126 become zeros, as with that instruction.
 * Returns the argument of floats_mode_reset(). The functions that compute in between must not be
 * inlined: the compiler does not know that the mode matters. */
static inline uint32_t floats_mode_flush(void)
{
    uint32_t mode = _mm_getcsr();
    _mm_setcsr(mode | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
    return mode;
}

static inline void floats_mode_reset(uint32_t mode)
{
    _mm_setcsr(mode);
}

/* ---- weights that are integers ---- */

#define LEVEL_ROWS_MAX 6

/* Rows by neighbouring panels, over all columns. */
struct level_tile {
    const uint8_t *panel;       /* the first; the next after panel_bytes */
    uint64_t panel_bytes;
    uint32_t panels;
    enum gguf_type type;
    uint32_t blocks;
    uint64_t prefetch_bytes;    /* one row: as in struct kernels_tuning */
    const uint8_t *next;        /* several rows: the panels after these, which are prefetched */
    uint64_t next_step;         /* bytes of each per quantisation block */
    const int8_t *levels[LEVEL_ROWS_MAX];                   /* of each row */
    const struct kernels_quant_block *x[LEVEL_ROWS_MAX];    /* their quantisation blocks */
    float *y;
    uint64_t y_stride;
};

/* The sums of a quantisation block's two halves, or a factor for each half, as a multiply-add of
 * words takes them. */
ALWAYS_INLINE int32_t halves_pair(int16_t first, int16_t second)
{
    return (int32_t)((uint32_t)(uint16_t)first | (uint32_t)(uint16_t)second << 16);
}

/* With one row, prefetches the line at the prefetch distance from `at`, a line of weights (scales
 * or a group) that is about to be read. Prefetching in bursts, or not for scales, is slower. `rows`
 * is a constant of each caller. */
ALWAYS_INLINE void level_prefetch(const struct level_tile *t, const uint8_t *at, int rows)
{
    if (rows == 1 && t->prefetch_bytes > 0) {
        _mm_prefetch(at + t->prefetch_bytes, _MM_HINT_T1);
    }
}

struct level_form {
    uint32_t rows, panels;      /* of a tile, at most */
    void (*run)(const struct level_tile *tile, uint32_t rows);
};

static inline void level_tile_find(struct level_tile *t, const struct kernels_rounded *x,
                                   uint64_t first, uint32_t rows)
{
    for (uint32_t r = 0; r < rows; r++) {
        struct kernels_rounded row = kernels_rounded_from(*x, first + r);
        t->levels[r] = row.levels;
        t->x[r] = row.blocks;
    }
}

/* Neighbouring panels times all rows. */
ALWAYS_INLINE void walk_level_panels(const struct kernels_product *p, uint32_t panel,
                                     uint32_t panels, struct level_form form)
{
    const struct kernels_matrix *m = p->matrix;
    uint32_t groups = (p->rows + form.rows - 1) / form.rows;
    struct level_tile t = {
        .panel = m->panels + panel * m->panel_bytes,
        .panel_bytes = m->panel_bytes,
        .panels = panels,
        .type = m->type,
        .blocks = m->columns / gguf_type_block(m->type).values,
        .prefetch_bytes = p->tuning.prefetch_bytes,
        .next = m->panels + (panel + panels) * m->panel_bytes,
        .y_stride = p->y_stride,
    };
    t.next_step = p->rows > 1 ? m->panel_bytes / t.blocks / groups : 0;
    for (uint32_t row = 0; groups > 0; groups--) {
        uint32_t rows = walk_rows(p->rows - row, groups);
        level_tile_find(&t, &p->rounded, row, rows);
        t.y = p->y + row * p->y_stride + (uint64_t)panel * KERNELS_PANEL_LANES;
        form.run(&t, rows);
        t.next += t.next_step * t.blocks;
        row += rows;
    }
}

ALWAYS_INLINE void walk_levels(const struct kernels_product *p, struct level_form form)
{
    ASSERT(p->rounded.stride >= p->matrix->columns);
    for (uint32_t panel = p->panel_first; panel < p->panel_end; panel += form.panels) {
        uint32_t left = p->panel_end - panel;
        walk_level_panels(p, panel, left < form.panels ? left : form.panels, form);
    }
}
