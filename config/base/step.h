/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the record of one step, the only thing that core and engine worker say to each other. It is
 * self-contained (tokens, block ids and sampling are copied in), lies in shared memory, holds
 * offsets and no pointers, and is written by one side at a time:
 *
 *   core   sched_engine_plan() and kvmem_bind() fill header, rows, tokens, blocks   then submit
 *   worker kernels_run() fills outs and progress: after each round the tokens of it
 *   core   sched_engine_progress() publishes these tokens while the step goes on
 *   worker                                                                          then done
 *   core   sched_engine_settle() reads outs, and trusts nothing in them unchecked
 *
 * What the worker writes lies in pages of its own at the end. It maps the rest read-only.
 *
 * A row feeds `tokens_count` tokens of one call at positions first_position.., whose KV goes to the
 * call's blocks; then it samples up to `decode_steps` tokens, each fed back at the next position
 * (multi-step decode, paper 000 section 5). decode_steps = 0: a prompt chunk that does not reach
 * the end of the prompt. After the row, KV holds first_position + tokens_count + (produced - 1)
 * positions when produced > 0: the last token is known and not yet fed.
 *
 * Over-provisioning (paper 000, section 5): rows from rows_active on are standbys, calls that are
 * resident and have one token to feed. When a row ends before the step does, the next standby takes
 * its place, for the rounds that are left: a row that ends in round r leaves N - r - 1 of them. A
 * standby that never entered has produced 0 and fed nothing.
 *
 * Drafts (docs/decisions/0089): in each round an engine may feed, after a row's last token, a draft
 * of up to `drafts` tokens that may come next (kernels/round/draft.h). It samples at each of these
 * places as if it had come there token by token, until a sampled token is not the one that was fed
 * after it: that one counts, what was fed beyond does not. So a round brings 1 to drafts + 1
 * tokens, the same ones as without drafts. A draft never goes beyond decode_steps, so its KV lies
 * in the row's own blocks, at positions that later tokens fill again. An engine need not make any.
 *
 * A step that is doubted is a spot check of the engine: each of its rounds is computed a second
 * time, over the same KV, before the next one. Its results are those of any other step.
 *
 * A step ends when no row needs another token, after N rounds at most, or sooner at an early stop:
 * what its rows have produced until then counts, and they go on in the next step. `early_stop` is
 * the one word that the core may write while the worker runs, and it only grows.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/arena.h"
#include "config/base/call.h"

#define STEP_PAGE_BYTES 4096
#define STEP_DRAFTS_MAX 15              /* tokens of a draft */

struct step_row {
    uint32_t call;                  /* slot */
    uint32_t call_generation;
    uint32_t first_position;
    uint32_t tokens_count;          /* >= 1 */
    uint32_t tokens_first;          /* index into tokens of the step */
    uint32_t decode_steps;          /* 0 .. steps_max */
    uint32_t blocks_count;          /* covers first_position + tokens_count + decode_steps - 1 */
    uint32_t history_count;         /* <= CALL_REPEAT_TOKENS: the tokens before position
                                       first_position + tokens_count, newest last; 0: no penalty */
    uint32_t history[CALL_REPEAT_TOKENS];
    uint32_t past_count;            /* tokens of step_past(): the call's last known ones, with this
                                       step's chunk; where there may be drafts all of them, after
                                       the last ones that its program's earlier calls generated */
    uint32_t generated_count;       /* of these, the last ones: that the call has generated before
                                       this step, of all of its life; 0: no penalty counts them */
    uint32_t drafts;                /* tokens that a draft for it may have. All of them, and one for
                                       each row, are rows of the batch at most. A standby has 0 */
    struct call_bias biases[CALL_BIASES_MAX];   /* [sampling.biases_count] */
    bool wants_digest;              /* of its logits; only the canary's row does */
    struct call_sampling sampling;
};

enum step_row_result {
    STEP_ROW_OK = 0,
    STEP_ROW_NOT_FINITE = 1,        /* a logit was NaN or infinite: nothing of this row counts */
};

struct step_out {
    uint32_t result;                /* enum step_row_result */
    uint32_t produced;              /* tokens sampled; fewer than asked only after a stop id, or
                                       when the step ended early: then at least one. Written last
                                       in its round (step_out_publish), for it can be read then */
    uint64_t digest;                /* FNV-1a of the logits of each, where the row asks for it */
    uint32_t drafted;               /* tokens of drafts that were fed; */
    uint32_t agreed;                /* of these, those that were also sampled: each has saved a
                                       round; */
    uint32_t refused;               /* rounds in which not all tokens of a draft agreed */
};

/* What became of a step that was to be computed twice (header.is_doubted). */
enum step_doubt {
    STEP_DOUBT_NONE,                /* it was computed once */
    STEP_DOUBT_HELD,                /* each of its rounds came out the same twice */
    STEP_DOUBT_REFUTED,             /* one did not, and the step ended with it */
};

/* How far the step is. */
struct step_progress {
    uint64_t sequence;              /* of the step whose outs these are */
    uint32_t rounds;                /* that it has had */
    uint32_t doubt;                 /* enum step_doubt; before it is done, none */
};

enum step_stop {
    STEP_STOP_LAST,                 /* N rounds, or until no row needs another token */
    STEP_STOP_ROW,                  /* ends with a round after which a place is empty: its row has
                                       got its last token, and no standby takes it */
    STEP_STOP_ROUND,                /* ends with the round that runs, or that comes first */
};

/* One KV block to copy before the rows run. Its number tells its tier (kvmem/kvmem.h). No
 * block is the target of two moves, and no host block is both source and target; a device block may
 * be left by one move and filled by another or by a row. So the moves are made in three phases:
 *
 *   out      device -> host      in any order, and in bulk
 *   within   device -> device    in the order of the list: what one reads, a later one may fill
 *   in       host -> device      in any order, and in bulk
 */
struct step_move {
    uint32_t from, to;
};

enum step_phase { STEP_PHASE_OUT, STEP_PHASE_WITHIN, STEP_PHASE_IN, STEP_PHASES };

static inline enum step_phase step_move_phase(const struct step_move *move, uint32_t device_blocks)
{
    return move->to >= device_blocks     ? STEP_PHASE_OUT
           : move->from >= device_blocks ? STEP_PHASE_IN
                                         : STEP_PHASE_WITHIN;
}

struct step_header {
    uint32_t rows_count;            /* rows_max at most */
    uint32_t rows_active;           /* rows that run from the start; the others are standbys */
    uint32_t tokens_count;
    uint32_t moves_count;
    uint64_t sequence;              /* grows by one per plan; 0: of no plan, the canary */
    uint32_t is_doubted;            /* each round is computed twice, by other threads, and compared
                                       (docs/decisions/0090) */
    uint32_t early_stop;                 /* enum step_stop; by step_stop_early() while the step
                                            runs */
};

/* What the core remembers of a row: the record lies in memory that the worker shares, so the core
 * reads nothing back from it but outs and rounds. */
struct step_planned {
    uint32_t call, call_generation;
    uint32_t first_position, tokens_count, decode_steps, drafts;
};

/* Geometry, fixed at boot. All offsets in bytes from the start of the record. */
struct step_layout {
    uint32_t rows_max;              /* calls in one batch, and standbys */
    uint32_t steps_max;             /* decode steps per plan (N) */
    uint32_t tokens_max;            /* prompt tokens of all rows of a step, plus one per row */
    uint32_t blocks_per_call;
    uint32_t moves_max;
    uint32_t logprobs_max;          /* entries of log probabilities for a token; 0: none */
    uint32_t past_max;              /* tokens of step_past(); 0: none are told (past_count) */
    uint64_t moves_offset;
    uint64_t rows_offset, tokens_offset, blocks_offset, past_offset;
    uint64_t worker_offset;         /* of the first page that the worker writes */
    uint64_t outs_offset, out_tokens_offset, logprobs_offset;
    uint64_t total_bytes;
};

/* The caller has set rows_max, steps_max, tokens_max, blocks_per_call, moves_max, past_max and
 * logprobs_max; this works out the rest. */
void step_layout_init(struct step_layout *layout);

struct step {                       /* a view: geometry and base address of one record */
    struct step_layout layout;
    uint8_t *base;
};

/* A digest of all that the worker has written for the step that was submitted as `sequence`: it
 * comes with "done" (appliance/control.h). Results of an earlier step, or of half a one, have
 * another. O(what is written). */
uint64_t step_proof(const struct step *step, uint32_t sequence);

/* The record of an engine: they lie one after the other, and `first` is that of engine 0. */
static inline struct step step_at(const struct step *first, uint32_t engine)
{
    return (struct step){first->layout, first->base + engine * first->layout.total_bytes};
}
static inline struct step_header *step_header(const struct step *step)
{
    return (struct step_header *)(void *)step->base;
}
static inline void step_stop_early(const struct step *step, enum step_stop early_stop)
{
    __atomic_store_n(&step_header(step)->early_stop, (uint32_t)early_stop, __ATOMIC_RELAXED);
}
static inline enum step_stop step_early_stop(const struct step *step)
{
    return (enum step_stop)__atomic_load_n(&step_header(step)->early_stop, __ATOMIC_RELAXED);
}
static inline struct step_row *step_row(const struct step *step, uint32_t row)
{
    return (struct step_row *)(void *)(step->base + step->layout.rows_offset) + row;
}
static inline struct step_move *step_moves(const struct step *step)    /* (moves_max) */
{
    return (struct step_move *)(void *)(step->base + step->layout.moves_offset);
}
static inline uint32_t *step_tokens(const struct step *step)          /* (tokens_max) */
{
    return (uint32_t *)(void *)(step->base + step->layout.tokens_offset);
}
static inline uint32_t *step_blocks(const struct step *step, uint32_t row) /* (blocks_per_call) */
{
    return (uint32_t *)(void *)(step->base + step->layout.blocks_offset) +
           (uint64_t)row * step->layout.blocks_per_call;
}
static inline uint32_t *step_past(const struct step *step, uint32_t row) /* (past_max) */
{
    return (uint32_t *)(void *)(step->base + step->layout.past_offset) +
           (uint64_t)row * step->layout.past_max;
}
static inline const uint32_t *step_generated(const struct step *step, uint32_t row)
{
    const struct step_row *of = step_row(step, row);    /* (generated_count) */
    return step_past(step, row) + of->past_count - of->generated_count;
}
static inline struct step_progress *step_progress(const struct step *step)
{
    return (struct step_progress *)(void *)(step->base + step->layout.worker_offset);
}
static inline uint32_t *step_rounds(const struct step *step)
{
    return &step_progress(step)->rounds;
}
/* Worker: from now on the outs are those of the step that runs; it has had no round. */
static inline void step_progress_begin(const struct step *step)
{
    struct step_progress *progress = step_progress(step);
    progress->doubt = STEP_DOUBT_NONE;
    __atomic_store_n(&progress->rounds, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&progress->sequence, step_header(step)->sequence, __ATOMIC_RELEASE);
}
/* Worker: the tokens of all rounds up to this one are in the outs. */
static inline void step_progress_round(const struct step *step, uint32_t rounds)
{
    __atomic_store_n(&step_progress(step)->rounds, rounds, __ATOMIC_RELEASE);
}
/* Core: rounds that the step of this sequence has had. */
static inline uint32_t step_progress_rounds(const struct step *step, uint64_t sequence)
{
    const struct step_progress *progress = step_progress(step);
    bool is_of = __atomic_load_n(&progress->sequence, __ATOMIC_ACQUIRE) == sequence;
    return is_of ? __atomic_load_n(&progress->rounds, __ATOMIC_ACQUIRE) : 0;
}
static inline struct step_out *step_out(const struct step *step, uint32_t row)
{
    return (struct step_out *)(void *)(step->base + step->layout.outs_offset) + row;
}
/* Worker: the tokens before `produced` are written. */
static inline void step_out_publish(struct step_out *out, uint32_t produced)
{
    __atomic_store_n(&out->produced, produced, __ATOMIC_RELEASE);
}
/* Core: how many tokens of the row can be read while the step runs. */
static inline uint32_t step_out_published(const struct step_out *out)
{
    return __atomic_load_n(&out->produced, __ATOMIC_ACQUIRE);
}
static inline uint32_t *step_out_tokens(const struct step *step, uint32_t row) /* (steps_max) */
{
    return (uint32_t *)(void *)(step->base + step->layout.out_tokens_offset) +
           (uint64_t)row * step->layout.steps_max;
}
/* Log probabilities of the tokens that the row samples, as many entries for each as the row asks
 * for, one token after the other: from entry `first` on (steps_max * logprobs_max in all). */
static inline struct call_logprob *step_logprobs(const struct step *step, uint32_t row,
                                                 uint32_t first)
{
    return (struct call_logprob *)(void *)(step->base + step->layout.logprobs_offset) +
           (uint64_t)row * step->layout.steps_max * step->layout.logprobs_max + first;
}
