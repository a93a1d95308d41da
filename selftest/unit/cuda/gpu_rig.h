/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a GPU for unit tests: buffers that end at a page without access rights, launches by name,
 * random numbers, and the sums of kernels/cuda/device/reduce.h as plain C.
 *
 * Every test runs twice, the second time with thread blocks and CUDA threads in descending order
 * (rig_main): a kernel whose result depends on the order gives other bits in one of the runs. On a
 * chip (chip.h) a test runs once, because the order is unknown.
 */
#include "selftest/unit/test.h"

#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/cuda/device/host.h"
#include "kernels/cuda/device/kernels.h"
#include "selftest/unit/cuda/chip.h"

/* ---- memory ---- */

#define RIG_BUFFERS_MAX 256
static struct {
    void *pages;
    uint64_t bytes;
} rig_buffers[RIG_BUFFERS_MAX];
static uint32_t rig_buffers_count;

/* Device memory, 0xff bytes (floats: NaN); the test's teardown takes it back. */
static inline void *rig_take(uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    uint8_t *at = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                       -1, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    assert_int_equal(mprotect(at + whole, page, PROT_NONE), 0);
    assert_true(rig_buffers_count < RIG_BUFFERS_MAX);
    if (chip_library() != NULL) {
        chip_pin(at, whole);
    }
    rig_buffers[rig_buffers_count].pages = at;
    rig_buffers[rig_buffers_count++].bytes = whole + page;
    return memset(at + whole - bytes, 0xff, bytes);
}

static inline void *rig_copy(const void *from, uint64_t bytes)
{
    return memcpy(rig_take(bytes), from, bytes);
}

static inline int rig_teardown(void **state)
{
    (void)state;
    while (rig_buffers_count > 0) {
        rig_buffers_count--;
        if (chip_library() != NULL) {
            chip_unpin(rig_buffers[rig_buffers_count].pages);
        }
        munmap(rig_buffers[rig_buffers_count].pages, rig_buffers[rig_buffers_count].bytes);
    }
    return 0;
}

static inline uint64_t rig_address(const void *at)
{
    return (uint64_t)(uintptr_t)at;
}

/* ---- random numbers ---- */

static uint64_t rig_state;

static inline uint32_t rig_random(uint32_t below)
{
    rig_state = rig_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(rig_state >> 33) % below;
}

/* Uniform in [-1, 1). */
static inline float rig_number(void)
{
    return (float)rig_random(1u << 24) / 8388608.0f - 1.0f;
}

static inline float *rig_floats(uint64_t count)
{
    float *at = rig_take(count * sizeof *at);
    for (uint64_t i = 0; i < count; i++) {
        at[i] = rig_number();
    }
    return at;
}

static inline int rig_setup(void **state)
{
    (void)state;
    rig_state = 1;
    return 0;
}

/* ---- launches ---- */

static inline bool rig_launch(const char *name, enum gpu_kernel kernel,
                              const struct gpu_launch *launch, const void *args)
{
    return chip_library() != NULL ? chip_launch(kernel, launch, args)
                                  : gpu_host_launch(name, launch->grid, launch->block,
                                                    launch->shared_bytes, args);
}

#define RIG_LAUNCH(name, args)                                                        \
    do {                                                                              \
        struct gpu_launch launch_ = gpu_##name##_launch(args);                        \
        assert_true(rig_launch(#name, GPU_KERNEL_##name, &launch_, args));            \
    } while (0)

#define RIG_TEST(test) cmocka_unit_test_setup_teardown(test, rig_setup, rig_teardown)

#define rig_main(tests)                                                               \
    int main(void)                                                                    \
    {                                                                                 \
        int failed = cmocka_run_group_tests(tests, NULL, NULL);                       \
        if (chip_library() != NULL) {                                                 \
            return failed;                                                            \
        }                                                                             \
        gpu_host_reverse(true);                                                       \
        return failed + cmocka_run_group_tests(tests, NULL, NULL);                    \
    }

/* ---- twins ---- */

/* gpu_warp_sum() of 32 values. */
static inline float rig_warp_sum(const float *values)
{
    float lanes[32];
    memcpy(lanes, values, sizeof lanes);
    for (uint32_t half = 16; half > 0; half /= 2) {
        for (uint32_t lane = 0; lane < half; lane++) {
            lanes[lane] += lanes[lane + half];
        }
    }
    return lanes[0];
}

/* gpu_thread_block_sum() of the squares of x, thread i % threads. */
static inline float rig_squares(const float *x, uint32_t count, uint32_t threads)
{
    float lanes[1024] = {0}, sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        lanes[i % threads] = fmaf(x[i], x[i], lanes[i % threads]);
    }
    for (uint32_t warp = 0; warp < threads / 32; warp++) {
        sum += rig_warp_sum(lanes + 32 * warp);
    }
    return sum;
}
