/* SPDX-License-Identifier: MIT
 *
 * What: the product, AVX2 (kernels/ops.h defines the result).
 *
 *   one row      every weight is read once and used once: four panels at a time are eight chains,
 *                enough to hide the latency of the fused operation; types are converted on the fly
 *   more rows    a panel is walked in chunks of KERNELS_CHUNK columns that stay in the L1 cache (F16
 *                and Q8_0 are unpacked to floats there once); tiles of up to six rows by sixteen outputs
 *                keep their sums in registers, and put them into y from one chunk to the next
 *
 * Invariant: a float that is stored and loaded again is the same float, so chunks, tiles and the two
 * ways above give the same bits: each output is one chain over k, ascending.
 *
 * Why not partial sums over k (eight lanes along a row, as dot products are mostly written): lanes
 * that are outputs need no sum across a register, work the same for one row and for six, and make the
 * plain twin three loops long.
 */
#include "kernels/cpu/avx2.h"

#define ROWS_MAX      6
#define PANELS_MAX    4
#define PREFETCH_LINES 16       /* lines of 64 bytes that one-row streams are asked for ahead */

struct pair {
    __m256 low, high;           /* sixteen outputs of one column */
};

/* ---- one row ---- */

ALWAYS_INLINE struct pair column_f32(const uint8_t *panel, uint64_t k)
{
    const float *at = (const float *)(const void *)panel + k * KERNELS_PANEL_LANES;
    return (struct pair){_mm256_load_ps(at), _mm256_load_ps(at + 8)};
}

ALWAYS_INLINE struct pair column_f16(const uint8_t *panel, uint64_t k)
{
    const __m128i *at = (const __m128i *)(const void *)(panel + k * KERNELS_PANEL_LANES * 2);
    return (struct pair){_mm256_cvtph_ps(_mm_load_si128(at)), _mm256_cvtph_ps(_mm_load_si128(at + 1))};
}

ALWAYS_INLINE struct pair scales_q8(const uint8_t *block)
{
    const __m128i *at = (const __m128i *)(const void *)block;
    return (struct pair){_mm256_cvtph_ps(_mm_load_si128(at)), _mm256_cvtph_ps(_mm_load_si128(at + 1))};
}

ALWAYS_INLINE struct pair column_q8(const uint8_t *block, uint64_t k, struct pair scales)
{
    __m128i bytes = _mm_load_si128((const __m128i *)(const void *)(block + KERNELS_PANEL_LANES * 2) + k);
    __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
    __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)));
    return (struct pair){_mm256_mul_ps(scales.low, low), _mm256_mul_ps(scales.high, high)};
}

ALWAYS_INLINE void pair_add(struct pair *sum, __m256 x, struct pair column)
{
    sum->low = _mm256_fmadd_ps(x, column.low, sum->low);
    sum->high = _mm256_fmadd_ps(x, column.high, sum->high);
}

ALWAYS_INLINE void row_floats(struct pair *sums, const uint8_t *panel, uint64_t panel_bytes,
                              const float *x, uint32_t columns, int panels, bool half)
{
    uint64_t line_bytes = half ? 32 : 64;
    for (uint64_t k = 0; k < columns; k++) {
        __m256 v = _mm256_broadcast_ss(x + k);
#pragma GCC unroll 4
        for (int j = 0; j < panels; j++) {
            const uint8_t *at = panel + (uint64_t)j * panel_bytes;
            _mm_prefetch(at + k * line_bytes + PREFETCH_LINES * 64, _MM_HINT_T0);
            pair_add(&sums[j], v, half ? column_f16(at, k) : column_f32(at, k));
        }
    }
}

ALWAYS_INLINE void row_q8(struct pair *sums, const uint8_t *panel, uint64_t panel_bytes,
                          const float *x, uint32_t columns, int panels)
{
    for (uint64_t first = 0; first < columns; first += KERNELS_Q8_COLUMNS) {
        const uint8_t *block = panel + first / KERNELS_Q8_COLUMNS * KERNELS_Q8_PANEL_BYTES;
        struct pair scales[PANELS_MAX];
#pragma GCC unroll 4
        for (int j = 0; j < panels; j++) {
            scales[j] = scales_q8(block + (uint64_t)j * panel_bytes);
        }
        for (uint64_t k = 0; k < KERNELS_Q8_COLUMNS; k++) {
            __m256 v = _mm256_broadcast_ss(x + first + k);
#pragma GCC unroll 4
            for (int j = 0; j < panels; j++) {
                const uint8_t *at = block + (uint64_t)j * panel_bytes;
                pair_add(&sums[j], v, column_q8(at, k, scales[j]));
            }
        }
    }
}

ALWAYS_INLINE void row_panels(const struct kernels_product *p, uint32_t first, int panels)
{
    const struct kernels_matrix *m = p->matrix;
    const uint8_t *panel = m->panels + first * m->panel_bytes;
    struct pair sums[PANELS_MAX];
#pragma GCC unroll 4
    for (int j = 0; j < panels; j++) {
        sums[j] = (struct pair){_mm256_setzero_ps(), _mm256_setzero_ps()};
    }
    switch (m->type) {
    case GGUF_F32:
        row_floats(sums, panel, m->panel_bytes, p->x, m->columns, panels, false);
        break;
    case GGUF_F16:
        row_floats(sums, panel, m->panel_bytes, p->x, m->columns, panels, true);
        break;
    case GGUF_Q8_0:
        row_q8(sums, panel, m->panel_bytes, p->x, m->columns, panels);
        break;
    }
#pragma GCC unroll 4
    for (int j = 0; j < panels; j++) {
        float *y = p->y + ((uint64_t)first + (uint32_t)j) * KERNELS_PANEL_LANES;
        _mm256_storeu_ps(y, sums[j].low);
        _mm256_storeu_ps(y + 8, sums[j].high);
    }
}

static void product_row(const struct kernels_product *p)
{
    uint32_t panel = p->panel_first;
    for (; panel + 4 <= p->panel_end; panel += 4) {
        row_panels(p, panel, 4);
    }
    for (; panel + 2 <= p->panel_end; panel += 2) {
        row_panels(p, panel, 2);
    }
    if (panel < p->panel_end) {
        row_panels(p, panel, 1);
    }
}

/* ---- more rows ---- */

/* Columns k .. k + count - 1 of a panel as floats: in place, or unpacked into the scratch. */
static const float *chunk_floats(const struct kernels_product *p, const uint8_t *panel, uint32_t k,
                                 uint32_t count)
{
    if (p->matrix->type == GGUF_F32) {
        return (const float *)(const void *)panel + (uint64_t)k * KERNELS_PANEL_LANES;
    }
    struct pair scales = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (uint32_t i = 0; i < count; i++) {
        struct pair column;
        if (p->matrix->type == GGUF_F16) {
            column = column_f16(panel, k + i);
        } else {
            uint32_t at = (k + i) % KERNELS_Q8_COLUMNS;
            const uint8_t *block =
                panel + (uint64_t)((k + i) / KERNELS_Q8_COLUMNS) * KERNELS_Q8_PANEL_BYTES;
            scales = at == 0 ? scales_q8(block) : scales;
            column = column_q8(block, at, scales);
        }
        _mm256_store_ps(p->scratch + i * KERNELS_PANEL_LANES, column.low);
        _mm256_store_ps(p->scratch + i * KERNELS_PANEL_LANES + 8, column.high);
    }
    return p->scratch;
}

struct tile {
    const float *weights;       /* (columns, 16) */
    const float *x;             /* (rows, x_stride) */
    float *y;                   /* (rows, y_stride) */
    uint64_t x_stride, y_stride;
    const uint8_t *next;        /* what will be read from memory next: asked for on the way */
    uint32_t columns;
    bool first;                 /* the sums start at zero */
};

ALWAYS_INLINE void tile_sum(const struct tile *t, int rows)
{
    const float *x[ROWS_MAX];
    struct pair sums[ROWS_MAX];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        x[r] = t->x + (uint64_t)r * t->x_stride;
        const float *y = t->y + (uint64_t)r * t->y_stride;
        sums[r].low = t->first ? _mm256_setzero_ps() : _mm256_loadu_ps(y);
        sums[r].high = t->first ? _mm256_setzero_ps() : _mm256_loadu_ps(y + 8);
    }
    for (uint64_t k = 0; k < t->columns; k++) {
        struct pair column = column_f32((const uint8_t *)t->weights, k);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            pair_add(&sums[r], _mm256_broadcast_ss(x[r] + k), column);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        float *y = t->y + (uint64_t)r * t->y_stride;
        _mm256_storeu_ps(y, sums[r].low);
        _mm256_storeu_ps(y + 8, sums[r].high);
    }
}

static void tile_run(const struct tile *t, uint32_t rows)
{
    switch (rows) {
    case 1: tile_sum(t, 1); break;
    case 2: tile_sum(t, 2); break;
    case 3: tile_sum(t, 3); break;
    case 4: tile_sum(t, 4); break;
    case 5: tile_sum(t, 5); break;
    default: tile_sum(t, 6); break;
    }
}

static void product_rows(const struct kernels_product *p)
{
    const struct kernels_matrix *m = p->matrix;
    uint32_t groups = (p->rows + ROWS_MAX - 1) / ROWS_MAX;
    for (uint32_t panel = p->panel_first; panel < p->panel_end; panel++) {
        for (uint32_t k = 0; k < m->columns; k += KERNELS_CHUNK) {
            uint32_t left = m->columns - k;
            struct tile t = {
                .x_stride = p->x_stride,
                .y_stride = p->y_stride,
                .columns = left < KERNELS_CHUNK ? left : KERNELS_CHUNK,
                .first = k == 0,
            };
            t.weights = chunk_floats(p, m->panels + panel * m->panel_bytes, k, t.columns);
            uint32_t row = 0;
            for (uint32_t g = 0; g < groups; g++) {
                /* Groups of even size: 16 rows are 6 + 5 + 5, not 6 + 6 + 4. */
                uint32_t rows = (p->rows - row + groups - g - 1) / (groups - g);
                t.x = p->x + row * p->x_stride + k;
                t.y = p->y + row * p->y_stride + (uint64_t)panel * KERNELS_PANEL_LANES;
                tile_run(&t, rows);
                row += rows;
            }
        }
    }
}

void kernels_product_avx2(const struct kernels_product *product)
{
    ASSERT(product->panel_end <= product->matrix->panels_count);
    ASSERT(product->x_stride >= product->matrix->columns || product->rows <= 1);
    if (product->rows == 1) {
        product_row(product);
    } else {
        product_rows(product);
    }
}
