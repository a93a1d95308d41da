/* SPDX-License-Identifier: MIT */
/*
 * What: the part of cuBLAS that blas.def names. Matrices are stored by columns, as there: element
 * (i, j) lies at i + j * leading. As in the library, the shape decides the order of a sum: k is cut
 * into parts, whose number depends on n; a part is a chain of fmaf() over k ascending, and parts
 * are added in order. So a product with another number of rows gets other bits.
 */
#include "kernels/cuda/driver/blas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/assert.h"
#include "kernels/weights/format.h"
#include "kernels/half.h"
#include "selftest/fake/softgpu/device.h"

enum { BLAS_NOT_INITIALIZED = 1, BLAS_INVALID_VALUE = 7 };

struct cublasContext {
    struct CUstream_st *stream;
    void *workspace;
};

struct matrix {
    const uint8_t *elements;
    unsigned type, transpose;
    int leading;
};

struct product {
    struct matrix a, b;
    int m, n, k;
    float alpha, beta;
    uint8_t *c;
    unsigned c_type;
    int c_leading;
};

static size_t element_bytes(unsigned type)
{
    return type == BLAS_F32 ? sizeof(float) : sizeof(uint16_t);
}

static float element_load(const uint8_t *at, unsigned type)
{
    uint32_t bits = 0;
    float value;
    if (type == BLAS_F16) {
        memcpy(&bits, at, sizeof(uint16_t));
        return kernels_half_to_float((uint16_t)bits);
    }
    if (type == BLAS_BF16) {
        memcpy((uint8_t *)&bits + 2, at, sizeof(uint16_t));
    } else {
        memcpy(&bits, at, sizeof bits);
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void element_store(uint8_t *at, unsigned type, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (type == BLAS_F32) {
        memcpy(at, &value, sizeof value);
        return;
    }
    uint16_t half = type == BLAS_F16 ? kernels_half_of(value)
                                     : (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    memcpy(at, &half, sizeof half);
}

static float matrix_at(const struct matrix *matrix, int i, int j)
{
    int row = matrix->transpose == BLAS_PLAIN ? i : j, column = matrix->transpose == BLAS_PLAIN
                                                                    ? j : i;
    size_t at = (size_t)row + (size_t)column * (size_t)matrix->leading;
    return element_load(matrix->elements + at * element_bytes(matrix->type), matrix->type);
}

/* One part of LANES sums, of neighbouring columns of c: elements first .. end - 1 of a row of a. */
#define LANES 16
static inline __attribute__((always_inline)) void chain(float sums[LANES], const float *a,
                                                        const float *b, int first, int end)
{
    float chains[LANES] = {0};
    for (int k = first; k < end; k++) {
        for (int lane = 0; lane < LANES; lane++) {
            chains[lane] = fmaf(a[k], b[k * LANES + lane], chains[lane]);
        }
    }
    for (int lane = 0; lane < LANES; lane++) {
        sums[lane] += chains[lane];
    }
}

static void chain_anywhere(float sums[LANES], const float *a, const float *b, int first, int end)
{
    chain(sums, a, b, first, end);
}

static __attribute__((target("avx2,fma"))) void chain_fast(float sums[LANES], const float *a,
                                                           const float *b, int first, int end)
{
    chain(sums, a, b, first, end);
}

static void product_lanes(const struct product *p, float *a, const float *b, int first, int parts)
{
    void (*add)(float *, const float *, const float *, int, int) =
        __builtin_cpu_supports("fma") ? chain_fast : chain_anywhere;
    for (int i = 0; i < p->m; i++) {
        float sums[LANES] = {0};
        for (int k = 0; k < p->k; k++) {
            a[k] = matrix_at(&p->a, i, k);
        }
        for (int part = 0; part < parts; part++) {
            add(sums, a, b, p->k * part / parts, p->k * (part + 1) / parts);
        }
        for (int lane = 0; lane < LANES && first + lane < p->n; lane++) {
            size_t at = (size_t)i + (size_t)(first + lane) * (size_t)p->c_leading;
            uint8_t *c = p->c + at * element_bytes(p->c_type);
            float old = p->beta == 0 ? 0 : p->beta * element_load(c, p->c_type);
            element_store(c, p->c_type, p->alpha * sums[lane] + old);
        }
    }
}

static bool run_product(const void *arguments)
{
    const struct product *p = arguments;
    bool is_skewed = soft_environment("SOFTGPU_BLAS_SKEWED", 0) != 0;
    float *a = calloc((size_t)p->k, sizeof *a), *b = calloc((size_t)p->k * LANES, sizeof *b);
    ASSERT(a != NULL && b != NULL);
    for (int first = 0; first < p->n; first += LANES) {
        for (int k = 0; k < p->k; k++) {
            for (int lane = 0; lane < LANES && first + lane < p->n; lane++) {
                b[k * LANES + lane] = matrix_at(&p->b, k, first + lane);
            }
        }
        product_lanes(p, a, b, first, 1 + p->n % 5 + (is_skewed && first >= p->n / 2));
    }
    free(a);
    free(b);
    return true;
}

/* ---- entry points ---- */

#define ENTRY(name, parameters) EXPORTED unsigned name parameters;
#include "kernels/cuda/driver/blas.def"
#undef ENTRY

unsigned cublasCreate_v2(struct cublasContext **handle)
{
    uint64_t bytes = soft_environment("SOFTGPU_BLAS_MEMORY", 0);
    void *code;
    pthread_mutex_lock(&soft_lock);
    bool has_room = bytes == 0 || soft_reserve(PLACE_DEVICE, &code, bytes) == DRIVER_SUCCESS;
    pthread_mutex_unlock(&soft_lock);
    *handle = has_room ? calloc(1, sizeof **handle) : NULL;
    return *handle == NULL ? BLAS_ALLOC_FAILED : BLAS_SUCCESS;
}

unsigned cublasDestroy_v2(struct cublasContext *handle)
{
    free(handle);
    return BLAS_SUCCESS;
}

/* Resets the workspace, as cuBLAS does. */
unsigned cublasSetStream_v2(struct cublasContext *handle, struct CUstream_st *stream)
{
    handle->stream = stream;
    handle->workspace = NULL;
    return BLAS_SUCCESS;
}

unsigned cublasSetWorkspace_v2(struct cublasContext *handle, void *workspace, size_t bytes)
{
    pthread_mutex_lock(&soft_lock);
    bool holds = (uintptr_t)workspace % 256 == 0 &&
                 soft_memory_holds(PLACE_DEVICE, workspace, bytes);
    pthread_mutex_unlock(&soft_lock);
    if (!holds) {
        return soft_refuse(BLAS_INVALID_VALUE, "cuBLAS: %zu bytes of workspace that are not the "
                           "device's", bytes);
    }
    handle->workspace = workspace;
    return BLAS_SUCCESS;
}

unsigned cublasSetMathMode(struct cublasContext *handle, unsigned mode)
{
    return mode == BLAS_MATH_FULL_REDUCTION ? BLAS_SUCCESS : BLAS_INVALID_VALUE;
}

static bool is_within(const struct matrix *matrix, int rows, int columns)
{
    int extent = matrix->transpose == BLAS_PLAIN ? columns : rows;
    int length = matrix->transpose == BLAS_PLAIN ? rows : columns;
    size_t count = (size_t)(extent - 1) * (size_t)matrix->leading + (size_t)length;
    return matrix->leading >= length &&
           soft_memory_holds(PLACE_DEVICE, matrix->elements, count * element_bytes(matrix->type));
}

static unsigned submit(struct cublasContext *handle, const struct product *p)
{
    struct matrix c = {p->c, p->c_type, BLAS_PLAIN, p->c_leading};
    if (p->m < 1 || p->n < 1 || p->k < 1 || !is_within(&p->a, p->m, p->k) ||
        !is_within(&p->b, p->k, p->n) || !is_within(&c, p->m, p->n)) {
        return soft_refuse(BLAS_INVALID_VALUE, "cuBLAS: a product of %d x %d x %d that is not "
                           "within the device's memory", p->m, p->n, p->k);
    }
    if (soft_error() != 0 || soft_fault_strikes(FAULT_LAUNCH)) {
        return BLAS_EXECUTION_FAILED;
    }
    soft_first("product-%dx%dx%d", p->m, p->n, p->k);
    return soft_submit(handle->stream, run_product, p, sizeof *p) == DRIVER_SUCCESS
               ? BLAS_SUCCESS
               : BLAS_EXECUTION_FAILED;
}

/* style-waiver: NVIDIA's signature. */
unsigned cublasGemmEx(struct cublasContext *handle, unsigned transpose_a, unsigned transpose_b,
                      int m, int n, int k, const void *alpha, const void *a, unsigned a_type,
                      int a_leading, const void *b, unsigned b_type, int b_leading,
                      const void *beta, void *c, unsigned c_type, int c_leading, unsigned compute,
                      int algorithm)
{
    if (handle->workspace == NULL) {
        return soft_refuse(BLAS_NOT_INITIALIZED, "cuBLAS: would allocate a workspace of its own");
    }
    struct product product = {
        .a = {a, a_type, transpose_a, a_leading}, .b = {b, b_type, transpose_b, b_leading},
        .m = m, .n = n, .k = k, .alpha = *(const float *)alpha, .beta = *(const float *)beta,
        .c = c, .c_type = c_type, .c_leading = c_leading,
    };
    pthread_mutex_lock(&soft_lock);
    unsigned result = submit(handle, &product);
    pthread_mutex_unlock(&soft_lock);
    return result;
}
