/* SPDX-License-Identifier: MIT */
/*
 * Goal: leaving out calls that only wait changes no plan.
 * Method: a walk past every call, as Algorithm 1 has it, written down naively. Before each plan of
 * a random load everything is copied; the naive walk plans, the copy comes back, sched_plan()
 * plans. What the two leave behind must be equal to the byte: the step record with its moves, every
 * call, every block. Not compared: the links, and when a paused call has been looked at. Prompts
 * have two tokens or more; with one, a call that comes after batch_calls vain looks waits now.
 */
#define TEST_ARENA_BYTES (384u << 10)
#include "sched/policy.h"
#include "selftest/unit/sched/bench.h"

#include "sched/engine/plan.h"
#include "sched/engine/residency.h"
#include "sched/engine/starvation.h"
#include "sched/engine/suspicion.h"

enum { SEEDS = 60, EVENTS = 250 };

static struct bench *b;

/* ---- the naive walk -------------------------------------------------------------------------- */

struct naive {
    struct sched_walk walk;
    uint32_t order[BENCH_CALLS], count, at;
    bool seen[BENCH_CALLS];
};

struct naive_row {
    uint32_t remaining, chunk, steps, positions;
};

static struct naive_row naive_size(const struct naive *naive, const struct call *call,
                                   const struct kvmem_answer *answer)
{
    struct naive_row row = {
        .remaining = call->prompt_tokens + call->generated_tokens - answer->positions};
    row.chunk = row.remaining == 1 ? 1 : lesser(row.remaining, naive->walk.budget_tokens);
    row.steps = row.chunk < row.remaining ? 0 : lesser(b->sched.settings.steps_per_plan,
                                                       call->max_tokens - call->generated_tokens);
    row.positions = answer->positions + row.chunk + (row.steps > 0 ? row.steps - 1 : 0);
    return row;
}

/* Preempts the last one that may go. False: there is none. */
static bool naive_preempt(struct naive *naive)
{
    for (uint32_t i = naive->count; i > 0; i--) {
        uint32_t victim = naive->order[i - 1];
        if (sched_call_is_resident(bench_engine(b), bench_at(b, victim)) &&
            (!naive->seen[victim] || !sched_call_can_run(bench_at(b, victim)))) {
            sched_residency_preempt(bench_engine(b), bench_at(b, victim), b->now_us);
            return true;
        }
    }
    return false;
}

/* False: does not fit. */
static bool naive_row(struct naive *naive, uint32_t index, bool whole)
{
    struct sched_engine *engine = bench_engine(b);
    struct call *call = bench_at(b, index);
    struct kvmem_answer answer = sched_residency_ask(engine, call, whole);
    struct naive_row row = naive_size(naive, call, &answer);
    bool fits = true;
    if (answer.is_under_way && row.chunk > 0) {         /* waits, if not too many do */
        sched_residency_touch(engine, call, &answer, b->now_us);
        fits = engine->move_waits < b->sched.settings.batch_calls;
        engine->move_waits += fits;
        b->stats.move_waits += fits;
        return fits;
    }
    while (fits && row.chunk > 0 && !kvmem_fits(&b->kv, &answer, row.positions)) {
        fits = naive_preempt(naive);
        if (kvmem_is_stale(&b->kv, &answer)) {
            answer = sched_residency_ask(engine, call, false);
            row = naive_size(naive, call, &answer);
        }
    }
    if (!fits || row.chunk == 0) {
        sched_residency_touch(engine, call, &answer, b->now_us);
        return fits;
    }
    sched_residency_commit(engine, call, &answer, row.positions, b->now_us);
    naive->walk.budget_tokens -= row.remaining == 1 ? 0 : row.chunk;
    sched_row_fill(&naive->walk, call, &(struct sched_row){row.chunk, row.steps, row.positions});
    return true;
}

static bool naive_visit(struct naive *naive, uint32_t index)
{
    const struct call *call = bench_at(b, index);
    bool whole = naive->walk.budget_tokens == 0 && !sched_call_is_resident(bench_engine(b), call);
    naive->seen[index] = true;
    if (!sched_call_can_run(call) ||
        (whole && (call->computed_tokens == 0 || naive->walk.vain_looks_left == 0))) {
        return true;
    }
    naive->walk.vain_looks_left -= whole;
    return naive_row(naive, index, whole);
}

static void naive_standbys(struct naive *naive)
{
    struct sched *sched = &b->sched;
    struct sched_engine *engine = bench_engine(b);
    uint32_t rows_max = engine->planned_active + sched->settings.standby_calls;
    uint32_t looks = SCHED_STANDBY_LOOKS *
                     (sched->settings.batch_calls + sched->settings.standby_calls);
    for (uint32_t i = naive->at; i < naive->count && sched->settings.steps_per_plan > 1; i++) {
        uint32_t index = naive->order[i];
        struct call *call = bench_at(b, index);
        if (!sched_call_is_resident(engine, call) || looks == 0) {
            continue;
        }
        looks--;
        uint32_t known = call->prompt_tokens + call->generated_tokens;
        uint32_t steps = lesser(call->max_tokens - call->generated_tokens,
                                sched->settings.steps_per_plan - 1);
        const struct kvmem_answer answer = sched_residency_ask(engine, call, false);
        if (engine->planned_count < rows_max && !naive->seen[index] && sched_call_can_run(call) &&
            call->kv_tokens + 1 == known &&
            kvmem_missing(&b->kv, &answer, known + steps - 1) <= kvmem_spare(&b->kv)) {
            naive->seen[index] = true;
            sched_residency_commit(engine, call, &answer, known + steps - 1, b->now_us);
            sched_row_fill(&naive->walk, call, &(struct sched_row){1, steps, known + steps - 1});
            b->stats.standbys_planned++;
        }
    }
}

static void naive_prefetch(struct naive *naive)
{
    struct sched *sched = &b->sched;
    struct sched_engine *engine = bench_engine(b);
    uint32_t end = lesser(naive->count, naive->at + sched->settings.batch_calls);
    for (uint32_t i = naive->at; i < end && sched->settings.prefetch; i++) {
        uint32_t index = naive->order[i];
        struct call *call = bench_at(b, index);
        if (naive->seen[index] || !sched_call_can_run(call) ||
            sched_call_is_resident(engine, call)) {
            continue;
        }
        const struct kvmem_answer answer = sched_residency_ask(engine, call, false);
        if (answer.host_blocks > 0 && !answer.is_under_way &&
            kvmem_missing(&b->kv, &answer, answer.positions) <= kvmem_free(&b->kv)) {
            sched_residency_commit(engine, call, &answer, answer.positions, b->now_us);
            b->stats.prefetched_calls++;
        } else {
            sched_residency_touch(engine, call, &answer, b->now_us);
        }
    }
}

static void naive_plan(void)
{
    static struct naive naive;
    struct sched *sched = &b->sched;
    struct sched_engine *engine = bench_engine(b);
    sched_starvation_pass(engine, b->now_us);
    engine->sequence++;
    engine->planned_count = engine->move_waits = 0;
    naive = (struct naive){.walk = {.engine = engine, .now_us = b->now_us,
                                    .budget_tokens = sched->settings.prefill_tokens,
                                    .vain_looks_left = sched->settings.batch_calls}};
    for (uint32_t queue = 0; queue < sched->settings.queues; queue++) {
        for (uint32_t i = bench_first(b, queue); i != CALL_NONE; i = bench_next(b, i)) {
            naive.order[naive.count++] = i;
        }
    }
    while (naive.at < naive.count && engine->planned_count < sched->settings.batch_calls &&
           naive_visit(&naive, naive.order[naive.at])) {
        naive.at++;
    }
    bool at_end = naive.at == naive.count && engine->planned_count < sched->settings.batch_calls;
    bool wants_budget = at_end && naive.walk.budget_tokens == 0;
    engine->planned_active = engine->planned_count;
    if (engine->planned_count > 0) {
        naive_standbys(&naive);
        naive_prefetch(&naive);
        kvmem_expire(&b->kv, b->now_us, true);
    }
    *step_header(&b->step) = (struct step_header){
        .rows_count = engine->planned_count, .rows_active = engine->planned_active,
        .tokens_count = naive.walk.tokens_count, .sequence = engine->sequence,
        .early_stop = !sched->settings.cut_steps ? STEP_STOP_LAST
                 : wants_budget ? STEP_STOP_ROUND : STEP_STOP_ROW};
}

/* ---- both must leave the same ---------------------------------------------------------------- */

struct snapshot {
    struct bench bench;
    uint8_t arena[TEST_ARENA_BYTES];
};
static struct snapshot before, naive_left, left;

static void save(struct snapshot *snapshot)
{
    snapshot->bench = *b;
    memcpy(snapshot->arena, test_arena_memory, sizeof snapshot->arena);
}

static void restore(const struct snapshot *snapshot)
{
    *b = snapshot->bench;
    memcpy(test_arena_memory, snapshot->arena, sizeof snapshot->arena);
}

static void *in_snapshot(struct snapshot *snapshot, const void *at)
{
    return snapshot->arena + ((const uint8_t *)at - test_arena_memory);
}

/* Forgets what need not be equal. */
static void blank(struct snapshot *snapshot)
{
    struct sched_engine *engine = in_snapshot(snapshot, bench_engine(b));
    struct sched_lane *lane = in_snapshot(snapshot, engine->lanes);
    memset(lane->queues, 0, sizeof lane->queues);
    lane->wants = false;
    lane->hand = (struct sched_hand){.key = 0};
    lane->wants = false;
    struct sched_tenant *tenant = in_snapshot(snapshot, b->sched.tenants.of);
    tenant->wants = false;
    *(uint32_t *)in_snapshot(snapshot, engine->dealt) = 0;
    engine->dealt_count = 0;
    engine->last_key = 0;
    engine->has_room = engine->is_underused = engine->turn_is_over = false;
    if (b->sched.nodes != NULL) {
        memset(in_snapshot(snapshot, b->sched.nodes), 0,
               BENCH_CALLS * sizeof *b->sched.nodes);
    }
    struct sched_job *jobs = in_snapshot(snapshot, b->sched.jobs);
    for (uint32_t i = 0; i < BENCH_CALLS; i++) {
        memset(jobs[i].ends, 0, sizeof jobs[i].ends);
        jobs[i].next = jobs[i].prev = 0;
        jobs[i].waiting_since_us = jobs[i].calls_count == 1 ? 0 : jobs[i].waiting_since_us;
    }
    struct call *calls = in_snapshot(snapshot, b->calls.calls);
    for (uint32_t i = 0; i < BENCH_CALLS; i++) {
        memset(calls[i].links, 0, sizeof calls[i].links);
        calls[i].lists = 0;
        calls[i].queue = 0;
        calls[i].walk_sequence = 0;
        calls[i].waiting_since_us = !sched_call_can_run(&calls[i]) ? 0 : calls[i].waiting_since_us;
    }
}

static void plan_both_ways(void)
{
    save(&before);
    naive_plan();
    kvmem_bind(&b->kv, &b->step, bench_engine(b)->planned, bench_engine(b)->planned_count);
    save(&naive_left);
    restore(&before);
    b->busy = sched_engine_plan(bench_engine(b), b->now_us);
    kvmem_bind(&b->kv, &b->step, bench_engine(b)->planned, bench_engine(b)->planned_count);
    save(&left);                    /* before a check: kvmem's leaves marks in the blocks */
    if (b->busy) {
        sched_engine_launched(bench_engine(b), b->now_us);
        sched_check(&b->sched);
    } else {
        kvmem_moved(&b->kv);
    }
    blank(&naive_left);
    blank(&left);
    assert_memory_equal(&naive_left.bench.kv, &left.bench.kv, sizeof left.bench.kv);
    assert_memory_equal(&naive_left.bench.stats, &left.bench.stats, sizeof left.bench.stats);
    assert_memory_equal(naive_left.arena, left.arena, sizeof left.arena);
}

/* ---- a random load --------------------------------------------------------------------------- */

static uint64_t random_state;
static uint32_t jumps;              /* plans that spent their budget and left calls out */

static uint32_t below(uint32_t bound)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % bound;
}

/* Stages move calls in the walk itself: unit sched/random follows them. */
static enum sched_policy any_policy_without_stages(void)
{
    enum sched_policy policy;
    do {
        policy = (enum sched_policy)below(SCHED_POLICIES);
    } while (sched_policy_has_stages(policy));
    return policy;
}

static void start(void)
{
    struct sched_settings settings = bench_settings(any_policy_without_stages());
    settings.queues = 1 + below(4);
    settings.batch_calls = 1 + below(BENCH_BATCH_MAX);
    settings.standby_calls = below(4);
    settings.steps_per_plan = 1 + below(BENCH_STEPS_MAX);
    settings.prefill_tokens = 1 + below(BENCH_PREFILL_MAX);
    settings.prefetch = below(2) == 0;
    settings.sharing = (enum sched_sharing)below(3);
    settings.demoted_to_head = below(2) == 0;
    settings.cut_steps = below(2) == 0;
    settings.beta_milli = below(2) * 2000;
    struct kvmem_settings kv = bench_kv(24 + below(100));
    kv.host_blocks = below(3) * 60;
    b = bench_start_kv(&settings, &kv);
}

static void arrive(void)
{
    if (b->calls.free_count > 0) {
        uint32_t index = bench_take(b, below(6), 2 + below(40), 1 + below(40), below(5));
        bench_at(b, index)->foretold.work_left = below(20);
        bench_send(b, index);
    }
}

/* Calls in whose step a worker died would come back in plans of their own: the simulator's naive
 * scheduler follows those. */
static void lose_worker(void)
{
    bench_lose(b);
    for (uint32_t i = 0; i < BENCH_CALLS; i++) {
        sched_suspicion_drop(&b->sched, bench_at(b, i));
    }
}

static void disturb(void)
{
    uint32_t index = below(BENCH_CALLS);
    struct call *call = bench_at(b, index);
    if (call->state == CALL_QUEUED && below(2) == 0) {
        call->paused = !call->paused;
    } else if (call->state == CALL_QUEUED && below(4) == 0 && !call->cancel) {
        bench_cancel(b, index);
    } else if (below(20) == 0) {
        lose_worker();
    }
}

static void step(void)
{
    if (b->busy) {
        bench_compute(b);
        bench_settle(b, 1 + below(2 * BENCH_UNIT));
        return;
    }
    plan_both_ways();
    uint32_t walked = 0;
    for (uint32_t i = 0; i < BENCH_CALLS; i++) {
        walked += bench_at(b, i)->walk_sequence == bench_engine(b)->sequence;
    }
    jumps += b->busy && walked < b->sched.open_calls &&
             bench_engine(b)->planned_active < b->sched.settings.batch_calls;
}

static void test_plans_are_those_of_a_walk_past_every_call(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= SEEDS; seed++) {
        random_state = seed;
        start();
        uint32_t load = 10 + below(40);
        for (uint32_t i = 0; i < EVENTS; i++) {
            uint32_t kind = below(100);
            if (kind < load) {
                arrive();
            } else if (kind < load + 8) {
                disturb();
            }
            bench_intake(b);
            step();
            bench_drain(b);
            for (uint32_t c = 0; c < BENCH_CALLS; c++) {
                if (bench_at(b, c)->state == CALL_FINISHED) {
                    bench_free(b, c);
                }
            }
        }
    }
    assert_true(jumps > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans_are_those_of_a_walk_past_every_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
