/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: instructions of a whole warp for products of halves, as the PTX manual defines them (sm_80
 * and later): matrices from shared memory to registers, multiply-accumulate on tensor cores, and
 * copies to shared memory that run beside the kernel. host.h has their twins.
 *
 * A fragment is what one lane holds of a matrix. With group = lane / 4 and pair = lane % 4 * 2, the
 * lane holds numbers `pair` and `pair + 1` of row `group` of each 8 x 8 matrix of halves, and of a
 * matrix of sums likewise.
 *
 * NVIDIA does not document in which order, and with how many bits, an instruction adds its sixteen
 * products and the sum before. The twin has an order of its own, so bits of a chip are others. What
 * counts is that one number of the result depends on one row of each factor only.
 */
#include "kernels/cuda/device/gpu.h"

#define GPU_MMA_COLUMNS 16u

#ifdef __CUDACC__
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ < 800
#error "the kernels need sm_80 or later"
#endif

GPU_INLINE uint32_t gpu_shared_address(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

/* Four matrices of 8 rows of 8 halves. Lane 8 * m + r gives the address of row r of matrix m, a
 * multiple of 16; all lanes get their part of matrix m in to[m]. */
GPU_INLINE void gpu_load_matrices(uint32_t *to, const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(gpu_shared_address(row)) : "memory");
}

/* d += a * b: 16 rows of a, 8 rows of b, 16 columns each. a: rows 0 .. 7 of columns 0 .. 7, rows
 * 8 .. 15 of them, then both of columns 8 .. 15. b: columns 0 .. 7, 8 .. 15. d: numbers of row
 * `group` of a for rows `pair`, `pair + 1` of b; then those of row `group + 8`. */
GPU_INLINE void gpu_mma_f16(float *d, const uint32_t *a, const uint32_t *b)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

GPU_INLINE void gpu_mma_bf16(float *d, const uint32_t *a, const uint32_t *b)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Begins to copy 16 bytes to shared memory, the first `bytes` of them from `from`, the others
 * zeros. Both addresses are multiples of 16. */
GPU_INLINE void gpu_copy_begin(void *to, const void *from, uint32_t bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(gpu_shared_address(to)), "l"(from), "r"(bytes) : "memory");
}

/* The copies that this CUDA thread began since the last call are a group. */
GPU_INLINE void gpu_copies_close(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most the last `left` (1 or 2) groups of this CUDA thread are in flight. */
GPU_INLINE void gpu_copies_wait(uint32_t left)
{
    if (left == 1) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
        asm volatile("cp.async.wait_group 2;" ::: "memory");
    }
}
#endif
