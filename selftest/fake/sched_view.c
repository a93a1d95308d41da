/* SPDX-License-Identifier: MIT */
#include "selftest/fake/sched_view.h"

static const struct sched_engine *engine_of(const struct sched *sched, uint32_t engine)
{
    ASSERT(engine < sched->settings.engines);
    return &sched->engines[engine];
}

const struct call *sched_view_call(const struct sched *sched, uint32_t call)
{
    ASSERT(call < sched->calls->count);
    return &sched->calls->calls[call];
}

const struct sched_job *sched_view_job(const struct sched *sched, uint32_t call)
{
    uint32_t job = sched_view_call(sched, call)->job;
    ASSERT(job < sched->calls->count);
    return &sched->jobs[job];
}

const struct kvmem *sched_view_kv(const struct sched *sched, uint32_t engine)
{
    return engine_of(sched, engine)->kv;
}

const struct step *sched_view_step(const struct sched *sched, uint32_t engine)
{
    return &engine_of(sched, engine)->step;
}

uint32_t sched_view_move_waits(const struct sched *sched, uint32_t engine)
{
    return engine_of(sched, engine)->move_waits;
}

bool sched_view_has_room(const struct sched *sched, uint32_t engine)
{
    return engine_of(sched, engine)->has_room;
}

bool sched_view_was_visited(const struct sched *sched, uint32_t engine, uint32_t call)
{
    return sched_view_call(sched, call)->walk_sequence == engine_of(sched, engine)->sequence;
}

const struct program *sched_view_program(const struct sched *sched, uint32_t call)
{
    return &sched->programs[sched_view_call(sched, call)->program];
}

uint64_t sched_view_remaining_us(const struct sched *sched, uint32_t call, uint64_t service_us)
{
    const struct sched_class *class = sched_class_of(sched, sched_view_program(sched, call));
    return class != NULL ? sched_promise_remaining_us(&class->learnt.promises, service_us)
                         : UINT64_MAX;
}

uint32_t sched_view_tenants(const struct sched *sched)
{
    return sched->tenants.count;
}

const struct sched_tenant *sched_view_tenant(const struct sched *sched, uint32_t tenant)
{
    ASSERT(tenant < sched->tenants.count);
    return &sched->tenants.of[tenant];
}

bool sched_view_wants(const struct sched *sched, uint32_t engine, uint32_t tenant)
{
    ASSERT(tenant < sched->tenants.count);
    return engine_of(sched, engine)->lanes[tenant].wants;
}

uint32_t sched_view_queue(const struct sched *sched, uint32_t engine,
                          const struct sched_view_place *place, uint32_t *calls, uint32_t max)
{
    uint32_t count = 0;
    const struct sched_lane *lane = &engine_of(sched, engine)->lanes[place->tenant];
    const struct sched_queue *queue = &(place->held ? lane->held : lane->queues)[place->queue];
    uint32_t call = queue->lists[CALL_LIST_ALL].head;
    for (; call != CALL_NONE; call = sched_view_call(sched, call)->links[CALL_LIST_ALL].next) {
        ASSERT(count < max);
        calls[count++] = call;
    }
    return count;
}

bool sched_view_is_active(const struct sched *sched, const struct program *program)
{
    return sched_program_is_active(sched, (uint32_t)(program - sched->programs));
}
