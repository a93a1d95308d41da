/* SPDX-License-Identifier: MIT */
/*
 * What: the naive scheduler (naive_sched.h) and the real one, compared: every call, queue and
 * account.
 */
#include "selftest/fake/naive_call.h"
#include "selftest/fake/sched_view.h"

static void compare_call(const struct naive *m, uint32_t index)
{
    const struct naive_call *want = &m->calls[index];
    const struct call *got = sched_view_call(m->sched, index);
    ASSERT(got->state == (want->running ? CALL_RUNNING : CALL_QUEUED));
    ASSERT(got->generated_tokens == want->generated);
    ASSERT(got->kv_tokens == want->kv);
    ASSERT(got->standby == want->standby);
    ASSERT(got->cached_tokens == want->cached);
    ASSERT((kvmem_call_blocks(naive_kv(m), index) > 0) == want->resident);
    ASSERT(got->wait_us == want->wait);
    ASSERT(got->service_us == want->service);
    ASSERT(got->priority_us == want->priority);
    ASSERT(got->preemptions == want->preemptions);
}

static void compare_job(struct naive *m, uint32_t index, uint32_t queue)
{
    const struct naive_job *want = naive_job_of(m, &m->calls[index]);
    const struct sched_job *got = sched_view_job(m->sched, index);
    ASSERT(want->queue == queue);
    if (naive_has_stages(m)) {
        naive_key_compare(m, &m->calls[index]);
        return;                     /* the rest is for levels */
    }
    ASSERT(got->held == want->held);
    ASSERT(got->quantum_left_us == want->quantum);
    ASSERT(got->wait_us == want->wait);
    ASSERT(got->waiting_since_us == want->since);
    ASSERT(got->service_us == want->service);
    ASSERT(got->promotions == want->promotions);
    ASSERT(got->promoted_from == want->from);
}

static void compare_tenants(struct naive *m)
{
    naive_meet_tenants(m);
    for (uint32_t t = 0; t < m->tenants_count; t++) {
        ASSERT(sched_view_tenant(m->sched, t)->virtual_time == m->tenants[t].time);
    }
}

static void compare_engine(struct naive *m)
{
    uint32_t sorted[NAIVE_CALLS_MAX];
    uint32_t real[NAIVE_CALLS_MAX];
    uint32_t count = naive_sort(m, sorted);
    uint32_t at = 0;
    uint32_t queues = m->set.queues * sched_view_tenants(m->sched);
    for (uint32_t i = 0; i < 2 * queues; i++) {
        struct sched_view_place place = {.tenant = i % queues / m->set.queues,
                                         .queue = i % m->set.queues, .held = i >= queues};
        uint32_t queue = place.queue;
        uint32_t real_count = sched_view_queue(m->sched, m->on->index, &place, real,
                                               NAIVE_CALLS_MAX);
        for (uint32_t n = 0; n < real_count; n++, at++) {
            ASSERT(at < count);
            ASSERT(sorted[at] == real[n]);
            compare_call(m, real[n]);
            compare_job(m, real[n], queue);
        }
    }
    ASSERT(at == count);
}

void naive_compare(struct naive *m)
{
    struct naive_engine *on = m->on;
    for (uint32_t i = 0; i < m->set.engines; i++) {
        naive_choose(m, i);
        compare_engine(m);
    }
    m->on = on;
    compare_tenants(m);
}
