/* SPDX-License-Identifier: MIT */
/*
 * Goal: right products have no faults, on any CPU and in any slab. A wrong bit of one result is
 * found with row and output, and so is a kernel that errs on every CPU. Changed weights, about
 * which both twins agree, show in the digest.
 * Method: the tiny models; a matrix of several slabs; kernels that err on purpose.
 */
#include "kernels/threads.h"

/* One stack for each CPU of this machine. */
#define TEST_ARENA_BYTES ((16u << 20) + KERNELS_THREADS_MAX * KERNELS_STACK_BYTES)
#include "selftest/unit/test.h"

#include "selftest/post/product.h"
#include "selftest/unit/kernels/tiny_model.h"

static struct tiny tiny;
static struct kernels_weights *weights;

static struct post_burn *make_burn(enum gguf_type type, bool alone)
{
    struct arena *arena = test_arena();
    struct memory_plan plan = {.rows_count = 0};
    tiny_make(&tiny, type, false, 5);
    weights = tiny_weights(&tiny, arena);
    uint64_t before = arena->used_bytes;
    post_burn_plan_memory(&plan, &weights->shape, alone);
    struct post_burn *burn = post_burn_init(arena, &weights->shape, kernels_simd_best(), alone);
    assert_non_null(burn);
    assert_int_equal(arena->used_bytes - before, memory_plan_bytes(&plan, MEMORY_SELFTEST) +
                                                     memory_plan_bytes(&plan, MEMORY_ENGINE));
    burn->repeats = 2;
    return burn;
}

static uint64_t burn_all(struct post_burn *burn, struct post_faults *faults)
{
    struct post_tensor tensor;
    for (uint32_t i = 0; post_tensor_at(weights, i, &tensor); i++) {
        for (uint32_t s = 0; tensor.matrix != NULL && s < post_slabs_count(&tensor); s++) {
            post_burn_choose(burn, &tensor, s);
            post_burn_run(burn, faults);
        }
    }
    return burn->digest;
}

static void test_twins_agree_on_every_cpu(void **state)
{
    (void)state;
    static const enum gguf_type types[] = {GGUF_F32, GGUF_F16, GGUF_Q8_0};
    uint64_t digests[2];
    for (uint32_t i = 0; i < 6; i++) {
        struct post_burn *burn = make_burn(types[i / 2], i % 2);
        struct post_faults faults = {.count = 0};
        digests[i % 2] = burn_all(burn, &faults);
        assert_int_equal(faults.count, 0);
        assert_true(i % 2 == 0 || digests[0] == digests[1]);    /* also on one thread */
        kernels_threads_stop(&burn->threads);
    }
}

static void test_weights_that_differ_show_in_the_digest(void **state)
{
    (void)state;
    struct post_burn *burn = make_burn(GGUF_F32, true);
    struct post_faults faults = {.count = 0};
    uint64_t before = burn_all(burn, &faults);
    burn = make_burn(GGUF_F32, true);
    weights->layers[1].ffn_down.panels[3] ^= 0x40;      /* of an exponent */
    assert_true(burn_all(burn, &faults) != before);
    assert_int_equal(faults.count, 0);
}

static void test_flip_in_a_result_is_found(void **state)
{
    (void)state;
    struct post_burn *burn = make_burn(GGUF_F32, true);
    struct post_tensor tensor = {.matrix = &weights->output, .name = "output.weight"};
    post_burn_choose(burn, &tensor, 0);
    for (uint32_t i = 0; i < POST_SLAB_ROWS * weights->output.outputs; i++) {
        struct post_faults faults = {.count = 0};
        char where[64];
        uint32_t row = i % POST_SLAB_ROWS, output = i / POST_SLAB_ROWS;
        post_burn_compute(burn, &burn->results[0], POST_SLAB_ROWS);
        uint32_t *y = (uint32_t *)(void *)(burn->results[0].y + row * burn->y_stride) + output;
        *y ^= UINT32_C(1) << i % 32;
        post_burn_compare(burn, &burn->results[0], POST_SLAB_ROWS, 9, &faults);
        assert_int_equal(faults.count, 1);
        assert_int_equal(post_fault_bit(&faults.kept[0]), i % 32 + (output % 2) * 32);
        snprintf(where, sizeof where, "output.weight, row %u, output %u, CPU 9", row, output);
        assert_string_equal(faults.kept[0].where, where);
    }
}

static void product_that_errs(const struct kernels_product *product)
{
    kernels_ops_plain.product(product);
    product->y[1] += 1;
}

static void test_kernel_that_errs_is_found_on_every_cpu(void **state)
{
    (void)state;
    static struct kernels_ops ops;
    for (uint32_t alone = 0; alone < 2; alone++) {      /* one thread goes round all CPUs */
        struct post_burn *burn = make_burn(GGUF_F32, alone);
        struct post_faults faults = {.count = 0};
        struct post_tensor tensor = {.matrix = &weights->output, .name = "output.weight"};
        ops = kernels_ops_plain;
        ops.product = product_that_errs;
        burn->ops = &ops;
        post_burn_choose(burn, &tensor, 0);
        post_burn_run(burn, &faults);
        assert_int_equal(faults.count, burn->cpus.count * burn->repeats);
        kernels_threads_stop(&burn->threads);
    }
}

/* 70 panels: one whole slab, and one of six panels that begins at output 1024. */
static void test_slabs_cover_a_matrix(void **state)
{
    (void)state;
    enum { OUTPUTS = 1111, COLUMNS = 40 };
    static _Alignas(ARENA_ALIGN_BYTES) float panels[1120 * COLUMNS];
    struct post_burn *burn = make_burn(GGUF_F32, true);
    struct post_faults faults = {.count = 0};
    struct kernels_matrix matrix;
    kernels_matrix_init(&matrix, GGUF_F32, OUTPUTS, COLUMNS, panels);
    struct post_tensor tensor = {.matrix = &matrix, .name = "wide", .columns = COLUMNS};
    assert_int_equal(post_slabs_count(&tensor), 2);
    post_burn_choose(burn, &tensor, 1);
    assert_int_equal(burn->slab.first, 1024);
    assert_int_equal(burn->slab.matrix.panels_count, 6);
    assert_ptr_equal(burn->slab.matrix.panels, panels + 1024 * COLUMNS);
    post_burn_run(burn, &faults);
    assert_int_equal(faults.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_twins_agree_on_every_cpu),
        cmocka_unit_test(test_weights_that_differ_show_in_the_digest),
        cmocka_unit_test(test_flip_in_a_result_is_found),
        cmocka_unit_test(test_kernel_that_errs_is_found_on_every_cpu),
        cmocka_unit_test(test_slabs_cover_a_matrix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
