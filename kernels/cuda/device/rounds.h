/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the kernels between two rounds of a step (kernels.h: how to read this). They let the host
 * queue a round before the one before it has ended. The rules are those of config/base/step.h and
 * kernels/sample.h.
 *
 *   round 1       the engine writes rows, outs (zeros), slots, places and the round; place p has
 *                 row p, and samples its last slot if the row needs tokens. Places of drafts follow
 *   sample_scan, sample_weigh, sample_gather, sample
 *                 a token for each place that samples. In a draft, as if all of it up to there had
 *                 been sampled
 *   logprob       if a row of the step asks: log probabilities of what was sampled
 *   settle        what of it counts: a row's token, and those after it as far as its draft agrees
 *   advance       places whose row has ended go to standby rows. Slot p of the next round belongs
 *                 to place p, or is empty. The number of rows of a product stays the same; only
 *                 empty slots show that fewer are used
 *   draft         if a row of the step may have drafts: the next one
 *
 * A draft's tokens stand in the row's out tokens, after those that count.
 */
#include "kernels/cuda/device/record.h"

#define GPU_HISTORY_TOKENS 64u          /* CALL_REPEAT_TOKENS */
#define GPU_STOP_IDS_MAX   17u          /* CALL_STOP_IDS_MAX */
#define GPU_BIASES_MAX     64u          /* CALL_BIASES_MAX */
#define GPU_ENTRIES_MAX    21u          /* of a token: 1 + CALL_TOP_LOGPROBS_MAX */
#define GPU_LOGPROB_MAX    3e38f        /* CALL_LOGPROB_MAX */

/* One row of the step: struct step_row, and the part of struct call_sampling that the device
 * needs. */
struct gpu_row {
    uint64_t seed;
    float temperature, top_p, min_p, repeat_penalty;
    float presence_penalty, frequency_penalty;
    uint32_t top_k;
    uint32_t first_position, tokens_count, decode_steps;
    uint32_t token;             /* of a standby row: the token that it feeds */
    uint32_t drafts;            /* tokens of a draft at most; it has as many places, */
    uint32_t draft_place;       /* from this one on. Its own place is that of its number */
    uint32_t past_count;        /* known tokens before this step, for drafts; */
    uint32_t wants_digest;
    uint32_t history_count, history[GPU_HISTORY_TOKENS];
    uint32_t stop_ids_count, stop_ids[GPU_STOP_IDS_MAX];
    uint32_t generated_count;   /* the last ones of these that a penalty counts: only what is
                                   needed of them is uploaded; */
    uint32_t biases_count;      /* and biases */
    uint32_t entries;           /* log probabilities for each token; 0: none */
};

/* True when the row draws its tokens, and its candidates go by their weights, not by their ids. */
static inline GPU_BOTH int gpu_row_is_ranked(const struct gpu_row *row)
{
    return row->temperature > 0 && (row->top_k > 0 || row->top_p < 1 || row->min_p > 0);
}

/* struct call_bias. */
struct gpu_bias {
    uint32_t token;
    float bias;
};

/* struct call_logprob. */
struct gpu_entry {
    uint32_t token;
    float logprob;
};

/* struct step_out. */
struct gpu_out {
    uint32_t result;            /* enum step_row_result */
    uint32_t produced;
    uint64_t digest;
    uint32_t drafted, agreed, refused;
};
#define GPU_ROW_OK         0u
#define GPU_ROW_NOT_FINITE 1u

/* Sampling: the vocabulary of a place is cut into slices, with a thread block each. */
#define GPU_SLICE_TOKENS 4096u
#define GPU_BUCKET_SHIFT 20u            /* a bucket: a weight's exponent, 3 bits of the rest */
#define GPU_BUCKETS      1024u
#define GPU_LISTED_MAX   4096u          /* candidates that are gathered for a draw */

struct gpu_sample_slice {
    uint64_t mass;              /* of its weights */
    float largest;              /* logit, of equal ones that of the lowest id; */
    uint32_t id;                /* and its token */
    uint32_t bad;               /* not 0: a logit is not finite */
    uint32_t unused;
};

/* Of a place, before its slices. */
struct gpu_sample_memory {
    uint32_t low[GPU_BUCKETS], high[GPU_BUCKETS];   /* words of the sums of weights; */
    uint32_t counts[GPU_BUCKETS];                   /* candidates */
    uint32_t listed, unused;
    uint64_t list[GPU_LISTED_MAX];      /* keys, in no order: weight << 32 | ~id */
};

static inline GPU_BOTH uint32_t gpu_slices(uint32_t vocab_tokens)
{
    return gpu_ceil(vocab_tokens, GPU_SLICE_TOKENS);
}

/* Weights of a place: whole fours, so that each place begins where 16 bytes are read at once. */
static inline uint64_t gpu_sample_stride(uint32_t vocab_tokens)
{
    return (uint64_t)(vocab_tokens + 3) / 4 * 4;
}

/* Of one place. */
static inline uint64_t gpu_sample_memory_bytes(uint32_t vocab_tokens)
{
    return sizeof(struct gpu_sample_memory) +
           gpu_slices(vocab_tokens) * sizeof(struct gpu_sample_slice);
}

/* The token of each place that samples, by the rule of kernels/sample.h: the same logits give the
 * same token. Four kernels with the same arguments, one after the other: gpu_sample_scan,
 * gpu_sample_weigh, gpu_sample_gather, gpu_sample. */
struct gpu_sample {
    uint64_t logits;            /* float (places, vocab); stay as they are */
    uint64_t weights;           /* float (places, vocab): workspace */
    uint64_t memory;            /* gpu_sample_memory_bytes() of each place: workspace */
    uint64_t memory_bytes;      /* from one place to the next */
    uint64_t places;            /* struct gpu_place (places_count) */
    uint64_t rows;              /* struct gpu_row (rows of the step) */
    uint64_t outs;              /* struct gpu_out (rows of the step) */
    uint64_t out_tokens;        /* uint32_t (rows of the step, steps_max) */
    uint64_t past;              /* uint32_t (rows of the step, past_max) */
    uint64_t biases;            /* struct gpu_bias (rows of the step, GPU_BIASES_MAX) */
    uint64_t logits_stride, weights_stride, past_max;
    uint32_t places_count, vocab_tokens, steps_max;
};
#define GPU_SAMPLE_THREADS 256u
static inline struct gpu_launch gpu_sample_launch(const struct gpu_sample *args)
{
    struct gpu_launch launch = gpu_launch(args->places_count, 1, GPU_SAMPLE_THREADS);
    launch.shared_bytes = GPU_LISTED_MAX * sizeof(uint64_t) + 4096;
    return launch;
}

struct gpu_sample_scan { struct gpu_sample sample; };
struct gpu_sample_weigh { struct gpu_sample sample; };
struct gpu_sample_gather { struct gpu_sample sample; };

/* A thread block for each slice of each place. */
static inline struct gpu_launch gpu_slices_launch(const struct gpu_sample *sample,
                                                  uint32_t shared_bytes)
{
    struct gpu_launch launch =
        gpu_launch(gpu_slices(sample->vocab_tokens), sample->places_count, GPU_SAMPLE_THREADS);
    launch.shared_bytes = shared_bytes + 256;
    return launch;
}
static inline struct gpu_launch gpu_sample_scan_launch(const struct gpu_sample_scan *args)
{
    return gpu_slices_launch(&args->sample, 2 * GPU_SLICE_TOKENS * sizeof(uint32_t));
}
static inline struct gpu_launch gpu_sample_weigh_launch(const struct gpu_sample_weigh *args)
{
    return gpu_slices_launch(&args->sample, 3 * GPU_BUCKETS * sizeof(uint32_t));
}
static inline struct gpu_launch gpu_sample_gather_launch(const struct gpu_sample_gather *args)
{
    return gpu_slices_launch(&args->sample, 3 * GPU_BUCKETS * sizeof(uint32_t));
}

/* Log probabilities of the tokens that the places have just sampled, by the rule of
 * kernels/logprob.h, bit for bit; for rows that ask. Before gpu_settle. The others' entries stay as
 * they are. */
struct gpu_logprob {
    uint64_t logits;            /* float (places, vocab) */
    uint64_t places, rows, outs;    /* as in gpu_sample */
    uint64_t entries;           /* struct gpu_entry (rows, steps_max * GPU_ENTRIES_MAX); a row has
                                   row->entries for each token, one token after the other */
    uint64_t logits_stride;
    uint32_t places_count, vocab_tokens, steps_max;
};
static inline struct gpu_launch gpu_logprob_launch(const struct gpu_logprob *args)
{
    struct gpu_launch launch = gpu_launch(args->places_count, 1, GPU_SAMPLE_THREADS);
    launch.shared_bytes = 512;  /* the largest of each warp, a sum */
    return launch;
}

/* What counts of what was sampled: the token of a row's own place; and as long as that is the
 * draft's and the row goes on, the one of the place after it. A row whose logits, where they count,
 * are not finite gets GPU_ROW_NOT_FINITE and no token. One thread block. */
struct gpu_settle {
    uint64_t logits;            /* float (places, vocab): for digests */
    uint64_t places, rows, outs, out_tokens;    /* as in gpu_sample */
    uint64_t logits_stride;
    uint32_t own_count;         /* places of rows */
    uint32_t vocab_tokens, steps_max;
};
#define GPU_ROUND_THREADS 256u
static inline struct gpu_launch gpu_settle_launch(const struct gpu_settle *args)
{
    (void)args;
    return gpu_launch(1, 1, GPU_ROUND_THREADS);
}

/* The progress of a step; the engine begins with {0, first standby row, 0}. */
struct gpu_round {
    uint32_t round;             /* number of rounds that have run */
    uint32_t standby_next;      /* row of the step that enters next */
    uint32_t has_ended;         /* no row needs another token, or early stop: all slots are empty */
};

/* Between two rounds. One thread block. */
struct gpu_advance {
    uint64_t round;             /* struct gpu_round */
    uint64_t early_stop;        /* uint32_t, enum step_stop: in host memory, written at any time */
    uint64_t rows, outs, out_tokens;    /* as in gpu_sample */
    uint64_t places;            /* struct gpu_place (own_count) */
    uint64_t slots;             /* struct gpu_slot (own_count at least) */
    uint32_t own_count;         /* places of rows: rows_active of the step */
    uint32_t rows_count;        /* with standby rows */
    uint32_t steps_max;         /* tokens of a row of out_tokens */
    uint32_t rounds_max;        /* of a step */
};
static inline struct gpu_launch gpu_advance_launch(const struct gpu_advance *args)
{
    struct gpu_launch launch = gpu_launch(1, 1, GPU_ROUND_THREADS);
    launch.shared_bytes = (1 + args->own_count) * (uint32_t)sizeof(uint32_t);
    return launch;
}

/* The draft of each row that goes on and may have one: that of kernels/round/draft.h. After
 * gpu_advance. */
struct gpu_draft {
    uint64_t rows, outs, out_tokens;    /* as in gpu_sample */
    uint64_t past;              /* uint32_t (rows of the step, past_max) */
    uint64_t places, slots;     /* of drafts, too */
    uint64_t past_max;
    uint32_t own_count;         /* places of rows: a thread block for each */
    uint32_t steps_max;
};
static inline struct gpu_launch gpu_draft_launch(const struct gpu_draft *args)
{
    struct gpu_launch launch = gpu_launch(args->own_count, 1, GPU_ROUND_THREADS);
    launch.shared_bytes = 512;  /* which CUDA threads found a match; the longest of each warp */
    return launch;
}
