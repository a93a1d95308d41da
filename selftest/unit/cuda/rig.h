/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the soft GPU, opened as the appliance opens a driver: a context, two streams, one buffer of
 * words on the device and one pinned, and the trial kernel. The result of every call to the driver
 * becomes a status.
 */
#include "selftest/unit/test.h"

#include <dlfcn.h>

#include "kernels/cuda/driver/driver.h"
#include "selftest/fake/softgpu/softgpu.h"
#include "selftest/fake/softgpu/trial.h"

#define RIG_WORDS 64
#define RIG_BYTES (RIG_WORDS * sizeof(uint32_t))

static struct rig {
    struct driver driver;
    struct CUstream_st *streams[2];
    struct CUmod_st *module;
    struct CUfunc_st *trial;
    unsigned long long words;           /* (RIG_WORDS) on the device */
    uint32_t *pinned;                   /* (RIG_WORDS) */
    void (*faults)(const char *text);
} rig;

/* The result of a call, as a status. */
#define CALL(name, ...) driver_status(rig.driver.name(__VA_ARGS__))
#define MUST(name, ...) assert_status(STATUS_OK, CALL(name, __VA_ARGS__))

static inline void rig_open(void)
{
    struct config_error error;
    struct CUctx_st *context = NULL;
    assert_status(STATUS_OK, driver_open(&rig.driver, SOFTGPU, DRIVER_VERSION_MIN, &error));
    *(void **)&rig.faults = dlsym(rig.driver.library, "softgpu_faults");
    assert_non_null(rig.faults);
    MUST(cuInit, 0);
    MUST(cuDevicePrimaryCtxRetain, &context, 0);
    MUST(cuCtxSetCurrent, context);
    MUST(cuStreamCreate, &rig.streams[0], DRIVER_STREAM_NON_BLOCKING);
    MUST(cuStreamCreate, &rig.streams[1], DRIVER_STREAM_NON_BLOCKING);
    MUST(cuMemAlloc, &rig.words, RIG_BYTES);
    MUST(cuMemHostAlloc, (void **)&rig.pinned, RIG_BYTES, 0);
}

static inline void rig_load(void)
{
    MUST(cuModuleLoadData, &rig.module, SOFTGPU_IMAGE);
    MUST(cuModuleGetFunction, &rig.trial, rig.module, "trial");
}

static inline int rig_setup(void **state)
{
    rig_open();
    rig_load();
    return 0;
}

/* An operation runs only when a caller waits for it. */
static inline int rig_setup_lazy(void **state)
{
    setenv("SOFTGPU_LAZY", "1", 1);
    return rig_setup(state);
}

/* After any test: the streams go on, and end. */
static inline int rig_teardown(void **state)
{
    rig.faults("");
    for (uint32_t i = 0; i < 2; i++) {
        rig.driver.cuStreamDestroy(rig.streams[i]);
    }
    rig.driver.cuModuleUnload(rig.module);
    rig.driver.cuMemFree(rig.words);
    rig.driver.cuMemFreeHost(rig.pinned);
    rig.driver.cuCtxSetCurrent(NULL);
    rig.driver.cuDevicePrimaryCtxRelease(0);
    driver_close(&rig.driver);
    memset(&rig, 0, sizeof rig);
    unsetenv("SOFTGPU_LAZY");
    unsetenv("SOFTGPU_MEMORY");
    unsetenv("SOFTGPU_CAPABILITY");
    unsetenv("SOFTGPU_FAULTS");
    return 0;
}

static inline enum status rig_launch(uint32_t stream, struct gpu_trial trial)
{
    void *parameters[] = {&trial};
    trial.words = rig.words;
    return CALL(cuLaunchKernel, rig.trial, 1, 1, 1, 32, 1, 1, 0, rig.streams[stream], parameters,
                NULL);
}

static inline enum status rig_upload(uint32_t stream)
{
    return CALL(cuMemcpyHtoDAsync, rig.words, rig.pinned, RIG_BYTES, rig.streams[stream]);
}

static inline enum status rig_download(uint32_t stream)
{
    return CALL(cuMemcpyDtoHAsync, rig.pinned, rig.words, RIG_BYTES, rig.streams[stream]);
}

static inline void rig_pin(uint32_t value)
{
    for (uint32_t i = 0; i < RIG_WORDS; i++) {
        rig.pinned[i] = value;
    }
}
