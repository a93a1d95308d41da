/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the GPU worker's binary, embedded in this one (docs/decisions/0038): how it is started, and
 * the page that it shares with the process that starts it. It gets descriptors and no addresses:
 * exec drops every mapping.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/step.h"
#include "config/config.h"
#include "kernels/kernels.h"
#include "selftest/burn/burn.h"

enum gpu_order {
    GPU_PROBE,                      /* report on the device, end */
    GPU_SERVE,                      /* run steps */
    GPU_BURN,                       /* run a check of the self-test, report, end */
    GPU_ORDERS
};

/* The binary's descriptors. GPU_SERVE has all of them, the others the page only. */
enum gpu_handle { GPU_PAGE = 3, GPU_SHARED, GPU_BELL, GPU_MODEL, GPU_HANDLES_END };

#define GPU_NAME_BYTES 64

struct gpu_page {
    uint32_t order;                 /* enum gpu_order */
    uint32_t device;                /* number of the GPU that it is about */
    char cuda_library[CONFIG_TEXT_BYTES], cublas_library[CONFIG_TEXT_BYTES];
    char nvml_library[CONFIG_TEXT_BYTES];
    struct burn burn;               /* of GPU_BURN, with its own report */
    struct {                        /* orders of GPU_SERVE */
        uint32_t engine, engines;                   /* which one, of how many */
        uint32_t epoch;
        struct kernels_settings settings;
        struct step_layout layout;
        uint64_t control_offset, step_offset;       /* in the shared arena; its engine's record */
        uint64_t device_bytes;                      /* of the plan */
        uint64_t vocabulary_bytes_max;              /* of gguf_scan() */
        char model_name[CONFIG_TEXT_BYTES];         /* for messages */
    } serve;
    struct {                        /* the report of GPU_PROBE; the first three: of GPU_BURN */
        _Atomic uint32_t is_there;
        uint32_t status;            /* enum status; not OK: `error` says why */
        char error[CONFIG_ERROR_BYTES];
        char name[GPU_NAME_BYTES], arch[GPU_NAME_BYTES];
        uint32_t driver_version, processors, shared_bytes_max;
        uint64_t memory_bytes, free_bytes;
    } report;
};

struct gpu_binary {
    int handle;                     /* the binary; -1: not open */
    int page_handle;
    struct gpu_page *page;
};

/* BOOT_ONLY. False: errno says why; gpu_binary_close() closes what has been opened. */
bool gpu_binary_open(struct gpu_binary *binary);
/* Another page, in place of the one that there is, which stays as it is: workers of several engines
 * start at the same time. */
bool gpu_binary_open_page(struct gpu_binary *binary);
void gpu_binary_close(struct gpu_binary *binary);
/* Clears the page and writes an order for a GPU; its details are the caller's to add. */
void gpu_binary_order(const struct gpu_binary *binary, enum gpu_order order, uint32_t device,
                      const struct options *options);
/* In a child: becomes the binary. `handles[i]` becomes descriptor GPU_PAGE + i, the page's own
 * first; -1: it does not get that one. */
#define GPU_HANDLES (GPU_HANDLES_END - GPU_PAGE)
_Noreturn void gpu_binary_run(const struct gpu_binary *binary, const int handles[GPU_HANDLES]);
/* A descriptor of memory that holds these bytes and cannot change; -1: errno says why. */
int gpu_memory_open(const char *name, const uint8_t *bytes, uint64_t count, unsigned flags);
/* Exit status of a child that could not become the binary. */
#define GPU_NOT_RUN 127
