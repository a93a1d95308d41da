/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what the benchmarks of the engine share: a model in memory, an arena, a clock. Each
 * benchmark is a binary of one file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/kernels.h"

struct bench_model {
    struct gguf gguf;
    struct kernels_weights *weights;
};

static inline _Noreturn void fail(const char *text)
{
    fprintf(stderr, "bench: %s\n", text);
    exit(1);
}

static inline double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline void arena_reserve(struct arena *arena, const struct memory_plan *plan, enum
                                 memory_kind tier)
{
    if (arena_map(arena, memory_plan_bytes(plan, tier), false) != STATUS_OK) {
        fail("no memory");
    }
}

static inline void model_load(struct bench_model *model, const char *path, bool as_bfloats)
{
    static struct arena arena;
    static struct kernels_loading loading;
    struct gguf_source source;
    struct config_error error;
    struct memory_plan plan = {0};
    if (gguf_source_open(&source, path, &error) != STATUS_OK ||
        gguf_scan(&model->gguf, &source, 1u << 30, &error) != STATUS_OK) {
        fail(error.text);
    }
    kernels_weights_plan_memory(&plan, &model->gguf, as_bfloats);
    arena_reserve(&arena, &plan, MEMORY_WEIGHTS);
    kernels_loading_begin(&loading, &model->gguf, &source, as_bfloats, &arena);
    if (kernels_loading_finish(&loading, NULL, &error) != STATUS_OK) {
        fail(error.text);
    }
    model->weights = loading.weights;
    gguf_source_close(&source);
}

static inline void sort(double *values, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        double value = values[i];
        uint32_t at = i;
        for (; at > 0 && values[at - 1] > value; at--) {
            values[at] = values[at - 1];
        }
        values[at] = value;
    }
}
