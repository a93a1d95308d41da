/* SPDX-License-Identifier: MIT */
/*
 * What: what the keys of programs are made of (policy.c has the keys themselves).
 *
 *   cost     foreseen at the program's first call, for all its calls: half as much again as the
 *            mean of its class, for half of the programs need more than that; where nothing is
 *            foreseen, that of the call's first round. With sched.retag the cost of a program that
 *            outlives it grows, and its tag moves, from the same start: by a quarter of what was
 *            foreseen, then by twice as much, and so on
 *   served   of that cost, what the program has had: tokens that came out, each with the KV that
 *            they stood on. Recompute and the rounds of long prompts do not count against it
 *   clock    with sched.virtual_clock = served the ideal system is served what the steps really
 *            held, recompute and long prompts included; with capacity (the paper) all KV in each
 *            round. Wall-clock time would run ahead of what is served (docs/decisions/0060)
 *   lift     (VTC) a program that comes with no call open begins with the smallest counter of those
 *            of its tenant that have calls open that can run: what it did not ask for it has not
 *            saved up. One whose call goes on after a core's death has not been away
 *
 * Bounds: O(log programs) for each program that arrives or was in the step.
 */
#include "sched/key.h"

#include <string.h>

#include "sched/call.h"
#include "sched/cost.h"
#include "sched/engine/job.h"
#include "sched/engine/member.h"
#include "sched/ideal.h"
#include "sched/policy.h"

#define CLASS_PART 2                /* of a class's mean, that its programs may need more */
#define OVER_PART 4                 /* of what was foreseen, that an outlived program needs more */
#define LIFT_LOOKS 16               /* at jobs of a stage */

void sched_key_plan_memory(struct memory_plan *plan, const struct sched_settings *settings)
{
    if (sched_policy_has_tags(settings->policy)) {
        sched_ideal_plan_memory(plan, settings->programs);
    }
}

void sched_key_init(struct sched *sched, struct arena *arena)
{
    if (sched_policy_has_tags(sched->settings.policy)) {
        sched_ideal_init(&sched->ideal, sched->settings.programs, arena);
    }
}

/* ---- the ideal system ------------------------------------------------------------------------ */

static void enter(struct sched *sched, uint32_t index, uint64_t now_us)
{
    struct program *program = &sched->programs[index];
    struct sched_ideal_entry what = {.tag = sched_policy_tag(sched, program), .program = index,
                                     .weight = sched->tenants.of[program->tenant].weight};
    memcpy(what.id, program->id, sizeof what.id);
    program->ideal = sched_ideal_enter(&sched->ideal, &what, now_us);
}

/* ---- events ---------------------------------------------------------------------------------- */

static uint64_t foreseen(const struct sched *sched, const struct call *call)
{
    const struct sched_prediction *predicted = &sched->programs[call->program].predicted;
    bool counts_rounds = sched_policy_cost(sched) == SCHED_COST_ROUNDS;
    uint64_t cost = counts_rounds ? predicted->rounds : predicted->tokens;
    uint64_t least = counts_rounds ? sched_cost_rounds(call->prompt_tokens, 1)
                                   : sched_cost_tokens(call->prompt_tokens, 1);
    uint64_t more = predicted->source == SCHED_SOURCE_CLASS ? cost / CLASS_PART : 0;
    return cost > 0 ? sched_sum(cost, more) : least;
}

/* The smallest key of a job that can run: a client that does not read would keep its own small for
 * ever. Of LIFT_LOOKS jobs that cannot run, the last one counts. */
static uint64_t least_key(const struct sched *sched, const struct sched_queue *queue)
{
    uint32_t at = queue->jobs.head;
    for (uint32_t looks = 1; at != SCHED_JOB_NONE && looks < LIFT_LOOKS &&
                             !sched_job_can_run(sched, &sched->jobs[at]); looks++) {
        at = sched->jobs[at].next;
    }
    return at != SCHED_JOB_NONE ? sched->jobs[at].key : UINT64_MAX;
}

static void lift(struct sched *sched, struct program *program)
{
    uint64_t least = UINT64_MAX, own = sched_sum(program->key_base, program->served);
    for (uint32_t i = 0; i < sched->settings.engines; i++) {
        for (uint32_t stage = 0; stage < SCHED_STAGES; stage++) {
            const struct sched_lane *lane = &sched->engines[i].lanes[program->tenant];
            uint64_t key = least_key(sched, &lane->queues[stage]);
            least = key < least ? key : least;
        }
    }
    if (least != UINT64_MAX && least > own) {
        program->key_base += least - own;
    }
}

void sched_key_arrive(struct sched *sched, const struct call *call, uint64_t now_us)
{
    struct program *program = &sched->programs[call->program];
    if (sched_policy_cost(sched) == SCHED_COST_NONE) {
        return;
    }
    if (sched_policy_lifts(sched) && program->active_calls == 1 && !call->goes_on) {
        lift(sched, program);
    }
    if (program->cost > 0) {
        return;
    }
    program->cost = program->cost_foreseen = foreseen(sched, call);
    if (sched_policy_has_tags(sched->settings.policy)) {
        program->key_base = sched->ideal.virtual_time;
        enter(sched, call->program, now_us);
    }
}

static void serve(struct sched *sched, const struct call *call, uint64_t cost)
{
    struct program *program = &sched->programs[call->program];
    program->served = sched_sum(program->served, cost);
}

void sched_key_admit(struct sched *sched, const struct call *call)
{
    if (sched_policy_cost(sched) == SCHED_COST_TOKENS && call->generated_tokens == 0) {
        serve(sched, call, call->prompt_tokens);
        sched->served = sched_sum(sched->served, call->prompt_tokens);
        sched_kept_note(sched, call->program);
    }
}

void sched_key_charge(struct sched *sched, const struct call *call, uint32_t fed,
                      uint32_t produced)
{
    enum sched_cost_unit unit = sched_policy_cost(sched);
    if (unit == SCHED_COST_NONE) {
        return;
    }
    uint64_t cost = unit == SCHED_COST_ROUNDS ? sched_cost_rounds(fed, produced)
                                              : sched_cost_tokens(0, produced);
    uint64_t held = unit == SCHED_COST_ROUNDS && produced == 0 ? fed : cost;
    serve(sched, call, cost);
    sched->served = sched_sum(sched->served, held);
    sched->clock_due = true;
}

/* Calls that ended with the step have left before: where they were the last, only now is all that
 * they got counted, and the programs in the ideal system leave in its time. */
void sched_key_advance(const struct sched_engine *engine, uint64_t duration_us, uint32_t rounds)
{
    struct sched *sched = engine->sched;
    const struct kvmem_settings *kv = &engine->kv->settings;
    if (sched_policy_has_tags(sched->settings.policy)) {
        uint64_t capacity = (uint64_t)kv->device_blocks * kv->block_tokens * rounds;
        bool is_served = sched->settings.virtual_clock == SCHED_CLOCK_SERVED ||
                         sched_policy_cost(sched) == SCHED_COST_TOKENS;     /* no KV is one */
        sched_ideal_advance(&sched->ideal, is_served ? sched->served : capacity,
                            engine->step_submitted_us, duration_us);
        sched_kept_note_clock(sched);
    }
    sched->served = 0;
    sched->clock_due = false;
    if (sched->open_calls == 0) {
        sched_key_rest(sched, engine->step_submitted_us + duration_us);
    }
}

/* The program's cost has grown: so has its tag. */
static void move_tag(struct sched *sched, uint32_t index, uint64_t now_us)
{
    struct program *program = &sched->programs[index];
    if (!sched_policy_has_tags(sched->settings.policy)) {
        return;
    }
    uint64_t tag = sched_policy_tag(sched, program);
    if (sched_ideal_has(&sched->ideal, program->ideal, index)) {
        sched_ideal_move(&sched->ideal, program->ideal, tag);
    } else if (tag > sched->ideal.virtual_time) {
        enter(sched, index, now_us);
    }
}

/* The program has outlived its cost. */
static void retag(struct sched *sched, uint32_t index, uint64_t now_us)
{
    struct program *program = &sched->programs[index];
    uint64_t over = program->cost - program->cost_foreseen;
    while (program->cost < program->served) {
        over = over > 0 ? sched_sum(over, over) : program->cost_foreseen / OVER_PART + 1;
        program->cost = sched_sum(program->cost_foreseen, over);
    }
    program->kept_is_behind = true;
    move_tag(sched, index, now_us);
}

void sched_key_foresee(struct sched *sched, uint32_t index, const struct sched_spent *cost,
                       uint64_t now_us)
{
    struct program *program = &sched->programs[index];
    enum sched_cost_unit unit = sched_policy_cost(sched);
    uint64_t foreseen = unit == SCHED_COST_ROUNDS ? cost->rounds : cost->tokens;
    if (unit == SCHED_COST_NONE || program->cost == 0 || foreseen <= program->cost_foreseen) {
        return;
    }
    program->cost = sched_sum(program->cost, foreseen - program->cost_foreseen);
    program->cost_foreseen = foreseen;
    sched_kept_note(sched, index);
    move_tag(sched, index, now_us);
    const struct call *call = sched_member_any_call(sched, index);
    if (call != NULL) {
        sched_job_rekey(sched, call);
    }
}

void sched_key_settle(struct sched *sched, const struct call *call, uint64_t now_us)
{
    const struct program *program = &sched->programs[call->program];
    if (sched_policy_cost(sched) == SCHED_COST_NONE) {
        return;
    }
    if (sched->settings.retag && program->served > program->cost && program->active_calls > 0) {
        retag(sched, call->program, now_us);
    }
    sched_job_rekey(sched, call);
}

void sched_key_rest(struct sched *sched, uint64_t now_us)
{
    if (sched_policy_has_tags(sched->settings.policy) && !sched->clock_due) {
        sched_ideal_rest(&sched->ideal, now_us);
        sched_kept_note_clock(sched);
    }
}

/* ---- after another core ---------------------------------------------------------------------- */

void sched_key_take_up_clock(struct sched *sched)
{
    const struct sched_kept_clock_version *kept = sched_kept_read_clock(sched);
    if (kept != NULL && sched_policy_has_tags(sched->settings.policy)) {
        sched->ideal.virtual_time = kept->virtual_time;
    }
}

/* It goes on with its cost and its tag, and where the clock has not reached that, in the ideal
 * system. */
void sched_key_take_up(struct sched *sched, uint32_t index,
                       const struct sched_kept_version *kept, uint64_t now_us)
{
    struct program *program = &sched->programs[index];
    if (kept->policy != sched->settings.policy ||
        sched_policy_cost(sched) == SCHED_COST_NONE) {
        return;
    }
    program->cost_foreseen = kept->cost_foreseen;
    program->cost = kept->cost;
    program->served = kept->served;
    program->key_base = kept->key_base;
    if (program->cost > 0 && sched_policy_has_tags(sched->settings.policy) &&
        sched_policy_tag(sched, program) > sched->ideal.virtual_time) {
        enter(sched, index, now_us);
    }
}

void sched_key_forget(struct sched *sched, const struct program *program)
{
    uint32_t index = (uint32_t)(program - sched->programs);
    if (sched_policy_has_tags(sched->settings.policy) &&
        sched_ideal_has(&sched->ideal, program->ideal, index)) {
        sched->ideal.entries[program->ideal].program = SCHED_PROGRAM_NONE;
    }
}
