/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a check of the self-test. post.c runs each in a process of its own, which maps exactly what
 * plan() states, takes it in init(), seals, and runs. The check writes its findings into the
 * outcome, which the parent prints. Private to selftest/post.
 */

#include "appliance/boot/boot.h"
#include "appliance/clock.h"
#include "config/base/splitmix.h"
#include "selftest/post/fault.h"
#include "selftest/post/post.h"

struct post {
    struct boot *boot;
    struct post_settings settings;
    uint64_t memory_bytes;          /* for the patterns */
    uint64_t rounds_us;             /* after it, a check with rounds begins no other */
    uint64_t fade_us;               /* how long bits are left alone */
    struct gguf_source source;      /* the model file, read again to compare with */
    bool is_embedded;               /* its digests are known (known.h) */
};

struct post_outcome {
    char amount[64];                /* "73.9 MiB", for the table */
    uint64_t planted, found;        /* flips */
    bool has_gpu;                   /* set by post_gpu */
    struct post_faults faults;
};

struct post_check {
    void (*plan)(const struct post *post, struct memory_plan *plan);
    /* Returns the check's state; NULL: it cannot start. */
    void *(*init)(const struct post *post, struct arena *arena);
    /* `variant`: which of the checks that share these functions. */
    void (*run)(void *state, const struct post *post, uint32_t variant,
                struct post_outcome *outcome);
};

/* Where --selftest-inject flips bits: the variants of post_inject. */
enum post_place {
    POST_PLACE_MEMORY, POST_PLACE_STAGED, POST_PLACE_SWAPPED, POST_PLACE_PRODUCT,
    POST_PLACE_WEIGHTS, POST_PLACES
};

/* Variants of post_memory; memory.c explains them. */
enum post_pattern {
    POST_OWN_ADDRESS, POST_SOLID, POST_CHECKERBOARD, POST_WALKING_BIT, POST_RANDOM, POST_PATTERNS
};

/* The first five are in machine.c, fade is in memory.c, the others are in the file of their
 * name. */
extern const struct post_check post_cpu, post_clock, post_sockets, post_files, post_lock;
extern const struct post_check post_memory, post_fade, post_weights, post_kernels;
extern const struct post_check post_product, post_swap, post_call, post_inject;
extern const struct post_check post_gpu;    /* variants: enum burn_check */

static inline double post_mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}
