/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the CPU engine. Takes a step record (config/base/step.h), runs the forward pass of every
 * row over paged KV, samples, and writes the outs. Runs in the worker process; knows no program and
 * no socket.
 *
 * Promise: a row's tokens depend on the model, the build, the kind of CPU and the row's own call.
 * They do not depend on other rows, chunk sizes, block ids, threads, or on how often the row was
 * recomputed. How: every output number is summed in one fixed order (a vector lane is an output,
 * never a part of a sum that depends on the batch), and a sum is never split between threads.
 *
 * KV is [layer][kv_head][K|V][KV block][...]: what a head has of neighbouring blocks lies together
 * (round/piece.h). The inner order of K is [head_dim][token] (lanes are tokens), that of V is
 * [token][head_dim] (lanes are channels). Numbers are floats, halves, or levels of eight bits: then
 * the scales of the head's tokens follow in its piece of the block, so that a copy of a block is
 * one of bytes for all types. Blocks of the host tier have the same layout, in memory of their own.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/arena.h"
#include "config/base/step.h"
#include "config/config.h"
#include "config/model/gguf.h"

/* Sets of kernels, each faster than the one before: AVX2 with FMA and F16C; AVX-512 (F, BW, VL, DQ)
 * with VNNI; AVX-512 with VNNI and BF16. */
enum kernels_simd {
    KERNELS_PLAIN, KERNELS_AVX2, KERNELS_AVX512, KERNELS_AVX512BF16,
    KERNELS_SIMDS
};
/* The best set that this CPU can run. */
enum kernels_simd kernels_simd_best(void);
const char *kernels_simd_name(enum kernels_simd simd);
/* The set of that name, whether this CPU can run it or not; for any other name ("auto") the best
 * that it can run. */
enum kernels_simd kernels_simd_named(const char *name);

/* What a key or value is stored as. */
enum kernels_kv_type {
    KERNELS_KV_F32, KERNELS_KV_F16,
    /* Levels: of values eight bits, with a scale for each head and token; of keys nine, with a step
     * and a middle. */
    KERNELS_KV_Q8,
    KERNELS_KV_TYPES
};
/* Of a number, without the ninth bit. */
static inline uint32_t kernels_kv_number_bytes(enum kernels_kv_type type)
{
    return type == KERNELS_KV_F32 ? 4 : type == KERNELS_KV_F16 ? 2 : 1;
}
/* Of a head's value of one token, with its scale: a float. */
static inline uint64_t kernels_kv_value_bytes(enum kernels_kv_type type, uint32_t channels)
{
    uint64_t scale = type == KERNELS_KV_Q8 ? sizeof(float) : 0;
    return (uint64_t)channels * kernels_kv_number_bytes(type) + scale;
}
/* Of a head's key of one token, with its ninth bits, step and middle: two halves. */
static inline uint64_t kernels_kv_key_bytes(enum kernels_kv_type type, uint32_t channels)
{
    uint64_t bits = type == KERNELS_KV_Q8 ? (channels + UINT64_C(7)) / 8 : 0;
    return kernels_kv_value_bytes(type, channels) + bits;
}

struct kernels_settings {
    enum kernels_simd simd;
    bool weights_as_bfloats;            /* F32 and F16 are rounded to BF16 as they are loaded */
    uint32_t threads;
    uint32_t batch_calls, steps_per_plan, step_tokens, context_tokens;
    uint32_t standby_calls;             /* rows of a step beyond batch_calls */
    uint32_t past_tokens;               /* of a row (struct step_layout: past_max) */
    uint32_t kv_block_tokens, kv_blocks, blocks_per_call;
    enum kernels_kv_type kv_type;       /* rounded when it is stored */
    uint32_t kv_host_blocks;            /* blocks kv_blocks .. kv_blocks + kv_host_blocks - 1 */
};

/* Weights, packed for the kernels. Built once by the keeper, inherited read-only by workers. */
struct kernels_weights;     /* kernels/weights/weights.h; lies at the start of the weights arena */

/* Bytes of the packed weights (MEMORY_WEIGHTS). `as_bfloats`: matrices of F32 and F16 are rounded
 * to BF16. Loading takes the same value. */
void kernels_weights_plan_memory(struct memory_plan *plan, const struct gguf *gguf,
                                 bool as_bfloats);
/* A load in progress. */
struct kernels_loading {
    struct kernels_weights *weights;
    uint64_t done_bytes, total_bytes;   /* of tensors in the file; equal at the end */
    uint64_t digest;                    /* FNV-1a 64 over the bytes that are done, in file order */
    /* private: only kernels/weights/weights.c */
    const struct gguf *gguf;
    const struct gguf_source *source;
    uint32_t tensor_next;
    uint32_t order[GGUF_TENSORS_MAX];
};

/* BOOT_ONLY. Takes the arena's memory. The scan has checked that every tensor is there and that its
 * shape is right. */
void kernels_loading_begin(struct kernels_loading *loading, const struct gguf *gguf,
                           const struct gguf_source *source, bool as_bfloats,
                           struct arena *arena);
/* BOOT_ONLY. Reads one tensor, checks that every weight is finite, and packs it. `progress` (may be
 * NULL) is set to the permille that is done, also within a tensor. */
MUST_CHECK enum status kernels_loading_next(struct kernels_loading *loading,
                                            volatile uint32_t *progress,
                                            struct config_error *error);
/* BOOT_ONLY. Reads every tensor that is left; then the loading's weights and digest are final. */
MUST_CHECK enum status kernels_loading_finish(struct kernels_loading *loading,
                                              volatile uint32_t *progress,
                                              struct config_error *error);

struct kernels;             /* the engine; lies in the engine arena */
/* KV blocks, workspace, thread stacks (MEMORY_ENGINE). */
void kernels_plan_memory(struct memory_plan *plan, const struct kernels_settings *settings,
                         const struct model_shape *shape);
/* BOOT_ONLY, in the worker. Starts settings->threads - 1 threads on stacks from the arena.
 * `heartbeat` grows while the engine computes, at least once a layer. */
MUST_CHECK enum status kernels_init(struct kernels **kernels,
                                    const struct kernels_settings *settings,
                                    const struct kernels_weights *weights, struct arena *arena,
                                    volatile uint64_t *heartbeat);
/* Runs one step to its end: moves, then rows, then standby rows while a round is left. Fills outs
 * and out tokens. The record is the core's and trusted. */
void kernels_run(struct kernels *kernels, const struct step *step);
/* BOOT_ONLY. Who hears of each round that is not the last of its step, between two rounds: its
 * tokens are in the outs. All threads of the engine wait meanwhile. */
struct kernels_listener {
    void (*tell)(void *context);
    void *context;
};
void kernels_tell_rounds(struct kernels *kernels, const struct kernels_listener *listener);
/* Ends the threads (tests). */
void kernels_stop(struct kernels *kernels);
/* Logits (vocab_tokens) of the last position of row `row` of the last step. They are valid if the
 * rows before it decoded as many tokens as it did and no row decoded more. For tests, self-tests
 * and benchmarks. */
const float *kernels_logits(const struct kernels *kernels, uint32_t row);
