/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: who has touched each byte of memory in a launch, and which of that was not ordered. Two
 * accesses to a byte, of two CUDA threads, of which one writes, and not both by atomicAdd(), are a
 * race, unless between them lies
 *
 *   a barrier of the thread block, if both are of one, or
 *   a barrier of the warp, if both are of one, or
 *   __threadfence() after the first and before the second, if they are of two thread blocks: the
 *   second one has learnt by an atomicAdd() between the two that the first has come to its own
 *
 * Bounds: SHADOW_PAGES_MAX pages of memory that one launch touches, SHADOW_PHASES_MAX barriers and
 * thread blocks. Past them it stops the process.
 */
#include <stdbool.h>
#include <stdint.h>

#define SHADOW_PAGE_BYTES 4096u
#define SHADOW_PAGES_MAX  4096u
#define SHADOW_PHASES_MAX (1u << 22)

enum shadow_access { SHADOW_READ, SHADOW_WRITE, SHADOW_ATOMIC, SHADOW_ACCESSES };

/* An access that is being made. */
struct shadow_now {
    uintptr_t address;
    uint32_t bytes;
    enum shadow_access access;
    uint32_t thread;            /* of the thread block */
    uint32_t site;              /* where in the program; not 0 */
    bool is_shared;             /* memory of the thread block: others have their own */
};

/* The access with which one races. */
struct shadow_other {
    enum shadow_access access;
    bool is_of_thread_block;    /* the one that runs; false: of one before it, `thread` is unset */
    uint32_t thread;
    uint32_t site;
};

/* Forgets all. */
void shadow_launch_begin(void);
void shadow_thread_block_begin(void);
/* What was before is ordered with what follows, in the thread block or in the warp. */
void shadow_thread_block_order(void);
void shadow_warp_order(uint32_t warp);
/* The thread block that runs has a fence here. */
void shadow_fence(void);
/* True when the access races with another one, which is set. */
bool shadow_touch(const struct shadow_now *now, struct shadow_other *other);
