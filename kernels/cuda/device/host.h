/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: kernels on the CPU, for machines without a GPU: what CUDA gives a kernel, and how one is
 * launched. selftest/fake/softgpu/host.c implements it; it is no part of the appliance.
 *
 * The thread blocks of a launch run one after the other. The CUDA threads of a thread block take
 * turns: each runs until it waits for others or ends. Code between two waits is never interrupted,
 * so an atomic operation is an ordinary one. Launches of several host threads wait for one another.
 *
 * What a GPU leaves undefined is a failure here, and the message names the kernel: CUDA threads at
 * a barrier that others never reach, or at different barriers. Shared memory begins as 0xff bytes
 * (a float: NaN) and ends where the launch said; AddressSanitizer catches accesses past it. Races
 * and misaligned accesses are found in a build of the kernels of its own (selftest/fake/races).
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define GPU_HOST_THREADS_MAX 1024u

/* ---- for the code that launches ---- */

/* Runs kernel `name` of kernels.def to its end; `args` is its struct gpu_NAME. False: there is no
 * such kernel, the geometry is not allowed here (grid and thread block at least 1; thread block of
 * one dimension and whole warps), or CUDA threads diverged at a barrier. A line on stderr says
 * which. */
bool gpu_host_launch(const char *name, const uint32_t grid[3], const uint32_t block[3],
                     uint32_t shared_bytes, const void *args);
/* Bytes of the kernel's arguments; 0: there is no such kernel. */
uint32_t gpu_host_args_bytes(const char *name);
/* Runs thread blocks and CUDA threads in descending order: a kernel whose result depends on the
 * order lacks a barrier. */
void gpu_host_reverse(bool reverse);
/* Tensor cores round the last four of eight rows in another way, as no chip should. */
void gpu_host_skew(bool skew);

/* A kernel that is not in kernels.def. */
struct gpu_host_kernel {
    const char *name;
    uint32_t args_bytes;
    void (*run)(const void *args);
};
bool gpu_host_run(const struct gpu_host_kernel *kernel, const uint32_t grid[3],
                  const uint32_t block[3], uint32_t shared_bytes, const void *args);

/* ---- for kernels ---- */

struct gpu_host_index {
    uint32_t x, y, z;
};
/* Of the CUDA thread that runs now. */
extern struct gpu_host_index gpu_host_thread, gpu_host_block, gpu_host_threads, gpu_host_grid;
extern unsigned char *gpu_host_shared;

void gpu_host_barrier(int line);
void gpu_host_warp_barrier(int line);
void gpu_host_fence(void);
/* What the CUDA threads of a warp do together: each gives an operand of its own, and once all have,
 * operation() runs once for all of them. */
void gpu_host_together(void (*operation)(void *const operands[]), void *operand, int line);
/* The twins of mma.h. */
void gpu_host_load_matrices(uint32_t *to, const void *row, int line);
void gpu_host_mma_f16(float *d, const uint32_t *a, const uint32_t *b, int line);
void gpu_host_mma_bf16(float *d, const uint32_t *a, const uint32_t *b, int line);
/* Copies come at once; in reverse order (gpu_host_reverse) as late as the kernel's waits allow. So
 * one of the two shows a copy that is not waited for, or whose target is still read. */
void gpu_host_copy_begin(void *to, const void *from, uint32_t bytes);
void gpu_host_copies_close(void);
void gpu_host_copies_wait(uint32_t left);
/* The value that CUDA thread (own ^ lanes) of the warp gives. */
uint32_t gpu_host_exchange(uint32_t value, uint32_t lanes, int line);

static inline float gpu_host_exchange_float(float value, uint32_t lanes, int line)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = gpu_host_exchange(bits, lanes, line);
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Four of the eight bytes of two words, the first operand's before: a digit of `which` for each. */
static inline uint32_t gpu_host_byte_perm(uint32_t low, uint32_t high, uint32_t which)
{
    uint64_t both = low | (uint64_t)high << 32;
    uint32_t result = 0;
    for (uint32_t i = 0; i < 4; i++) {
        result |= (uint32_t)(both >> (which >> i * 4 & 7u) * 8 & 0xffu) << i * 8;
    }
    return result;
}

#define threadIdx  gpu_host_thread
#define blockIdx   gpu_host_block
#define blockDim   gpu_host_threads
#define gridDim    gpu_host_grid
#define gpu_shared gpu_host_shared
#define __syncthreads() gpu_host_barrier(__LINE__)
#define __syncwarp()   gpu_host_warp_barrier(__LINE__)
#define __shfl_xor_sync(all, value, lanes)                                       \
    _Generic((value), float: gpu_host_exchange_float, uint32_t: gpu_host_exchange) \
    (value, lanes, __LINE__)
#define atomicAdd(at, value) \
    __atomic_fetch_add(at, (__typeof__(*(at)))(value), __ATOMIC_RELAXED)
#define __threadfence() gpu_host_fence()
#define __byte_perm(low, high, which) gpu_host_byte_perm(low, high, which)
#define __popc(bits) __builtin_popcount(bits)
#define gpu_load_matrices(to, row) gpu_host_load_matrices(to, row, __LINE__)
#define gpu_mma_f16(d, a, b) gpu_host_mma_f16(d, a, b, __LINE__)
#define gpu_mma_bf16(d, a, b) gpu_host_mma_bf16(d, a, b, __LINE__)
#define gpu_copy_begin    gpu_host_copy_begin
#define gpu_copies_close  gpu_host_copies_close
#define gpu_copies_wait   gpu_host_copies_wait
