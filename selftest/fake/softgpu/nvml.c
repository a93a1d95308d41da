/* SPDX-License-Identifier: MIT */
/*
 * What: the part of NVML that nvml.def names. SOFTGPU_NVML gives its figures, see softgpu.h.
 */
#include "kernels/cuda/driver/nvml.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "selftest/fake/softgpu/device.h"

enum { NVML_INVALID_ARGUMENT = 2, NVML_NOT_SUPPORTED = 3, NVML_NOT_FOUND = 6 };

#define ENTRY(name, parameters) EXPORTED unsigned name parameters;
#include "kernels/cuda/driver/nvml.def"
#undef ENTRY

/* A figure from the environment, or that of a sound GPU. -1: not available. */
static long long figure(const char *name, long long sound)
{
    static const char *const names[] = {"temperature", "slowdown", "sm", "memory", "power", "held",
                                        "corrected", "uncorrected", "pending", "failed", "pages"};
    const char *word = getenv("SOFTGPU_NVML");
    long long found = sound;
    while (word != NULL && *word != '\0') {
        size_t length = strcspn(word, ":");
        bool is_known = false;
        for (uint32_t i = 0; i < sizeof names / sizeof *names; i++) {
            is_known |= strlen(names[i]) == length && strncmp(word, names[i], length) == 0;
        }
        if (!is_known) {
            soft_refuse(0, "no such figure: %s", word);
            abort();                    /* a test that sets nothing would pass */
        }
        if (strlen(name) == length && strncmp(word, name, length) == 0) {
            found = strtoll(word + length + 1, NULL, 10);
        }
        word += strcspn(word, ",");
        word += *word == ',' ? 1 : 0;
    }
    return found;
}

static unsigned tell(unsigned *value, const char *name, long long sound)
{
    long long found = figure(name, sound);
    *value = (unsigned)found;
    return found < 0 ? NVML_NOT_SUPPORTED : 0;
}

unsigned nvmlInit_v2(void)
{
    return 0;
}

unsigned nvmlDeviceGetHandleByPciBusId_v2(const char *bus, struct nvmlDevice_st **device)
{
    unsigned at = 0;
    *device = NULL;
    bool is_bus = sscanf(bus, SOFT_BUS, &at) == 1;
    return is_bus && at >= SOFT_BUS_FIRST &&
                   at - SOFT_BUS_FIRST < soft_environment("SOFTGPU_DEVICES", 1)
               ? 0 : NVML_NOT_FOUND;
}

unsigned nvmlDeviceGetTemperature(struct nvmlDevice_st *device, unsigned sensor, unsigned *celsius)
{
    return sensor == NVML_SENSOR_GPU ? tell(celsius, "temperature", 40)
                                          : NVML_INVALID_ARGUMENT;
}

unsigned nvmlDeviceGetTemperatureThreshold(struct nvmlDevice_st *device, unsigned threshold,
                                           unsigned *celsius)
{
    return threshold == NVML_THRESHOLD_SLOWDOWN ? tell(celsius, "slowdown", 90)
                                                : NVML_INVALID_ARGUMENT;
}

unsigned nvmlDeviceGetClockInfo(struct nvmlDevice_st *device, unsigned clock, unsigned *mhz)
{
    return clock == NVML_SM_CLOCK ? tell(mhz, "sm", 1500) : tell(mhz, "memory", 2600);
}

unsigned nvmlDeviceGetPowerUsage(struct nvmlDevice_st *device, unsigned *milliwatts)
{
    return tell(milliwatts, "power", 100000);
}

unsigned nvmlDeviceGetCurrentClocksEventReasons(struct nvmlDevice_st *device,
                                                unsigned long long *reasons)
{
    unsigned value = 0;
    unsigned result = tell(&value, "held", 0);
    *reasons = value;
    return result;
}

/* The figure is the number of new errors at each reading. */
unsigned nvmlDeviceGetTotalEccErrors(struct nvmlDevice_st *device, unsigned error, unsigned counter,
                                     unsigned long long *count)
{
    static atomic_uint looks;
    unsigned each = 0;
    unsigned result = tell(&each, error == NVML_ERROR_CORRECTED ? "corrected" : "uncorrected", 0);
    *count = (unsigned long long)each * atomic_fetch_add(&looks, 1);
    return counter <= NVML_COUNTER_AGGREGATE ? result : NVML_INVALID_ARGUMENT;
}

unsigned nvmlDeviceGetRemappedRows(struct nvmlDevice_st *device, unsigned *corrected,
                                   unsigned *uncorrected, unsigned *is_pending,
                                   unsigned *has_failed)
{
    *corrected = *uncorrected = 0;
    tell(has_failed, "failed", 0);
    return tell(is_pending, "pending", 0);
}

unsigned nvmlDeviceGetRetiredPagesPendingStatus(struct nvmlDevice_st *device, unsigned *is_pending)
{
    return tell(is_pending, "pages", -1);
}
