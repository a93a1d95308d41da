/* SPDX-License-Identifier: MIT
 *
 * Goal: the soft GPU runs kernels as CUDA defines them, and reports what CUDA leaves undefined:
 * CUDA threads that diverge at a barrier, results that depend on the order. Method: small kernels,
 * right and wrong ones.
 */
#include "selftest/unit/cuda/gpu_rig.h"

#include <pthread.h>

#include "kernels/cuda/device/reduce.h"

#define LAUNCHES 2000

struct scene {
    uint32_t *out;              /* (threads of the grid) */
};

static void run_where(const void *args)
{
    const struct scene *scene = args;
    uint32_t block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    scene->out[block * blockDim.x + threadIdx.x] += block << 16 | threadIdx.x;
}

/* CUDA thread t writes, its neighbour at the far end of the thread block reads. */
static void neighbours(const void *args, bool waits)
{
    const struct scene *scene = args;
    uint32_t *shared = (uint32_t *)(void *)gpu_shared;
    shared[threadIdx.x] = threadIdx.x * 3;
    if (waits) {
        __syncthreads();
    }
    scene->out[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

static void run_waiting(const void *args)
{
    neighbours(args, true);
}

static void run_with_early_stop(const void *args)
{
    neighbours(args, false);
}

/* Two exchanges, one right after the other. */
static void run_exchange(const void *args)
{
    const struct scene *scene = args;
    uint32_t value = threadIdx.x;
    value = value * 100 + __shfl_xor_sync(GPU_WARP_ALL, value, 5u);
    value = value + __shfl_xor_sync(GPU_WARP_ALL, value, 16u);
    scene->out[threadIdx.x] = value;
}

/* The other warp does not wait. */
static void run_warp_barrier(const void *args)
{
    const struct scene *scene = args;
    uint32_t *shared = (uint32_t *)(void *)gpu_shared;
    shared[threadIdx.x] = threadIdx.x * 5;
    if (threadIdx.x < GPU_WARP) {
        __syncwarp();
    }
    scene->out[threadIdx.x] = threadIdx.x < GPU_WARP ? shared[GPU_WARP - 1 - threadIdx.x] : 0;
}

static void run_leaves(const void *args)
{
    if (threadIdx.x != 40) {
        __syncthreads();
    }
}

static void run_leaves_warp(const void *args)
{
    if (threadIdx.x != 40) {
        (void)__shfl_xor_sync(GPU_WARP_ALL, 1.0f, 1u);
    }
}

/* A barrier of the warp is no exchange. */
static void run_parts_warp(const void *args)
{
    if (threadIdx.x % 2 == 0) {
        __syncwarp();
    } else {
        (void)__shfl_xor_sync(GPU_WARP_ALL, 1.0f, 1u);
    }
}

static void run_parts(const void *args)
{
    if (threadIdx.x < 32) {
        __syncthreads();
    } else {
        __syncthreads();
    }
}

static void run_sum(const void *args)
{
    const struct scene *scene = args;
    float sum = gpu_thread_block_sum((float)threadIdx.x * 0x1p-3f, (float *)(void *)gpu_shared);
    scene->out[threadIdx.x] = (uint32_t)(sum * 8);
}

static bool run(void (*kernel)(const void *), struct scene *scene, uint32_t threads)
{
    const struct gpu_host_kernel entry = {"planted", sizeof *scene, kernel};
    const uint32_t grid[3] = {1, 1, 1}, block[3] = {threads, 1, 1};
    scene->out = rig_take(threads * sizeof *scene->out);
    return gpu_host_run(&entry, grid, block, threads * sizeof(uint32_t), scene);
}

static void test_run_grid_every_thread_once(void **state)
{
    (void)state;
    const struct gpu_host_kernel kernel = {"where", sizeof(struct scene), run_where};
    const uint32_t grid[3] = {3, 4, 2}, block[3] = {64, 1, 1};
    struct scene scene = {rig_take(24 * 64 * sizeof *scene.out)};
    memset(scene.out, 0, 24 * 64 * sizeof *scene.out);
    assert_true(gpu_host_run(&kernel, grid, block, 0, &scene));
    for (uint32_t i = 0; i < 24 * 64; i++) {
        assert_int_equal(scene.out[i], i / 64 << 16 | i % 64);
    }
}

static void test_run_barrier_all_see_all(void **state)
{
    (void)state;
    struct scene scene;
    assert_true(run(run_waiting, &scene, 96));
    for (uint32_t i = 0; i < 96; i++) {
        assert_int_equal(scene.out[i], (95 - i) * 3);
    }
}

/* As the threads of two streams do. */
static void *launch_often(void *argument)
{
    const struct gpu_host_kernel kernel = {"waiting", sizeof(struct scene), run_waiting};
    const uint32_t grid[3] = {1, 1, 1}, block[3] = {96, 1, 1};
    const struct scene *scene = argument;
    uintptr_t wrong = 0;
    for (uint32_t i = 0; i < LAUNCHES; i++) {
        memset(scene->out, 0, 96 * sizeof *scene->out);
        wrong += !gpu_host_run(&kernel, grid, block, 96 * sizeof(uint32_t), scene) ||
                 scene->out[0] != 95 * 3 || scene->out[95] != 0;
    }
    return (void *)wrong;
}

static void test_run_by_two_threads_one_after_the_other(void **state)
{
    (void)state;
    struct scene scenes[2] = {{rig_take(96 * sizeof(uint32_t))}, {rig_take(96 * sizeof(uint32_t))}};
    pthread_t other;
    void *wrong = NULL;
    assert_int_equal(pthread_create(&other, NULL, launch_often, &scenes[1]), 0);
    assert_null(launch_often(&scenes[0]));
    assert_int_equal(pthread_join(other, &wrong), 0);
    assert_null(wrong);
}

/* Without the barrier a CUDA thread reads a word that is not written yet: the pattern. */
static void test_run_without_barrier_bits_differ(void **state)
{
    (void)state;
    struct scene scene;
    uint32_t wrong = 0;
    assert_true(run(run_with_early_stop, &scene, 96));
    for (uint32_t i = 0; i < 96; i++) {
        wrong += scene.out[i] == UINT32_MAX;
    }
    assert_int_equal(wrong, 48);
}

static void test_run_exchange_lanes_swap(void **state)
{
    (void)state;
    struct scene scene;
    assert_true(run(run_exchange, &scene, 64));
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t far = i ^ 16;
        assert_int_equal(scene.out[i], i * 100 + (i ^ 5) + far * 100 + (far ^ 5));
    }
}

static void test_run_warp_barrier_its_lanes_see_all(void **state)
{
    (void)state;
    struct scene scene;
    assert_true(run(run_warp_barrier, &scene, 64));
    for (uint32_t i = 0; i < 64; i++) {
        assert_int_equal(scene.out[i], i < 32 ? (31 - i) * 5 : 0);
    }
}

static void test_run_sum_all_threads_get_it(void **state)
{
    (void)state;
    struct scene scene;
    assert_true(run(run_sum, &scene, 256));
    for (uint32_t i = 0; i < 256; i++) {
        assert_int_equal(scene.out[i], 255 * 128);
    }
}

static void test_run_parted_threads_fail(void **state)
{
    (void)state;
    struct scene scene;
    assert_false(run(run_leaves, &scene, 64));
    assert_false(run(run_leaves_warp, &scene, 64));
    assert_false(run(run_parts, &scene, 64));
    assert_false(run(run_parts_warp, &scene, 64));
    assert_true(run(run_waiting, &scene, 64));      /* and the next launch runs */
}

static void test_run_wrong_geometry_fails(void **state)
{
    (void)state;
    const struct gpu_host_kernel kernel = {"where", sizeof(struct scene), run_where};
    const uint32_t good[3] = {1, 1, 1};
    const uint32_t grids[][3] = {{0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {1, 1 << 16, 1}, {1, 1, 1 << 16}};
    const uint32_t blocks[][3] = {{0, 1, 1}, {31, 1, 1}, {1056, 1, 1}, {32, 2, 1}, {32, 1, 2}};
    struct scene scene = {rig_take(32 * sizeof *scene.out)};
    for (uint32_t i = 0; i < 5; i++) {
        const uint32_t block[3] = {32, 1, 1};
        assert_false(gpu_host_run(&kernel, grids[i], block, 0, &scene));
        assert_false(gpu_host_run(&kernel, good, blocks[i], 0, &scene));
    }
}

static void test_launch_unknown_kernel_fails(void **state)
{
    (void)state;
    const uint32_t grid[3] = {1, 1, 1}, block[3] = {32, 1, 1};
    assert_false(gpu_host_launch("no_such_kernel", grid, block, 0, NULL));
    assert_int_equal(gpu_host_args_bytes("no_such_kernel"), 0);
    assert_int_equal(gpu_host_args_bytes("rms_norm"), sizeof(struct gpu_rms_norm));
}

static const struct CMUnitTest tests[] = {
    RIG_TEST(test_run_grid_every_thread_once),
    RIG_TEST(test_run_barrier_all_see_all),
    RIG_TEST(test_run_by_two_threads_one_after_the_other),
    RIG_TEST(test_run_without_barrier_bits_differ),
    RIG_TEST(test_run_exchange_lanes_swap),
    RIG_TEST(test_run_warp_barrier_its_lanes_see_all),
    RIG_TEST(test_run_sum_all_threads_get_it),
    RIG_TEST(test_run_parted_threads_fail),
    RIG_TEST(test_run_wrong_geometry_fails),
    RIG_TEST(test_launch_unknown_kernel_fails),
};

rig_main(tests)
