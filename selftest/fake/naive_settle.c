/* SPDX-License-Identifier: MIT */
/*
 * What: how a step ends in the naive scheduler (naive_sched.h): tokens, service, demotions,
 * faults, and the loss of the worker.
 */
#include "selftest/fake/fake_engine.h"
#include "selftest/fake/naive_call.h"

/* The oracle's tokens say when the call ends, and why. */
static enum call_finish naive_take(struct naive *m, struct naive_call *call,
                                   const struct call *real, uint32_t decode)
{
    uint32_t tokens[NAIVE_CONTEXT_MAX];
    uint32_t known = call->prompt + call->generated;
    uint32_t room = call->max - call->generated;
    uint32_t count = m->oracle(m->oracle_context, real, known, decode < room ? decode : room,
                               tokens);
    call->generated += count;
    call->kv += count > 0 ? count - 1 : 0;
    if (count > 0 && fake_engine_is_stop(&real->sampling, tokens[known + count - 1])) {
        return real->eos_id_index_plus_1 > 0 ? CALL_FINISH_EOS : CALL_FINISH_STOP_ID;
    }
    if (call->generated == call->max) {
        return CALL_FINISH_LENGTH;
    }
    return CALL_FINISH_NONE;
}

/* True when the standby got rounds of the step. Its waiting ends when it entered. */
static bool naive_standby_entered(struct naive *m, uint32_t row, uint64_t *duration)
{
    struct naive_call *call = &m->calls[m->on->rows[row]];
    uint32_t produced = m->on->produced[row], decode = m->on->decode[row];
    uint32_t rounds = produced < decode ? produced : decode;
    call->standby = false;
    if (m->on->fault[row] == NAIVE_FAULT_NONE && rounds == 0) {
        return false;
    }
    *duration = *duration * rounds / (m->on->rounds > rounds ? m->on->rounds : rounds + 1);
    uint64_t entered = m->now - *duration;
    naive_accrue(call, entered);
    naive_begin_job(naive_job_of(m, call), entered);
    m->on->decode[row] = rounds;
    naive_begin_row(call);
    return true;
}

/* Tokens that the row decoded. A row in an early stop has one token at least. */
static uint32_t naive_decoded(struct naive *m, uint32_t row)
{
    uint32_t decode = m->on->decode[row];
    ASSERT(m->on->produced[row] > 0 || decode == 0);
    return m->on->stops_early && m->on->produced[row] < decode ? m->on->produced[row] : decode;
}

static void naive_use_up(struct naive_job *job, uint64_t duration)
{
    job->quantum -= duration < job->quantum ? duration : job->quantum;
}

/* A program has one quantum, whatever engines its jobs are at. */
static void naive_use_up_elsewhere(struct naive *m, uint32_t program, uint64_t duration)
{
    for (uint32_t i = 0; i < m->set.engines && naive_orders_programs(m); i++) {
        if (i != m->on->index) {
            naive_use_up(&m->members[i][program], duration);
        }
    }
}

static void naive_charge_job(struct naive *m, const struct naive_call *call, uint64_t duration,
                             bool is_progress)
{
    struct naive_job *job = naive_job_of(m, call);
    m->on->turns_ahead += job->from > 0 && job->queue == 0 ? duration : 0;
    job->service += duration;
    job->since = m->now;
    if (is_progress) {
        naive_use_up(job, duration);
        naive_use_up_elsewhere(m, call->program, duration);
    } else {
        job->quantum += duration;
    }
}

static void naive_settle_row(struct naive *m, uint32_t row, uint64_t duration,
                             const struct call *real)
{
    struct naive_call *call = &m->calls[m->on->rows[row]];
    if (call->standby && !naive_standby_entered(m, row, &duration)) {
        call->running = false;
        if (call->cancel || call->expired) {
            naive_end(m, call, CALL_FINISH_DEADLINE);
        }
        return;
    }
    enum call_finish finish = CALL_FINISH_NONE;
    uint32_t fed = call->kv + m->on->chunk[row], before = call->generated;
    bool is_progress = false;
    call->service += duration;
    naive_use(m, row, duration);
    if (naive_orders_programs(m)) {
        naive_credit(m, call, duration);
    }
    if (m->on->fault[row] == NAIVE_FAULT_NAN) {
        naive_drop(call);
        naive_stage(m, call, SCHED_STAGE_DISPLACED);
        call->preemptions++;
        finish = ++call->faults == 2 ? CALL_FINISH_FAILED : CALL_FINISH_NONE;
    } else {
        call->kv += m->on->chunk[row];
        finish = naive_take(m, call, real, naive_decoded(m, row));
        is_progress = call->kv > call->computed;
        call->computed = is_progress ? call->kv : call->computed;
    }
    if (call->kv >= call->until) {
        call->company = call->deaths = call->until = 0;
    }
    naive_key_charge(m, call, fed, call->generated - before);
    naive_charge_job(m, call, duration, is_progress);
    if (finish == CALL_FINISH_NONE && call->expired) {
        finish = CALL_FINISH_DEADLINE;
    }
    if (finish != CALL_FINISH_NONE || call->cancel) {
        naive_end(m, call, finish);
        return;
    }
    call->running = false;
    call->since = m->now;
}

/* True when the job has open calls. */
static bool naive_is_open(struct naive *m, const struct naive_job *job)
{
    for (uint32_t i = 0; i < NAIVE_CALLS_MAX; i++) {
        if (m->calls[i].open && naive_job_of(m, &m->calls[i]) == job) {
            return true;
        }
    }
    return false;
}

/* True when the job has used up the last queue's quantum, and all its calls came after it did. */
static bool naive_is_renewed(struct naive *m, const struct naive_job *job)
{
    bool all_new = naive_orders_programs(m) && job->from == 0 && job->quantum == 0 &&
                   job->queue + 1 == m->set.queues && naive_is_open(m, job);
    for (uint32_t i = 0; i < NAIVE_CALLS_MAX; i++) {
        const struct naive_call *call = &m->calls[i];
        all_new = all_new && !(call->open && naive_job_of(m, call) == job &&
                               call->order <= job->moved);
    }
    return all_new;
}

/* The job of the call goes where it belongs. */
static void naive_settle_job(struct naive *m, const struct naive_call *call)
{
    struct naive_job *job = naive_job_of(m, call);
    bool takes_turns = m->set.policy == SCHED_ROUND_ROBIN;
    bool to_head = m->set.demoted_to_head && !takes_turns;
    if (naive_has_stages(m)) {
        return;
    }
    uint32_t lowest = naive_orders_programs(m) ? naive_level(m, call->program) : m->set.queues - 1;
    bool leaves = takes_turns || job->from > 0 || job->queue < lowest;
    bool rises = m->set.policy == SCHED_FORESIGHT && naive_orders_programs(m) &&
                 naive_is_open(m, job) && job->from == 0 && lowest < job->queue;
    if (rises) {
        naive_enter(m, job, lowest, naive_goes_to_head(m, call, lowest));
    } else if (naive_is_renewed(m, job)) {
        naive_enter(m, job, job->queue, false);
    } else if (naive_is_open(m, job) && job->quantum == 0 && leaves) {
        uint32_t below = job->from > 0 ? job->from : job->queue + 1;
        naive_enter(m, job, takes_turns ? job->queue : below, to_head);
    }
}

/* An open call of the program at the chosen engine; NULL: it has none there. */
static const struct naive_call *naive_any_of(const struct naive *m, uint32_t program)
{
    for (uint32_t i = 0; i < NAIVE_CALLS_MAX; i++) {
        if (naive_is_here(m, &m->calls[i]) && m->calls[i].program == program) {
            return &m->calls[i];
        }
    }
    return NULL;
}

/* What the program has at other engines sinks with its service. */
static void naive_settle_elsewhere(struct naive *m, uint32_t program)
{
    uint32_t on = m->on->index;
    for (uint32_t i = 0; i < m->set.engines && naive_orders_programs(m); i++) {
        naive_choose(m, i);
        const struct naive_call *call = i != on ? naive_any_of(m, program) : NULL;
        if (call != NULL) {
            naive_settle_job(m, call);
        }
    }
    naive_choose(m, on);
}

void naive_settle(struct naive *m, const struct call *real, uint64_t duration)
{
    m->on->busy = false;
    naive_meet_tenants(m);
    for (uint32_t i = 0; i < m->on->rows_count; i++) {
        naive_settle_row(m, i, duration, &real[m->on->rows[i]]);
    }
    naive_charge(m, duration);
    uint64_t due = naive_turns_max(m) * duration;
    m->on->turns_ahead = m->on->turns_ahead > due ? m->on->turns_ahead - due : 0;
    naive_key_advance(m);
    bool to_head = m->set.demoted_to_head && m->set.policy != SCHED_ROUND_ROBIN;
    for (uint32_t i = 0; i < m->on->rows_count; i++) {
        const struct naive_call *call =
            &m->calls[m->on->rows[to_head ? m->on->rows_count - 1 - i : i]];
        naive_settle_job(m, call);
        naive_settle_elsewhere(m, call->program);
        naive_key_settle(m, call->program);
    }
}

static bool naive_is_impossible(const struct naive *m, uint32_t row)
{
    return m->on->fault[row] != NAIVE_FAULT_NONE && m->on->fault[row] != NAIVE_FAULT_NAN;
}

bool naive_refute(struct naive *m)
{
    bool is_refuted = false;
    for (uint32_t i = 0; i < m->on->rows_count; i++) {
        struct naive_call *call = &m->calls[m->on->rows[i]];
        if (naive_is_impossible(m, i)) {
            is_refuted = true;
            call->faults++;
        }
        if (naive_is_impossible(m, i) && call->faults == 2) {
            call->running = call->running && !call->standby;
            naive_end(m, call, call->expired ? CALL_FINISH_DEADLINE : CALL_FINISH_FAILED);
        }
    }
    return is_refuted;
}

void naive_lost(struct naive *m)
{
    uint32_t sorted[NAIVE_CALLS_MAX];
    uint32_t count = naive_sort(m, sorted);
    for (uint32_t i = 0; i < count; i++) {
        struct naive_call *call = &m->calls[sorted[i]];
        if (call->resident) {
            call->preemptions++;
            naive_drop(call);
            naive_stage(m, call, SCHED_STAGE_DISPLACED);
        }
    }
    for (uint32_t i = 0; i < m->on->rows_count && m->on->busy; i++) {
        struct naive_call *call = &m->calls[m->on->rows[i]];
        if (!call->running || call->engine != m->on->index) {
            continue;               /* it has ended; another call may have its slot */
        }
        call->since = call->standby ? call->since : m->on->submitted;
        call->running = call->standby = false;
        if (call->cancel || call->expired) {
            naive_end(m, call, CALL_FINISH_DEADLINE);
        } else {
            naive_suspect(m, i);
        }
    }
    m->on->busy = false;
}
