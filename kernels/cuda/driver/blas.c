/* SPDX-License-Identifier: MIT */
/*
 * What: the few functions of cuBLAS that a product needs.
 * Invariant: after OK of blas_open() every pointer is set; blas_start() once, before products.
 *
 * cuBLAS stores matrices by columns, we by rows: our (rows, columns) is its (columns, rows). So
 * out = in x weights^T becomes out^T = weights x in^T, without moving a number.
 */
#include "kernels/cuda/driver/blas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/driver/library.h"

static enum status blas_status(unsigned result)
{
    switch (result) {
    case BLAS_SUCCESS:
        return STATUS_OK;
    case BLAS_ALLOC_FAILED:
        return STATUS_DEVICE_MEMORY;
    case BLAS_EXECUTION_FAILED:
        return STATUS_DEVICE_LAUNCH;
    default:
        return STATUS_DEVICE_FAILED;
    }
}

static enum status find_entries(struct blas *blas, const struct library *library,
                                struct config_error *error)
{
#define ENTRY(name, parameters) TRY(library_find(library, #name, &blas->name, error));
#include "kernels/cuda/driver/blas.def"
#undef ENTRY
    return STATUS_OK;
}

static enum status open_one(struct blas *blas, const char *name, struct config_error *error)
{
    struct library library = {.name = name, .expected = "cuBLAS 12 or 13"};
    TRY(library_open(&library, error));
    *blas = (struct blas){.library = library.handle};
    enum status status = find_entries(blas, &library, error);
    if (status != STATUS_OK) {
        blas_close(blas);
    }
    return status;
}

enum status blas_open(struct blas *blas, const char *library, struct config_error *error)
{
    struct config_error of_older;
    *blas = (struct blas){.library = NULL};
    if (strcmp(library, BLAS_NONE) == 0) {
        return STATUS_OK;
    }
    if (library[0] != '\0') {
        return open_one(blas, library, error);
    }
    enum status status = open_one(blas, "libcublas.so.13", error);
    return status == STATUS_OK || open_one(blas, "libcublas.so.12", &of_older) != STATUS_OK
               ? status
               : STATUS_OK;
}

static enum status started(enum status status, struct config_error *error)
{
    if (status != STATUS_OK) {
        snprintf(error->text, sizeof error->text, "cuBLAS: does not start: %s",
                 status_text(status));
    }
    return status;
}

enum status blas_load(struct blas *blas, struct config_error *error)
{
    return started(blas_status(blas->cublasCreate_v2(&blas->handle)), error);
}

static enum status bind(struct blas *blas, struct CUstream_st *stream, uint64_t workspace)
{
    /* The stream first: setting it resets the workspace. */
    TRY(blas_status(blas->cublasSetStream_v2(blas->handle, stream)));
    TRY(blas_status(blas->cublasSetWorkspace_v2(blas->handle, (void *)(uintptr_t)workspace,
                                                BLAS_WORKSPACE_BYTES)));
    return blas_status(blas->cublasSetMathMode(blas->handle, BLAS_MATH_FULL_REDUCTION));
}

enum status blas_start(struct blas *blas, struct CUstream_st *stream, uint64_t workspace,
                       struct config_error *error)
{
    if (blas->handle == NULL) {
        TRY(blas_load(blas, error));
    }
    return started(bind(blas, stream, workspace), error);
}

void blas_close(struct blas *blas)
{
    if (blas->handle != NULL) {
        blas->cublasDestroy_v2(blas->handle);
    }
    if (blas->library != NULL) {
        dlclose(blas->library);
    }
    *blas = (struct blas){.library = NULL};
}

enum status blas_product(const struct blas *blas, const struct blas_product *p)
{
    static const float one = 1, zero = 0;
    unsigned compute = p->type == BLAS_F32 ? BLAS_COMPUTE_F32_PEDANTIC : BLAS_COMPUTE_F32;
    return blas_status(blas->cublasGemmEx(
        blas->handle, BLAS_TRANSPOSED, BLAS_PLAIN, (int)p->outputs, (int)p->rows, (int)p->columns,
        &one, (const void *)(uintptr_t)p->weights, p->type, (int)p->columns,
        (const void *)(uintptr_t)p->in, p->type, (int)p->columns, &zero,
        (void *)(uintptr_t)p->out, BLAS_F32, (int)p->outputs, compute, BLAS_ALGORITHM));
}
