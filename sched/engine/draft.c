/* SPDX-License-Identifier: MIT */
/*
 * What: how many tokens a row's draft may have (config/base/step.h). A draft never changes a token;
 * it costs time where it is refused and saves rounds where it agrees.
 *
 *   room    of the batch, what the rows leave: drafts take no row's place, a full batch has none
 *   share   of a program's tokens of drafts, those that agreed, lately. Where it has no drafts the
 *           share comes back to SHARE_START, so that it is tried again
 *   slot    what one more token slot of a draft adds to a round: the slope between a step and the
 *           next one that has the same rows, so reads the same KV, but has other drafts. Before
 *           there are such pairs it is the slope of a line through the last steps, each with its
 *           slots and its time for a round: too much where rows have long contexts, for a row
 *           brings its KV, too. Before steps have differed it is a part of the round's time
 *   worth   the j-th token of a draft agrees with a chance of share^j; then it saves its row a
 *           round. A slot slows all rows down. So it has to bring at least what the step brings
 *           in that time: share^j * time of a round >= rows * slot
 *
 *   text    that the worker guesses from: all that is known of the call, after what it recalls of
 *           calls that have ended (class/recall.h)
 *
 * Invariants: rows and tokens of drafts together are batch rows at most; a draft is shorter than
 * what its row decodes. Standbys have none, nor rows of a trial (suspicion.h).
 * Bounds: integers only; O(rows * STEP_DRAFTS_MAX) for each plan, and the tokens of rows that get
 * drafts are copied into the record.
 */
#include "sched/engine/draft.h"

#include <string.h>

#include "config/base/hash.h"
#include "sched/class/recall.h"
#include "sched/engine/plan.h"

#define SHARE_ONE    UINT64_C(65536)
#define SHARE_START  (SHARE_ONE / 2)
#define SHARE_PARTS  16u            /* a token counts for one of so many, */
#define RETURN_PARTS 64u            /* a step without drafts for one of so many */
#define SLOT_PARTS   32             /* a step counts for one of so many */
#define SLOTS_ONE    256            /* of a mean number of slots */
#define SLOT_SHARE   11             /* a slot is guessed to be a round, by rows and so many; */
#define GUESS_PARTS  16             /* the guess counts as a slot's variance, by so many: it is far
                                       off where weights lie in a cache; */
#define GUESS_RANGE  11             /* and is at most so many times wrong: other processes take time
                                       of the CPUs, too */
#define ROUND_NS_MAX UINT64_C(1000000000)

static struct program *program_of(const struct sched_engine *engine, uint32_t row)
{
    const struct call *call = sched_call(engine->sched, engine->planned[row].call);
    return &engine->sched->programs[call->program];
}

static uint64_t share_of(const struct program *program)
{
    return program->draft_share > 0 ? program->draft_share : SHARE_START;
}

static void fill_text(struct sched_engine *engine, uint32_t row)
{
    const struct sched *sched = engine->sched;
    const struct call *call = sched_call(sched, engine->planned[row].call);
    uint32_t known = sched_call_known(call);
    uint32_t *past = step_past(&engine->step, row);
    ASSERT(sched_recall_most(&sched->settings) + known <= engine->step.layout.past_max);
    uint32_t recalled = sched_recall_copy(sched, call, past);
    memcpy(past + recalled, call->tokens, known * sizeof *past);
    step_row(&engine->step, row)->past_count = recalled + known;
}

/* ---- worth ----------------------------------------------------------------------------------- */

/* Nanoseconds of a slot: the guess counts as if it had been seen, too. */
static int64_t slope_ns(int64_t covariance, int64_t variance, int64_t guess_ns)
{
    int64_t known = SLOTS_ONE * SLOTS_ONE / GUESS_PARTS;
    return (covariance + guess_ns * (known / SLOTS_ONE)) * SLOTS_ONE / (variance + known);
}

static int64_t within(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value < most ? value : most;
}

/* What a slot of a draft adds, as a part of a round's time, in 1 / SHARE_ONE. */
static uint64_t slot_part(const struct sched_draft_cost *cost)
{
    int64_t rows = cost->slots / SLOTS_ONE;
    int64_t guess = cost->round_ns / (rows + SLOT_SHARE);
    int64_t least = guess / GUESS_RANGE, most = guess * GUESS_RANGE;
    int64_t line_ns = within(slope_ns(cost->covariance, cost->variance, guess), least, most);
    int64_t slot_ns = slope_ns(cost->pair.covariance, cost->pair.variance, line_ns);
    slot_ns = within(slot_ns, least, most);
    return cost->round_ns > 0 ? (uint64_t)slot_ns * SHARE_ONE / (uint64_t)cost->round_ns
                              : SHARE_ONE / (1 + SLOT_SHARE);
}

/* The chance that the first `tokens` tokens of a draft agree. */
static uint64_t chance_of(uint64_t share, uint32_t tokens)
{
    uint64_t chance = SHARE_ONE;
    for (uint32_t i = 0; i < tokens; i++) {
        chance = chance * share / SHARE_ONE;
    }
    return chance;
}

/* Gives a token more to each row whose draft has tokens - 1 and for which it is worth it. Returns
 * the room that is left. */
static uint32_t give(struct sched_engine *engine, uint32_t tokens, uint64_t least, uint32_t room)
{
    for (uint32_t i = 0; i < engine->planned_active && room > 0; i++) {
        struct step_planned *planned = &engine->planned[i];
        if (planned->drafts + 1 == tokens && tokens < planned->decode_steps &&
            chance_of(share_of(program_of(engine, i)), tokens) >= least) {
            planned->drafts = tokens;
            room--;
        }
    }
    return room;
}

void sched_draft_plan(struct sched_engine *engine)
{
    const struct sched_settings *settings = &engine->sched->settings;
    uint32_t rows = engine->planned_active, room = settings->batch_calls - rows;
    uint64_t least = rows * slot_part(&engine->draft_cost);
    ASSERT(rows <= settings->batch_calls && settings->speculate <= STEP_DRAFTS_MAX);
    if (settings->speculate == 0 || engine->is_trial) {
        return;
    }
    for (uint32_t tokens = 1; tokens <= settings->speculate; tokens++) {
        room = give(engine, tokens, least, room);
    }
    for (uint32_t i = 0; i < rows; i++) {
        if (engine->planned[i].drafts > 0) {
            step_row(&engine->step, i)->drafts = engine->planned[i].drafts;
            fill_text(engine, i);
        }
    }
}

/* ---- what came of it ------------------------------------------------------------------------- */

bool sched_draft_is_possible(const struct sched_engine *engine, uint32_t row)
{
    const struct step_out *out = &engine->outs[row];
    uint32_t rounds = out->produced - out->agreed;
    bool is_less = out->agreed < out->produced || out->agreed == 0;
    return is_less && out->agreed <= out->drafted && out->refused <= rounds &&
           out->drafted <= (uint64_t)engine->planned[row].drafts * rounds;
}

static uint64_t share_after(uint64_t share, const struct step_out *out)
{
    for (uint32_t i = 0; i < out->agreed; i++) {
        share += (SHARE_ONE - share) / SHARE_PARTS;
    }
    for (uint32_t i = 0; i < out->refused; i++) {
        share -= share / SHARE_PARTS;
    }
    return share;
}

void sched_draft_settle(struct sched_engine *engine, uint32_t row, uint64_t now_us)
{
    struct sched *sched = engine->sched;
    const struct step_out *out = &engine->outs[row];
    if (sched->settings.speculate == 0) {
        return;
    }
    struct program *program = program_of(engine, row);
    uint64_t share = share_of(program);
    if (engine->planned[row].drafts == 0) {
        share = (share * (RETURN_PARTS - 1) + SHARE_START) / RETURN_PARTS;
    }
    program->draft_share = (uint32_t)share_after(share, out);
    if (out->drafted > 0) {
        struct call *call = sched_call(sched, engine->planned[row].call);
        call->draft_tokens += out->drafted;
        call->draft_tokens_agreed += out->agreed;
        sched->stats->draft_tokens += out->drafted;
        sched->stats->draft_tokens_agreed += out->agreed;
        sched_note(sched, call, now_us,
                   (struct event_what){EVENT_DRAFTED, {out->drafted, out->agreed}});
    }
}

/* Token slots of a step's rounds. */
struct slots {
    uint64_t rows, drafts;          /* rows 0: a row has read more than one token */
};

static struct slots slots_of(const struct sched_engine *engine)
{
    struct slots slots = {0};
    for (uint32_t i = 0; i < engine->planned_count; i++) {
        const struct step_out *out = &engine->outs[i];
        if (engine->planned[i].tokens_count > 1) {
            return (struct slots){0};
        }
        slots.rows += out->produced - out->agreed;
        slots.drafts += out->drafted;
    }
    return slots;
}

/* Of the step's rows, where each of them was in all its rounds; else 0. */
static uint64_t rows_key(const struct sched_engine *engine, uint32_t rounds)
{
    uint64_t key = HASH_START_A;
    for (uint32_t i = 0; i < engine->planned_count; i++) {
        const struct step_planned *planned = &engine->planned[i];
        const struct step_out *out = &engine->outs[i];
        uint32_t row_rounds = out->produced - out->agreed;
        if (row_rounds == rounds) {
            uint64_t of = (uint64_t)planned->call << 32 | planned->call_generation;
            key = hash_fold(key ^ HASH_START_B, of ^ HASH_START_A);
        } else if (row_rounds > 0) {
            return 0;
        }
    }
    return key;
}

static void learn_pair(struct sched_draft_pair *pair, uint64_t key, int64_t drafts,
                       int64_t round_ns)
{
    int64_t more = drafts - pair->drafts;
    int64_t most = round_ns < pair->round_ns ? round_ns : pair->round_ns;
    int64_t longer = within(round_ns - pair->round_ns, -most, most);    /* one was interrupted */
    if (key != 0 && key == pair->rows_key && more != 0) {
        pair->covariance += (more * longer - pair->covariance) / SLOT_PARTS;
        pair->variance += (more * more - pair->variance) / SLOT_PARTS;
    }
    pair->rows_key = key;
    pair->drafts = drafts;
    pair->round_ns = round_ns;
}

void sched_draft_learn(struct sched_engine *engine, uint64_t duration_us, uint32_t rounds)
{
    struct sched_draft_cost *cost = &engine->draft_cost;
    struct slots all = engine->sched->settings.speculate > 0 ? slots_of(engine) : (struct slots){0};
    if (rounds == 0 || all.rows == 0) {
        return;
    }
    uint64_t ns = duration_us < ROUND_NS_MAX / 1000 * rounds ? 1000 * duration_us / rounds
                                                             : ROUND_NS_MAX;
    int64_t drafts = (int64_t)(all.drafts * SLOTS_ONE / rounds), round_ns = (int64_t)ns;
    int64_t slots = (int64_t)((all.rows + all.drafts) * SLOTS_ONE / rounds);
    if (cost->round_ns == 0) {
        *cost = (struct sched_draft_cost){.slots = slots, .round_ns = round_ns};
    }
    learn_pair(&cost->pair, rows_key(engine, rounds), drafts, round_ns);
    int64_t more = slots - cost->slots;
    int64_t longer = within(round_ns - cost->round_ns, INT64_MIN, cost->round_ns);
    cost->slots += more / SLOT_PARTS;                               /* else it was interrupted */
    cost->round_ns += longer / SLOT_PARTS;
    cost->covariance += (more * longer - cost->covariance) / SLOT_PARTS;
    cost->variance += (more * more - cost->variance) / SLOT_PARTS;
}
