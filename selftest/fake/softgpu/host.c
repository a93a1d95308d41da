/* SPDX-License-Identifier: MIT
 *
 * What: launches of kernels on the CPU (kernels/cuda/device/host.h). Each CUDA thread of a thread
 * block is a fiber. The scheduler runs the fibers of a warp one after the other. When all of them
 * wait at one exchange, it releases them, and the warp goes on; other warps have their turn when it
 * waits at a barrier or has ended. So a warp that needs what another one writes finds nothing
 * without a barrier between. When all CUDA threads of the thread block wait at one barrier, it
 * releases them. If it can release none, the CUDA threads have diverged.
 *
 * A CUDA thread alternates between two cells for the values that it exchanges, because it may give
 * its next value before its neighbours have read the last one. A watcher, if there is one, is told
 * of the barriers (watch.h). Of an exchange it is not: CUDA does not say that one orders memory.
 *
 * Bounds: GPU_HOST_THREADS_MAX fibers, whose stacks are static. Shared memory is allocated for each
 * launch, so that it ends where the launch says. One launch at a time.
 */
#include "kernels/cuda/device/host.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/device/gpu.h"
#include "kernels/cuda/device/kernels.h"
#include "selftest/fake/softgpu/copies.h"
#include "selftest/fake/softgpu/fiber.h"
#include "selftest/fake/softgpu/watch.h"

#define STACK_BYTES (64u << 10)

struct gpu_host_index gpu_host_thread, gpu_host_block, gpu_host_threads, gpu_host_grid;
unsigned char *gpu_host_shared;

enum lane_state { LANE_READY, LANE_AT_BARRIER, LANE_AT_EXCHANGE, LANE_AT_WARP_BARRIER, LANE_ENDED };

struct lane {
    struct fiber fiber;
    enum lane_state state;
    int line;                           /* of the barrier or exchange where it waits */
    uint32_t given[2];
    uint32_t cell;                      /* the one for its next exchange */
    void (*operation)(void *const operands[]);  /* that it waits for; NULL: an exchange */
    void *operand;
};

/* The launch in progress; there is only one at a time. */
static struct launch {
    pthread_mutex_t lock;
    bool reverse;
    const struct gpu_host_kernel *kernel;
    const void *args;
    uint32_t shared_bytes;
    uint32_t lane;                      /* the one that runs */
    struct fiber scheduler;
    struct lane lanes[GPU_HOST_THREADS_MAX];
    const struct gpu_host_watcher *watcher;     /* or NULL */
} launch = {.lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP};

static _Alignas(64) uint8_t stacks[GPU_HOST_THREADS_MAX][STACK_BYTES];

/* ---- a CUDA thread of the kernel ---- */

static void lane_wait(enum lane_state state, int line)
{
    struct lane *lane = &launch.lanes[launch.lane];
    lane->state = state;
    lane->line = line;
    fiber_switch(&lane->fiber, &launch.scheduler);
}

static void lane_main(void)
{
    fiber_begin(&launch.scheduler);
    launch.kernel->run(launch.args);
    lane_wait(LANE_ENDED, 0);
}

void gpu_host_barrier(int line)
{
    lane_wait(LANE_AT_BARRIER, line);
}

void gpu_host_fence(void)
{
    if (launch.watcher != NULL) {
        launch.watcher->fence();
    }
}

void gpu_host_warp_barrier(int line)
{
    lane_wait(LANE_AT_WARP_BARRIER, line);
}

uint32_t gpu_host_exchange(uint32_t value, uint32_t lanes, int line)
{
    struct lane *lane = &launch.lanes[launch.lane];
    uint32_t cell = lane->cell;
    lane->given[cell] = value;
    lane->cell = 1 - cell;
    lane_wait(LANE_AT_EXCHANGE, line);
    return launch.lanes[launch.lane ^ (lanes % GPU_WARP)].given[cell];
}

void gpu_host_together(void (*operation)(void *const operands[]), void *operand, int line)
{
    struct lane *lane = &launch.lanes[launch.lane];
    lane->operation = operation;
    lane->operand = operand;
    lane_wait(LANE_AT_EXCHANGE, line);
}

/* ---- the scheduler ---- */

static uint32_t order_of(uint32_t i, uint32_t count)
{
    return launch.reverse ? count - 1 - i : i;
}

/* CUDA threads first .. first + count - 1. */
static void lanes_run(uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t lane = first + order_of(i, count);
        if (launch.lanes[lane].state == LANE_READY) {
            launch.lane = lane;
            gpu_host_thread.x = lane;
            fiber_switch(&launch.scheduler, &launch.lanes[lane].fiber);
        }
    }
}

/* Releases the CUDA threads if all of them wait in this way at the same line. */
static bool release(uint32_t first, uint32_t count, enum lane_state state)
{
    struct lane *lanes = &launch.lanes[first];
    for (uint32_t i = 0; i < count; i++) {
        if (lanes[i].state != state || lanes[i].line != lanes[0].line) {
            return false;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        lanes[i].state = LANE_READY;
    }
    return true;
}

static bool warp_release(uint32_t first)
{
    if (release(first, GPU_WARP, LANE_AT_WARP_BARRIER)) {
        if (launch.watcher != NULL) {
            launch.watcher->warp_order(first / GPU_WARP);
        }
        return true;
    }
    return release(first, GPU_WARP, LANE_AT_EXCHANGE);
}

static bool thread_block_release(uint32_t threads)
{
    bool released = release(0, threads, LANE_AT_BARRIER);
    if (released && launch.watcher != NULL) {
        launch.watcher->thread_block_order();
    }
    return released;
}

/* What the warp does together, if it was released for that. */
static void operate(struct lane *lanes)
{
    void *operands[GPU_WARP];
    void (*operation)(void *const operands[]) = lanes[0].operation;
    for (uint32_t i = 0; i < GPU_WARP; i++) {
        operands[i] = lanes[i].operand;
        lanes[i].operation = NULL;
    }
    if (operation != NULL) {
        operation(operands);
    }
}

/* Runs each warp through its exchanges and its own barriers, up to a barrier or its end. */
static void warps_run(uint32_t threads)
{
    for (uint32_t i = 0; i < threads / GPU_WARP; i++) {
        uint32_t first = order_of(i, threads / GPU_WARP) * GPU_WARP;
        lanes_run(first, GPU_WARP);
        while (warp_release(first)) {
            operate(&launch.lanes[first]);
            lanes_run(first, GPU_WARP);
        }
    }
}

static bool have_ended(uint32_t count)
{
    uint32_t ended = 0;
    for (uint32_t i = 0; i < count; i++) {
        ended += launch.lanes[i].state == LANE_ENDED;
    }
    return ended == count;
}

/* Writes the places of two CUDA threads that have diverged. */
static void say_parted(uint32_t count)
{
    static const char *const places[] = {"run", "wait at the barrier of line",
                                         "wait at the exchange of line",
                                         "wait at the warp's barrier of line", "have ended, line"};
    const struct lane *first = &launch.lanes[0], *other = first;
    for (uint32_t i = 0; i < count && other->state == first->state && other->line == first->line;
         i++) {
        other = &launch.lanes[i];
    }
    fprintf(stderr, "gpu_host: %s: threads have parted: some %s %d, others %s %d\n",
            launch.kernel->name, places[first->state], first->line, places[other->state],
            other->line);
}

static bool block_run(uint32_t threads)
{
    for (uint32_t i = 0; i < threads; i++) {
        launch.lanes[i] = (struct lane){0};
        fiber_init(&launch.lanes[i].fiber, stacks[i], STACK_BYTES, lane_main);
    }
    memset(gpu_host_shared, 0xff, launch.shared_bytes);
    if (launch.watcher != NULL) {
        launch.watcher->thread_block_begin();
    }
    copies_begin(threads, launch.reverse);
    do {
        warps_run(threads);
        if (have_ended(threads)) {
            return true;
        }
    } while (thread_block_release(threads));
    say_parted(threads);
    return false;
}

static bool grid_run(const uint32_t grid[3], uint32_t threads)
{
    gpu_host_grid = (struct gpu_host_index){grid[0], grid[1], grid[2]};
    gpu_host_threads = (struct gpu_host_index){threads, 1, 1};
    gpu_host_thread = (struct gpu_host_index){0};
    uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    for (uint64_t i = 0; i < blocks; i++) {
        uint64_t block = launch.reverse ? blocks - 1 - i : i;
        gpu_host_block.x = (uint32_t)(block % grid[0]);
        gpu_host_block.y = (uint32_t)(block / grid[0] % grid[1]);
        gpu_host_block.z = (uint32_t)(block / grid[0] / grid[1]);
        if (!block_run(threads)) {
            return false;
        }
    }
    return true;
}

/* With a watcher, if there is one. */
static bool launch_run(const uint32_t grid[3], uint32_t threads)
{
    if (launch.watcher == NULL) {
        return grid_run(grid, threads);
    }
    launch.watcher->launch_begin(
        launch.kernel->name, (struct gpu_host_span){(uintptr_t)stacks, sizeof stacks},
        (struct gpu_host_span){(uintptr_t)gpu_host_shared, launch.shared_bytes});
    bool ran = grid_run(grid, threads);
    return launch.watcher->launch_end() && ran;
}

static bool has_geometry(const uint32_t grid[3], const uint32_t block[3])
{
    return grid[0] > 0 && grid[1] > 0 && grid[2] > 0 && grid[1] <= UINT16_MAX &&
           grid[2] <= UINT16_MAX && block[0] > 0 && block[0] % GPU_WARP == 0 &&
           block[0] <= GPU_HOST_THREADS_MAX && block[1] == 1 && block[2] == 1;
}

bool gpu_host_run(const struct gpu_host_kernel *kernel, const uint32_t grid[3],
                  const uint32_t block[3], uint32_t shared_bytes, const void *args)
{
    if (!has_geometry(grid, block)) {
        fprintf(stderr, "gpu_host: %s: grid %u %u %u, block %u %u %u\n", kernel->name, grid[0],
                grid[1], grid[2], block[0], block[1], block[2]);
        return false;
    }
    if (pthread_mutex_lock(&launch.lock) != 0) {
        fprintf(stderr, "gpu_host: %s: the last kernel, %s, never ended: a fault in it?\n",
                kernel->name, launch.kernel->name);
        return false;
    }
    launch.kernel = kernel;
    launch.args = args;
    launch.shared_bytes = shared_bytes;
    gpu_host_shared = malloc(shared_bytes);
    bool ran = (gpu_host_shared != NULL || shared_bytes == 0) && launch_run(grid, block[0]);
    free(gpu_host_shared);
    pthread_mutex_unlock(&launch.lock);
    return ran;
}

void gpu_host_reverse(bool reverse)
{
    launch.reverse = reverse;
}

void gpu_host_watch(const struct gpu_host_watcher *watcher)
{
    launch.watcher = watcher;
}

/* ---- the kernels of the house ---- */

#define KERNEL(name)                                           \
    void gpu_kernel_##name(const struct gpu_##name args);      \
    static void run_##name(const void *args)                   \
    {                                                          \
        gpu_kernel_##name(*(const struct gpu_##name *)args);   \
    }
#include "kernels/cuda/device/kernels.def"
#undef KERNEL

#define KERNEL(name) {#name, sizeof(struct gpu_##name), run_##name},
static const struct gpu_host_kernel kernels[] = {
#include "kernels/cuda/device/kernels.def"
};
#undef KERNEL

static const struct gpu_host_kernel *kernel_find(const char *name)
{
    for (uint32_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        if (strcmp(kernels[i].name, name) == 0) {
            return &kernels[i];
        }
    }
    return NULL;
}

uint32_t gpu_host_args_bytes(const char *name)
{
    const struct gpu_host_kernel *kernel = kernel_find(name);
    return kernel == NULL ? 0 : kernel->args_bytes;
}

bool gpu_host_launch(const char *name, const uint32_t grid[3], const uint32_t block[3],
                     uint32_t shared_bytes, const void *args)
{
    const struct gpu_host_kernel *kernel = kernel_find(name);
    if (kernel == NULL) {
        fprintf(stderr, "gpu_host: no kernel %s in kernels.def\n", name);
        return false;
    }
    return gpu_host_run(kernel, grid, block, shared_bytes, args);
}
