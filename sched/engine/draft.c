/* SPDX-License-Identifier: MIT */
/*
 * What: how many tokens a row's draft may have (config/base/step.h). A draft never changes a token;
 * it costs time where it is refused and saves rounds where it agrees.
 *
 *   room    of the batch, what the rows leave: drafts take no row's place, a full batch has none
 *   share   of a program's tokens of drafts, those that agreed, lately. Where it has no drafts the
 *           share comes back to SHARE_START, so that it is tried again
 *   slot    what one more token slot adds to a round: the slope of a line through the last steps,
 *           each with its slots and its time for a round. Before steps have differed it is a part
 *           of the round's time
 *   worth   the j-th token of a draft agrees with a chance of share^j; then it saves its row a
 *           round. A slot slows all rows down. So it has to bring at least what the step brings
 *           in that time: share^j * time of a round >= rows * slot
 *
 *   text    that the worker guesses from: all that is known of the call, after the last tokens that
 *           ended calls of its program have generated. They lie with the program, so nothing of
 *           another program or trust domain is among them: a draft that agrees shows in the time
 *
 * Invariants: rows and tokens of drafts together are batch rows at most; a draft is shorter than
 * what its row decodes. Standbys have none, nor rows of a trial (suspicion.h).
 * Bounds: integers only; O(rows * STEP_DRAFTS_MAX) for each plan, and the tokens of rows that get
 * drafts are copied into the record.
 */
#include "sched/engine/draft.h"

#include <string.h>

#include "sched/engine/plan.h"

#define SHARE_ONE    UINT64_C(65536)
#define SHARE_START  (SHARE_ONE / 2)
#define SHARE_PARTS  16u            /* a token counts for one of so many, */
#define RETURN_PARTS 64u            /* a step without drafts for one of so many */
#define SLOT_PARTS   32             /* a step counts for one of so many */
#define SLOTS_ONE    256            /* of a mean number of slots */
#define SLOT_SHARE   11             /* a slot is guessed to be a round, by rows and so many; */
#define GUESS_SLOTS  1              /* the guess counts as so much variance of slots, */
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

/* ---- text ------------------------------------------------------------------------------------ */

void sched_draft_plan_memory(struct memory_plan *plan, const struct sched_settings *settings)
{
    memory_plan_add(plan, MEMORY_CORE, "sched recalled tokens",
                    (uint64_t)settings->programs * settings->recall_tokens, sizeof(uint32_t));
}

void sched_draft_init(struct sched *sched, struct arena *arena)
{
    const struct sched_settings *settings = &sched->settings;
    sched->recalled = arena_take(arena, (uint64_t)settings->programs * settings->recall_tokens,
                                 sizeof *sched->recalled);
}

static uint32_t *recalled_of(const struct sched *sched, uint32_t program)
{
    return sched->recalled + (uint64_t)program * sched->settings.recall_tokens;
}

static uint32_t lesser(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

void sched_draft_remember(struct sched *sched, const struct call *call)
{
    struct program *program = &sched->programs[call->program];
    uint32_t most = sched->settings.recall_tokens;
    uint32_t *tokens = recalled_of(sched, call->program);
    uint32_t more = lesser(call->generated_tokens, most);
    uint32_t kept = lesser(program->recalled, most - more);
    if (more == 0) {
        return;
    }
    memmove(tokens, tokens + program->recalled - kept, kept * sizeof *tokens);
    memcpy(tokens + kept, call->tokens + sched_call_known(call) - more, more * sizeof *tokens);
    program->recalled = kept + more;
}

static void fill_text(struct sched_engine *engine, uint32_t row)
{
    const struct sched *sched = engine->sched;
    const struct call *call = sched_call(sched, engine->planned[row].call);
    uint32_t recalled = sched->programs[call->program].recalled, known = sched_call_known(call);
    uint32_t *past = step_past(&engine->step, row);
    ASSERT(recalled <= sched->settings.recall_tokens);
    ASSERT(recalled + known <= engine->step.layout.past_max);
    if (recalled > 0) {
        memcpy(past, recalled_of(sched, call->program), recalled * sizeof *past);
    }
    memcpy(past + recalled, call->tokens, known * sizeof *past);
    step_row(&engine->step, row)->past_count = recalled + known;
}

/* ---- worth ----------------------------------------------------------------------------------- */

/* What a slot adds, as a part of a round's time, in 1 / SHARE_ONE. */
static uint64_t slot_part(const struct sched_draft_cost *cost)
{
    int64_t rows = cost->slots / SLOTS_ONE;
    int64_t guess = cost->round_ns / (rows + SLOT_SHARE);
    int64_t known = GUESS_SLOTS * SLOTS_ONE * SLOTS_ONE;
    int64_t slot_ns = (cost->covariance + guess * (known / SLOTS_ONE)) * SLOTS_ONE /
                      (cost->variance + known);
    slot_ns = slot_ns > guess / GUESS_RANGE ? slot_ns : guess / GUESS_RANGE;
    slot_ns = slot_ns < guess * GUESS_RANGE ? slot_ns : guess * GUESS_RANGE;
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
    struct program *program = program_of(engine, row);
    const struct step_out *out = &engine->outs[row];
    uint64_t share = share_of(program);
    if (sched->settings.speculate == 0) {
        return;
    }
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

/* Token slots of the step's rounds, or 0 where a row has read more than one token. */
static uint64_t slots_of(const struct sched_engine *engine)
{
    uint64_t slots = 0;
    for (uint32_t i = 0; i < engine->planned_count; i++) {
        const struct step_out *out = &engine->outs[i];
        if (engine->planned[i].tokens_count > 1) {
            return 0;
        }
        slots += out->produced - out->agreed + out->drafted;
    }
    return slots;
}

void sched_draft_learn(struct sched_engine *engine, uint64_t duration_us, uint32_t rounds)
{
    struct sched_draft_cost *cost = &engine->draft_cost;
    uint64_t all_slots = engine->sched->settings.speculate > 0 ? slots_of(engine) : 0;
    if (rounds == 0 || all_slots == 0) {
        return;
    }
    uint64_t ns = duration_us < ROUND_NS_MAX / 1000 * rounds ? 1000 * duration_us / rounds
                                                             : ROUND_NS_MAX;
    int64_t slots = (int64_t)(all_slots * SLOTS_ONE / rounds), round_ns = (int64_t)ns;
    if (cost->round_ns == 0) {
        *cost = (struct sched_draft_cost){.slots = slots, .round_ns = round_ns};
    }
    int64_t more = slots - cost->slots, longer = round_ns - cost->round_ns;
    longer = longer < cost->round_ns ? longer : cost->round_ns;     /* else it was interrupted */
    cost->slots += more / SLOT_PARTS;
    cost->round_ns += longer / SLOT_PARTS;
    cost->covariance += (more * longer - cost->covariance) / SLOT_PARTS;
    cost->variance += (more * more - cost->variance) / SLOT_PARTS;
}
