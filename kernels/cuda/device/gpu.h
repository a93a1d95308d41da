/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the language of the kernels. A .cu file is CUDA for nvcc, and C for gcc, which compiles it
 * for the soft GPU (host.h says how that runs it). So there are no templates and no overloading,
 * and of CUDA only what both have:
 *
 *   threadIdx, blockIdx, blockDim, gridDim; thread blocks have one dimension and whole warps
 *   __syncthreads(), __shfl_xor_sync() of float or uint32_t among the whole warp, atomicAdd(),
 *   __threadfence(), __byte_perm(), __popc(); mma.h has more instructions of a warp
 *   __syncwarp() of the whole warp. Its lanes do not run in lockstep: what one writes to memory
 *   another reads only behind this barrier, for __shfl_xor_sync() orders no memory
 *   gpu_shared: the shared memory of the thread block; its size is given at the launch
 *
 * Device addresses are uint64_t in the arguments; a kernel casts each one once.
 *
 * Sums: nvcc must be given -fmad=false. Then a product added to a sum is one operation where fmaf()
 * says so and nowhere else, and a kernel gives the same bits on every GPU and on the soft GPU. Only
 * tensor cores (mma.h) have sums of their own.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define GPU_WARP        32u
#define GPU_WARP_ALL    0xffffffffu
#define GPU_THREADS_MAX 256u            /* of a thread block */

#ifdef __CUDACC__
#define GPU_INLINE     static __device__ __forceinline__
#define KERNELS_DEVICE __device__       /* kernels/exp.h, half.h, draw.h */
#define GPU_ALIGNED(bytes) __align__(bytes)
#define GPU_UNROLL     _Pragma("unroll")
#define GPU_ROLLED     _Pragma("unroll 1")
#define GPU_KERNEL(name)                                             \
    extern "C" __global__ void __launch_bounds__(GPU_THREADS_MAX)    \
    name(const __grid_constant__ struct gpu_##name args)
/* The same for a kernel of a few thread blocks, or one that has as few at a time for its shared
 * memory: none could use the registers that it leaves, so it may take those that keep its
 * variables out of memory. */
#define GPU_KERNEL_OF_FEW(name)                                      \
    extern "C" __global__ void __launch_bounds__(GPU_THREADS_MAX, 1) \
    name(const __grid_constant__ struct gpu_##name args)
extern __shared__ __align__(16) unsigned char gpu_shared[];
#else
#include "kernels/cuda/device/host.h"
#define GPU_INLINE static inline
#define GPU_ALIGNED(bytes) __attribute__((aligned(bytes)))
#define GPU_UNROLL
#define GPU_ROLLED
#define GPU_KERNEL(name)                                 \
    void gpu_kernel_##name(const struct gpu_##name args); \
    void gpu_kernel_##name(const struct gpu_##name args)
#define GPU_KERNEL_OF_FEW GPU_KERNEL
#endif
