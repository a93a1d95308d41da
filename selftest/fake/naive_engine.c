/* SPDX-License-Identifier: MIT */
/*
 * What: engines of the naive scheduler (naive_sched.h): which one it is about, and calls that go
 * from one to another.
 */
#include <string.h>

#include "selftest/fake/naive_call.h"
#include "selftest/fake/sched_view.h"

void naive_choose(struct naive *m, uint32_t engine)
{
    ASSERT(engine < NAIVE_ENGINES_MAX);
    m->on = &m->engines[engine];
    m->on->index = engine;
}

bool naive_is_here(const struct naive *m, const struct naive_call *call)
{
    return call->open && call->engine == m->on->index;
}

const struct kvmem *naive_kv(const struct naive *m)
{
    return sched_view_kv(m->sched, m->on->index);
}

const struct step *naive_step(const struct naive *m)
{
    return sched_view_step(m->sched, m->on->index);
}

uint32_t naive_order(struct naive *m, uint32_t engine, uint32_t *calls)
{
    naive_choose(m, engine);
    return naive_sort(m, calls);
}

void naive_move(struct naive *m, uint32_t index, uint32_t engine)
{
    struct naive_call *call = &m->calls[index];
    ASSERT(call->open && !call->running && !call->resident);
    call->engine = engine;
    call->order = ++m->arrivals;
    naive_choose(m, engine);
    naive_begin(m, call, false);
    call->started = naive_has_stages(m) && call->computed > 0;
    if (call->started) {
        naive_stage(m, call, SCHED_STAGE_DISPLACED);
    }
}

void naive_left(struct naive *m, uint32_t engine)
{
    memset(m->engines[engine].wants, 0, sizeof m->engines[engine].wants);
}
