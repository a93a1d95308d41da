/* SPDX-License-Identifier: MIT */
/*
 * What: calls and queues of the naive scheduler (naive_sched.h): arrival, order, promotion,
 * deadlines, end, and the comparison with the real scheduler.
 */
#include "selftest/fake/naive_sched.h"

#include "selftest/fake/naive_call.h"
#include "selftest/fake/sched_view.h"

uint64_t naive_quantum(const struct naive *m, uint32_t queue)
{
    uint64_t quantum = m->set.quantum_us;
    while (queue-- > 0) {
        quantum *= m->set.quantum_growth;
    }
    return quantum;
}

void naive_enter(struct naive *m, struct naive_call *call, uint32_t queue, bool head)
{
    call->queue = queue;
    call->from = 0;
    call->quantum = naive_quantum(m, queue);
    call->order = head ? --m->first_order : ++m->last_order;
}

void naive_accrue(struct naive *m, struct naive_call *call)
{
    call->wait += m->now - call->since;
    call->all_wait += m->now - call->since;
    call->since = m->now;
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

void naive_arrive(struct naive *m, uint32_t index, const struct naive_call *asked)
{
    struct naive_call *call = &m->calls[index];
    naive_decay(m, asked->program);
    *call = *asked;
    call->open = true;
    call->since = m->now;
    call->started = asked->prompt == 1;
    call->priority = m->service[asked->program];
    uint32_t queue = 0;
    uint64_t high = 0;
    if (m->set.policy == SCHED_PLAS || m->set.policy == SCHED_ATLAS) {
        while (queue + 1 < m->set.queues && call->priority >= (high += naive_quantum(m, queue))) {
            queue++;
        }
    }
    naive_enter(m, call, queue, false);
    call->key = m->set.policy == SCHED_SRPT ? call->key : 0;
}

void naive_drop(struct naive_call *call)
{
    call->resident = false;
    call->kv = 0;
}

void naive_end(struct naive *m, struct naive_call *call, enum call_finish finish)
{
    uint64_t path = call->priority + call->all_service;
    if (!call->running) {
        naive_accrue(m, call);
    }
    naive_decay(m, call->program);
    if (m->set.policy != SCHED_ATLAS) {
        m->service[call->program] += call->all_service;
    } else if (path > m->service[call->program]) {
        m->service[call->program] = path;
    }
    m->wait[call->program] += call->all_wait;
    naive_drop(call);
    if (call->cancel) {
        finish = call->stop_text ? CALL_FINISH_STOP_TEXT : CALL_FINISH_CANCELLED;
    }
    if (call->cancel && call->stop_text) {
        call->generated = call->stop_text_tokens;
    }
    call->finish = finish;
    call->open = call->running = call->standby = false;
}

static bool naive_goes_first(const struct naive_call *a, const struct naive_call *b)
{
    if (a->queue != b->queue) {
        return a->queue < b->queue;
    }
    return a->key != b->key ? a->key < b->key : a->order < b->order;
}

/* By insertion. */
uint32_t naive_sort(const struct naive *m, uint32_t *sorted)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < NAIVE_CALLS_MAX; i++) {
        const struct naive_call *call = &m->calls[i];
        if (!call->open) {
            continue;
        }
        uint32_t at = count++;
        for (; at > 0; at--) {
            const struct naive_call *other = &m->calls[sorted[at - 1]];
            if (naive_goes_first(other, call)) {
                break;
            }
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = i;
    }
    return count;
}

static bool naive_starved(struct naive *m, const struct naive_call *call)
{
    uint64_t wait = call->wait + m->now - call->since;
    uint64_t service = call->service;
    if (call->queue == 0 || call->paused || call->cancel) {
        return false;
    }
    if (m->set.wait_max_us > 0 && wait >= m->set.wait_max_us) {
        return true;
    }
    if (m->set.policy != SCHED_MLFQ && call->promotions == 0) {
        wait += m->wait[call->program];
        service += m->service[call->program];
    }
    return m->set.beta_milli > 0 && service > 0 && wait * 1000 >= service * m->set.beta_milli;
}

void naive_promote_all(struct naive *m)
{
    uint32_t sorted[NAIVE_CALLS_MAX];
    uint32_t count = naive_sort(m, sorted);
    for (uint32_t i = 0; i < count; i++) {
        struct naive_call *call = &m->calls[sorted[i]];
        if (naive_starved(m, call)) {
            naive_accrue(m, call);
            call->wait = call->service = 0;
            call->promotions++;
            uint32_t from = call->queue;
            naive_enter(m, call, 0, false);
            call->from = from;
            call->quantum = naive_quantum(m, from);
        }
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

/* ---- comparison with the real scheduler ------------------------------------------------------ */

static void compare_call(const struct naive *m, uint32_t index)
{
    const struct naive_call *want = &m->calls[index];
    const struct call *got = sched_view_call(m->sched, index);
    ASSERT(got->state == (want->running ? CALL_RUNNING : CALL_QUEUED));
    ASSERT(got->generated_tokens == want->generated);
    ASSERT(got->kv_tokens == want->kv);
    ASSERT(got->standby == want->standby);
    ASSERT(got->cached_tokens == want->cached);
    ASSERT((kvmem_call_blocks(sched_view_kv(m->sched), index) > 0) == want->resident);
    ASSERT(got->quantum_left_us == want->quantum);
    ASSERT(got->wait_us == want->wait);
    ASSERT(got->service_us == want->service);
    ASSERT(got->lifetime_wait_us == want->all_wait);
    ASSERT(got->lifetime_service_us == want->all_service);
    ASSERT(got->priority_us == want->priority);
    ASSERT(got->preemptions == want->preemptions);
    ASSERT(got->promotions == want->promotions);
}

void naive_compare(const struct naive *m)
{
    uint32_t sorted[NAIVE_CALLS_MAX];
    uint32_t real[NAIVE_CALLS_MAX];
    uint32_t count = naive_sort(m, sorted);
    uint32_t at = 0;
    for (uint32_t queue = 0; queue < m->set.queues; queue++) {
        uint32_t real_count = sched_view_queue(m->sched, queue, real, NAIVE_CALLS_MAX);
        for (uint32_t i = 0; i < real_count; i++, at++) {
            ASSERT(at < count);
            ASSERT(sorted[at] == real[i]);
            ASSERT(m->calls[real[i]].queue == queue);
            compare_call(m, real[i]);
        }
    }
    ASSERT(at == count);
}
