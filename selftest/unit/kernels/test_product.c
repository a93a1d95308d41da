/* SPDX-License-Identifier: MIT
 *
 * Goal: the fast products (sets.h) give the bits of the plain one in every shape, and panels hold
 * the file's weights. Method: random matrices of odd sizes and all types; 1 to 20 rows; parts of
 * the panels; columns past CHUNK; the definition (a chain of fmaf over the file's own weights) as a
 * third result.
 */
#include "kernels/half.h"
#include "selftest/unit/test.h"

#include "selftest/unit/kernels/sets.h"
#include "selftest/unit/kernels/tiny_model.h"

#define OUTPUTS_MAX 130
#define COLUMNS_MAX 1100
#define CHUNK       KERNELS_CHUNK_MOST      /* a multiple of the fast products' chunks */
#define ROWS_MAX    20
#define X_STRIDE      (COLUMNS_MAX + 16)
#define ROUNDED_STRIDE 1152u

static _Alignas(64) uint8_t file[OUTPUTS_MAX * COLUMNS_MAX * 4];
static float x[ROWS_MAX * X_STRIDE];
static _Alignas(64) float y[2][ROWS_MAX * 160];

static uint64_t file_bytes(enum gguf_type type, uint64_t count)
{
    return gguf_row_bytes(type, count);
}

/* Packs in pieces of `piece_bytes` (whole units). */
static struct kernels_matrix make(enum gguf_type type, uint32_t outputs, uint32_t columns,
                                  uint64_t piece_bytes, uint64_t seed)
{
    uint64_t state = seed;
    uint64_t bytes = file_bytes(type, (uint64_t)outputs * columns);
    tiny_fill(file, type, (uint64_t)outputs * columns, 1.0f, 0.0f, &state);
    struct kernels_matrix matrix;
    void *panels = arena_take(test_arena(), 1, kernels_matrix_bytes(type, outputs, columns));
    kernels_matrix_init(&matrix, type, outputs, columns, panels);
    for (uint64_t at = 0; at < bytes; at += piece_bytes) {
        uint64_t count = bytes - at < piece_bytes ? bytes - at : piece_bytes;
        assert_true(kernels_matrix_pack(&matrix, at, file + at, count));
    }
    return matrix;
}

static int8_t levels[ROWS_MAX * ROUNDED_STRIDE];
static float bfloats[ROWS_MAX * ROUNDED_STRIDE];
static struct kernels_quant_block blocks[ROWS_MAX * ROUNDED_STRIDE / KERNELS_QUANT_COLUMNS];

static void run_at(const struct kernels_ops *ops, const struct kernels_matrix *matrix,
                   uint32_t rows, struct kernels_tuning tuning, float *to)
{
    struct kernels_product product = {
        .matrix = matrix, .rows = rows, .tuning = tuning, .x = x, .x_stride = X_STRIDE,
        .rounded = {levels, blocks, bfloats, ROUNDED_STRIDE},
        .y = to, .y_stride = 160,
    };
    for (uint32_t r = 0; r < rows; r++) {
        struct kernels_rounded row = kernels_rounded_from(product.rounded, r);
        kernels_round(ops, kernels_reads(matrix->type), &row, x + r * X_STRIDE, matrix->columns);
    }
    for (uint32_t panel = 0; panel < matrix->panels_count; panel = product.panel_end) {
        product.panel_first = panel;    /* parts of 1, 2, 4, ... panels */
        product.panel_end = 2 * panel + 1;
        if (product.panel_end > matrix->panels_count) {
            product.panel_end = matrix->panels_count;
        }
        ops->product(&product);
    }
}

static void run(const struct kernels_ops *ops, const struct kernels_matrix *matrix, uint32_t rows,
                float *to)
{
    run_at(ops, matrix, rows, (struct kernels_tuning){0, 0, NULL}, to);
}

/* Numbers that are levels times a scale: then products with integers are as exact as others. */
static void fill_levels(uint32_t rows, uint64_t *state)
{
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t k = 0; k < X_STRIDE; k++) {
            float scale = 0x1p-7f * (float)(1 + (r + k / 32) % 7);
            int32_t level = k % 32 == r % 32 ? KERNELS_LEVEL_MAX
                                             : (int32_t)(tiny_random(state) % 255) - 127;
            x[r * X_STRIDE + k] = scale * (float)level;
        }
    }
}

/* The next column by the definition: of a pair of bfloats the odd one comes first. */
static uint32_t column_at(enum gguf_type type, uint32_t k, uint32_t columns)
{
    bool is_alone = k % 2 == 0 && k + 1 == columns;
    return type == GGUF_BF16 && !is_alone ? k ^ 1u : k;
}

/* What a product reads of x, if it does not read levels. */
static float x_at(enum gguf_type type, const float *row, uint32_t k)
{
    return type == GGUF_BF16 ? kernels_float_of_bfloat(kernels_bfloat_of(row[k])) : row[k];
}

/* The last row of the plain product against the file's own weights: floats to the bit. */
static void check_definition(const struct kernels_matrix *matrix, uint32_t rows)
{
    const float *last = x + (rows - 1) * X_STRIDE;
    for (uint32_t o = 0; o < matrix->outputs; o += 37) {
        float sum = 0;
        double exact = 0, magnitude = 0;
        for (uint32_t i = 0; i < matrix->columns; i++) {
            uint32_t k = column_at(matrix->type, i, matrix->columns);
            double weight = tiny_weight(file, matrix->type, (uint64_t)o * matrix->columns + k);
            sum = fmaf(x_at(matrix->type, last, k), (float)weight, sum);
            exact += last[k] * weight;
            magnitude += fabs(last[k] * weight);
        }
        const float *found = &y[0][(rows - 1) * 160 + o];
        if (kernels_has_levels(matrix->type)) {
            assert_true(fabs(*found - exact) <= 1e-5 * magnitude);
        } else {
            assert_memory_equal(&sum, found, sizeof sum);
        }
    }
}

/* All rows of each set's product against the plain product's, with every tuning. */
static void check_sets(const struct kernels_matrix *matrix, uint32_t rows)
{
    static _Alignas(64) float widened[KERNELS_CHUNK_PANELS * KERNELS_CHUNK_MOST *
                                      KERNELS_PANEL_LANES];
    const struct kernels_tuning tunings[] = {{0, 0, NULL},
                                         {KERNELS_PREFETCH_BYTES, KERNELS_CHUNK_LEAST, widened},
                                         {KERNELS_PREFETCH_BYTES, KERNELS_CHUNK_MOST, widened}};
    struct sets sets = sets_find();
    for (uint32_t i = 0; i < sets.count * 3; i++) {
        memset(y[1], 0xff, sizeof y[1]);
        run_at(sets.ops[i / 3], matrix, rows, tunings[i % 3], y[1]);
        for (uint32_t r = 0; r < rows; r++) {
            assert_memory_equal(y[0] + r * 160, y[1] + r * 160, matrix->outputs * sizeof(float));
        }
    }
}

static void check(enum gguf_type type, uint32_t outputs, uint32_t columns, uint32_t rows)
{
    uint64_t state = outputs + columns;
    struct kernels_matrix matrix = make(type, outputs, columns,
                                        gguf_type_block(type).bytes * 28, rows);
    fill_levels(rows, &state);
    run(&kernels_ops_plain, &matrix, rows, y[0]);
    check_definition(&matrix, rows);
    for (uint32_t i = 0; i < rows * X_STRIDE; i++) {
        x[i] = tiny_uniform(&state);
    }
    run(&kernels_ops_plain, &matrix, rows, y[0]);
    check_sets(&matrix, rows);
}

static void test_product_odd_shapes_equal_bits(void **state)
{
    (void)state;
    for (uint32_t rows = 1; rows <= ROWS_MAX; rows++) {
        for (uint32_t i = 0; i < TINY_TYPES; i++) {
            uint32_t unit = gguf_type_block(tiny_types[i]).values;
            uint32_t columns = unit == 1 ? 1 + rows * 3 : unit * (1 + rows % (1024 / unit));
            check(tiny_types[i], 1 + rows * 6, columns, rows);
        }
    }
}

/* Rows of one group of tiles, and so many rows that halves are converted to floats first. */
static void test_product_long_columns_equal_bits(void **state)
{
    (void)state;
    const uint32_t rows[] = {1, 2, 7, 16, ROWS_MAX};
    for (uint32_t i = 0; i < 5; i++) {
        for (uint32_t more = 1; more <= 4; more++) {
            check(GGUF_F32, 35, CHUNK + more, rows[i]);
            check(GGUF_F16, 35, CHUNK + more, rows[i]);
            check(GGUF_BF16, 35, CHUNK + more, rows[i]);
        }
    }
}

/* One row takes a few panels at a time, more rows take two; a panel may be left over. */
static void test_product_many_panels_equal_bits(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < TINY_TYPES; i++) {
        for (uint32_t rows = 1; rows <= 2; rows++) {
            check(tiny_types[i], OUTPUTS_MAX, 256, rows);
        }
    }
}

/* Sums below 2^-126 become zeros in every set, and no others. */
static void test_product_of_tiny_bfloats_equal_bits(void **state)
{
    (void)state;
    uint64_t random = 3;
    uint32_t zeros = 0, others = 0;
    for (uint32_t trial = 0; trial < 40; trial++) {
        uint32_t columns = 2 + trial % 5;
        struct kernels_matrix matrix = make(GGUF_BF16, 48, columns, 2, trial);
        for (uint32_t i = 0; i < 48 * columns; i++) {
            float weight = tiny_uniform(&random) * ldexpf(1.0f, -64 - (int)(i % 4) * 4);
            uint16_t bfloat = kernels_bfloat_of(weight);
            memcpy(file + i * 2, &bfloat, sizeof bfloat);
        }
        assert_true(kernels_matrix_pack(&matrix, 0, file, 48 * columns * 2));
        for (uint32_t i = 0; i < 20 * X_STRIDE; i++) {
            x[i] = tiny_uniform(&random) * ldexpf(1.0f, -60 - (int)(i % 5) * 3);
        }
        for (uint32_t rows = 1; rows <= ROWS_MAX; rows += 6) {
            run(&kernels_ops_plain, &matrix, rows, y[0]);
            check_sets(&matrix, rows);
        }
        for (uint32_t o = 0; o < 48; o++) {
            zeros += y[0][o] == 0;
            others += y[0][o] != 0;
            assert_true(y[0][o] == 0 || fabsf(y[0][o]) >= 0x1p-126f);
        }
    }
    assert_true(zeros > 100 && others > 100);
}

/* Both orders: the odd column's product comes first, so the even one's is added to 2^-126 and may
 * make it less. A sum that 24 bits round up to 2^-126 stays. */
static void test_product_at_the_edge_of_zero(void **state)
{
    (void)state;
    const struct {
        float factor;           /* of minus itself, or with a weight of 2^-76 */
        float weight, sum;
    } cases[] = {{0x1p-76f, 0x1p-76f, 0x1p-126f},       /* too little to matter */
                 {0x1p-75f, 0x1p-76f, 0x1p-126f},       /* a tie, to even */
                 {0x1p-75f, 0x1p-75f, 0}};
    for (uint32_t i = 0; i < 3; i++) {
        for (float sign = -1; sign <= 1; sign += 2) {
            struct kernels_matrix matrix = make(GGUF_BF16, 16, 2, 2, 1);
            for (uint32_t o = 0; o < 16; o++) {
                uint16_t pair[2] = {kernels_bfloat_of(-sign * cases[i].weight),
                                    kernels_bfloat_of(sign * 0x1p-63f)};
                memcpy(file + o * sizeof pair, pair, sizeof pair);
            }
            assert_true(kernels_matrix_pack(&matrix, 0, file, 16 * 2 * 2));
            x[0] = cases[i].factor;
            x[1] = 0x1p-63f;
            run(&kernels_ops_plain, &matrix, 1, y[0]);
            assert_true(y[0][3] == sign * cases[i].sum);
            check_sets(&matrix, 1);
        }
    }
}

static void product_even_first(const struct kernels_product *p)
{
    const float *rounded = p->rounded.bfloats;
    float swapped[ROWS_MAX * 64];
    struct kernels_product other = *p;
    static uint16_t panel[64 * 16];
    struct kernels_matrix matrix = *p->matrix;
    assert_true(p->rows <= ROWS_MAX && matrix.columns <= 64 && p->rounded.stride == 64);
    for (uint32_t i = 0; i < p->rows * 64; i++) {
        swapped[i] = rounded[i ^ 1];
    }
    for (uint32_t i = 0; i < 64 * 16; i++) {
        panel[i] = ((const uint16_t *)(const void *)matrix.panels)[i ^ 1];
    }
    matrix.panels = (uint8_t *)panel;
    other.matrix = &matrix;
    other.rounded.bfloats = swapped;
    kernels_ops_plain.product(&other);
}

/* As a product of floats: sums below 2^-126 stay. */
static void product_unflushed(const struct kernels_product *p)
{
    const uint16_t *weights = (const uint16_t *)(const void *)p->matrix->panels;
    for (uint32_t r = 0; r < p->rows; r++) {
        for (uint32_t lane = 0; lane < 16; lane++) {
            float sum = 0;
            for (uint32_t i = 0; i < p->matrix->columns; i++) {
                uint32_t k = i ^ 1;
                float weight = kernels_float_of_bfloat(weights[(k / 2 * 16 + lane) * 2 + k % 2]);
                sum = fmaf(p->rounded.bfloats[r * p->rounded.stride + k], weight, sum);
            }
            p->y[r * p->y_stride + lane] = sum;
        }
    }
}

/* A pair of products is added before it is rounded. */
static void product_rounded_once(const struct kernels_product *p)
{
    const uint16_t *weights = (const uint16_t *)(const void *)p->matrix->panels;
    for (uint32_t r = 0; r < p->rows; r++) {
        const float *row = p->rounded.bfloats + r * p->rounded.stride;
        for (uint32_t lane = 0; lane < 16; lane++) {
            float sum = 0;
            for (uint32_t k = 0; k < p->matrix->columns; k += 2) {
                const uint16_t *pair = weights + (k / 2 * 16 + lane) * 2;
                double both = (double)row[k] * kernels_float_of_bfloat(pair[0]) +
                              (double)row[k + 1] * kernels_float_of_bfloat(pair[1]);
                sum = (float)(sum + both);
                sum = fabsf(sum) < 0x1p-126f ? copysignf(0, sum) : sum;
            }
            p->y[r * p->y_stride + lane] = sum;
        }
    }
}

static void test_trial_finds_other_sums(void **state)
{
    (void)state;
    struct kernels_ops other = kernels_ops_plain;
    assert_true(kernels_sums_bfloats_alike(&other));
    other.product = product_even_first;
    assert_false(kernels_sums_bfloats_alike(&other));
    other.product = product_unflushed;
    assert_false(kernels_sums_bfloats_alike(&other));
    other.product = product_rounded_once;
    assert_false(kernels_sums_bfloats_alike(&other));
}

/* Panels of bfloats from files of floats and halves: each weight rounded, also in odd pieces. */
static void test_pack_rounds_to_bfloats(void **state)
{
    (void)state;
    static float row[COLUMNS_MAX];
    const enum gguf_type from[] = {GGUF_F32, GGUF_F16};
    for (uint32_t t = 0; t < 2; t++) {
        uint32_t outputs = 19, columns = 523, size = gguf_type_block(from[t]).bytes;
        uint64_t random = 9, bytes = (uint64_t)outputs * columns * size;
        struct kernels_matrix matrix;
        void *panels =
            arena_take(test_arena(), 1, kernels_matrix_bytes(GGUF_BF16, outputs, columns));
        kernels_matrix_init(&matrix, GGUF_BF16, outputs, columns, panels);
        matrix.file_type = from[t];
        tiny_fill(file, from[t], (uint64_t)outputs * columns, 1.0f, 0.0f, &random);
        for (uint64_t at = 0, count; at < bytes; at += count) {
            count = bytes - at < 777 * size ? bytes - at : 777 * size;
            assert_true(kernels_matrix_pack(&matrix, at, file + at, count));
        }
        for (uint32_t o = 0; o < outputs; o++) {
            kernels_matrix_row(&matrix, o, row);
            for (uint32_t k = 0; k < columns; k++) {
                float weight = (float)tiny_weight(file, from[t], (uint64_t)o * columns + k);
                assert_true(row[k] == kernels_float_of_bfloat(kernels_bfloat_of(weight)));
            }
        }
        memset(file + 40, 0xff, size);
        assert_false(kernels_matrix_pack(&matrix, 0, file, columns * size));
        const uint32_t largest = 0x7f7fffffu;   /* finite, but the bfloat next to it is not */
        memcpy(file + 40, &largest, sizeof largest);
        assert_true(t == 1 || !kernels_matrix_pack(&matrix, 0, file, columns * size));
    }
}

static void test_pack_file_weights_come_back(void **state)
{
    (void)state;
    static float row[COLUMNS_MAX];
    make(GGUF_F32, 33, 41, 4, 1);       /* one float at a time */
    struct kernels_matrix matrix = make(GGUF_F32, 33, 41, 4 * 100, 1);
    for (uint32_t o = 0; o < 33; o++) {
        kernels_matrix_row(&matrix, o, row);
        assert_memory_equal(row, file + o * 41 * 4, 41 * 4);
    }
}

static void test_pack_not_finite_refused(void **state)
{
    (void)state;
    struct kernels_matrix matrix = make(GGUF_F32, 2, 32, 4 * 32, 1);
    const uint32_t bad_floats[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffffffffu};
    for (uint32_t i = 0; i < 4; i++) {
        memcpy(file + 40, &bad_floats[i], 4);
        assert_false(kernels_matrix_pack(&matrix, 0, file, 2 * 32 * 4));
    }
    matrix = make(GGUF_F16, 2, 32, 4 * 32, 1);
    const uint16_t bad_halves[] = {0x7c00, 0xfc00, 0x7e00, 0xffff};
    for (uint32_t i = 0; i < 4; i++) {
        memcpy(file + 40, &bad_halves[i], 2);
        assert_false(kernels_matrix_pack(&matrix, 0, file, 2 * 32 * 2));
    }
    matrix = make(GGUF_BF16, 2, 32, 4 * 32, 1);
    const uint16_t bad_bfloats[] = {0x7f80, 0xff80, 0x7fc0, 0xffff};
    for (uint32_t i = 0; i < 4; i++) {
        memcpy(file + 40, &bad_bfloats[i], 2);
        assert_false(kernels_matrix_pack(&matrix, 0, file, 2 * 32 * 2));
    }
    matrix = make(GGUF_Q8_0, 2, 32, 34, 1);
    for (uint32_t i = 0; i < 4; i++) {
        memcpy(file + 34, &bad_halves[i], 2);
        assert_false(kernels_matrix_pack(&matrix, 0, file, 2 * 34));
    }
}

/* The same bits of levels, also for numbers that are not ordinary. */
static void test_quantize_twins_agree(void **state)
{
    (void)state;
    static const float odd[] = {0.0f, -0.0f, 0x1p-149f, 0x1p-101f, 0x1p-100f, 0x1p-99f, 1.0f,
                                -1.0f, 0x1.fffffep127f, INFINITY, -INFINITY, NAN};
    uint64_t random = 5;
    int8_t got[2][64];
    struct kernels_quant_block of[2][2];
    for (uint32_t i = 0; i < 4000; i++) {
        for (uint32_t k = 0; k < 64; k++) {
            x[k] = tiny_uniform(&random) * ldexpf(1.0f, (int)(i % 40) - 20);
        }
        for (uint32_t k = 0; k < 64 && i % 3 == 0; k++) {   /* halves are exact ties */
            x[k] = (float)(tiny_random(&random) % 509) * 0.5f - 127.0f;
        }
        if (i % 4 == 0) {
            x[tiny_random(&random) % 64] = odd[i / 4 % (sizeof odd / sizeof odd[0])];
        }
        kernels_ops_plain.quantize(got[0], of[0], x, 64);
        for (uint32_t k = 0; k < 64; k++) {     /* half a level, and 127 times 2^-11 */
            assert_in_range(got[0][k] + KERNELS_LEVEL_MAX, 0, 2 * KERNELS_LEVEL_MAX);
            double scale = (double)of[0][k / 32].scale;
            assert_true(isnan(scale) || fabs(x[k] - scale * got[0][k]) <= scale * 0.563 ||
                        fabsf(x[k]) < KERNELS_LEVEL_TINY);
        }
        if (kernels_simd_best() >= KERNELS_AVX2) {
            kernels_ops_avx2.quantize(got[1], of[1], x, 64);
            assert_memory_equal(got[0], got[1], 64);
            assert_memory_equal(of[0], of[1], sizeof of[0]);
        }
    }
}

static void check_shorten(const struct kernels_ops *ops, uint32_t columns)
{
    float got[73];
    uint32_t count = columns + columns % 2;
    memset(got, 0x55, sizeof got);
    ops->shorten(got, x, columns);
    for (uint32_t k = 0; k < count; k++) {
        uint16_t bfloat = k < columns ? kernels_bfloat_of(x[k]) : 0;
        float wide = kernels_float_of_bfloat(bfloat);
        if (sets_shortens_to_pairs(ops)) {
            assert_memory_equal(&bfloat, (uint16_t *)(void *)got + k, sizeof bfloat);
        } else {
            assert_memory_equal(&wide, got + k, sizeof wide);
        }
    }
    uint64_t end = count * (sets_shortens_to_pairs(ops) ? sizeof(uint16_t) : sizeof(float));
    assert_int_equal(((const uint8_t *)got)[end], 0x55);
}

/* The same bits of bfloats, the nearest ones, also for numbers that are not ordinary. */
static void test_shorten_twins_agree(void **state)
{
    (void)state;
    static const float odd[] = {0.0f, -0.0f, 0x1p-149f, 0x1.fffffcp-127f, -0x1.fffffcp-127f,
                                0x1p-126f, 0x1.fffffep127f, -0x1.fep127f, 0x1.ffp127f, INFINITY,
                                -INFINITY, NAN, -NAN, 0x1.01p0f, 0x1.03p0f, 0x1.010002p0f};
    static const uint16_t shortened[] = {0, 0x8000, 0, 0, 0x8000, 0x80, 0x7f80, 0xff7f, 0x7f80,
                                         0x7f80, 0xff80, 0x7fc0, 0x7fc0, 0x3f80, 0x3f82, 0x3f81};
    uint64_t random = 5;
    for (uint32_t i = 0; i < 16; i++) {
        assert_int_equal(kernels_bfloat_of(odd[i]), shortened[i]);
    }
    for (uint32_t i = 0; i < 4000; i++) {
        uint32_t columns = 1 + i % 70;
        for (uint32_t k = 0; k < columns; k++) {
            x[k] = tiny_uniform(&random) * ldexpf(1.0f, (int)(i % 40) - 20);
            float back = kernels_float_of_bfloat(kernels_bfloat_of(x[k]));
            assert_true(fabsf(back - x[k]) <= fabsf(x[k]) * 0x1p-8f);
        }
        x[tiny_random(&random) % columns] = odd[i % 16];
        struct sets sets = sets_find();
        check_shorten(&kernels_ops_plain, columns);
        for (uint32_t s = 0; s < sets.count; s++) {
            check_shorten(sets.ops[s], columns);
        }
    }
}

/* The largest sums that sixteen bits must hold, in both directions. */
static void test_product_extremes_do_not_overflow(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < TINY_TYPES; i++) {
        uint32_t columns = 256, outputs = 16;
        if (gguf_type_block(tiny_types[i]).values == 1) {
            continue;
        }
        for (uint32_t byte = 0; byte < 256; byte += 15) {
            struct kernels_matrix matrix = make(tiny_types[i], outputs, columns,
                                                gguf_type_block(tiny_types[i]).bytes, byte);
            memset(file, (int)byte & 0x7b, sizeof file);    /* as scales, too: finite halves */
            assert_true(kernels_matrix_pack(&matrix, 0, file,
                                            outputs * gguf_row_bytes(tiny_types[i], columns)));
            for (uint32_t k = 0; k < ROWS_MAX * X_STRIDE; k++) {
                x[k] = k % 3 == 0 && byte % 2 == 0 ? -127.0f : 127.0f;
            }
            for (uint32_t rows = 1; rows <= 6; rows++) {
                run(&kernels_ops_plain, &matrix, rows, y[0]);
                check_definition(&matrix, rows);
                check_sets(&matrix, rows);
            }
        }
    }
}

static void test_half_every_value_exact(void **state)
{
    (void)state;
    assert_true(kernels_half_to_float(0x3c00) == 1.0f);
    assert_true(kernels_half_to_float(0xc000) == -2.0f);
    assert_true(kernels_half_to_float(0x0001) == 0x1p-24f);
    assert_true(kernels_half_to_float(0x83ff) == -1023 * 0x1p-24f);
    assert_true(kernels_half_to_float(0x7bff) == 65504.0f);
    assert_true(kernels_half_to_float(0x8000) == 0.0f && signbit(kernels_half_to_float(0x8000)));
    for (uint32_t half = 0; half < 0x7c00; half++) {    /* neighbours grow */
        assert_true(half == 0 || kernels_half_to_float((uint16_t)half) >
                                     kernels_half_to_float((uint16_t)(half - 1)));
    }
}

/* Equal to a half in the range of halves, and with a half's precision outside it. */
static void test_half_rounded_is_a_half_of_any_range(void **state)
{
    (void)state;
    uint64_t random = 7;
    for (uint32_t i = 0; i < 4000; i++) {
        float value = tiny_uniform(&random) * ldexpf(1.0f, (int)(i % 28) - 12);
        float rounded = kernels_half_rounded(value);
        if (fabsf(value) >= 0x1p-14f) {
            assert_true(rounded == kernels_half_to_float(kernels_half_of(value)));
        }
        assert_true(kernels_half_rounded(value * 0x1p80f) == rounded * 0x1p80f);
    }
    assert_true(kernels_half_rounded(1.0f + 0x1p-11f) == 1.0f);
    assert_true(kernels_half_rounded(1.0f + 0x3p-11f) == 1.0f + 0x1p-9f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_product_odd_shapes_equal_bits),
        cmocka_unit_test(test_product_long_columns_equal_bits),
        cmocka_unit_test(test_product_many_panels_equal_bits),
        cmocka_unit_test(test_product_of_tiny_bfloats_equal_bits),
        cmocka_unit_test(test_product_at_the_edge_of_zero),
        cmocka_unit_test(test_trial_finds_other_sums),
        cmocka_unit_test(test_pack_rounds_to_bfloats),
        cmocka_unit_test(test_pack_file_weights_come_back),
        cmocka_unit_test(test_pack_not_finite_refused),
        cmocka_unit_test(test_quantize_twins_agree),
        cmocka_unit_test(test_shorten_twins_agree),
        cmocka_unit_test(test_product_extremes_do_not_overflow),
        cmocka_unit_test(test_half_every_value_exact),
        cmocka_unit_test(test_half_rounded_is_a_half_of_any_range),
    };
    sets_say();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
