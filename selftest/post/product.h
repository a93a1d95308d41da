/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: products of the engine's own kernels with the model's own weights, on every CPU, against
 * two references: the plain twin, and for the embedded model the digest of all results.
 *
 *   slab    a piece of a matrix, of at most POST_SLAB_PANELS panels: its weights stay in a cache
 *   burn    every CPU computes the whole slab again and again and compares each result, to the bit
 */
#include "kernels/ops.h"
#include "kernels/threads.h"
#include "selftest/post/check.h"
#include "selftest/post/cpu.h"
#include "selftest/post/tensor.h"

#define POST_SLAB_PANELS 64u
#define POST_SLAB_ROWS   13u            /* of activations: tiles of all kinds */

struct post_slab {
    struct post_tensor tensor;
    struct kernels_matrix matrix;       /* its panels only */
    uint32_t first;                     /* its first output in the tensor */
};

/* What one thread computes. */
struct post_result {
    float *y;                           /* (POST_SLAB_ROWS, y_stride) */
    struct post_faults faults;
};

struct post_burn {
    const struct kernels_ops *ops;      /* under test */
    struct post_cpus cpus;
    struct kernels_threads threads;
    void (*phase)(struct post_burn *burn, uint32_t thread);     /* what the threads run now */
    struct post_result *results;        /* [threads] */
    float *x, *reference;
    struct kernels_rounded rounded;     /* of x */
    uint64_t x_stride, y_stride;
    struct post_slab slab;
    uint32_t repeats;                   /* of each slab on each CPU */
    uint64_t digest;                    /* of the references so far */
};

void post_burn_plan_memory(struct memory_plan *plan, const struct model_shape *shape, bool alone);
struct post_burn *post_burn_init(struct arena *arena, const struct model_shape *shape,
                                 enum kernels_simd simd, bool alone);

uint32_t post_slabs_count(const struct post_tensor *tensor);
/* Chooses a slab, fills x with numbers that belong to it, and computes the reference. */
void post_burn_choose(struct post_burn *burn, const struct post_tensor *tensor, uint32_t slab);
/* Runs the kernel under test on `rows` rows of the slab. */
void post_burn_compute(const struct post_burn *burn, struct post_result *result, uint32_t rows);
void post_burn_compare(const struct post_burn *burn, const struct post_result *result,
                       uint32_t rows, uint32_t cpu, struct post_faults *faults);
/* Computes and compares on every CPU, `repeats` times. */
void post_burn_run(struct post_burn *burn, struct post_faults *faults);
