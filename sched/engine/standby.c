/* SPDX-License-Identifier: MIT */
/*
 * What: what a plan does for the calls after its batch, in their order.
 *
 *   standbys   (paper 000, section 5: over-provisioning) rows for resident calls with one token to
 *              feed. When a row ends before the step does, a standby takes its place; without
 *              them that place is empty for up to N - 1 rounds. Blocks for them are those that
 *              no call owns and that hold nothing that a waiting call has asked for.
 *   prefetch   (sched.prefetch, ours: the paper's engine does not) calls whose KV lies on the host
 *              get it moved in with this step, into blocks that are free, so that they start with
 *              the next one at once. They get no row.
 *
 * Invariants: neither takes anything from a call that the walk has chosen, nor makes a victim.
 * Bounds: the search for standbys visits resident calls only, SCHED_STANDBY_LOOKS times as many as
 * a step has rows; the one for prefetch looks at batch_calls calls.
 */
#include "sched/engine/plan.h"

#include "sched/engine/residency.h"
#include "sched/engine/share/deal.h"
#include "sched/engine/suspicion.h"
#include "sched/policy.h"

static void consider_standby(struct sched_walk *walk, struct sched_lane *lane, struct call *call)
{
    struct sched_engine *engine = walk->engine;
    const struct sched *sched = engine->sched;
    uint32_t left = call->max_tokens - call->generated_tokens;
    uint32_t rounds = sched->settings.steps_per_plan - 1;   /* none enters in the first one */
    struct sched_row row = {.chunk = 1, .decode_steps = left < rounds ? left : rounds};
    if (!sched_call_can_run(call) || !sched_suspicion_admits(walk, call) ||
        call->kv_tokens + 1 != sched_call_known(call)) {
        return;
    }
    row.positions = call->kv_tokens + row.decode_steps;
    const struct kvmem_answer answer = sched_residency_ask(engine, call, false);
    if (kvmem_missing(engine->kv, &answer, row.positions) +
            kvmem_withheld(engine->kv, call->program) > kvmem_spare(engine->kv)) {
        return;
    }
    sched_residency_commit(engine, call, &answer, row.positions, walk->now_us);
    sched_row_fill(walk, call, &row);
    sched_deal_row(engine, lane, call, row.chunk);
    call->walk_sequence = engine->sequence;
    sched->stats->standbys_planned++;
}

void sched_standby_rows(struct sched_walk *walk)
{
    struct sched_engine *engine = walk->engine;
    const struct sched_settings *settings = &engine->sched->settings;
    uint32_t rows_max = engine->planned_active + settings->standby_calls;
    uint32_t looks = SCHED_STANDBY_LOOKS * (settings->batch_calls + settings->standby_calls);
    struct sched_lane *lane;
    if (walk->at_end || settings->steps_per_plan == 1) {
        return;
    }
    sched_deal_again(engine);
    while (engine->planned_count < rows_max && looks > 0 &&
           (lane = sched_deal_next(walk)) != NULL) {
        struct sched_cursor *cursor = &lane->hand.after;
        struct call *call = sched_cursor_next(engine, cursor, CALL_LIST_RESIDENT);
        if (call == NULL) {
            lane->hand.is_done = true;
            continue;
        }
        if (!sched_walk_has_passed(engine, call)) {
            consider_standby(walk, lane, call);
        }
        sched_cursor_pass(engine, cursor, call);
        looks--;
    }
}

static void consider_prefetch(struct sched_walk *walk, struct call *call)
{
    struct sched_engine *engine = walk->engine;
    const struct kvmem_answer answer = sched_residency_ask(engine, call, false);
    if (answer.host_blocks > 0 && !answer.is_under_way &&
        kvmem_missing(engine->kv, &answer, answer.positions) <= kvmem_free(engine->kv)) {
        sched_residency_commit(engine, call, &answer, answer.positions, walk->now_us);
        engine->sched->stats->prefetched_calls++;
    } else {
        sched_residency_touch(engine, call, &answer, walk->now_us);
    }
}

void sched_standby_prefetch(struct sched_walk *walk)
{
    struct sched_engine *engine = walk->engine;
    const struct sched_settings *settings = &engine->sched->settings;
    bool is_wanted =
        settings->prefetch && !walk->at_end && !sched_policy_has_stages(settings->policy);
    uint32_t looks = is_wanted ? settings->batch_calls : 0;
    struct sched_lane *lane;
    sched_deal_again(engine);
    while (looks > 0 && (lane = sched_deal_next(walk)) != NULL) {
        struct call *call = sched_cursor_next(engine, &lane->hand.cursor, CALL_LIST_ALL);
        if (call == NULL || lane->hand.kept_out != CALL_NONE) {
            lane->hand.is_done = true;
            continue;
        }
        if (!sched_walk_has_passed(engine, call) && sched_call_can_run(call) &&
            !sched_call_is_resident(engine, call)) {
            consider_prefetch(walk, call);
        }
        sched_cursor_pass(engine, &lane->hand.cursor, call);
        looks--;
    }
}
