/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: temperature, clocks and reasons for throttling, power, and memory errors of a GPU, by
 * NVIDIA's management library, which is found by dlopen() like the driver. The library is optional:
 * a figure that it or the device does not give is NVML_UNKNOWN.
 * Owner: the GPU worker's binary.
 */
#include <stdint.h>

#include "config/config.h"

#define NVML_UNKNOWN UINT64_MAX

/* The numbers are NVML's. */
enum {
    NVML_SENSOR_GPU = 0,
    NVML_THRESHOLD_SLOWDOWN = 1,
    NVML_SM_CLOCK = 1,
    NVML_MEMORY_CLOCK = 2,
    NVML_ERROR_CORRECTED = 0,
    NVML_ERROR_UNCORRECTED = 1,
    NVML_COUNTER_VOLATILE = 0,          /* since the driver was loaded */
    NVML_COUNTER_AGGREGATE = 1,         /* over the device's life */
};
enum {                                  /* reasons for throttling */
    NVML_HARDWARE_SLOWDOWN = 0x8,
    NVML_SOFTWARE_THERMAL = 0x20,
    NVML_HARDWARE_THERMAL = 0x40,
    NVML_HARDWARE_POWER_BRAKE = 0x80,
};

struct nvmlDevice_st;

struct nvml {
    void *library;                      /* NULL: none */
    struct nvmlDevice_st *device;
#define ENTRY(name, parameters) unsigned (*name) parameters;
#include "kernels/cuda/driver/nvml.def"
#undef ENTRY
};

struct nvml_reading {
    uint64_t temperature_c, slowdown_c; /* slowdown_c: at which the GPU slows itself down */
    uint64_t sm_mhz, memory_mhz, power_mw;
    uint64_t held_by;                   /* reasons, as above */
    uint64_t corrected, uncorrected;    /* ECC errors, volatile */
    uint64_t corrected_ever, uncorrected_ever;
    uint64_t remaps_pending, remap_failed, pages_pending;   /* 0 or 1 */
};

/* BOOT_ONLY. Opens `library` for the device on `bus`, a PCI address. A refusal says why there are
 * no figures. */
MUST_CHECK enum status nvml_open(struct nvml *nvml, const char *library, const char *bus,
                                 struct config_error *error);
void nvml_close(struct nvml *nvml);
/* All figures of a closed NVML are unknown. */
void nvml_read(const struct nvml *nvml, struct nvml_reading *reading);
