/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: how a GPU feels: temperature, clocks and what holds them down, power, errors of its memory.
 * NVIDIA's management library, found by dlopen() like the driver. It is never needed: without it,
 * and for what it or the device does not tell, a figure is NVML_UNKNOWN.
 * Owner: the GPU worker's program.
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
    NVML_COUNTER_AGGREGATE = 1,         /* of the device's life */
};
enum {                                  /* what holds the clocks down */
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
    uint64_t temperature_c, slowdown_c; /* slowdown: where it slows itself down */
    uint64_t sm_mhz, memory_mhz, power_mw;
    uint64_t held_by;                   /* reasons, as above */
    uint64_t corrected, uncorrected;    /* ECC errors, volatile */
    uint64_t corrected_ever, uncorrected_ever;
    uint64_t remaps_pending, remap_failed, pages_pending;   /* 0 or 1 */
};

/* BOOT_ONLY. Opens `library` for the device on `bus`, a PCI address. A refusal says why nothing is
 * measured. */
MUST_CHECK enum status nvml_open(struct nvml *nvml, const char *library, const char *bus,
                                 struct config_error *error);
void nvml_close(struct nvml *nvml);
/* What a closed one tells is unknown. */
void nvml_read(const struct nvml *nvml, struct nvml_reading *reading);
