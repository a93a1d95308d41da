/* SPDX-License-Identifier: MIT */
/*
 * What: modules and launches. A module of the soft GPU is the word SOFTGPU_IMAGE, because every
 * kernel is here already, compiled for the host. With SOFTGPU_CAPABILITY the device takes fat
 * binaries instead, as a real one does, so that tests see what is loaded. It runs the same kernels.
 *
 * One kernel is for tests only and knows nothing of the model: `trial` (trial.h).
 */
#include <stdlib.h>
#include <string.h>

#include "config/base/assert.h"
#include "kernels/cuda/device/host.h"
#include "selftest/fake/softgpu/device.h"
#include "selftest/fake/softgpu/softgpu.h"
#include "selftest/fake/softgpu/trial.h"
#include "selftest/misbehave/forbidden.h"

#define THREADS_MAX         1024
#define SHARED_BYTES        (48u << 10)     /* that a kernel may have without a request */
#define SHARED_BYTES_MAX    (227u << 10)
#define FUNCTIONS_MAX       64
#define NAME_BYTES          32

struct CUfunc_st {
    char name[NAME_BYTES];
    uint32_t arguments_bytes, shared_bytes_max;
};

struct CUmod_st {
    struct CUfunc_st functions[FUNCTIONS_MAX];
    uint32_t count;
};

struct call {                       /* the arguments of an operation of a stream */
    struct soft_launch launch;
    _Alignas(16) uint8_t arguments[SOFT_ARGUMENTS_BYTES - sizeof(struct soft_launch) - 16];
};

STATIC_ASSERT(sizeof(struct call) <= SOFT_ARGUMENTS_BYTES, "a call fits an operation");

/* ---- modules ---- */

unsigned soft_module_load(struct CUmod_st **module, const void *image, uint64_t capability)
{
    bool is_right = capability == 0
                        ? strncmp(image, SOFTGPU_IMAGE, sizeof SOFTGPU_IMAGE - 1) == 0
                        : memcmp(image, SOFTGPU_FATBIN, sizeof SOFTGPU_FATBIN - 1) == 0;
    if (!is_right) {
        return DRIVER_INVALID_IMAGE;
    }
    *module = calloc(1, sizeof **module);
    return *module == NULL ? DRIVER_OUT_OF_MEMORY : DRIVER_SUCCESS;
}

unsigned soft_module_unload(struct CUmod_st *module)
{
    free(module);
    return DRIVER_SUCCESS;
}

/* 0: no such kernel. */
static uint32_t arguments_bytes(const char *name)
{
    if (strcmp(name, "trial") == 0) {
        return sizeof(struct gpu_trial);
    }
    return gpu_host_args_bytes(name);
}

unsigned soft_function_find(struct CUfunc_st **function, struct CUmod_st *module, const char *name)
{
    uint32_t bytes = arguments_bytes(name);
    if (bytes == 0 || strlen(name) >= NAME_BYTES) {
        return DRIVER_NOT_FOUND;
    }
    if (module->count == FUNCTIONS_MAX || bytes > sizeof((struct call *)NULL)->arguments) {
        return soft_refuse(DRIVER_OUT_OF_MEMORY, "%s: too many functions, or %u bytes of arguments",
                           name, bytes);
    }
    struct CUfunc_st *new = &module->functions[module->count++];
    memcpy(new->name, name, strlen(name) + 1);
    new->arguments_bytes = bytes;
    new->shared_bytes_max = SHARED_BYTES;
    *function = new;
    return DRIVER_SUCCESS;
}

unsigned soft_function_set_shared(struct CUfunc_st *function, int bytes)
{
    if (bytes < 0 || (uint32_t)bytes > SHARED_BYTES_MAX) {
        return soft_refuse(SOFT_INVALID_VALUE, "%s: %d bytes of shared memory", function->name,
                           bytes);
    }
    function->shared_bytes_max = (uint32_t)bytes;
    return DRIVER_SUCCESS;
}

/* ---- launches ---- */

static bool run_kernel(const void *arguments)
{
    const struct call *call = arguments;
    const char *name = call->launch.function->name;
    if (strcmp(name, "trial") == 0) {
        return trial_run((const void *)call->arguments);
    }
    return gpu_host_launch(name, call->launch.grid, call->launch.block, call->launch.shared_bytes,
                           call->arguments);
}

static bool is_launchable(const struct soft_launch *launch)
{
    uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
    uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    return threads > 0 && threads <= THREADS_MAX && launch->block[2] <= 64 && blocks > 0 &&
           launch->grid[0] <= INT32_MAX && launch->grid[1] <= UINT16_MAX &&
           launch->grid[2] <= UINT16_MAX &&
           launch->shared_bytes <= launch->function->shared_bytes_max;
}

static uint64_t launches;

EXPORTED uint64_t softgpu_launches(void)
{
    return launches;
}

unsigned soft_launch(struct CUstream_st *stream, const struct soft_launch *launch,
                     void **parameters)
{
    struct call call = {.launch = *launch};
    if (!is_launchable(launch)) {
        return soft_refuse(SOFT_INVALID_VALUE, "%s: grid, block or %u bytes of shared memory",
                           launch->function->name, launch->shared_bytes);
    }
    soft_first("kernel-%s-stream-%u", launch->function->name, soft_stream_number(stream));
    if (soft_fault_strikes(FAULT_LAUNCH)) {
        return DRIVER_LAUNCH_OUT_OF_RESOURCES;
    }
    if (soft_fault_strikes(FAULT_ACT)) {
        call_that_is_not_allowed(getenv("SOFTGPU_ACT"));
        soft_refuse(0, "survived its misbehaviour");
    }
    launches++;
    memcpy(call.arguments, parameters[0], launch->function->arguments_bytes);
    return soft_submit(stream, run_kernel, &call, sizeof call);
}
