/* SPDX-License-Identifier: MIT */
/*
 * What: the process table: programs by trust domain and 16-byte id. The same id in another trust
 * domain is another program, so a client cannot learn that an id is in use elsewhere.
 *
 *   free --start or first call--> idle <--attach, detach--> active
 *   idle --end, stale or evicted--> free
 *
 * A call starts its program by itself, so PROGRAM_START only matters for its answer. A program that
 * was forgotten starts again without service and, because its salt is a new one, without the KV of
 * its past: the price of a bounded table. With a half-life the past fades: service is halved
 * when it is needed, once for each whole half-life since the last time, so no pass goes over the
 * table; what a text page or an answer shows may not be halved yet.
 * Accounts: an entry that is needed is given up by the account that has most beyond its minimum
 * (config/base/quota.h), its longest idle program first. So a tenant that names a fresh program for
 * each call pushes out its own.
 * Invariants: an entry is on the free list, or in exactly one hash chain. It is in the idle list of
 * its account exactly when it has no open call. These lists are in the order in which programs
 * became idle, so the next stale program and the next one to give up its entry are heads.
 * Bounds: lookup O(chain): O(1) expected, whatever ids clients choose, because the hash is keyed.
 * O(accounts) to find the longest idle one; everything else O(1).
 */
#include "sched/program.h"

#include <string.h>

#include "config/base/hash.h"
#include "sched/call.h"
#include "sched/engine/active/active.h"
#include "sched/engine/member.h"
#include "sched/engine/need.h"
#include "sched/engine/queue.h"
#include "sched/kept.h"
#include "sched/key.h"
#include "sched/levels.h"
#include "sched/policy.h"
#include "sched/class/prediction.h"
#include "sched/engine/share/tenant.h"

#define PROGRAM_EXPIRE_PER_PASS_MAX 64
#define SERVICE_NONE UINT8_MAX          /* a program that was never served tells nothing */

static uint32_t *chain_of(const struct sched *sched, uint64_t domain, const uint8_t *id)
{
    uint64_t hash = hash_program(sched->settings.hash_key, domain, id);
    return &sched->program_hash[hash & sched->program_hash_mask];
}

void sched_program_plan_memory(struct memory_plan *plan, uint32_t programs)
{
    memory_plan_add(plan, MEMORY_CORE, "sched programs", programs, sizeof(struct program));
    memory_plan_add(plan, MEMORY_CORE, "sched program hash", ring_capacity_ceil(programs),
             sizeof(uint32_t));
    sched_kept_plan_memory(plan, programs);
}

void sched_program_init(struct sched *sched, struct arena *arena, struct arena *kept)
{
    uint32_t count = sched->settings.programs;
    uint32_t chains = ring_capacity_ceil(count);
    ASSERT(count > 0 && count < SCHED_PROGRAM_NONE);
    sched->programs = arena_take(arena, count, sizeof(struct program));
    sched->program_hash = arena_take(arena, chains, sizeof(uint32_t));
    sched->program_hash_mask = chains - 1;
    sched_kept_init(sched, kept);
    for (uint32_t i = 0; i < chains; i++) {
        sched->program_hash[i] = SCHED_PROGRAM_NONE;
    }
    for (uint32_t i = 0; i < count; i++) {
        sched->programs[i].hash_next = i + 1 < count ? i + 1 : SCHED_PROGRAM_NONE;
    }
    sched->programs_count = 0;
    sched->program_free = 0;
    quota_init(&sched->quota, count);
    for (uint32_t i = 0; i < QUOTA_ACCOUNTS_MAX; i++) {
        sched->idle[i] = (struct sched_idle){SCHED_PROGRAM_NONE, SCHED_PROGRAM_NONE};
    }
}

static struct sched_idle *idle_of(struct sched *sched, const struct program *program)
{
    return &sched->idle[quota_account(program->domain)];
}

static void idle_append(struct sched *sched, uint32_t index, uint64_t now_us)
{
    struct program *program = &sched->programs[index];
    struct sched_idle *idle = idle_of(sched, program);
    ASSERT(program->active_calls == 0);
    program->idle_since_us = now_us;
    program->idle_next = SCHED_PROGRAM_NONE;
    program->idle_prev = idle->tail;
    if (idle->tail != SCHED_PROGRAM_NONE) {
        sched->programs[idle->tail].idle_next = index;
    } else {
        idle->head = index;
    }
    idle->tail = index;
}

static void idle_remove(struct sched *sched, uint32_t index)
{
    const struct program *program = &sched->programs[index];
    struct sched_idle *idle = idle_of(sched, program);
    ASSERT(idle->head != SCHED_PROGRAM_NONE);
    if (program->idle_prev != SCHED_PROGRAM_NONE) {
        sched->programs[program->idle_prev].idle_next = program->idle_next;
    } else {
        idle->head = program->idle_next;
    }
    if (program->idle_next != SCHED_PROGRAM_NONE) {
        sched->programs[program->idle_next].idle_prev = program->idle_prev;
    } else {
        idle->tail = program->idle_prev;
    }
}

/* Since when it has been idle; of NONE, later than any. */
static uint64_t idle_since_us(const struct sched *sched, uint32_t index)
{
    return index != SCHED_PROGRAM_NONE ? sched->programs[index].idle_since_us : QUOTA_AGE_NONE;
}

static void fill_ages(const struct sched *sched, uint64_t ages[QUOTA_ACCOUNTS_MAX])
{
    for (uint32_t i = 0; i < QUOTA_ACCOUNTS_MAX; i++) {
        ages[i] = idle_since_us(sched, sched->idle[i].head);
    }
}

/* The program that has been idle longest, or NONE. */
static uint32_t longest_idle(const struct sched *sched)
{
    uint32_t found = SCHED_PROGRAM_NONE;
    for (uint32_t i = 0; i < QUOTA_ACCOUNTS_MAX; i++) {
        uint32_t head = sched->idle[i].head;
        found = idle_since_us(sched, head) < idle_since_us(sched, found) ? head : found;
    }
    return found;
}

static bool is_named(const struct program *program, uint64_t domain, const uint8_t *id)
{
    return program->domain == domain && memcmp(program->id, id, CALL_PROGRAM_ID_BYTES) == 0;
}

uint32_t sched_program_find(const struct sched *sched, uint64_t domain, const uint8_t *id)
{
    uint32_t index = *chain_of(sched, domain, id);
    while (index != SCHED_PROGRAM_NONE && !is_named(&sched->programs[index], domain, id)) {
        index = sched->programs[index].hash_next;
    }
    return index;
}

/* Where programs are jobs, the call that comes will stand after this one in their queue, and shares
 * its job and the beginning of its prompt. */
static void cpu_prefetch_beside(const struct sched *sched, const struct call *newest)
{
    const struct call *next = sched_queue_next(sched_engine_of(sched, newest), newest);
    sched_cpu_prefetch(newest, CALL_HOT_BYTES);
    sched_cpu_prefetch(newest->tokens, 1);
    sched_cpu_prefetch(sched_job_of(sched, newest), sizeof(struct sched_job));
    if (next != NULL) {
        sched_cpu_prefetch(next->links, sizeof next->links);
    }
}

void sched_program_cpu_prefetch(const struct sched *sched, uint64_t domain, const uint8_t *id)
{
    uint32_t index = sched_program_find(sched, domain, id);
    if (index == SCHED_PROGRAM_NONE) {
        return;
    }
    sched_cpu_prefetch(&sched->programs[index], sizeof sched->programs[index]);
    sched_cpu_prefetch(&sched->kept[index], sizeof sched->kept[index]);
    const struct call *newest = sched_member_any_call(sched, index);
    if (newest != NULL) {
        cpu_prefetch_beside(sched, newest);
    }
}

/* The entry must be idle. */
static void forget(struct sched *sched, uint32_t index, enum event_kind why, uint64_t now_us)
{
    struct program *program = &sched->programs[index];
    uint32_t *link = chain_of(sched, program->domain, program->id);
    ASSERT(program->in_use && program->active_calls == 0);
    event_log_note_program(sched->settings.event_log, now_us, index, program->id,
                         (struct event_what){.kind = why});
    while (*link != index) {
        ASSERT(*link != SCHED_PROGRAM_NONE);
        link = &sched->programs[*link].hash_next;
    }
    *link = program->hash_next;
    if (program->calls_ended > 0) {
        sched_note_time(sched, TIME_PROGRAM, program->started_us, program->last_completion_us);
    }
    sched_class_learn(sched, program);
    sched_active_forget(sched, index);
    sched_key_forget(sched, program);
    sched_need_forgotten(sched, index);
    idle_remove(sched, index);
    sched_tenant_leave(sched, program->tenant);
    quota_give(&sched->quota, quota_account(program->domain), 1);
    *program = (struct program){.hash_next = sched->program_free};
    sched->program_free = index;
    sched->programs_count--;
    sched_kept_free(sched, index);
}

/* In an entry that is on no list. */
static void create(struct sched *sched, uint32_t index, uint64_t domain, const uint8_t *id,
                   uint64_t now_us)
{
    uint32_t *chain = chain_of(sched, domain, id);
    struct program *program = &sched->programs[index];
    uint32_t tenant = sched_tenant_of(sched, domain);
    *program = (struct program){.in_use = true, .domain = domain, .tenant = tenant,
                                .engine = SCHED_ENGINE_NONE, .connection = CALL_NONE,
                                .ideal = SCHED_IDEAL_NONE,
                                .service_note = SERVICE_NONE,
                                .started_us = now_us, .halved_us = now_us,
                                .salt = ++sched->program_salt, .hash_next = *chain};
    memcpy(program->id, id, CALL_PROGRAM_ID_BYTES);
    for (uint32_t i = 0; i < sched->settings.engines; i++) {
        sched_member_begin(&sched->engines[i], index);
        kvmem_account(sched->engines[i].kv, index, quota_account(domain));
    }
    *chain = index;
    sched_tenant_enter(sched, tenant);
    quota_take(&sched->quota, quota_account(domain), 1);
    idle_append(sched, index, now_us);
    sched->programs_count++;
    sched->stats->programs_started++;
    event_log_note_program(sched->settings.event_log, now_us, index, id,
                         (struct event_what){.kind = EVENT_PROGRAM_STARTED});
}

/* An entry for a program of this domain; false: all that could be given up have open calls. */
static bool make_place(struct sched *sched, uint64_t domain, uint64_t now_us)
{
    uint64_t ages[QUOTA_ACCOUNTS_MAX];
    uint32_t account = quota_account(domain);
    if (quota_room(&sched->quota, account) > 0) {
        return true;
    }
    fill_ages(sched, ages);
    uint32_t victim = quota_victim(&sched->quota, account, 1, ages);
    if (victim == QUOTA_ACCOUNT_NONE) {
        return false;
    }
    forget(sched, sched->idle[victim].head, EVENT_PROGRAM_FORGOTTEN, now_us);
    sched->stats->programs_expired++;
    return true;
}

enum status sched_program_start(struct sched *sched, uint64_t domain, const uint8_t *id,
                                uint64_t now_us, uint32_t *found)
{
    uint32_t index = sched_program_find(sched, domain, id);
    if (index == SCHED_PROGRAM_NONE) {
        if (!make_place(sched, domain, now_us)) {
            return STATUS_BUSY_PROGRAMS;
        }
        index = sched->program_free;
        ASSERT(index != SCHED_PROGRAM_NONE);
        sched->program_free = sched->programs[index].hash_next;
        create(sched, index, domain, id, now_us);
        sched_kept_note(sched, index);
    } else if (sched->programs[index].active_calls == 0) {
        idle_remove(sched, index);
        idle_append(sched, index, now_us);
    }
    *found = index;
    return STATUS_OK;
}

enum status sched_program_end(struct sched *sched, uint64_t domain, const uint8_t *id,
                              uint64_t now_us, struct program *ended)
{
    uint32_t index = sched_program_find(sched, domain, id);
    if (index == SCHED_PROGRAM_NONE) {
        return STATUS_BAD_PROGRAM_UNKNOWN;
    }
    if (sched->programs[index].active_calls > 0) {
        return STATUS_BAD_PROGRAM_ACTIVE;
    }
    *ended = sched->programs[index];
    forget(sched, index, EVENT_PROGRAM_ENDED, now_us);
    sched->stats->programs_ended++;
    return STATUS_OK;
}

/* ---- after another core ---------------------------------------------------------------------- */

static uint64_t not_after(uint64_t time_us, uint64_t now_us)
{
    return time_us < now_us ? time_us : now_us;
}

/* It goes on as if all its calls had ended when that core died: those that go on come again. */
static void restore(struct sched *sched, uint32_t index, const struct sched_kept_version *kept,
                    uint64_t now_us)
{
    char class_name[CALL_CLASS_BYTES + 1] = {0};
    struct program *program = &sched->programs[index];
    create(sched, index, kept->domain, kept->id, now_us);
    memcpy(class_name, kept->class_name, sizeof kept->class_name);
    sched_class_join(sched, index, class_name);
    program->service_us = program->attained_us = kept->service_us;
    program->wait_us = kept->wait_us;
    program->halved_us = not_after(kept->halved_us, now_us);
    program->started_us = not_after(kept->started_us, now_us);
    program->last_arrival_us = not_after(kept->last_arrival_us, now_us);
    program->last_completion_us = not_after(kept->last_completion_us, now_us);
    program->spent = kept->spent;
    program->calls_ended = kept->calls_ended;
    sched_key_take_up(sched, index, kept, now_us);
    sched_kept_note(sched, index);
}

/* A program stays in its place of the table, so that a death in here costs nothing. */
void sched_program_take_up(struct sched *sched, uint64_t now_us)
{
    ASSERT(sched->programs_count == 0);
    sched->program_free = SCHED_PROGRAM_NONE;
    sched_key_take_up_clock(sched);
    for (uint32_t i = sched->settings.programs; i-- > 0;) {
        const struct sched_kept_version *found = sched_kept_read(sched, i);
        struct sched_kept_version kept = found != NULL ? *found : (struct sched_kept_version){0};
        if (found != NULL &&
            quota_room(&sched->quota, quota_account(kept.domain)) > 0 &&
            sched_program_find(sched, kept.domain, kept.id) == SCHED_PROGRAM_NONE) {
            restore(sched, i, &kept, now_us);
        } else {
            if (found != NULL) {
                sched_kept_free(sched, i);
            }
            sched->programs[i].hash_next = sched->program_free;
            sched->program_free = i;
        }
    }
}

/* ---- service and calls ----------------------------------------------------------------------- */

void sched_program_decay(struct sched *sched, uint32_t index, uint64_t now_us)
{
    struct program *program = &sched->programs[index];
    uint64_t half_life_us = sched->settings.half_life_us;
    ASSERT(program->in_use);
    if (half_life_us == 0) {
        return;
    }
    uint64_t halvings = sched_elapsed_us(program->halved_us, now_us) / half_life_us;
    program->service_us = halvings < 64 ? program->service_us >> halvings : 0;
    program->attained_us = halvings < 64 ? program->attained_us >> halvings : 0;
    program->halved_us += halvings * half_life_us;      /* the rest counts the next time */
}

void sched_program_attach(struct sched *sched, struct call *call, uint64_t now_us)
{
    struct program *program = &sched->programs[call->program];
    ASSERT(program->in_use);
    if (program->active_calls == 0) {
        idle_remove(sched, call->program);
        if (program->service_note != SERVICE_NONE && sched_policy_knows_programs(sched)) {
            sched_levels_take_back(sched, program->service_note);
        }
    }
    sched_member_join(sched, call);
    program->connection = call->connection;
    program->active_calls++;
    program->last_arrival_us = now_us;
}

/* Levels are learnt from it. */
static void note_service(struct sched *sched, struct program *program, const struct call *call)
{
    bool knows_programs = sched_policy_knows_programs(sched);
    uint64_t service_us = knows_programs ? program->service_us : call->service_us;
    program->service_note = service_us > 0 ? sched_levels_note(sched, service_us) : SERVICE_NONE;
}

void sched_program_detach(struct sched *sched, struct call *call, uint64_t now_us)
{
    struct program *program = &sched->programs[call->program];
    ASSERT(program->in_use && program->active_calls > 0);
    sched_member_leave(sched, call);
    program->active_calls--;
    program->last_completion_us = now_us;
    if (program->active_calls == 0) {
        note_service(sched, program, call);
        idle_append(sched, call->program, now_us);
    }
}

static uint64_t due_us(const struct sched *sched, uint32_t index)
{
    uint64_t at_us = 0;
    return __builtin_add_overflow(idle_since_us(sched, index), sched->settings.program_idle_us,
                                  &at_us) ? UINT64_MAX : at_us;
}

uint64_t sched_program_next_us(const struct sched *sched)
{
    return due_us(sched, longest_idle(sched));
}

void sched_program_expire(struct sched *sched, uint64_t now_us)
{
    for (uint32_t i = 0; i < PROGRAM_EXPIRE_PER_PASS_MAX; i++) {
        uint32_t index = longest_idle(sched);
        if (due_us(sched, index) > now_us) {
            return;
        }
        forget(sched, index, EVENT_PROGRAM_FORGOTTEN, now_us);
        sched->stats->programs_expired++;
    }
}
