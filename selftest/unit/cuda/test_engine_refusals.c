/* SPDX-License-Identifier: MIT */
/*
 * Goal: an engine that could not keep its promise does not start: a GPU whose products sum rows in
 * different orders, weights that are others there, numbers that are not finite, shapes that no
 * launch can do. Method: the soft GPU is made to be so; errors must say what it is.
 */
#include "selftest/unit/cuda/engine_rig.h"

static void check_refused_start(enum gguf_type type, enum products products, const char *words)
{
    struct config_error error = {{0}};
    struct kernels_settings settings = rig_settings(KERNELS_PLAIN, 1);
    tiny_make(&tiny, type, false, 7);
    assert_status(STATUS_DEVICE_FAILED, gpu_start(&settings, products, &error));
    assert_non_null(strstr(error.text, words));
    assert_non_null(strstr(error.text, "different orders"));
    gpu_engine_stop(pair.gpu);
    gpu_stop();
    memset(&pair, 0, sizeof pair);
}

static void test_products_whose_rows_differ_are_refused(void **state)
{
    (void)state;
    static const enum gguf_type types[] = {GGUF_F16, GGUF_BF16, GGUF_F32, GGUF_Q8_0};
    skip_on_a_chip("its products are as they are");
    for (uint32_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i] != GGUF_Q8_0) {        /* which the library never sees */
            setenv("SOFTGPU_BLAS_SKEWED", "1", 1);
            check_refused_start(types[i], LIBRARY, "cuBLAS");
            unsetenv("SOFTGPU_BLAS_SKEWED");
        }
        setenv("SOFTGPU_MMA_SKEWED", "1", 1);
        if (types[i] != GGUF_F32) {         /* whose products are a chain */
            check_refused_start(types[i], OWN, "the engine's own products");
        }
        unsetenv("SOFTGPU_MMA_SKEWED");
    }
}

/* A bit of a copy is wrong, on the way there or on the way back. */
static void test_weights_that_are_others_there_are_refused(void **state)
{
    (void)state;
    skip_on_a_chip("the copies of a chip cannot be spoilt");
    struct kernels_settings settings = rig_settings(KERNELS_PLAIN, 1);
    memset(&pair, 0, sizeof pair);
    for (uint32_t copy = 1; copy <= 8; copy++) {
        tiny_make(&tiny, copy % 2 == 0 ? GGUF_F32 : GGUF_Q8_0, false, 7);
        struct config_error error = {{0}};
        char fault[16];
        snprintf(fault, sizeof fault, "corrupt:%u", (copy + 1) / 2);
        setenv("SOFTGPU_FAULTS", fault, 1);
        enum status status = gpu_start(&settings, OWN, &error);
        unsetenv("SOFTGPU_FAULTS");
        gpu_stop();
        assert_status(STATUS_DEVICE_FAILED, status);
        assert_non_null(strstr(error.text, "others there"));
    }
}

static void assert_refused(enum status status, const struct kernels_settings *settings,
                           const char *words)
{
    struct config_error error = {{0}};
    struct gpu_queue queue = {.shared_bytes_max = 227u << 10};
    const struct gpu_engine_parts parts = {settings, &tiny.gguf, &tiny.source, &queue, NULL,
                                           test_arena(), &pair.heartbeat, {NULL, NULL}};
    assert_status(status, gpu_engine_init(&pair.gpu, &parts, &error));
    assert_non_null(strstr(error.text, words));
}

static void test_what_no_launch_can_do_is_refused(void **state)
{
    (void)state;
    struct kernels_settings settings = rig_settings(KERNELS_PLAIN, 1);
    tiny_make(&tiny, GGUF_F32, false, 7);
    settings.step_tokens = 65536;
    assert_refused(STATUS_CONFIG_OPTION, &settings, "steps of 65536 tokens");
    tiny.gguf.shape.head_dim = GGUF_HEAD_DIM_MAX;
    assert_refused(STATUS_CONFIG_MODEL, &settings, "heads of 1024 channels");
    tiny_make(&tiny, GGUF_Q4_K, false, 7);
    tiny.gguf.shape.ffn_dim = 1u << 20;     /* columns of ffn_down */
    settings.step_tokens = 256;
    assert_refused(STATUS_CONFIG_MODEL, &settings, "blk.0.ffn_down.weight: rows of 1048576");
}

/* A scale of the last matrix of a layer is infinite. */
static void test_levels_whose_scale_is_not_finite_are_refused(void **state)
{
    (void)state;
    static const struct {
        enum gguf_type type;
        uint32_t at;                    /* of a scale in a block */
    } cases[] = {{GGUF_Q8_0, 0}, {GGUF_Q4_0, 0}, {GGUF_Q4_K, 2}, {GGUF_Q6_K, 208}};
    struct kernels_settings settings = rig_settings(KERNELS_PLAIN, 1);
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config_error error = {{0}};
        const uint16_t infinite = 0x7c00;
        tiny_make(&tiny, cases[i].type, false, 7);
        memset(&pair, 0, sizeof pair);
        const struct gguf_tensor *tensor = gguf_tensor_find(&tiny.gguf, "blk.1.ffn_down.weight");
        uint32_t block_bytes = gguf_type_block(cases[i].type).bytes;
        memcpy(tiny.bytes + tensor->offset + tensor->bytes - block_bytes + cases[i].at, &infinite,
               sizeof infinite);
        enum status status = gpu_start(&settings, OWN, &error);
        gpu_stop();
        assert_status(STATUS_CONFIG_MODEL, status);
        assert_non_null(strstr(error.text, "tensor blk.1.ffn_down.weight: a scale"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_whose_rows_differ_are_refused),
        cmocka_unit_test(test_weights_that_are_others_there_are_refused),
        cmocka_unit_test(test_levels_whose_scale_is_not_finite_are_refused),
        cmocka_unit_test(test_what_no_launch_can_do_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
