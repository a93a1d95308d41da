/* SPDX-License-Identifier: MIT */
/*
 * Goal: a product by cuBLAS with our order of rows is the right product, for every type and shape,
 * in our own workspace. A library that is missing or is no cuBLAS is refused by name. Method: the
 * soft GPU's cuBLAS, whose sums have one order, against a loop over rows: equal bits.
 */
#include "selftest/unit/cuda/rig.h"

#include <math.h>
#include <stdio.h>

#include "kernels/cuda/driver/blas.h"
#include "kernels/weights/format.h"
#include "kernels/half.h"

#define ELEMENTS_MAX 1024

static struct blas blas;
static struct config_error error;
static unsigned long long in, weights, out, workspace;
static float *in_values, *weights_values;       /* the elements as floats, pinned */
static float *out_values;
static uint8_t *elements;

static int setup(void **state)
{
    rig_setup(state);
    MUST(cuMemAlloc, &in, ELEMENTS_MAX * sizeof(float));
    MUST(cuMemAlloc, &weights, ELEMENTS_MAX * sizeof(float));
    MUST(cuMemAlloc, &out, ELEMENTS_MAX * sizeof(float));
    MUST(cuMemAlloc, &workspace, BLAS_WORKSPACE_BYTES);
    MUST(cuMemHostAlloc, (void **)&elements, ELEMENTS_MAX * sizeof(float), 0);
    MUST(cuMemHostAlloc, (void **)&out_values, ELEMENTS_MAX * sizeof(float), 0);
    in_values = calloc(ELEMENTS_MAX, sizeof(float));
    weights_values = calloc(ELEMENTS_MAX, sizeof(float));
    assert_status(STATUS_OK, blas_open(&blas, SOFTGPU, &error));
    return 0;
}

static int teardown(void **state)
{
    unsigned long long each[] = {in, weights, out, workspace};
    rig.faults("");
    rig.driver.cuCtxSynchronize();
    for (uint32_t i = 0; i < 4; i++) {
        rig.driver.cuMemFree(each[i]);
    }
    rig.driver.cuMemFreeHost(elements);
    rig.driver.cuMemFreeHost(out_values);
    free(in_values);
    free(weights_values);
    blas_close(&blas);
    return rig_teardown(state);
}

/* Values that halves of both kinds hold exactly, so that the loop reads the same elements. */
static void fill(unsigned long long to, float *values, uint32_t count, enum blas_type type,
                 uint32_t seed)
{
    for (uint32_t i = 0; i < count; i++) {
        seed = seed * 1664525 + 1013904223;
        values[i] = (float)((int)(seed >> 25) - 64) / 16;
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        uint16_t half = type == BLAS_F16 ? kernels_half_of(values[i]) : (uint16_t)(bits >> 16);
        if (type == BLAS_F32) {
            memcpy(elements + i * sizeof bits, &bits, sizeof bits);
        } else {
            memcpy(elements + i * sizeof half, &half, sizeof half);
        }
    }
    MUST(cuMemcpyHtoDAsync, to, elements, count * (type == BLAS_F32 ? 4 : 2), rig.streams[0]);
    MUST(cuStreamSynchronize, rig.streams[0]);
}

static void assert_product_is_right(enum blas_type type, uint32_t rows, uint32_t outputs,
                                    uint32_t columns)
{
    struct blas_product product = {out, in, weights, rows, outputs, columns, type};
    fill(in, in_values, rows * columns, type, 1);
    fill(weights, weights_values, outputs * columns, type, 2);
    assert_status(STATUS_OK, blas_product(&blas, &product));
    MUST(cuMemcpyDtoHAsync, out_values, out, rows * outputs * sizeof(float), rig.streams[0]);
    MUST(cuStreamSynchronize, rig.streams[0]);
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t o = 0; o < outputs; o++) {
            float sum = 0;
            for (uint32_t k = 0; k < columns; k++) {
                sum = fmaf(in_values[r * columns + k], weights_values[o * columns + k], sum);
            }
            assert_memory_equal(&sum, &out_values[r * outputs + o], sizeof sum);
        }
    }
}

static void test_a_product_is_rows_times_weights(void **state)
{
    static const enum blas_type types[] = {BLAS_F32, BLAS_F16, BLAS_BF16};
    static const uint32_t shapes[][3] = {{1, 1, 1}, {1, 7, 5}, {3, 4, 17}, {5, 2, 32}, {8, 8, 8}};
    assert_status(STATUS_OK, blas_start(&blas, rig.streams[0], workspace, &error));
    for (uint32_t t = 0; t < 3; t++) {
        for (uint32_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
            assert_product_is_right(types[t], shapes[s][0], shapes[s][1], shapes[s][2]);
        }
    }
}

static void test_a_workspace_that_is_not_the_devices_is_refused(void **state)
{
    assert_status(STATUS_DEVICE_FAILED,
                  blas_start(&blas, rig.streams[0], workspace + BLAS_WORKSPACE_BYTES / 2, &error));
    struct blas_product product = {out, in, weights, 1, 1, 1, BLAS_F32};
    assert_status(STATUS_DEVICE_FAILED, blas_product(&blas, &product));
}

static void test_a_product_that_is_not_launched_is_seen(void **state)
{
    struct blas_product product = {out, in, weights, 1, 1, 1, BLAS_F32};
    assert_status(STATUS_OK, blas_start(&blas, rig.streams[0], workspace, &error));
    rig.faults("launch:1");
    assert_status(STATUS_DEVICE_LAUNCH, blas_product(&blas, &product));
    assert_status(STATUS_OK, blas_product(&blas, &product));
    product.columns = ELEMENTS_MAX + 1;
    assert_status(STATUS_DEVICE_FAILED, blas_product(&blas, &product));
}

static void test_a_library_that_is_no_cublas_is_named(void **state)
{
    struct blas none;
    assert_status(STATUS_CONFIG_GPU_DRIVER, blas_open(&none, "libnone.so.13", &error));
    assert_non_null(strstr(error.text, "libnone.so.13"));
    assert_null(none.library);
    assert_status(STATUS_CONFIG_GPU_ENTRY, blas_open(&none, "libc.so.6", &error));
    assert_non_null(strstr(error.text, "libc.so.6: lacks cublasCreate_v2"));
    assert_null(none.library);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_product_is_rows_times_weights),
        TEST(test_a_workspace_that_is_not_the_devices_is_refused),
        TEST(test_a_product_that_is_not_launched_is_seen),
        TEST(test_a_library_that_is_no_cublas_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
