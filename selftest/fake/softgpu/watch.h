/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: who is told of a launch on the soft GPU (host.c): what orders accesses to memory, and
 * where memory is that no two CUDA threads share. selftest/fake/races is told; otherwise nothing
 * is.
 */
#include <stdbool.h>
#include <stdint.h>

struct gpu_host_span {
    uintptr_t first;
    uint64_t bytes;
};

static inline bool gpu_host_span_holds(const struct gpu_host_span *span, uintptr_t address)
{
    return address - span->first < span->bytes;
}

struct gpu_host_watcher {
    /* `stacks` of the CUDA threads; `shared` memory, of each thread block in turn. */
    void (*launch_begin)(const char *kernel, struct gpu_host_span stacks,
                         struct gpu_host_span shared);
    void (*thread_block_begin)(void);
    /* Its CUDA threads have all met at a barrier. */
    void (*thread_block_order)(void);
    void (*warp_order)(uint32_t warp);      /* within the thread block */
    void (*fence)(void);                    /* a CUDA thread of it has called __threadfence() */
    /* False: the launch has failed. */
    bool (*launch_end)(void);
};

/* Before any launch. */
void gpu_host_watch(const struct gpu_host_watcher *watcher);
