/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the CPU engine, and the GPU engine on the soft GPU, with one small model and one record for
 * both.
 */
#define TEST_ARENA_BYTES (64u << 20)
#include "selftest/unit/test.h"

#include <dlfcn.h>

#include "kernels/cuda/engine_state.h"
#include "kernels/cuda/plan.h"
#include "selftest/unit/cuda/chip.h"
#include "selftest/unit/kernels/tiny_model.h"

static struct tiny tiny;
static const uint32_t prompt[] = TINY_PROMPT;
#define PROMPT_TOKENS (sizeof prompt / sizeof prompt[0])
#define DECODED 8
#define STEP_TOKENS 300         /* more than the library gets in one product */

enum products { OWN, LIBRARY, PRODUCTS };

static struct pair {
    struct rig cpu;
    struct driver driver;
    struct device device;
    struct blas blas;
    struct gpu_queue queue;
    struct gpu_engine *gpu;
    uint64_t heartbeat;
    uint32_t told;                      /* times that a round was told */
} pair;

/* What is published of row 0 is never more than the rounds have brought, and they grow. */
static inline void pair_tell_round(void *unused)
{
    uint32_t rounds = *step_rounds(&pair.cpu.step);
    (void)unused;
    assert_true(rounds > 0);
    assert_true(step_out_published(step_out(&pair.cpu.step, 0)) <=
                rounds * (1 + step_row(&pair.cpu.step, 0)->drafts));
    pair.told++;
}

/* Opens everything that the engine needs; returns the status of the engine's start. */
static inline enum status gpu_start(const struct kernels_settings *settings, enum products products,
                                    struct config_error *error)
{
    static struct arena arena;
    struct memory_plan plan = {0};
    gpu_weights_plan_memory(&plan, &tiny.gguf);
    gpu_plan_memory(&plan, settings, &tiny.gguf.shape);
    uint64_t bytes = memory_plan_bytes(&plan, MEMORY_DEVICE);
    assert_status(STATUS_OK, arena_map(&arena, memory_plan_bytes(&plan, MEMORY_ENGINE), false));
    assert_status(STATUS_OK, driver_open(&pair.driver, chip_library_or(SOFTGPU),
                                         DRIVER_VERSION_MIN, error));
    assert_status(STATUS_OK, device_open(&pair.device, &pair.driver, 0, error));
    if (products == LIBRARY) {
        const char *library = chip_cublas_or(SOFTGPU);
        if (strcmp(library, BLAS_NONE) == 0) {
            print_message("skipped: no cuBLAS here\n");
            skip();
        }
        assert_status(STATUS_OK, blas_open(&pair.blas, library, error));
    }
    assert_status(STATUS_OK, gpu_open(&pair.queue, &pair.driver, &pair.device, error));
    assert_status(STATUS_OK, gpu_reserve(&pair.queue, bytes, error));
    const struct gpu_engine_parts parts = {
        settings, &tiny.gguf, &tiny.source, &pair.queue, products == LIBRARY ? &pair.blas : NULL,
        &arena, &pair.heartbeat, {pair_tell_round, NULL}};
    enum status status = gpu_engine_init(&pair.gpu, &parts, error);
    if (status == STATUS_OK) {
        assert_int_equal(pair.queue.used_bytes, bytes);     /* as planned, on both sides */
        assert_int_equal(arena.used_bytes, arena.size_bytes);
    }
    return status;
}

static inline struct kernels_settings pair_settings(bool halves)
{
    struct kernels_settings settings = rig_settings(kernels_simd_best(), 1);
    settings.kv_type = halves ? KERNELS_KV_F16 : KERNELS_KV_F32;
    settings.step_tokens = STEP_TOKENS;
    return settings;
}

static inline void pair_start_as(const struct kernels_settings *settings, enum products products)
{
    struct arena *arena = test_arena();
    struct config_error error = {{0}};
    memset(&pair, 0, sizeof pair);
    rig_start(&pair.cpu, settings, tiny_weights(&tiny, arena), arena);
    assert_status(STATUS_OK, gpu_start(settings, products, &error));
}

static inline void pair_start(bool halves, enum products products)
{
    const struct kernels_settings settings = pair_settings(halves);
    pair_start_as(&settings, products);
}

/* Stops everything but the engine, which may not have started. */
static inline void gpu_stop(void)
{
    gpu_close(&pair.queue);
    blas_close(&pair.blas);
    pair.driver.cuCtxSetCurrent(NULL);
    pair.driver.cuDevicePrimaryCtxRelease(0);
    driver_close(&pair.driver);
}

static inline void pair_stop(void)
{
    if (pair.cpu.kernels != NULL) {
        kernels_stop(pair.cpu.kernels);
    }
    gpu_engine_stop(pair.gpu);
    gpu_stop();
    memset(&pair, 0, sizeof pair);
}

/* After a failed test: the next one opens the device again. */
static inline int clean_up(void **state)
{
    (void)state;
    unsetenv("SOFTGPU_FIRST");
    unsetenv("SOFTGPU_BLAS_SKEWED");
    unsetenv("SOFTGPU_MMA_SKEWED");
    if (pair.gpu != NULL) {
        pair_stop();
    }
    return 0;
}

static inline void run_gpu(void)
{
    assert_status(STATUS_OK, gpu_engine_run(pair.gpu, &pair.cpu.step));
}

static inline void skip_on_a_chip(const char *why)
{
    if (chip_library() != NULL) {
        print_message("skipped: %s\n", why);
        skip();
    }
}

/* Reads from the device, or writes to it, through the engine's staging buffer. */
static inline const void *device_read(uint64_t from, uint64_t bytes)
{
    gpu_download(&pair.queue, pair.gpu->staging, from, bytes);
    assert_status(STATUS_OK, gpu_wait(&pair.queue));
    return pair.gpu->staging;
}

static inline void device_write(uint64_t to, const void *from, uint64_t bytes)
{
    memcpy(pair.gpu->staging, from, bytes);
    gpu_upload(&pair.queue, to, pair.gpu->staging, bytes);
    assert_status(STATUS_OK, gpu_wait(&pair.queue));
}

/* Launches that a step of the record takes. */
static inline uint64_t launches_of_step(void)
{
    uint64_t (*launches)(void) = NULL;
    *(void **)&launches = dlsym(pair.driver.library, "softgpu_launches");
    assert_non_null(launches);
    uint64_t before = launches();
    run_gpu();
    return launches() - before;
}

/* Faults from now on; see selftest/fake/softgpu/softgpu.h. */
static inline void set_faults(const char *text)
{
    void (*faults)(const char *) = NULL;
    *(void **)&faults = dlsym(pair.driver.library, "softgpu_faults");
    assert_non_null(faults);
    faults(text);
}

/* Which stream runs ahead: 1 the queue, 2 out, 3 in; 0: none. */
static inline void set_first(uint32_t first)
{
    setenv("SOFTGPU_FIRST", (const char[]){(char)('0' + first), '\0'}, 1);
}

static inline struct step_row *add_row(uint32_t offset, uint32_t count, uint32_t position,
                                       uint32_t decode_steps, uint32_t block)
{
    struct step_row *row = rig_row(&pair.cpu, prompt + offset, count, position, decode_steps);
    rig_blocks(&pair.cpu, step_header(&pair.cpu.step)->rows_count - 1, block, 1);
    return row;
}

static inline void add_move(uint32_t from, uint32_t to)
{
    struct step_header *header = step_header(&pair.cpu.step);
    step_moves(&pair.cpu.step)[header->moves_count++] = (struct step_move){from, to};
}
