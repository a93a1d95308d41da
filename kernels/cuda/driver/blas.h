/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: large matrix products by cuBLAS, found by dlopen() like the driver. Sums are in F32 for
 * every type of elements, in one order for one shape: no reduced precision, no TF32, a workspace of
 * our own, one stream, no atomics (cuBLAS's default).
 *
 * Matrices have our layout: rows of `columns` elements, one after the other.
 * Owner: the GPU worker.
 */
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

/* The numbers are cuBLAS's: cudaDataType. */
enum blas_type { BLAS_F32 = 0, BLAS_F16 = 2, BLAS_BF16 = 14 };
enum {
    BLAS_SUCCESS = 0,
    BLAS_ALLOC_FAILED = 3,
    BLAS_EXECUTION_FAILED = 13,
    BLAS_PLAIN = 0,
    BLAS_TRANSPOSED = 1,
    BLAS_COMPUTE_F32 = 68,
    BLAS_COMPUTE_F32_PEDANTIC = 69,     /* F32 elements are not rounded to TF32 */
    BLAS_MATH_FULL_REDUCTION = 16,      /* partial sums of halves stay in F32 */
    BLAS_ALGORITHM = -1,                /* the library chooses, always the same for a shape */
};
#define BLAS_WORKSPACE_BYTES (32u << 20)    /* as NVIDIA advises for sm_90 and later */

struct CUstream_st;
struct cublasContext;

struct blas {
    void *library;
    struct cublasContext *handle;   /* NULL: not started */
#define ENTRY(name, parameters) unsigned (*name) parameters;
#include "kernels/cuda/driver/blas.def"
#undef ENTRY
};

#define BLAS_NONE "none"
/* BOOT_ONLY. `library`: engine.cublas_library; if empty, libcublas.so.13, else .12, and a refusal
 * names the first. BLAS_NONE: blas->library stays NULL, and no other function may be called. */
MUST_CHECK enum status blas_open(struct blas *blas, const char *library,
                                 struct config_error *error);
/* BOOT_ONLY. The library loads its kernels, which take memory of the device. A context must be
 * current. */
MUST_CHECK enum status blas_load(struct blas *blas, struct config_error *error);
/* BOOT_ONLY. The same, if it has not been done. Every product goes to `stream` and uses
 * BLAS_WORKSPACE_BYTES at the device address `workspace`, aligned to 256. */
MUST_CHECK enum status blas_start(struct blas *blas, struct CUstream_st *stream,
                                  uint64_t workspace, struct config_error *error);
void blas_close(struct blas *blas);

/* out (rows, outputs) = in (rows, columns) x weights (outputs, columns), transposed; F32 out.
 * Device addresses; `in` and `weights` of one type. */
struct blas_product {
    uint64_t out, in, weights;
    uint32_t rows, outputs, columns;
    enum blas_type type;
};
MUST_CHECK enum status blas_product(const struct blas *blas, const struct blas_product *product);
