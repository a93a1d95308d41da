/* SPDX-License-Identifier: MIT */
#include "selftest/fake/sched_view.h"

#include "sched/engine/residency.h"
#include "sched/program.h"

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

bool sched_view_is_trial(const struct sched *sched, uint32_t engine)
{
    return engine_of(sched, engine)->is_trial;
}

bool sched_view_has_room(const struct sched *sched, uint32_t engine)
{
    return engine_of(sched, engine)->has_room;
}

uint32_t sched_view_kept_out(const struct sched *sched, uint32_t engine, uint32_t tenant)
{
    const struct sched_hand *hand = &engine_of(sched, engine)->lanes[tenant].hand;
    return hand->sequence == engine_of(sched, engine)->sequence ? hand->kept_out : CALL_NONE;
}

bool sched_view_was_visited(const struct sched *sched, uint32_t engine, uint32_t call)
{
    return sched_view_call(sched, call)->walk_sequence == engine_of(sched, engine)->sequence;
}

const struct program *sched_view_program(const struct sched *sched, uint32_t call)
{
    return &sched->programs[sched_view_call(sched, call)->program];
}

bool sched_view_is_active(const struct sched *sched, uint32_t engine, const struct program *program)
{
    return engine_of(sched, engine)->members[program - sched->programs].is_active;
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

bool sched_view_serves(const struct sched *sched, uint32_t engine)
{
    return engine_of(sched, engine)->serves;
}

/* What contents that the call may find are named by; a program that is not known yet has none. */
static uint64_t salt_of(const struct sched *sched, const struct call *call)
{
    uint32_t program = sched_program_find(sched, call->domain, call->program_id);
    if (sched->settings.sharing == SCHED_SHARING_DOMAIN) {
        return call->domain;
    }
    return sched->settings.sharing == SCHED_SHARING_PROGRAM && program != SCHED_PROGRAM_NONE
               ? sched->programs[program].salt : KVMEM_SALT_ALONE / 2 - 1;
}

uint32_t sched_view_found(const struct sched *sched, uint32_t engine, const struct call *call)
{
    const struct kvmem_question question = {
        .call = call->slot, .salt = salt_of(sched, call), .tokens = call->tokens,
        .count = sched_call_known(call)};
    return call->state == CALL_INTAKE
               ? kvmem_ask(engine_of(sched, engine)->kv, &question).positions
               : sched_residency_ask(engine_of(sched, engine), call, false).positions;
}

uint32_t sched_view_turn(const struct sched *sched)
{
    return sched->engine_turn;
}

uint32_t sched_view_assigned(const struct sched *sched, uint32_t program, uint32_t none)
{
    const struct program *entry = &sched->programs[program];
    return entry->in_use && entry->engine != SCHED_ENGINE_NONE ? entry->engine : none;
}

bool sched_view_misses(const struct sched *sched, uint32_t program)
{
    return sched->programs[program].misses;
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
