/* SPDX-License-Identifier: MIT
 *
 * Goal: products have the bits of their definition, for every type and size, and each row gets them
 * alone and in any company. Method: sizes around the edges of tiles and segments, strides with
 * gaps. The chain is compared with the CPU engine's definition (kernels/ops.h, weights that are
 * floats). Products on tensor cores are compared with plain C of device/product.h and of the twin
 * of the instruction (selftest/fake/softgpu/mma.c); on a chip, whose instruction sums in an order
 * of its own, with a tolerance, and among themselves to the bit.
 */
#include "selftest/unit/cuda/gpu_rig.h"

#include "kernels/cuda/device/number.h"
#include "kernels/cuda/weights.h"
#include "selftest/unit/cuda/levels.h"

struct size {
    uint32_t rows, outputs, columns;
};

static void *numbers_make(uint32_t type, uint64_t count)
{
    uint8_t *at = rig_take(type == GPU_F32 ? count * 4 : count * 2);
    for (uint64_t i = 0; i < count; i++) {
        gpu_store(at, type, i, rig_number());
    }
    return at;
}

/* ---- the chain ---- */

/* `numbers`: the weights as floats; NULL: `w` has them. */
static void check_chain(struct size size, uint32_t x_type, uint32_t w_type, void *w,
                        const float *numbers)
{
    uint64_t x_stride = size.columns + 5, y_stride = size.outputs + 3;
    void *x = numbers_make(x_type, (size.rows - 1) * x_stride + size.columns);
    float *y = rig_take(((size.rows - 1) * y_stride + size.outputs) * sizeof *y);
    struct gpu_product args = {
        .x = rig_address(x),
        .w = rig_address(w),
        .y = rig_address(y),
        .x_stride = x_stride,
        .y_stride = y_stride,
        .rows = size.rows,
        .outputs = size.outputs,
        .columns = size.columns,
        .x_type = x_type,
        .w_type = w_type,
    };
    RIG_LAUNCH(product, &args);
    for (uint32_t i = 0; i < size.rows * size.outputs; i++) {
        uint32_t row = i / size.outputs, output = i % size.outputs;
        float sum = 0;
        for (uint32_t c = 0; c < size.columns; c++) {
            uint64_t at = (uint64_t)output * size.columns + c;
            sum = fmaf(gpu_load(x, x_type, row * x_stride + c),
                       numbers != NULL ? numbers[at] : gpu_load(w, w_type, at), sum);
        }
        assert_memory_equal(&y[row * y_stride + output], &sum, sizeof sum);
    }
    assert_true(size.rows == 1 || isnan(y[size.outputs]));  /* nothing between rows */
}

static void test_product_sizes_and_types_equal_chain(void **state)
{
    (void)state;
    const struct size sizes[] = {{1, 1, 1},    {1, 16, 32},  {16, 17, 33}, {17, 16, 31},
                                 {3, 40, 100}, {33, 5, 257}, {2, 64, 64}};
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (uint32_t type = GPU_F32; type <= GPU_BF16; type++) {
            void *w = numbers_make(type, (uint64_t)sizes[i].outputs * sizes[i].columns);
            check_chain(sizes[i], type, type, w, NULL);
        }
    }
}

static void test_product_of_levels_equals_chain(void **state)
{
    (void)state;
    static float numbers[19 * 512];
    for (uint32_t i = 0; i < LEVEL_TYPES; i++) {
        uint32_t columns = gguf_type_block(level_types[i]).values == 32 ? 96 : 512;
        void *w = panels_make(level_types[i], 19, columns, numbers);
        check_chain((struct size){5, 19, columns}, GPU_F32, gpu_type_of(level_types[i]), w,
                    numbers);
    }
}

/* ---- on tensor cores ---- */

#define ROWS_MAX 300u

enum walks { SPLIT, WALK, WALKS };      /* a thread block has a segment, or walks them all */

/* A matrix, as many rows of input as a test wants at most, and what a product needs. */
static struct tiled {
    uint32_t outputs, columns, type, x_type, x_stride, y_stride;
    uint16_t *x;
    void *w;
    float *weights;                     /* (outputs, columns): as they are multiplied */
    float *y, *expected;                /* expected: (ROWS_MAX, outputs) */
    void *partials;
    uint32_t *tickets;
    uint64_t round;
} tiled;

/* The column of number `i` of an instruction, which has sixteen: of levels, a lane has four that
 * follow each other. */
static uint32_t column_of(uint32_t i)
{
    return gpu_has_levels(tiled.type) ? i % 8 / 2 * 4 + i / 8 * 2 + i % 2 : i;
}

/* The definition. */
static float sum_expected(uint32_t row, uint32_t output)
{
    const struct tiled *h = &tiled;
    uint32_t segment = gpu_segment_chunks(h->outputs, h->columns) * GPU_CHUNK_COLUMNS;
    float total = 0, sum = 0;
    for (uint32_t c = 0; c < h->columns;) {
        double exact = (double)sum;
        for (uint32_t i = 0; i < 16; i++) {
            uint32_t column = c + column_of(i), at = column < h->columns ? column : 0;
            float x = gpu_load(h->x, h->x_type, (uint64_t)row * h->x_stride + at);
            float w = h->weights[(uint64_t)output * h->columns + at];
            exact += column < h->columns ? (double)w * (double)x : 0;
        }
        sum = (float)exact;
        c += 16;
        if (c % segment == 0 || c >= h->columns) {
            total += sum;
            sum = 0;
        }
    }
    return total;
}

/* Weights of a type in the file. `gap`: numbers after each row of the input. With 0 and suitable
 * columns pieces are copied, else gathered. */
static void tiled_make(uint32_t outputs, uint32_t columns, enum gguf_type type, uint32_t gap)
{
    struct tiled *h = &tiled;
    uint64_t count = (uint64_t)outputs * columns;
    *h = (struct tiled){.outputs = outputs, .columns = columns, .type = gpu_type_of(type),
                        .x_stride = columns + gap, .y_stride = outputs + 3};
    h->x_type = gpu_has_levels(h->type) ? (uint32_t)GPU_F16 : h->type;
    h->x = numbers_make(h->x_type, (uint64_t)ROWS_MAX * h->x_stride);
    h->weights = rig_take(count * sizeof(float));
    h->w = gpu_has_levels(h->type) ? panels_make(type, outputs, columns, h->weights)
                                   : numbers_make(h->type, count);
    for (uint64_t i = 0; i < count && !gpu_has_levels(h->type); i++) {
        h->weights[i] = gpu_load(h->w, h->type, i);
    }
    h->expected = rig_take((uint64_t)ROWS_MAX * outputs * sizeof(float));
    h->partials = rig_take(GPU_PARTIALS_BYTES);
    h->tickets = memset(rig_take(GPU_PRODUCT_BLOCKS * sizeof(uint32_t)), 0,
                        GPU_PRODUCT_BLOCKS * sizeof(uint32_t));
    for (uint32_t i = 0; i < ROWS_MAX * outputs; i++) {
        h->expected[i] = sum_expected(i / outputs, i % outputs);
    }
}

/* Rows first .. first + rows - 1 by the kernel that `is_many` says. */
static void tiled_multiply(uint32_t first, uint32_t rows, bool is_many, enum walks walks)
{
    struct tiled *h = &tiled;
    h->y = rig_take((uint64_t)rows * h->y_stride * sizeof(float));
    const struct gpu_product_tiled product = {
        .x = rig_address(h->x + (uint64_t)first * h->x_stride), .w = rig_address(h->w),
        .y = rig_address(h->y), .partials = rig_address(h->partials),
        .tickets = rig_address(h->tickets), .round = h->round,
        .x_stride = h->x_stride, .y_stride = h->y_stride,
        .rows = rows, .outputs = h->outputs, .columns = h->columns, .type = h->type};
    struct gpu_launch launch = is_many ? gpu_many_launch(&product) : gpu_few_launch(&product);
    launch.grid[2] = walks == WALK ? 1 : gpu_segments(h->outputs, h->columns);
    static const struct {
        const char *name;
        enum gpu_kernel kernel;
    } kernels[2][2] = {{{"product_few", GPU_KERNEL_product_few},
                        {"product_many", GPU_KERNEL_product_many}},
                       {{"product_few_levels", GPU_KERNEL_product_few_levels},
                        {"product_many_levels", GPU_KERNEL_product_many_levels}}};
    bool has_levels = gpu_has_levels(h->type);
    assert_true(rig_launch(kernels[has_levels][is_many].name, kernels[has_levels][is_many].kernel,
                           &launch, &product));
}

static void tiled_compare(uint32_t first, uint32_t rows)
{
    struct tiled *h = &tiled;
    for (uint32_t row = 0; row < rows; row++) {
        assert_memory_equal(h->y + (uint64_t)row * h->y_stride,
                            h->expected + (uint64_t)(first + row) * h->outputs,
                            h->outputs * sizeof(float));
        assert_true(isnan(h->y[(uint64_t)row * h->y_stride + h->outputs]));
    }
    for (uint32_t i = 0; i < GPU_PRODUCT_BLOCKS; i++) {
        assert_int_equal(h->tickets[i], 0);
    }
}

/* On a chip the first product of all rows becomes what is expected of all others. */
static void expect_as_the_chip_sums(void)
{
    struct tiled *h = &tiled;
    tiled_multiply(0, ROWS_MAX, true, SPLIT);
    for (uint32_t i = 0; i < ROWS_MAX * h->outputs; i++) {
        float found = h->y[(uint64_t)(i / h->outputs) * h->y_stride + i % h->outputs];
        assert_true(fabsf(found - h->expected[i]) <= 1e-5f * (float)h->columns);
        h->expected[i] = found;
    }
}

/* Each kernel, each number of rows, either way through the segments. Below 64 rows the kernel for
 * many has one tile in any case. */
static void check_tiled(uint32_t outputs, uint32_t columns, enum gguf_type type, uint32_t gap)
{
    static const uint32_t counts[] = {1, 7, 8, 9, 16, 33, 64, 128, ROWS_MAX};
    tiled_make(outputs, columns, type, gap);
    if (chip_library() != NULL) {
        expect_as_the_chip_sums();
    }
    for (uint32_t i = 0; i < 2 * WALKS * sizeof counts / sizeof *counts; i++) {
        uint32_t rows = counts[i / 2 / WALKS], first = (ROWS_MAX - rows) / 2;
        bool is_many = i % 2 == 1;
        if (!is_many || rows == 1 || rows >= 64) {
            tiled_multiply(first, rows, is_many, (enum walks)(i / 2 % WALKS));
            tiled_compare(first, rows);
        }
    }
}

static void test_halves_equal_their_definition_in_any_number_of_rows(void **state)
{
    (void)state;
    check_tiled(1, 1, GGUF_F16, 0);
    check_tiled(70, 133, GGUF_F16, 0);
    check_tiled(65, 136, GGUF_BF16, 8);
}

/* Matrices with half a chunk at the end, outputs past the last panel, several blocks of a panel,
 * and several segments. */
static void test_levels_equal_their_definition_in_any_number_of_rows(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < LEVEL_TYPES; i++) {
        bool is_super = gguf_type_block(level_types[i]).values > 32;
        check_tiled(21, is_super ? 512 : 96, level_types[i], 0);
        check_tiled(135, is_super ? 256 : 288, level_types[i], 8);
        check_tiled(7, is_super ? 768 : 992, level_types[i], 16);
        rig_teardown(NULL);
    }
}

/* Segments of 256 columns, the last one shorter; rows whose pieces are copied, and gathered. */
static void test_segments_are_added_in_order(void **state)
{
    (void)state;
    assert_int_equal(gpu_segments(16, 1000), 4);
    check_tiled(16, 1000, GGUF_F16, 0);
    check_tiled(16, 1000, GGUF_BF16, 3);
    check_tiled(130, 520, GGUF_F16, 24);
}

static void test_segments_follow_from_the_shape_alone(void **state)
{
    (void)state;
    assert_int_equal(gpu_segments(4096, 4096), 8);
    assert_int_equal(gpu_segments(1024, 4096), 16);
    assert_int_equal(gpu_segments(14336, 4096), 3);
    assert_int_equal(gpu_segments(4096, 14336), 8);
    assert_int_equal(gpu_segments(128256, 4096), 1);
    assert_int_equal(gpu_segments(1, 1), 1);
}

/* A round that was queued before it was known that the step has ended reads no weights. */
static void test_a_step_that_has_ended_has_no_product(void **state)
{
    (void)state;
    for (uint32_t ended = 0; ended < 2; ended++) {
        const struct gpu_round round = {.round = 1, .has_ended = ended};
        tiled_make(24, 64, GGUF_BF16, 0);
        tiled.round = rig_address(rig_copy(&round, sizeof round));
        for (uint32_t is_many = 0; is_many < 2; is_many++) {
            tiled_multiply(0, 3, is_many, WALK);
            assert_int_equal(isnan(tiled.y[0]), ended);    /* as it was taken */
        }
        rig_teardown(NULL);
    }
}

static void check_launches(const struct gpu_product_tiled *product)
{
    const struct gpu_launch launches[] = {gpu_few_launch(product), gpu_many_launch(product)};
    uint32_t rows = gpu_few_rows(product->rows);
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t *grid = launches[i].grid;
        uint32_t tile = i == 0 ? rows * gpu_few_outputs(product->type, rows)
                               : GPU_MANY_TILE * GPU_MANY_TILE;
        uint64_t sums = (uint64_t)grid[0] * grid[1] * grid[2] * tile;
        assert_true(launches[i].shared_bytes <= 99u << 10);
        assert_true(grid[2] == 1 || grid[0] * grid[1] <= GPU_PRODUCT_BLOCKS);
        assert_true(grid[2] == 1 || sums * sizeof(float) <= GPU_PARTIALS_BYTES);
        assert_true(product->rows > GPU_FEW_ROWS || i == 1 || grid[0] == 1);
    }
}

/* What a launch may use, at most: every number of outputs, every type, and a long row. */
static void test_a_launch_stays_within_its_memory(void **state)
{
    (void)state;
    for (uint32_t outputs = 1; outputs < 200000; outputs += 61) {
        for (uint32_t rows = 1; rows <= 2048; rows = rows * 2 + 1) {
            for (uint32_t type = GPU_F16; type <= GPU_Q6_K; type++) {
                check_launches(&(struct gpu_product_tiled){
                    .rows = rows, .outputs = outputs, .columns = 200000, .type = type});
            }
        }
    }
}

static const struct CMUnitTest tests[] = {
    RIG_TEST(test_product_sizes_and_types_equal_chain),
    RIG_TEST(test_product_of_levels_equals_chain),
    RIG_TEST(test_halves_equal_their_definition_in_any_number_of_rows),
    RIG_TEST(test_levels_equal_their_definition_in_any_number_of_rows),
    RIG_TEST(test_segments_are_added_in_order),
    RIG_TEST(test_segments_follow_from_the_shape_alone),
    RIG_TEST(test_a_step_that_has_ended_has_no_product),
    RIG_TEST(test_a_launch_stays_within_its_memory),
};

rig_main(tests)
