/* SPDX-License-Identifier: MIT */
/*
 * What: the plans of the naive scheduler (naive_sched.h). It repeats the real plan row by row, and
 * asserts that the specification allows it.
 */
#include "kvmem/kvmem.h"
#include "selftest/fake/naive_call.h"
#include "selftest/fake/sched_view.h"

/* Where the walk is, and what it has left. */
struct naive_visit {
    uint32_t at, budget, vain, waits;
    uint32_t spare;                 /* looks in vain that may not have been made */
    bool has_stopped;               /* a call did not fit */
};

#define STANDBY_LOOKS 2         /* at resident calls, for each row of a step */

static bool naive_skips(const struct naive_call *call)
{
    return call->paused || call->cancel;
}

/* Of a job that has no other call, this is not waiting. */
static void naive_excuse(struct naive *m, const struct naive_call *call)
{
    struct naive_job *job = naive_job_of(m, call);
    uint32_t calls = 0;
    for (uint32_t i = 0; i < NAIVE_CALLS_MAX; i++) {
        calls += m->calls[i].open && naive_job_of(m, &m->calls[i]) == job;
    }
    job->since = calls == 1 ? m->now : job->since;
}

/* A plan that found no call to run may have passed over this one before its program had to go. */
static void naive_excuse_displaced(struct naive *m, uint32_t index)
{
    struct naive_call *call = &m->calls[index];
    if (naive_skips(call) && sched_view_call(m->sched, index)->waiting_since_us == m->now) {
        call->since = m->now;
        naive_excuse(m, call);
    }
}

static bool naive_was_preempted(struct naive *m, uint32_t index)
{
    uint32_t preemptions = sched_view_call(m->sched, index)->preemptions;
    ASSERT(preemptions - m->calls[index].preemptions <= 1);
    return preemptions > m->calls[index].preemptions;
}

/* Victims were resident, and resident calls after them in the order went first; but for programs
 * that had to leave the active set. */
static void naive_take_victims(struct naive *m, const uint32_t *sorted, uint32_t count)
{
    for (uint32_t i = count; i > 0; i--) {      /* the last one had to go first */
        if (naive_was_preempted(m, sorted[i - 1])) {
            naive_stage(m, &m->calls[sorted[i - 1]], SCHED_STAGE_DISPLACED);
        }
    }
    bool must_go = false;
    for (uint32_t i = 0; i < count; i++) {
        must_go = must_go && i > 0 &&
                  m->calls[sorted[i]].tenant == m->calls[sorted[i - 1]].tenant;
        struct naive_call *call = &m->calls[sorted[i]];
        bool was_preempted = call->lost = naive_was_preempted(m, sorted[i]);
        if (call->displaced) {
            ASSERT(was_preempted == call->resident);
            call->preemptions += was_preempted;
            naive_drop(call);
            naive_excuse_displaced(m, sorted[i]);
            continue;
        }
        ASSERT(call->resident || !was_preempted);
        ASSERT(!must_go || was_preempted || !call->resident);
        must_go = must_go || (was_preempted && !naive_skips(call));
        if (was_preempted) {
            call->preemptions++;
            naive_drop(call);
        }
    }
}

/* Number of tokens that a row of the call feeds. */
static uint32_t naive_chunk(const struct naive_call *call, uint32_t budget)
{
    uint32_t remaining = call->prompt + call->generated - call->kv;
    return remaining == 1 || remaining < budget ? remaining : budget;
}

static void naive_found(struct naive *m, struct naive_call *call, uint32_t index, uint32_t found)
{
    ASSERT(found < call->prompt + call->generated);
    uint32_t block_tokens = naive_kv(m)->settings.block_tokens;
    uint32_t declared = kvmem_call_declared(naive_kv(m), index) * block_tokens;
    bool is_alone = m->set.sharing == SCHED_SHARING_OFF || call->faults > 0;
    ASSERT(call->faults == 0 || declared == 0);
    ASSERT(!is_alone || found <= call->computed || found == declared);
    ASSERT(kvmem_call_blocks(naive_kv(m), index) > 0);
    call->resident = call->started = true;
    call->kv = found;
    call->computed = found > call->computed ? found : call->computed;
}

static void naive_row(struct naive *m, uint32_t index, uint32_t *budget)
{
    struct naive_call *call = &m->calls[index];
    uint32_t row = m->on->rows_count++;
    const struct step_row *got = step_row(naive_step(m), row);
    if (!call->resident) {
        naive_found(m, call, index, got->first_position);
    }
    uint32_t remaining = call->prompt + call->generated - call->kv;
    uint32_t decode = call->max - call->generated;
    m->on->rows[row] = index;
    m->on->chunk[row] = naive_chunk(call, *budget);
    m->on->decode[row] = m->on->chunk[row] < remaining ? 0
                    : decode < m->set.steps_per_plan ? decode : m->set.steps_per_plan;
    *budget -= remaining == 1 ? 0 : m->on->chunk[row];
    ASSERT(got->first_position == call->kv);
    ASSERT(got->tokens_count == m->on->chunk[row]);
    ASSERT(got->decode_steps == m->on->decode[row]);
}

/* The rest of the order, from `at` on, is as keys are now. */
static void naive_sort_again(struct naive *m, uint32_t *sorted, uint32_t count, uint32_t at)
{
    uint32_t all[NAIVE_CALLS_MAX], all_count = naive_sort(m, all);
    for (uint32_t i = 0; i < all_count && at < count; i++) {
        bool is_left = false;
        for (uint32_t n = at; n < count; n++) {
            is_left = is_left || sorted[n] == all[i];
        }
        if (is_left) {
            uint32_t from = at;
            while (sorted[from] != all[i]) {
                from++;
            }
            for (; from > at; from--) {
                sorted[from] = sorted[from - 1];
            }
            sorted[at++] = all[i];
        }
    }
}

/* A call that could run has no row, and the batch is not full. Then neither a call of its tenant
 * after it nor a call that cannot run has blocks, or as many calls wait for moves as may. With
 * several tenants, a call may be left out before the first row. */
static void naive_did_not_fit(struct naive *m, const uint32_t *sorted, uint32_t count, uint32_t at)
{
    ASSERT(m->on->rows_count > 0 || m->tenants_dealt > 1);
    bool is_sure = m->move_waits < m->set.batch_calls && m->tenants_dealt == 1;
    for (uint32_t i = 0; i < count && is_sure; i++) {
        const struct naive_call *call = &m->calls[sorted[i]];
        bool is_later = i > at && call->tenant == m->calls[sorted[at]].tenant;
        ASSERT(!((is_later || naive_skips(call)) && call->resident));
    }
}

/* True when the walk came to the call. To standbys it did not: the search after it did. */
static bool naive_was_seen(struct naive *m, uint32_t index)
{
    const struct step *step = naive_step(m);
    const struct step_header *header = step_header(step);
    for (uint32_t row = header->rows_active; row < header->rows_count; row++) {
        if (step_row(step, row)->call == index) {
            return false;
        }
    }
    return sched_view_was_visited(m->sched, m->on->index, index);
}

/* A call of a stage has its row: it is a resident. A counter that its prompt has moved on is that
 * of its waiting siblings, too, unless the walk has just come past one of them. */
static void naive_admit(struct naive *m, uint32_t *sorted, uint32_t count, uint32_t at)
{
    struct naive_call *call = &m->calls[sorted[at]];
    if (!naive_has_stages(m)) {
        return;
    }
    if (naive_job_of(m, call)->queue == SCHED_STAGE_WAITING) {
        naive_key_admit(m, call);
        if (m->tenants[call->tenant].passed != call->program) {
            naive_key_show(m, call->program);
        }
    }
    naive_stage(m, call, SCHED_STAGE_RESIDENT);
    naive_sort_again(m, sorted, count, at + 1);
}

/* The walk comes past the call, which stays where it is. */
static void naive_pass(struct naive *m, const struct naive_call *call)
{
    bool is_waiting = naive_job_of(m, call)->queue == SCHED_STAGE_WAITING;
    m->tenants[call->tenant].passed =
        is_waiting ? call->program : m->tenants[call->tenant].passed;
}

/* The call cannot run and was displaced in this walk, which saw it before that, or after, or not at
 * all: only the real scheduler knows. */
static bool naive_was_between(struct naive *m, uint32_t index)
{
    struct naive_call *call = &m->calls[index];
    if (!call->lost || !naive_skips(call)) {
        return false;
    }
    /* Of several tenants, a plan that was made again may have seen it the first time only. */
    bool was_seen = naive_was_seen(m, index) ||
                    (m->tenants_count > 1 &&
                     sched_view_call(m->sched, index)->waiting_since_us == m->now);
    call->since = was_seen ? m->now : call->since;
    return true;
}

/* True when the walk visits the call. Without budget it visits only calls that may need none. A
 * call that cannot run may have lost its blocks before the walk reached it or after: only the real
 * scheduler knows. */
static bool naive_is_on_the_way(struct naive *m, uint32_t index, struct naive_visit *visit)
{
    const struct naive_call *call = &m->calls[index];
    bool was_resident = call->lost && naive_skips(call) && naive_was_seen(m, index);
    if (m->tenants[call->tenant].keeps_out) {
        return call->resident || was_resident;
    }
    bool may_take = visit->spare > 0 && !call->resident && naive_was_seen(m, index);
    if (visit->budget == 0 && visit->vain == 0 && may_take) {
        visit->spare--;
        visit->vain++;
    }
    return visit->budget > 0 || (visit->vain > 0 ? call->started : call->resident || was_resident);
}

/* Of several tenants, one may have been left out before the first row, while there was budget: then
 * its first call has had no look in vain. */
static bool naive_may_be_left_out(const struct naive *m, const struct naive_tenant *tenant)
{
    return m->tenants_dealt > 1 && tenant->rows == 0 && !tenant->in_vain;
}

/* Without budget, a call that has run before may need none; what it found is not known. When the
 * walk then did not come to the tenant's next call, it has ended at that one. */
static void naive_end_unseen(struct naive *m, struct naive_tenant *tenant)
{
    ASSERT(tenant->in_vain || m->tenants_dealt > 1);
    ASSERT(m->on->rows_count > 0 || m->tenants_dealt > 1);
    tenant->done = true;
}

/* True when the call has no row because what it needs is being moved: only the real scheduler knows
 * what is. Of several tenants, it is not known which of them have calls that wait so. */
static bool naive_may_wait(const struct naive *m, const struct naive_visit *visit,
                           const struct naive_call *call)
{
    uint32_t left = m->tenants_dealt > 1 ? m->move_waits : visit->waits;
    return left > 0 && m->on->rows_count > 0 && !call->resident &&
           naive_chunk(call, visit->budget) > 0;
}

/* True when the call has no row because it has no blocks, and would take those of others, or lose
 * its own. What others will need is for the real scheduler to guess; that it keeps out one without
 * blocks, and then all that have none, but for one if no other call would run, is checked. */
static bool naive_is_kept_out(struct naive *m, uint32_t index)
{
    const struct naive_call *call = &m->calls[index];
    bool is_it = sched_view_kept_out(m->sched, m->on->index, call->tenant) == index;
    ASSERT(!is_it || !call->resident);
    return is_it;
}

/* What the walk does with a call that it visits. */
static void naive_visit(struct naive *m, uint32_t *sorted, uint32_t count,
                        struct naive_visit *visit)
{
    uint32_t index = sorted[visit->at];
    struct naive_call *call = &m->calls[index];
    struct naive_tenant *tenant = &m->tenants[call->tenant];
    bool is_claim = !call->resident && !naive_skips(call) && visit->budget == 0 &&
                    !naive_is_left_out(m, call) &&
                    call->computed > 0 && call->prompt + call->generated > 1;
    uint32_t rows = m->on->rows_count;
    visit->vain -= is_claim;
    visit->spare += is_claim && naive_may_be_left_out(m, tenant);
    call->visited = true;
    if (naive_skips(call)) {
        naive_pass(m, call);
        call->since = m->now;
        naive_excuse(m, call);
    } else if (naive_is_left_out(m, call)) {
        naive_pass(m, call);
    } else if (rows < step_header(naive_step(m))->rows_active &&
               step_row(naive_step(m), rows)->call == index) {
        m->last_key = tenant->key;
        naive_row(m, index, &visit->budget);
        naive_admit(m, sorted, count, visit->at);
        tenant->last_queue = naive_job_of(m, call)->queue;
        naive_deal_row(m, index, m->on->chunk[rows]);
    } else if (naive_is_kept_out(m, index)) {
        naive_pass(m, call);
        tenant->keeps_out = true;
    } else if (naive_may_wait(m, visit, call)) {
        naive_pass(m, call);
        visit->waits -= visit->waits > 0;
        tenant->in_vain = is_claim || m->tenants_dealt > 1;     /* it may not have fitted */
        return;
    } else if (naive_chunk(call, visit->budget) > 0) {
        naive_did_not_fit(m, sorted, count, visit->at);
        tenant->done = visit->has_stopped = true;
    }
    tenant->in_vain = is_claim && m->on->rows_count == rows;
}

/* Returns the place in the order from which on the walk has come to no call. */
static uint32_t naive_walk(struct naive *m, uint32_t *sorted, uint32_t count)
{
    struct naive_visit visit = {.budget = m->set.prefill_tokens, .vain = m->set.batch_calls};
    visit.waits = m->move_waits = sched_view_move_waits(m->sched, m->on->index);
    ASSERT(visit.waits <= m->set.batch_calls);
    naive_deal_begin(m);
    while (m->on->rows_count < naive_rows_max(m) && naive_deal(m, sorted, count, visit.at)) {
        uint32_t index = sorted[visit.at];
        struct naive_tenant *tenant = &m->tenants[m->calls[index].tenant];
        if (!naive_is_on_the_way(m, index, &visit)) {
            /* Of several tenants, it may have been left out before the first row. */
            ASSERT(!naive_was_seen(m, index) || m->tenants_dealt > 1);
            tenant->done = naive_was_seen(m, index);
        } else if ((tenant->in_vain || m->tenants_dealt > 1) && !naive_was_seen(m, index)) {
            naive_end_unseen(m, tenant);
            continue;                   /* the search for standbys may come to it */
        } else {
            ASSERT(naive_was_seen(m, index));
            naive_visit(m, sorted, count, &visit);
        }
        visit.at++;
    }
    /* A plan that was made again may have come to others before. */
    for (uint32_t i = 0; i < count && (m->tenants_dealt > 1 || m->on->is_again); i++) {
        naive_excuse_displaced(m, sorted[i]);
    }
    m->room = m->tenants_dealt > 1 ? NAIVE_ROOM_UNKNOWN : NAIVE_ROOM_LEFT;
    for (uint32_t t = 0; t < m->tenants_count; t++) {
        m->room = m->tenants[t].in_vain ? NAIVE_ROOM_UNKNOWN : m->room;
    }
    bool has_none = m->tenants_dealt == 1 && visit.has_stopped;
    for (uint32_t t = 0; t < m->tenants_count; t++) {
        has_none = has_none || m->tenants[t].keeps_out;
    }
    m->room = has_none || m->on->rows_count == naive_rows_max(m) ? NAIVE_ROOM_NONE : m->room;
    m->is_short = visit.budget == 0;
    ASSERT(visit.waits == 0 || m->tenants_dealt > 1);
    return visit.at;
}

static void naive_standbys(struct naive *m, uint32_t *sorted, uint32_t count, uint32_t at)
{
    uint32_t rows = step_header(naive_step(m))->rows_count;
    uint32_t looks = STANDBY_LOOKS * (m->set.batch_calls + m->set.standby_calls);
    for (uint32_t t = 0; t < m->tenants_count; t++) {
        m->tenants[t].done = false;
    }
    bool has_any = m->set.steps_per_plan > 1 && m->on->rows_active > 0 && !m->on->is_trial;
    for (; has_any && naive_deal(m, sorted, count, at); at++) {
        struct naive_call *call = &m->calls[sorted[at]];
        if (!call->resident || looks == 0) {
            continue;
        }
        looks--;
        uint32_t known = call->prompt + call->generated;
        uint32_t decode = call->max - call->generated;
        decode = decode < m->set.steps_per_plan - 1 ? decode : m->set.steps_per_plan - 1;
        bool can = call->resident && !naive_skips(call) && !naive_is_left_out(m, call) &&
                   call->kv + 1 == known;
        const struct step_row *got = step_row(naive_step(m), m->on->rows_count);
        if (m->on->rows_count < rows && got->call == sorted[at]) {
            ASSERT(can);
            ASSERT(got->first_position == call->kv);
            ASSERT(got->tokens_count == 1);
            ASSERT(got->decode_steps == decode);
            m->on->rows[m->on->rows_count] = sorted[at];
            m->on->chunk[m->on->rows_count] = 1;
            m->on->decode[m->on->rows_count++] = decode;
            naive_deal_row(m, sorted[at], 1);
        } else if (m->on->rows_count - m->on->rows_active < m->set.standby_calls && can) {
            /* There must have been no room; of several tenants, another one's may have taken it. */
            const struct kvmem *kv = naive_kv(m);
            uint32_t needed = kvmem_blocks_ceil(known + decode - 1, kv->settings.block_tokens);
            ASSERT(m->tenants_dealt > 1 || needed > kvmem_call_blocks(kv, sorted[at]));
        }
    }
    ASSERT(m->on->rows_count - m->on->rows_active <= m->set.standby_calls);
}

static void naive_prefetched(struct naive *m, const uint32_t *sorted, uint32_t count)
{
    uint32_t prefetched = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct naive_call *call = &m->calls[sorted[i]];
        if (!call->resident && kvmem_call_blocks(naive_kv(m), sorted[i]) > 0) {
            ASSERT(m->set.prefetch && !call->visited && !naive_skips(call));
            naive_found(m, call, sorted[i], sched_view_call(m->sched, sorted[i])->kv_tokens);
            prefetched++;
        }
    }
    ASSERT(prefetched <= m->set.batch_calls);
}

/* The step stops early only where a call can make use of its end. */
static void naive_stop(struct naive *m)
{
    uint32_t budget = m->set.prefill_tokens;
    for (uint32_t i = 0; i < m->on->rows_active; i++) {
        const struct naive_call *call = &m->calls[m->on->rows[i]];
        bool decodes_only = call->prompt + call->generated - call->kv == 1;
        budget -= decodes_only ? 0 : m->on->chunk[i];
    }
    bool really_has_room = sched_view_has_room(m->sched, m->on->index);
    bool has_room = m->room == NAIVE_ROOM_UNKNOWN ? really_has_room : m->room == NAIVE_ROOM_LEFT;
    m->on->stops_early = m->set.cut_steps;
    ASSERT(really_has_room == has_room);
    enum step_stop cut = has_room && budget == 0 ? STEP_STOP_ROUND : STEP_STOP_ROW;
    ASSERT(step_early_stop(naive_step(m)) == (m->on->stops_early ? cut : STEP_STOP_LAST));
}

/* After the victims have gone to their stage: the order of what the walk may give rows. */
static uint32_t naive_sort_stages(struct naive *m, uint32_t *sorted)
{
    uint32_t all = naive_sort(m, sorted), count = 0;
    for (uint32_t i = 0; i < all; i++) {
        if (!naive_was_between(m, sorted[i])) {
            sorted[count++] = sorted[i];
        }
    }
    return count;
}

void naive_follow_plan(struct naive *m, bool planned)
{
    uint32_t sorted[NAIVE_CALLS_MAX];
    const struct step_header *header = step_header(naive_step(m));
    uint32_t count = naive_sort(m, sorted);
    m->on->rows_count = m->on->rows_active = 0;
    m->on->is_trial = sched_view_is_trial(m->sched, m->on->index);
    m->on->is_again = header->sequence > m->on->sequence + 1;
    m->on->sequence = header->sequence;
    naive_take_victims(m, sorted, count);
    count = naive_has_stages(m) ? naive_sort_stages(m, sorted) : count;
    while (count > 0 && naive_job_of(m, &m->calls[sorted[count - 1]])->held) {
        count--;
    }
    uint32_t at = naive_walk(m, sorted, count);
    m->on->rows_active = m->on->rows_count;
    ASSERT(header->rows_active == m->on->rows_active);
    ASSERT(planned == (m->on->rows_active > 0));
    naive_stop(m);
    naive_standbys(m, sorted, count, at);
    ASSERT(header->rows_count == m->on->rows_count);
    naive_prefetched(m, sorted, count);
    naive_deal_end(m);
    for (uint32_t i = 0; i < m->on->rows_count; i++) {
        naive_key_show(m, m->calls[m->on->rows[i]].program);
        m->calls[m->on->rows[i]].standby = i >= m->on->rows_active;
    }
}

bool naive_stops_step(struct naive *m, uint32_t index)
{
    const struct naive_call *call = &m->calls[index];
    const struct naive_tenant *tenant = &m->tenants[call->tenant];
    naive_meet_tenants(m);
    uint64_t key = tenant->dealt ? tenant->key : tenant->time;
    bool is_higher = tenant->dealt && naive_job_of(m, call)->queue < tenant->last_queue;
    bool displaces = !(tenant->dealt && tenant->keeps_out) && (key < m->last_key || is_higher);
    return m->on->busy && m->on->stops_early && call->open && !naive_job_of(m, call)->held &&
           (sched_view_has_room(m->sched, m->on->index) || displaces);
}

void naive_begin_row(struct naive_call *call)
{
    uint32_t found = call->kv < call->prompt ? call->kv : call->prompt;
    call->cached = !call->has_run || found < call->cached ? found : call->cached;
    call->has_run = true;
}

void naive_launch(struct naive *m)
{
    for (uint32_t i = 0; i < m->on->rows_count; i++) {
        struct naive_call *call = &m->calls[m->on->rows[i]];
        if (!call->standby) {
            naive_accrue(call, m->now);
            naive_begin_job(naive_job_of(m, call), m->now);
            naive_begin_row(call);
        }
        call->running = true;
    }
    m->on->busy = m->on->rows_count > 0;
    m->on->submitted = m->now;
}
