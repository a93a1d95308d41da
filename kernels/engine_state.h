/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the CPU engine's state. Private to kernels/: engine.c places it and runs rounds, forward.c
 * runs one pass over the slots of a round.
 *
 *   step    rows of calls, each with tokens to slot and tokens to sample
 *   round   one pass: the first slots the tokens of all rows, each later one the token just sampled
 *   slot    one token at one position of one row: a row of the activation buffers
 *   tile    slots that go through all layers together; earlier tiles leave their KV for later ones
 *   gather  a slot whose logits are wanted: the last one of a row that samples
 *   place   a row that runs has one of rows_active places; when it ends, a standby row gets it
 *   move    a KV block that is copied before the rows run (move.c)
 *
 * All threads run the same code and meet at barriers; a phase splits outputs (or rows, or heads)
 * among threads, never a sum.
 */
#include "kernels/ops.h"
#include "kernels/sample.h"
#include "kernels/threads.h"
#include "kernels/weights.h"

#define KERNELS_TILE_ROWS     256u      /* slots of a tile at most */
#define KERNELS_NORM_ROWS     4u        /* up to this many, every thread prepares for itself */
#define KERNELS_GATHER_NONE   UINT32_MAX
#define KERNELS_PHASES        5u        /* barriers of a layer */
/* Scores of a bundle stay in the L2 cache; of one row there may be more. */
#define KERNELS_SCORES_FLOATS (UINT64_C(64) << 10)
#define KERNELS_TOGETHER_MIN  12u       /* queries: two tiles are worth more than an idle thread */
/* Multiply-adds between two barriers below which one thread is faster alone: about 3 us of one
 * thread, a few times what a barrier costs when both CPUs are free and far less than when not. */
#define KERNELS_PHASE_WORK_MIN 100000u

/* Both tiers of KV are no larger: they may lie in a cache, and moves do not go past it. */
#define KERNELS_CACHED_BYTES_MAX (UINT64_C(64) << 20)

struct kernels_slot {
    uint32_t token, position;
    uint32_t row;               /* of the step */
    uint32_t gather;            /* index of its logits, or KERNELS_GATHER_NONE */
};

/* Feeds that attend together (attention.c). */
struct kernels_bundle {
    uint32_t first, end;        /* of attend_order */
    uint32_t tokens;            /* that one of them sees at most */
    uint32_t kin_first;         /* first of the bundles beside it that begin with the same block */
    uint32_t kin_count;         /* of the first: how many they are */
};

/* Memory that one thread has for itself. */
struct kernels_scratch {
    float *normed;              /* (KERNELS_NORM_ROWS, dim) */
    struct kernels_rounded rounded; /* (KERNELS_NORM_ROWS, widest input of a product) */
    float *scores;              /* (scores_floats): (queries of a bundle, scores_stride) */
    float *heads;               /* (queries of a bundle, lanes of a head) */
    float *sums;                /* (queries of a bundle): of the exponentials */
    struct kernels_sampler sampler;
    struct kernels_tuning tuning;   /* of its products */
};

/* Activations: (slots of a tile, kernels_stride_floats(width)). */
struct kernels_buffer {
    float *at;
    uint64_t stride;
};

struct kernels {
    struct kernels_settings settings;
    struct model_shape shape;
    const struct kernels_weights *weights;
    const struct kernels_ops *ops;
    volatile uint64_t *heartbeat;

    uint8_t *kv;            /* [block][layer][K|V][kv_head][head lanes * block_tokens] */
    uint8_t *kv_host;       /* the same, for blocks settings.kv_blocks .. */
    uint64_t kv_head_bytes, kv_block_bytes;
    uint64_t scores_floats;             /* of a thread */
    float attention_scale;              /* 1 / sqrt(head_dim) */
    float *rope;                        /* (context_tokens, rope_dim / 2, {cos, sin}) */
    uint32_t rotate_panels;               /* of queries or keys, that one thread must have together */

    uint32_t tile_rows;
    struct kernels_buffer x, normed, q, k, v, attended, gate, up;
    struct kernels_rounded rounded;     /* what the next product takes */
    struct kernels_buffer gathered;     /* (batch_calls, dim): normed, for the output matrix */
    struct kernels_buffer logits;       /* (batch_calls, vocab_tokens) */
    struct kernels_scratch *scratch;    /* [threads] */

    /* The round: written by thread 0 between two barriers, read by all. */
    const struct step *step;
    struct kernels_slot *slots;         /* (step_tokens) */
    uint32_t slots_count;
    uint32_t *gather_rows;              /* (batch_calls): the row of the step of each gather */
    uint32_t gathers_count;
    uint32_t round;
    uint32_t standby_next;              /* row of the step that enters next */

    /* The attention of a tile: written by thread 0 before the first layer, but for attend_next. */
    uint32_t *attend_order;             /* (tile_rows): slots of the tile */
    struct kernels_bundle *bundles;     /* (tile_rows) */
    uint32_t bundles_count;
    _Atomic uint32_t attend_next;       /* unit that nobody has taken */

    uint64_t phase_work_min;            /* KERNELS_PHASE_WORK_MIN; tests set 0: never alone */
    uint64_t cached_bytes_max;          /* KERNELS_CACHED_BYTES_MAX; tests set 0: never cached */
    struct kernels_threads threads;
};

/* What thread `thread` of `threads` does of `total` equal things: [first, end). */
struct kernels_share {
    uint32_t first, end;
};
static inline struct kernels_share kernels_share(uint32_t total, uint32_t thread, uint32_t threads)
{
    return (struct kernels_share){
        .first = (uint32_t)((uint64_t)total * thread / threads),
        .end = (uint32_t)((uint64_t)total * (thread + 1) / threads),
    };
}

static inline uint32_t kernels_smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Query heads that share a KV head. */
static inline uint32_t kernels_group(const struct model_shape *shape)
{
    return shape->heads / shape->kv_heads;
}

/* Rows of a bundle at most: KERNELS_BUNDLE_ROWS queries, or one row. */
static inline uint32_t kernels_bundle_rows(const struct model_shape *shape)
{
    uint32_t rows = KERNELS_BUNDLE_ROWS / kernels_group(shape);
    return rows > 1 ? rows : 1;
}

/* Where the keys (which = 0) or values (1) of a KV head begin in block 0. */
static inline uint8_t *kernels_kv_head(const struct kernels *k, uint32_t layer, uint32_t which,
                                       uint32_t kv_head)
{
    uint64_t heads = ((uint64_t)layer * 2 + which) * k->shape.kv_heads + kv_head;
    return k->kv + heads * k->kv_head_bytes;
}

/* Thread 0: which slots of a tile attend together. */
void kernels_bundle(struct kernels *kernels, const struct kernels_slot *slots, uint32_t rows);
/* Every thread: takes units of the tile's attention in a layer until none is left. */
void kernels_attend(struct kernels *kernels, uint32_t thread, const struct kernels_slot *slots,
                    uint32_t layer);
/* Every thread: runs the slots of the round; when it returns, logits of all gathers are there. */
void kernels_forward(struct kernels *kernels, uint32_t thread);
/* Every thread: carries out the moves of the step; ends with a barrier if there are any. */
void kernels_moves(struct kernels *kernels, uint32_t thread);
