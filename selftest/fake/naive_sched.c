/* SPDX-License-Identifier: MIT */
/*
 * What: calls and queues of the naive scheduler (naive_sched.h): arrival, order, promotion,
 * deadlines, and end.
 */
#include "selftest/fake/naive_sched.h"

#include <string.h>

#include "selftest/fake/naive_call.h"
#include "selftest/fake/sched_view.h"

#define CALLS_LOOKED_AT 8           /* of each job that has waited too long */
#define ROWS_FOR_A_TURN 16          /* rows of the batch for each job that may be promoted */

uint64_t naive_quantum(const struct naive *m, uint32_t queue)
{
    uint64_t quantum = m->set.quantum_us;
    if (quantum == 0) {
        return m->levels[queue].quantum_us;
    }
    while (queue-- > 0) {
        quantum *= m->set.quantum_growth;
    }
    return quantum;
}

static bool naive_knows_programs(const struct naive *m)
{
    return m->set.policy == SCHED_PLAS || m->set.policy == SCHED_ATLAS ||
           m->set.policy == SCHED_FORESIGHT;
}

bool naive_orders_programs(const struct naive *m)
{
    return m->set.service == SCHED_SERVICE_LIVE && naive_knows_programs(m);
}

struct naive_job *naive_job_of(struct naive *m, const struct naive_call *call)
{
    return naive_orders_programs(m) ? &m->members[call->engine][call->program]
                                    : &m->jobs[call - m->calls];
}

void naive_enter(struct naive *m, struct naive_job *job, uint32_t queue, bool head)
{
    job->queue = queue;
    job->from = 0;
    job->quantum = naive_quantum(m, queue);
    job->moved = m->arrivals;
    job->order = head ? --m->first_order : ++m->last_order;
}

void naive_accrue(struct naive_call *call, uint64_t until)
{
    call->wait += until - call->since;
    call->since = until;
}

void naive_begin_job(struct naive_job *job, uint64_t from)
{
    job->wait += from > job->since ? from - job->since : 0;
    job->since = from > job->since ? from : job->since;
}

void naive_decay(struct naive *m, uint32_t program)
{
    uint64_t half_life = m->set.half_life_us;
    if (!m->known[program]) {
        m->known[program] = true;
        m->halved[program] = m->now;
    }
    while (half_life > 0 && m->now - m->halved[program] >= half_life) {
        uint64_t elapsed = m->now - m->halved[program];
        m->halved[program] += m->service[program] > 0 ? half_life : elapsed - elapsed % half_life;
        m->service[program] /= 2;
    }
}

/* What its class says that the program needs. What classes learn is for unit class/promise and
 * class/prediction to say. */
static uint64_t naive_remaining(const struct naive *m, uint32_t program)
{
    uint64_t remaining = UINT64_MAX;
    uint32_t calls = m->set.policy == SCHED_FORESIGHT ? m->set.calls : 0;
    for (uint32_t i = 0; i < calls; i++) {
        bool is_admitted = sched_view_call(m->sched, i)->state != CALL_INTAKE;
        if (is_admitted && m->calls[i].open && m->calls[i].program == program) {
            remaining = sched_view_remaining_us(m->sched, i, m->service[program]);
        }
    }
    return remaining;
}

/* What says how far down the program stands. */
static uint64_t naive_standing(const struct naive *m, uint32_t program)
{
    uint64_t remaining = naive_remaining(m, program);
    return remaining < UINT64_MAX ? remaining : m->service[program];
}

uint32_t naive_level(const struct naive *m, uint32_t program)
{
    uint32_t queue = 0;
    uint64_t high = 0, standing = naive_standing(m, program);
    if (naive_knows_programs(m)) {
        while (queue + 1 < m->set.queues &&
               standing >= (high += naive_quantum(m, queue))) {
            queue++;
        }
    }
    return queue;
}

bool naive_goes_to_head(struct naive *m, const struct naive_call *call, uint32_t queue)
{
    uint32_t sorted[NAIVE_CALLS_MAX];
    uint32_t count = m->set.policy == SCHED_FORESIGHT ? naive_sort(m, sorted) : 0;
    const struct naive_job *own = naive_job_of(m, call);
    for (uint32_t i = 0; i < count; i++) {
        const struct naive_call *other = &m->calls[sorted[i]];
        const struct naive_job *job = naive_job_of(m, other);
        if (job != own && job->queue == queue && job->held == own->held) {
            return naive_remaining(m, call->program) < naive_standing(m, other->program);
        }
    }
    return false;
}

/* True when the call is of a job that other calls are of, too. */
static bool naive_joins(const struct naive *m, const struct naive_call *call)
{
    for (uint32_t i = 0; i < NAIVE_CALLS_MAX && naive_orders_programs(m); i++) {
        const struct naive_call *other = &m->calls[i];
        if (other != call && naive_is_here(m, other) && other->program == call->program) {
            return true;
        }
    }
    return false;
}

void naive_begin(struct naive *m, struct naive_call *call, bool held)
{
    uint32_t queue =
        naive_has_stages(m) ? (uint32_t)SCHED_STAGE_WAITING : naive_level(m, call->program);
    struct naive_job *job = naive_job_of(m, call);
    if (naive_joins(m, call)) {
        return;
    }
    *job = (struct naive_job){.since = call->since, .held = held};
    naive_enter(m, job, queue, naive_goes_to_head(m, call, queue));
}

void naive_arrive(struct naive *m, uint32_t index, const struct naive_call *asked)
{
    struct naive_call *call = &m->calls[index];
    naive_choose(m, asked->engine);
    naive_decay(m, asked->program);
    naive_meet_tenants(m);
    *call = *asked;
    call->open = true;
    call->since = m->now;
    call->priority = m->service[asked->program];
    call->order = ++m->arrivals;
    naive_begin(m, call, m->set.active_programs != SCHED_ACTIVE_ALL && !m->active[call->program]);
    naive_key_arrive(m, call);
}

void naive_drop(struct naive_call *call)
{
    call->resident = false;
    call->kv = 0;
}

void naive_credit(struct naive *m, const struct naive_call *call, uint64_t service)
{
    uint64_t path = call->priority + call->service;
    naive_decay(m, call->program);
    if (m->set.policy != SCHED_ATLAS) {
        m->service[call->program] += service;
    } else if (path > m->service[call->program]) {
        m->service[call->program] = path;
    }
}

void naive_end(struct naive *m, struct naive_call *call, enum call_finish finish)
{
    if (!call->running) {
        naive_accrue(call, m->now);
    }
    if (!naive_orders_programs(m)) {
        naive_credit(m, call, call->service);
    }
    naive_decay(m, call->program);
    m->wait[call->program] += call->wait;
    naive_drop(call);
    if (call->cancel) {
        finish = call->stop_text ? CALL_FINISH_STOP_TEXT : CALL_FINISH_CANCELLED;
    }
    if (call->cancel && call->stop_text) {
        call->generated = call->stop_text_tokens;
    }
    call->finish = finish;
    call->open = call->running = call->standby = false;
    naive_key_ended(m);
}

static bool naive_goes_first(struct naive *m, const struct naive_call *a,
                             const struct naive_call *b)
{
    const struct naive_job *job_a = naive_job_of(m, a), *job_b = naive_job_of(m, b);
    if (job_a == job_b) {
        return a->order < b->order;
    }
    if (job_a->held != job_b->held) {
        return job_b->held;
    }
    if (a->tenant != b->tenant) {
        return a->tenant < b->tenant;
    }
    if (job_a->queue != job_b->queue) {
        return job_a->queue < job_b->queue;
    }
    if (naive_key(m, a) != naive_key(m, b)) {
        return naive_key(m, a) < naive_key(m, b);
    }
    return naive_tie(m, a) != naive_tie(m, b) ? naive_tie(m, a) < naive_tie(m, b)
                                              : job_a->order < job_b->order;
}

/* By insertion; those of the chosen engine. */
uint32_t naive_sort(struct naive *m, uint32_t *sorted)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < NAIVE_CALLS_MAX; i++) {
        const struct naive_call *call = &m->calls[i];
        if (!naive_is_here(m, call)) {
            continue;
        }
        uint32_t at = count++;
        for (; at > 0; at--) {
            const struct naive_call *other = &m->calls[sorted[at - 1]];
            if (naive_goes_first(m, other, call)) {
                break;
            }
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = i;
    }
    return count;
}

/* True when the job of the call has waited too long. */
static bool naive_starved(struct naive *m, const struct naive_call *call)
{
    const struct naive_job *job = naive_job_of(m, call);
    uint64_t wait = job->wait + m->now - job->since;
    uint64_t service = job->service;
    if (m->set.wait_max_us > 0 && wait >= m->set.wait_max_us) {
        return true;
    }
    if (m->set.policy != SCHED_MLFQ && job->promotions == 0) {
        wait += m->wait[call->program];
        service = m->service[call->program] + (naive_orders_programs(m) ? 0 : service);
    }
    return m->set.beta_milli > 0 && service > 0 && wait * 1000 >= service * m->set.beta_milli;
}

static bool naive_is_first(struct naive *m, const uint32_t *sorted, uint32_t at)
{
    return at == 0 || naive_job_of(m, &m->calls[sorted[at - 1]]) !=
                          naive_job_of(m, &m->calls[sorted[at]]);
}

/* True when one of the calls can run that are looked at, of the job whose first call is here. */
static bool naive_can_run(struct naive *m, const uint32_t *sorted, uint32_t count, uint32_t at)
{
    const struct naive_job *job = naive_job_of(m, &m->calls[sorted[at]]);
    for (uint32_t i = at; i < count && i < at + CALLS_LOOKED_AT; i++) {
        const struct naive_call *call = &m->calls[sorted[i]];
        if (naive_job_of(m, call) == job && !call->paused && !call->cancel) {
            return true;
        }
    }
    return false;
}

/* A promoted job that cannot run goes back. */
static void naive_end_idle_turns(struct naive *m, const uint32_t *sorted, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct naive_job *job = naive_job_of(m, &m->calls[sorted[i]]);
        if (naive_is_first(m, sorted, i) && job->from > 0 &&
            !naive_can_run(m, sorted, count, i)) {
            naive_enter(m, job, job->from,
                        m->set.demoted_to_head && m->set.policy != SCHED_ROUND_ROBIN);
        }
    }
}

/* Jobs that are promoted now. */
static uint32_t naive_turns(struct naive *m, const uint32_t *sorted, uint32_t count)
{
    uint32_t turns = 0;
    for (uint32_t i = 0; i < count; i++) {
        turns += naive_is_first(m, sorted, i) && naive_job_of(m, &m->calls[sorted[i]])->from > 0;
    }
    return turns;
}

/* The first job of this queue of the tenant that has waited too long and can run gets a turn. True
 * if one did. */
static bool naive_give_turn(struct naive *m, const uint32_t *sorted, uint32_t count,
                            const struct sched_view_place *place)
{
    uint32_t queue = place->queue;
    for (uint32_t i = 0; i < count; i++) {
        struct naive_job *job = naive_job_of(m, &m->calls[sorted[i]]);
        if (!naive_is_first(m, sorted, i) || job->queue != queue ||
            m->calls[sorted[i]].tenant != place->tenant ||
            !naive_starved(m, &m->calls[sorted[i]])) {
            continue;
        }
        job->wait = 0;
        job->since = m->now;
        if (naive_can_run(m, sorted, count, i)) {
            job->service = 0;
            job->promotions++;
            naive_enter(m, job, 0, false);
            job->from = queue;
            job->turn = ++m->turns_given;
            job->quantum = naive_quantum(m, queue);
            return true;
        }
    }
    return false;
}

uint32_t naive_turns_max(const struct naive *m)
{
    uint32_t jobs = m->set.batch_calls / ROWS_FOR_A_TURN;
    return jobs > 0 ? jobs : 1;
}

/* The promoted job that has had its turn for longest, of those that do not stand in the first
 * queue, or at the level that they came from; NULL: there is none. */
static struct naive_job *naive_misplaced(struct naive *m, bool is_first)
{
    struct naive_job *oldest = NULL;
    for (uint32_t i = 0; i < NAIVE_CALLS_MAX; i++) {
        struct naive_job *job = naive_job_of(m, &m->calls[i]);
        if (naive_is_here(m, &m->calls[i]) && job->from > 0 &&
            job->queue != (is_first ? 0 : job->from) &&
            (oldest == NULL || job->turn < oldest->turn)) {
            oldest = job;
        }
    }
    return oldest;
}

/* While turns have had more than a row each, they stand at their own levels. */
static void naive_place_turns(struct naive *m)
{
    bool is_first = m->on->turns_ahead == 0;
    struct naive_job *job;
    while ((job = naive_misplaced(m, is_first)) != NULL) {
        uint32_t from = job->from;
        uint64_t quantum = job->quantum;
        naive_enter(m, job, is_first ? 0 : from, !is_first);
        job->from = from;
        job->quantum = quantum;
    }
}

/* The tenants have turns in turn. */
static bool naive_give_tenants_turn(struct naive *m, const uint32_t *sorted, uint32_t count,
                                    uint32_t queue)
{
    uint32_t last = m->on->turn_tenant;
    for (uint32_t i = 1; i <= m->tenants_count; i++) {
        uint32_t tenant = (last + i) % m->tenants_count;
        struct sched_view_place place = {.tenant = tenant, .queue = queue};
        if (naive_give_turn(m, sorted, count, &place)) {
            m->on->turn_tenant = tenant;
            return true;
        }
    }
    return false;
}

/* The queues have turns in turn. */
void naive_promote_all(struct naive *m)
{
    uint32_t sorted[NAIVE_CALLS_MAX];
    uint32_t lower = naive_has_stages(m) ? 0 : m->set.queues - 1, last = m->on->turn_queue;
    memcpy(m->levels, m->sched->levels, sizeof m->levels);
    naive_meet_tenants(m);
    naive_end_idle_turns(m, sorted, naive_sort(m, sorted));
    naive_place_turns(m);
    uint32_t count = naive_sort(m, sorted), turns = naive_turns(m, sorted, count);
    uint32_t turns_max = m->on->turns_ahead > 0 ? 0 : naive_turns_max(m);
    for (uint32_t i = 0; i < lower && turns < turns_max; i++) {
        uint32_t queue = (last + i) % lower + 1;
        if (naive_give_tenants_turn(m, sorted, count, queue)) {
            m->on->turn_queue = queue;
            turns++;
        }
    }
}

/* The job goes after all others of its level, unless its key says where it stands. */
static void naive_follow_job(struct naive *m, const struct naive_call *call, bool held)
{
    struct naive_job *job = naive_job_of(m, call);
    job->held = held;
    job->order = m->set.policy == SCHED_SRPT ? job->order : ++m->last_order;
}

static bool naive_was_displaced(const struct naive *m, uint32_t index)
{
    uint32_t now = sched_view_program(m->sched, index)->displacements;
    return now > m->displacements[m->calls[index].program];
}

/* Jobs that become active go to the tail of their level. In which order others are held is for unit
 * sched/active to say. */
static void naive_follow_queue(struct naive *m, const struct sched_view_place *place)
{
    bool held = place->held;
    uint32_t real[NAIVE_CALLS_MAX];
    uint32_t calls = sched_view_queue(m->sched, m->on->index, place, real, NAIVE_CALLS_MAX);
    for (uint32_t i = 0; i < calls; i++) {
        struct naive_call *call = &m->calls[real[i]];
        const struct naive_job *job = naive_job_of(m, call);
        bool is_first = i == 0 || naive_job_of(m, &m->calls[real[i - 1]]) != job;
        bool has_moved = job->held != held || naive_was_displaced(m, real[i]);
        call->started = call->started && !(has_moved && m->set.policy == SCHED_SRPT);
        if (is_first && (held || has_moved)) {
            naive_follow_job(m, call, held);
        }
    }
}

void naive_follow_active(struct naive *m)
{
    for (uint32_t i = 0; i < 2 * m->set.queues * sched_view_tenants(m->sched); i++) {
        naive_follow_queue(m, &(struct sched_view_place){
            .tenant = i / 2 / m->set.queues, .queue = i / 2 % m->set.queues, .held = i % 2});
    }
    for (uint32_t i = 0; i < m->sched->calls->count; i++) {
        m->calls[i].displaced = m->calls[i].open && naive_was_displaced(m, i);
        if (m->calls[i].open) {
            m->entry[m->calls[i].program] = sched_view_program(m->sched, i);
        }
    }
    for (uint32_t i = 0; i < NAIVE_PROGRAMS_MAX; i++) {
        m->active[i] = m->entry[i] != NULL &&
                       sched_view_is_active(m->sched, m->on->index, m->entry[i]);
        m->displacements[i] = m->entry[i] != NULL ? m->entry[i]->displacements : 0;
    }
}

void naive_expire(struct naive *m)
{
    for (uint32_t i = 0; i < NAIVE_CALLS_MAX; i++) {
        struct naive_call *call = &m->calls[i];
        if (call->open && call->deadline <= m->now) {
            call->expired = true;
            if (!call->running) {
                naive_end(m, call, CALL_FINISH_DEADLINE);
            }
        }
    }
}
