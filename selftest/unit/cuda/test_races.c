/* SPDX-License-Identifier: MIT
 *
 * Goal: a kernel with a race or a misaligned access fails its launch, whatever the order in which
 * the CUDA threads run, and the report is of the two that race; a right one passes. Method: small
 * kernels, each with one fault or none. This file is compiled as the raced kernels are.
 */
#include "selftest/unit/cuda/gpu_rig.h"

#include "kernels/cuda/device/gpu.h"
#include "selftest/fake/races/races.h"

#define THREADS 64u
#define BLOCKS  3u

struct scene {
    uint32_t *out;              /* (THREADS of each thread block) */
};

static uint32_t *shared_words(void)
{
    return (uint32_t *)(void *)gpu_shared;
}

static uint32_t *out_words(const void *args)
{
    return ((const struct scene *)args)->out + blockIdx.x * THREADS;
}

/* ---- kernels that are wrong ---- */

/* Every CUDA thread reads what one of the other warp has written. */
static void run_warps(const void *args)
{
    uint32_t *words = shared_words();
    words[threadIdx.x] = threadIdx.x;
    __syncwarp();
    out_words(args)[threadIdx.x] = words[threadIdx.x ^ GPU_WARP];
}

/* Lane 0 writes what the others have read before an exchange, which orders no memory. */
static void run_lanes_read(const void *args)
{
    uint32_t *words = shared_words() + threadIdx.x / GPU_WARP;
    uint32_t *out = out_words(args);
    if (threadIdx.x % GPU_WARP == 0) {
        *words = 1;
    }
    __syncthreads();
    out[threadIdx.x] = *words;
    out[threadIdx.x] += __shfl_xor_sync(GPU_WARP_ALL, out[threadIdx.x], 1u);
    if (threadIdx.x % GPU_WARP == 0) {
        *words = 2;
    }
}

static void run_lanes_write(const void *args)
{
    (void)args;
    shared_words()[threadIdx.x / GPU_WARP] = threadIdx.x;
}

/* The barrier of one warp orders nothing with another warp. */
static void run_late(const void *args)
{
    (void)args;
    if (threadIdx.x == 5) {
        shared_words()[0] = 5;
    }
    __syncwarp();
    if (threadIdx.x == 40) {
        shared_words()[0] = 40;
    }
}

static void run_global(const void *args)
{
    out_words(args)[threadIdx.x / 2] = threadIdx.x;
}

static void run_adds_and_reads(const void *args)
{
    atomicAdd(&out_words(args)[0], 1u);
    if (threadIdx.x == 9) {
        out_words(args)[1] = out_words(args)[0];
    }
}

/* One byte of a neighbour's word. */
static void run_byte(const void *args)
{
    uint8_t *bytes = (uint8_t *)out_words(args);
    out_words(args)[threadIdx.x] = 0;
    if (threadIdx.x == 33) {
        bytes[4 * 34 + 3] = 1;
    }
}

static void run_thread_blocks_write(const void *args)
{
    if (threadIdx.x == 0) {
        ((const struct scene *)args)->out[0] = blockIdx.x;
    }
}

/* The middle thread block writes what all read, itself too. */
static void run_thread_blocks_read(const void *args)
{
    uint32_t *word = ((const struct scene *)args)->out;
    uint32_t value = *(volatile uint32_t *)word;
    __syncthreads();
    if (blockIdx.x == 1 && threadIdx.x == 0) {
        *word = value + 1;
    }
}

static void run_misaligned(const void *args)
{
    uintptr_t past = (uintptr_t)out_words(args) / sizeof(uint64_t) * sizeof(uint64_t) + 12;
    if (threadIdx.x == 7) {
        *(uint64_t *)past = 1;
    }
}

static void run_misaligned_shared(const void *args)
{
    out_words(args)[threadIdx.x] = *(const uint16_t *)(const void *)(gpu_shared + 1);
}

/* ---- kernels that are right ---- */

static void run_orders(const void *args)
{
    uint32_t *words = shared_words(), *out = out_words(args);
    words[threadIdx.x] = threadIdx.x;
    __syncwarp();
    uint32_t sum = words[threadIdx.x ^ 1];
    __syncthreads();
    sum += words[threadIdx.x ^ GPU_WARP];
    __syncthreads();
    words[threadIdx.x ^ GPU_WARP] = sum;
    __syncwarp();
    out[threadIdx.x ^ GPU_WARP] = sum;
    __syncwarp();
    out[threadIdx.x ^ GPU_WARP ^ 1] += 1;
}

static void run_adds(const void *args)
{
    uint32_t local[2] = {threadIdx.x, blockIdx.x};
    volatile uint32_t *own = local;     /* on the stack that the next thread block has, too */
    own[0] += own[1];
    atomicAdd(&((const struct scene *)args)->out[0], own[0]);
    __syncthreads();
    atomicAdd(&((const struct scene *)args)->out[0], own[1]);
}

/* Each thread block has shared memory of its own, and all may read the same. */
static void run_thread_blocks(const void *args)
{
    shared_words()[threadIdx.x] = blockIdx.x;
    out_words(args)[threadIdx.x] = shared_words()[threadIdx.x];
    out_words(args)[threadIdx.x] += ((const struct scene *)args)->out[BLOCKS * THREADS];
}

/* The thread block that comes last adds up what all have written. */
static void last_adds_up(const void *args, bool fences)
{
    uint32_t *out = ((const struct scene *)args)->out;
    uint32_t *is_last = shared_words();
    if (threadIdx.x == 0) {
        out[1 + blockIdx.x] = blockIdx.x;
        if (fences) {
            __threadfence();
        }
        *is_last = atomicAdd(&out[0], 1u) == BLOCKS - 1;
        if (fences) {
            __threadfence();
        }
    }
    __syncthreads();
    if (*is_last && threadIdx.x == 0) {
        for (uint32_t i = 0; i < BLOCKS; i++) {
            out[1] += i > 0 ? out[1 + i] : 0;
        }
    }
}

static void run_last_adds_up(const void *args)
{
    last_adds_up(args, true);
}

static void run_last_adds_up_unfenced(const void *args)
{
    last_adds_up(args, false);
}

/* ---- tests ---- */

static const struct race *run(void (*kernel)(const void *), bool reverse)
{
    const struct gpu_host_kernel entry = {"planted", sizeof(struct scene), kernel};
    const uint32_t grid[3] = {BLOCKS, 1, 1}, block[3] = {THREADS, 1, 1};
    struct scene scene = {rig_take((BLOCKS * THREADS + 1) * sizeof *scene.out)};
    scene.out[0] = 0;
    gpu_host_reverse(reverse);
    bool ran = gpu_host_run(&entry, grid, block, THREADS * sizeof(uint32_t), &scene);
    assert_int_equal(ran, races_found()->kind == RACE_NONE);
    return races_found();
}

static void check(void (*kernel)(const void *), enum race_kind kind, bool is_shared)
{
    for (uint32_t reverse = 0; reverse < 2; reverse++) {
        const struct race *race = run(kernel, reverse != 0);
        assert_int_equal(race->kind, kind);
        if (kind != RACE_NONE) {
            assert_int_equal(race->now.is_shared, is_shared);
            assert_true(race->now.site != 0);
        }
    }
}

static void test_run_wrong_kernel_fails(void **state)
{
    (void)state;
    check(run_warps, RACE_OF_WARPS, true);
    check(run_lanes_read, RACE_OF_LANES, true);
    check(run_lanes_write, RACE_OF_LANES, true);
    check(run_late, RACE_OF_WARPS, true);
    check(run_global, RACE_OF_LANES, false);
    check(run_byte, RACE_OF_LANES, false);
    check(run_thread_blocks_write, RACE_OF_THREAD_BLOCKS, false);
    check(run_thread_blocks_read, RACE_OF_THREAD_BLOCKS, false);
    check(run_last_adds_up_unfenced, RACE_OF_THREAD_BLOCKS, false);
    check(run_misaligned, MISALIGNED, false);
    check(run_misaligned_shared, MISALIGNED, true);
}

static void test_run_addition_beside_a_read_fails(void **state)
{
    (void)state;
    assert_true(run(run_adds_and_reads, false)->kind != RACE_NONE);
    assert_true(run(run_adds_and_reads, true)->kind != RACE_NONE);
}

static void test_run_right_kernel_passes(void **state)
{
    (void)state;
    check(run_orders, RACE_NONE, false);
    check(run_adds, RACE_NONE, false);
    check(run_thread_blocks, RACE_NONE, false);
    check(run_last_adds_up, RACE_NONE, false);
}

/* Whatever a launch has found, the next one is judged anew. */
static void test_report_is_of_the_two_that_race(void **state)
{
    (void)state;
    const struct race *race = run(run_late, false);
    assert_int_equal(race->now.thread, 40);
    assert_int_equal(race->other.thread, 5);
    assert_int_equal(race->now.access, SHADOW_WRITE);
    assert_int_equal(race->other.access, SHADOW_WRITE);
    assert_int_equal(race->now.bytes, 4);
    assert_true(race->now.site != race->other.site && race->other.site != 0);
    assert_int_equal(run(run_orders, false)->kind, RACE_NONE);
    assert_int_equal(run(run_misaligned, false)->now.thread, 7);
}

static const struct CMUnitTest tests[] = {
    RIG_TEST(test_run_wrong_kernel_fails),
    RIG_TEST(test_run_addition_beside_a_read_fails),
    RIG_TEST(test_run_right_kernel_passes),
    RIG_TEST(test_report_is_of_the_two_that_race),
};

rig_main(tests)
