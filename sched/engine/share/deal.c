/* SPDX-License-Identifier: MIT */
/*
 * What: the rows of a plan, dealt to tenants. Each call goes to the tenant whose virtual time
 * (tenant.c), with the cost of what this plan has dealt to it already, is least; a tenant's calls
 * come in the order of its own queues. So with several tenants that want more each plan holds about
 * their shares of rows, and the same calls stay in it from plan to plan.
 *
 *   tenants   a         b          virtual time, and a cost of 4 for each row:
 *   queue 0   a1 a2     b1
 *   queue 1   a3        b2 b3      a: 6 -> 10 -> 14 ...   b: 9 -> 13 ...
 *   plan      a1 b1 a2 b2 a3 b3
 *
 *   cost      of a row: as it will be paid, for a step that takes as long as the last one
 *   stop      a call that does not fit ends the walk of its tenant; the others go on
 *   victims   of the tenant with the largest key first, its last call. Of another tenant only if
 *             that is ahead by more than the break-even time of an exchange of all KV (exchange.c):
 *             else two tenants would take the blocks of each other in turns. Paused calls are
 *             victims wherever they stand
 *   first row takes whatever it needs from any tenant, or nothing: blocks that are on their way to
 *             the host arrive there with a step only. As long as no row is planned, a call that
 *             would need victims is left out if its tenant is not behind; where no row comes of
 *             that, the plan is made again (plan.c), and the first call takes what it needs
 *
 * With one tenant all is as it was without tenants: it has the next call until it has none.
 * Invariants: a lane has a hand of this plan exactly while it has had jobs when the plan began.
 * Bounds: O(tenants with jobs) for each row and each victim.
 */
#include "sched/engine/share/deal.h"

#include "sched/engine/active/exchange.h"
#include "sched/engine/share/tenant.h"

#define DEAL_LOOKS 8                /* at calls that got no row: can one of them run? */

static const struct sched_tenant *tenant_of(const struct sched_engine *engine,
                                            const struct sched_lane *lane)
{
    return &engine->sched->tenants.of[lane - engine->lanes];
}

static uint64_t key_of(const struct sched_engine *engine, const struct sched_lane *lane)
{
    const struct sched_tenant *tenant = tenant_of(engine, lane);
    const struct sched_use all = {.rows = engine->sched->settings.batch_calls,
                                  .prompt_tokens = engine->sched->settings.prefill_tokens,
                                  .blocks = engine->kv->settings.device_blocks};
    uint64_t cost = sched_tenant_dominant(&lane->hand.use, &all, engine->step_cost);
    return tenant->virtual_time + cost / tenant->weight;
}

void sched_deal_begin(struct sched_engine *engine)
{
    const struct sched *sched = engine->sched;
    const struct sched_search from_end = {.queue = sched->settings.queues};
    engine->dealt_count = 0;
    engine->last_key = 0;
    for (uint32_t i = 0; i < sched->tenants.count; i++) {
        struct sched_lane *lane = &engine->lanes[i];
        if (lane->jobs_count > 0) {
            lane->hand = (struct sched_hand){.sequence = engine->sequence,
                                             .wanted = sched->tenants.of[i].wanted,
                                             .kept_out = CALL_NONE,
                                             .cursor = sched_cursor_start(lane),
                                             .searches = {from_end, from_end}};
            lane->hand.key = key_of(engine, lane);
            engine->dealt[engine->dealt_count++] = i;
        }
    }
}

/* The lane of a call that took blocks of another tenant, and computes again what it had lost; or
 * NULL. Until it is further than it was no other tenant takes blocks: else two tenants could take
 * them from each other for ever, without any progress. */
static struct sched_lane *recovering_lane(const struct sched_engine *engine)
{
    const struct call *call = sched_call_or_null(engine->sched, engine->taker);
    bool is_recovering = call != NULL && sched_call_is_resident(engine, call) &&
                         sched_call_can_run(call) && call->kv_tokens <= engine->taker_tokens;
    return is_recovering ? &engine->lanes[sched_job_of(engine->sched, call)->tenant] : NULL;
}

/* Of equal keys that of a tenant which the last plan refused nothing: it was lifted to the other's,
 * and asks for little. */
static bool comes_first(const struct sched_lane *lane, const struct sched_lane *other)
{
    if (lane->hand.key != other->hand.key) {
        return lane->hand.key < other->hand.key;
    }
    return !lane->hand.wanted && other->hand.wanted;
}

struct sched_lane *sched_deal_next(const struct sched_walk *walk)
{
    const struct sched_engine *engine = walk->engine;
    struct sched_lane *next = NULL;
    if (walk->takes_all && engine->planned_count == 0) {
        next = recovering_lane(engine);
        next = next != NULL && !next->hand.is_done ? next : NULL;
    }
    if (next != NULL) {
        return next;
    }
    for (uint32_t i = 0; i < engine->dealt_count; i++) {
        struct sched_lane *lane = &engine->lanes[engine->dealt[i]];
        if (!lane->hand.is_done && (next == NULL || comes_first(lane, next))) {
            next = lane;
        }
    }
    return next;
}

void sched_deal_row(const struct sched_engine *engine, struct sched_lane *lane,
                    const struct call *call, uint32_t chunk)
{
    struct sched_hand *hand = &lane->hand;
    hand->use.rows++;
    hand->use.prompt_tokens += chunk - 1;
    hand->use.blocks += kvmem_call_blocks(engine->kv, call->slot);
    hand->key = key_of(engine, lane);
}

/* ---- who wants more -------------------------------------------------------------------------- */

/* True when one of the next calls can run and has no row. */
static bool has_more(const struct sched_engine *engine, struct sched_cursor cursor, bool is_limited)
{
    const struct call *call = sched_cursor_next(engine, &cursor, CALL_LIST_ALL);
    for (uint32_t looks = DEAL_LOOKS; looks > 0 && call != NULL; looks--) {
        /* Those with blocks are visited all the same. */
        if (sched_call_can_run(call) && !(is_limited && sched_call_is_resident(engine, call))) {
            return true;
        }
        call = sched_queue_next(engine, call);
    }
    return false;
}

void sched_deal_limit(struct sched_engine *engine, struct sched_lane *lane)
{
    struct sched_hand *hand = &lane->hand;
    hand->wants = hand->wants || has_more(engine, hand->cursor, true);
    hand->is_limited = true;
}

static bool has_held(const struct sched *sched, const struct sched_lane *lane)
{
    for (uint32_t i = 0; i < sched->settings.queues; i++) {
        uint32_t head = lane->held[i].jobs.head;
        if (head != SCHED_JOB_NONE && sched_job_can_run(sched, &sched->jobs[head])) {
            return true;
        }
    }
    return false;
}

/* On any engine. */
static bool wants(const struct sched *sched, uint32_t tenant)
{
    for (uint32_t i = 0; i < sched->settings.engines; i++) {
        if (sched->engines[i].lanes[tenant].wants) {
            return true;
        }
    }
    return false;
}

void sched_deal_end(struct sched_engine *engine)
{
    const struct sched *sched = engine->sched;
    for (uint32_t i = 0; i < sched->tenants.count; i++) {
        engine->lanes[i].wants = false;
    }
    for (uint32_t i = 0; i < engine->dealt_count; i++) {
        struct sched_lane *lane = &engine->lanes[engine->dealt[i]];
        struct sched_hand *hand = &lane->hand;
        hand->after = hand->cursor;
        lane->wants = hand->wants || (!hand->is_done && has_more(engine, hand->cursor, false)) ||
                      has_held(sched, lane);
    }
    for (uint32_t i = 0; i < sched->tenants.count; i++) {
        sched->tenants.of[i].wants = wants(sched, i);
    }
}

void sched_deal_again(struct sched_engine *engine)
{
    for (uint32_t i = 0; i < engine->dealt_count; i++) {
        struct sched_hand *hand = &engine->lanes[engine->dealt[i]].hand;
        hand->is_done = hand->is_out;
    }
}

bool sched_deal_is_over(const struct sched_engine *engine)
{
    for (uint32_t i = 0; i < engine->dealt_count; i++) {
        const struct sched_hand *hand = &engine->lanes[engine->dealt[i]].hand;
        if (!hand->is_out || hand->kept_out != CALL_NONE) {
            return false;
        }
    }
    return true;
}

bool sched_deal_displaces(const struct sched_engine *engine, const struct sched_job *job)
{
    const struct sched_lane *lane = &engine->lanes[job->tenant];
    if (lane->hand.sequence != engine->sequence) {
        return engine->sched->tenants.of[job->tenant].virtual_time < engine->last_key;
    }
    return lane->hand.kept_out == CALL_NONE &&
           (lane->hand.key < engine->last_key || job->queue < lane->hand.last_queue);
}

/* ---- victims --------------------------------------------------------------------------------- */

/* The next victim of this search, from the end of the lane; or NULL. */
static struct call *last_of(const struct sched_engine *engine, struct sched_lane *lane,
                            enum sched_victims which)
{
    const struct sched *sched = engine->sched;
    struct sched_search *search = &lane->hand.searches[which];
    struct sched_search *other = &lane->hand.searches[SCHED_VICTIMS - 1 - which];
    for (;;) {
        while (search->next == NULL) {
            if (search->queue == 0) {
                search->is_over = true;
                return NULL;
            }
            const struct sched_queue *queue = &lane->queues[--search->queue];
            search->next = sched_call_or_null(sched, queue->lists[CALL_LIST_RESIDENT].tail);
        }
        struct call *call = search->next;
        search->next = sched_call_or_null(sched, call->links[CALL_LIST_RESIDENT].prev);
        if ((which == SCHED_VICTIMS_LATER && !sched_walk_has_passed(engine, call)) ||
            !sched_call_can_run(call)) {
            /* It leaves the list that the other search goes through. */
            other->next = other->next == call ? search->next : other->next;
            return call;
        }
    }
}

/* The last one of the queue that can run, or NULL. */
static const struct call *last_resident(const struct sched *sched, const struct sched_queue *queue)
{
    const struct call *call = sched_call_or_null(sched, queue->lists[CALL_LIST_RESIDENT].tail);
    while (call != NULL && !sched_call_can_run(call)) {
        call = sched_call_or_null(sched, call->links[CALL_LIST_RESIDENT].prev);
    }
    return call;
}

bool sched_deal_has_later(const struct sched_engine *engine, const struct sched_lane *lane)
{
    const struct call *last = NULL;
    for (uint32_t i = engine->sched->settings.queues; last == NULL && i > 0; i--) {
        last = last_resident(engine->sched, &lane->queues[i - 1]);
    }
    return last != NULL && !sched_walk_has_passed(engine, last);
}

/* True when the lane is ahead of the other one by more than an exchange of all KV costs. */
static bool is_ahead(const struct sched_engine *engine, const struct sched_lane *lane,
                     const struct sched_lane *other)
{
    uint64_t even_us = sched_exchange_break_even_us(engine, 0);
    return lane->hand.key > other->hand.key + sched_tenant_cost(even_us);
}

static bool has_any_ahead(const struct sched_engine *engine, const struct sched_lane *taker)
{
    for (uint32_t i = 0; i < engine->dealt_count; i++) {
        if (is_ahead(engine, &engine->lanes[engine->dealt[i]], taker)) {
            return true;
        }
    }
    return false;
}

/* What of the lane may go for a call of another one. */
static enum sched_victims victims_of(const struct sched_engine *engine,
                                     const struct sched_lane *lane,
                                     const struct sched_lane *taker, bool is_free)
{
    bool is_first = engine->planned_count == 0;
    bool is_later = is_free && (is_first || is_ahead(engine, lane, taker));
    return is_later ? SCHED_VICTIMS_LATER : SCHED_VICTIMS_IDLE;
}

/* True when nothing may go as long as no row is planned. */
static bool is_left_out(const struct sched_walk *walk, const struct sched_lane *taker,
                        const struct sched_lane *recovering)
{
    const struct sched_engine *engine = walk->engine;
    if (engine->planned_count > 0 || engine->dealt_count == 1) {
        return false;
    }
    return recovering != NULL ? recovering != taker
                              : !walk->takes_all && !has_any_ahead(engine, taker);
}

struct call *sched_deal_victim(const struct sched_walk *walk, const struct sched_lane *taker,
                               bool takes_own)
{
    const struct sched_engine *engine = walk->engine;
    const struct sched_lane *recovering = recovering_lane(engine);
    bool is_free = recovering == NULL || recovering == taker;
    uint32_t count = is_left_out(walk, taker, recovering) ? 0 : engine->dealt_count;
    struct sched_lane *most;
    do {
        enum sched_victims which = SCHED_VICTIMS_IDLE;
        most = NULL;
        for (uint32_t i = 0; i < count; i++) {
            struct sched_lane *lane = &engine->lanes[engine->dealt[i]];
            enum sched_victims its = lane != taker ? victims_of(engine, lane, taker, is_free)
                                     : takes_own   ? SCHED_VICTIMS_LATER
                                                   : SCHED_VICTIMS_IDLE;
            if (!lane->hand.searches[its].is_over &&
                (most == NULL || lane->hand.key >= most->hand.key)) {
                most = lane;
                which = its;
            }
        }
        struct call *victim = most != NULL ? last_of(engine, most, which) : NULL;
        if (victim != NULL) {
            return victim;
        }
    } while (most != NULL);
    return NULL;
}
