/* SPDX-License-Identifier: MIT
 *
 * Goal: the portable product gives the bits of the CPU engine's definition (kernels/ops.h, weights
 * that are floats), for every type and size, and each row gets them alone.
 * Method: sizes around the edges of tiles, strides with gaps, against one chain of fmaf.
 */
#include "selftest/unit/cuda/gpu_rig.h"

#include "kernels/cuda/device/number.h"

struct size {
    uint32_t rows, outputs, columns;
};

static void *numbers_make(uint32_t type, uint64_t count)
{
    uint64_t bytes = type == GPU_F32 ? count * 4 : type == GPU_Q8_0 ? count / 32 * 34 : count * 2;
    uint8_t *at = rig_take(bytes);
    for (uint64_t i = 0; i < count && type != GPU_Q8_0; i++) {
        gpu_store(at, type, i, rig_number());
    }
    for (uint64_t i = 0; i < bytes && type == GPU_Q8_0; i++) {
        at[i] = i % 34 == 1 ? 0x20 : (uint8_t)rig_random(256);
    }
    return at;
}

static void check_product(struct size size, uint32_t x_type, uint32_t w_type)
{
    uint64_t x_stride = size.columns + 5, y_stride = size.outputs + 3;
    void *x = numbers_make(x_type, (size.rows - 1) * x_stride + size.columns);
    void *w = numbers_make(w_type, (uint64_t)size.outputs * size.columns);
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
            sum = fmaf(gpu_load(x, x_type, row * x_stride + c),
                       gpu_load(w, w_type, (uint64_t)output * size.columns + c), sum);
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
        check_product(sizes[i], GPU_F32, GPU_F32);
        check_product(sizes[i], GPU_F16, GPU_F16);
        check_product(sizes[i], GPU_BF16, GPU_BF16);
    }
    check_product((struct size){5, 19, 96}, GPU_F32, GPU_Q8_0);
}

static const struct CMUnitTest tests[] = {
    RIG_TEST(test_product_sizes_and_types_equal_chain),
};

rig_main(tests)
