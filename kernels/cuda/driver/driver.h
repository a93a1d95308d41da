/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the CUDA driver as a table of entry points (driver.def), found at start in the library that
 * engine.cuda_library names. Nothing is linked: no libcudart, no stub, no cuda.h. A call reads
 * driver->cuMemAlloc(&address, bytes) and returns a number, which driver_status() makes a status.
 *
 * Streams are our own: the default stream synchronises with others, so it is never used.
 * Owner: the GPU worker. A static binary cannot open libraries, so no part of the core links this.
 */
#include <stddef.h>

#include "config/config.h"

/* selftest/unit/cuda/test_declarations.c compares these numbers with cuda.h. */
enum driver_result {
    DRIVER_SUCCESS = 0,
#define RESULT(name, number, status) DRIVER_##name = number,
#include "kernels/cuda/driver/result.def"
#undef RESULT
};
enum driver_attribute {             /* of a device */
    DRIVER_PROCESSORS = 16,
    DRIVER_ECC = 32,
    DRIVER_CAPABILITY_MAJOR = 75,
    DRIVER_CAPABILITY_MINOR = 76,
    DRIVER_SHARED_BYTES_MAX = 97,   /* for a thread block that requests it */
};
enum {
    DRIVER_FUNCTION_SHARED_BYTES = 8,   /* cuFuncSetAttribute: dynamic shared memory it may take */
    DRIVER_CONTEXT_BLOCKING = 4,    /* a wait sleeps */
    DRIVER_CONTEXT_KEEPS_LOCAL = 16,    /* local memory of CUDA threads never shrinks */
    DRIVER_STREAM_NON_BLOCKING = 1,
    DRIVER_HOST_MAPPED = 2,         /* cuMemHostRegister: kernels read it at its own address */
    DRIVER_EVENT_UNTIMED = 2,
    DRIVER_LIMIT_STACK = 0,         /* cuCtxSetLimit: bytes per CUDA thread */
    DRIVER_LIMIT_PRINTF = 1,        /* bytes for printf() */
    DRIVER_LIMIT_HEAP = 2,          /* bytes for malloc() */
};

#define DRIVER_VERSION_MIN 12000    /* 12.0: the first with cuGetProcAddress_v2 */

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUmod_st;
struct CUfunc_st;

struct driver {
    void *library;                  /* of dlopen(); NULL: none */
    int version;                    /* 13020 is 13.2 */
#define ENTRY(name, version, parameters) unsigned (*name) parameters;
#include "kernels/cuda/driver/driver.def"
#undef ENTRY
};

/* BOOT_ONLY. Opens the library `name`, of at least `version_min`, and finds every entry point. A
 * refusal names the library, what is wrong and what was expected: CONFIG_GPU_DRIVER, _VERSION or
 * _ENTRY. */
MUST_CHECK enum status driver_open(struct driver *driver, const char *name, int version_min,
                                   struct config_error *error);
void driver_close(struct driver *driver);

/* The status for a result; a number that result.def lacks is DEVICE_FAILED. */
enum status driver_status(unsigned result);
/* The name of a result, "CUDA_ERROR_OUT_OF_MEMORY"; never NULL. */
const char *driver_result_name(const struct driver *driver, unsigned result);
