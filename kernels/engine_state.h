/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the CPU engine's state, and what its parts call of one another. Private to kernels/.
 * engine.c places it, round/ runs the rounds of a step; forward.c and attention.c do the work of
 * one.
 *
 *   step    rows of calls, each with tokens to feed and tokens to sample
 *   round   one forward pass: the first one takes the tokens of all rows, each later one the token
 *           that each row has just sampled
 *   slot    token slot: one token at one position of one row; a row of the activation buffers
 *   tile    slots that go through all layers together; later tiles read the KV of earlier ones
 *   gather  a slot whose logits are needed: the last one of a row that samples, and those of its
 *           draft (kernels/round/draft.h)
 *   place   a row that samples has one of rows_active places; when it ends, a standby row gets it
 *   move    a KV block that is copied before the rows run (round/move.c)
 *
 * All threads run the same code and meet at barriers. A phase splits outputs, rows or heads among
 * the threads, never a sum.
 */
#include "kernels/ops.h"
#include "kernels/sample.h"
#include "kernels/threads.h"
#include "kernels/weights/weights.h"

#define KERNELS_TILE_ROWS     256u      /* slots of a tile at most */
#define KERNELS_NORM_ROWS     4u        /* up to so many rows, every thread prepares all of them */
#define KERNELS_GATHER_NONE   UINT32_MAX
#define KERNELS_PHASES        5u        /* barriers of a layer */
/* The scores of a bundle stay in the L2 cache; those of one row may be more. */
#define KERNELS_SCORES_FLOATS (UINT64_C(128) << 10)
#define KERNELS_TOGETHER_MIN  12u       /* queries: two tiles save more than an idle thread costs */
/* Below so many multiply-adds between two barriers one thread is faster alone: about 3 us of one
 * thread. A barrier costs a few times less when both CPUs are free, and far more when not. */
#define KERNELS_PHASE_WORK_MIN 100000u

/* Up to this size of both KV tiers together, KV may lie in a cache, so moves go through it. */
#define KERNELS_CACHED_BYTES_MAX (UINT64_C(64) << 20)

struct kernels_slot {
    uint32_t token, position;
    uint32_t row;               /* of the step */
    uint32_t gather;            /* index of its logits, or KERNELS_GATHER_NONE */
};

/* A row that samples in a round. */
struct kernels_place {
    uint32_t row;               /* of the step */
    uint32_t gather;            /* the first of its gathers: draft_count follow */
    uint32_t known;             /* tokens that the row had produced before the round */
    uint32_t draft_count;
    uint32_t draft[STEP_DRAFTS_MAX];    /* fed after the row's last token */
};

/* Feeds that attend together (attention.c). */
struct kernels_bundle {
    uint32_t first, end;        /* of attend_order */
    uint32_t tokens;            /* the most that one of them sees */
    uint32_t kin_first;         /* first of the neighbouring bundles with the same first KV block */
    uint32_t kin_count;         /* in that first one: how many they are */
};

/* One thread's own memory. */
struct kernels_scratch {
    float *normed;              /* (KERNELS_NORM_ROWS, dim) */
    struct kernels_rounded rounded; /* (KERNELS_NORM_ROWS, widest input of a product) */
    float *scores;              /* (scores_floats): (queries of a bundle, scores_stride) */
    float *heads;               /* (queries of a bundle, lanes of a head) */
    float *sums;                /* (queries of a bundle): sums of the exponentials */
    struct kernels_sampler sampler;
    struct kernels_tuning tuning;
    uint64_t digest;            /* of its part of a doubted round (round/doubt.c) */
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

    uint8_t *kv;            /* [layer][kv_head]{[KV block][keys_bytes], [KV block][values_bytes]} */
    uint8_t *kv_host;       /* the same, of the blocks from settings.kv_blocks on */
    uint64_t keys_bytes, values_bytes;      /* of a head in a KV block */
    uint64_t kv_block_bytes;                /* of all its pieces (round/piece.h) */
    uint64_t scores_floats;             /* per thread */
    float attention_scale;              /* 1 / sqrt(head_dim) */
    float *rope;                        /* (context_tokens, rope_dim / 2, {cos, sin}) */
    uint32_t rotate_panels;             /* of queries and keys, that one thread needs at once */
    uint32_t value_panels;              /* of values */

    uint32_t tile_rows;
    struct kernels_buffer x, normed, q, k, v, attended, gate, up;
    struct kernels_rounded rounded;     /* input of the next product */
    struct kernels_buffer gathered;     /* (batch_calls, dim): normed, for the output matrix */
    struct kernels_buffer logits;       /* (batch_calls, vocab_tokens) */
    struct kernels_scratch *scratch;    /* [threads] */

    /* The round: thread 0 writes it between two barriers, all threads read it. */
    const struct step *step;
    struct kernels_slot *slots;         /* (step_tokens) */
    uint32_t slots_count;
    struct kernels_place *places;       /* (batch_calls) */
    uint32_t places_count, gathers_count;
    uint32_t round;
    uint32_t standby_next;              /* row of the step that enters next */
    bool is_doubted;                    /* the rounds of this step are computed twice */
    _Atomic bool is_refuted;            /* one of them came out otherwise */

    /* The attention of a tile: except attend_next, thread 0 writes it before the first layer. */
    uint32_t *attend_order;             /* (tile_rows): slots of the tile */
    struct kernels_bundle *bundles;     /* (tile_rows) */
    uint32_t bundles_count;
    _Atomic uint32_t attend_next;       /* the next unit that no thread has taken; in a step that
                                           is doubted they are dealt out, in turn */

    struct kernels_listener on_round;
    uint64_t phase_work_min;            /* KERNELS_PHASE_WORK_MIN; tests set 0: never alone */
    uint64_t cached_bytes_max;          /* KERNELS_CACHED_BYTES_MAX; tests set 0: never cached */
    struct kernels_threads threads;
};

/* The share of thread `thread` among `threads` in `total` equal things: [first, end). */
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


/* Query heads that share a KV head. */
static inline uint32_t kernels_group(const struct model_shape *shape)
{
    return shape->heads / shape->kv_heads;
}

/* The most rows of a bundle: KERNELS_BUNDLE_ROWS queries, or one row. */
static inline uint32_t kernels_bundle_rows(const struct model_shape *shape)
{
    uint32_t rows = KERNELS_BUNDLE_ROWS / kernels_group(shape);
    return rows > 1 ? rows : 1;
}

/* The columns of one head within a share of columns. */
struct kernels_head_part {
    uint32_t head;
    uint32_t first, end;        /* channels */
};
static inline struct kernels_head_part kernels_head_part_at(const struct model_shape *shape,
                                                            uint32_t column, uint32_t columns_end)
{
    uint32_t head_dim = shape->head_dim;
    struct kernels_head_part part = {.head = column / head_dim, .first = column % head_dim};
    uint32_t left = columns_end - column;
    part.end = left < head_dim - part.first ? part.first + left : head_dim;
    return part;
}

/* A token's keys and values on their way into its KV block. */
struct kernels_storing {
    const struct kernels *k;
    const struct kernels_slot *slot;
    struct kernels_scratch *scratch;        /* of the thread */
    uint32_t layer;
    const float *keys, *values;             /* (kv_heads, head_dim) */
    struct kernels_share key, value;        /* the thread's columns; of levels, whole heads */
};
/* The thread that computed the columns: stores them as kv.type says. */
void kernels_kv_store(const struct kernels_storing *storing);
/* Thread 0: decides which slots of a tile attend together. */
void kernels_bundle(struct kernels *kernels, const struct kernels_slot *slots, uint32_t rows);
/* Every thread: takes units of the tile's attention in a layer until none is left. */
void kernels_attend(struct kernels *kernels, uint32_t thread, const struct kernels_slot *slots,
                    uint32_t layer);
/* Every thread: the forward pass of the round's slots. After it the logits of all gathers are
 * there. */
void kernels_forward(struct kernels *kernels, uint32_t thread);
/* Every thread: a step. It is what kernels_threads_run() runs. */
void kernels_work(void *context, uint32_t thread);
/* Every thread, in a round of a step that is doubted: the thread whose part `thread` computes when
 * everything is computed again. */
static inline uint32_t kernels_doubt_part(const struct kernels *k, uint32_t thread)
{
    return (thread + 1) % k->threads.active;
}
/* Every thread, after the forward pass: computes it again, and compares. Refuted or not, logits and
 * KV are there. */
void kernels_doubt_forward(struct kernels *kernels, uint32_t thread);
/* Every thread: carries out the moves of the step. Ends with a barrier if there are any. */
void kernels_moves(struct kernels *kernels, uint32_t thread);
