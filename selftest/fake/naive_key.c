/* SPDX-License-Identifier: MIT */
/*
 * What: keys of programs and stages of calls in the naive scheduler (naive_sched.h). The ideal
 * system is a list that is searched from end to end, and its service is handed out one by one.
 */
#include "selftest/fake/naive_call.h"
#include "selftest/fake/sched_view.h"

bool naive_has_stages(const struct naive *m)
{
    switch (m->set.policy) {
    case SCHED_JUSTITIA: case SCHED_JUSTITIA_C: case SCHED_VTC: case SCHED_SRJF: case SCHED_SJF:
    case SCHED_FCFS_AGENT:
        return true;
    default:
        return false;
    }
}

static bool has_tags(const struct naive *m)
{
    return m->set.policy == SCHED_JUSTITIA || m->set.policy == SCHED_JUSTITIA_C;
}

static bool counts_tokens(const struct naive *m)
{
    return m->set.policy == SCHED_JUSTITIA_C || m->set.policy == SCHED_VTC;
}

static bool counts(const struct naive *m)
{
    return has_tags(m) || counts_tokens(m) || m->set.policy == SCHED_SRJF;
}

static uint64_t key_now(const struct naive *m, uint32_t program)
{
    const struct naive_account *account = &m->accounts[program];
    if (m->set.policy == SCHED_SRJF) {
        return account->cost > account->served ? account->cost - account->served : 0;
    }
    return has_tags(m) ? account->base + account->cost
                       : m->set.policy == SCHED_VTC ? account->base + account->served : 0;
}

uint64_t naive_key(const struct naive *m, const struct naive_call *call)
{
    if (m->set.policy == SCHED_SRPT) {
        return call->key;
    }
    if (m->set.policy == SCHED_SJF) {
        return call->output > 0 && call->output < call->max ? call->output : call->max;
    }
    return counts(m) ? m->accounts[call->program].key : 0;
}

/* What programs with equal keys are ordered by. */
uint64_t naive_tie(const struct naive *m, const struct naive_call *call)
{
    bool is_of_program = naive_has_stages(m) && m->set.policy != SCHED_SJF;
    return is_of_program ? sched_view_program(m->sched, (uint32_t)(call - m->calls))->salt : 0;
}

/* ---- the ideal system ------------------------------------------------------------------------ */

static uint32_t in_system(const struct naive *m)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < m->ideal_count; i++) {
        count += m->ideal[i].is_in;
    }
    return count;
}

static struct naive_ideal *smallest(struct naive *m)
{
    struct naive_ideal *first = NULL;
    for (uint32_t i = 0; i < m->ideal_count; i++) {
        struct naive_ideal *entry = &m->ideal[i];
        if (entry->is_in && (first == NULL || entry->tag < first->tag)) {
            first = entry;
        }
    }
    return first;
}

/* Entries that have left are overwritten. */
static void enter(struct naive *m, uint32_t program)
{
    const struct naive_account *account = &m->accounts[program];
    uint32_t at = 0;
    while (at < m->ideal_count && m->ideal[at].is_in) {
        at++;
    }
    ASSERT(at < NAIVE_IDEAL_MAX);
    m->ideal_count = at == m->ideal_count ? at + 1 : m->ideal_count;
    if (in_system(m) == SCHED_IDEAL_TIMES * m->set.programs) {
        smallest(m)->is_in = false;
    }
    m->ideal[at] = (struct naive_ideal){.is_in = true, .salt = account->salt,
                                        .tag = account->base + account->cost};
}

static void advance(struct naive *m, uint64_t served)
{
    for (uint32_t count = in_system(m); served > 0 && count > 0; served--) {
        if (++m->clock_rest < count) {
            continue;
        }
        m->clock_rest = 0;
        m->clock++;
        struct naive_ideal *first;
        while ((first = smallest(m)) != NULL && first->tag <= m->clock) {
            first->is_in = false;
            count--;
        }
    }
}

static void rest(struct naive *m)
{
    struct naive_ideal *first;
    while ((first = smallest(m)) != NULL) {
        m->clock = first->tag;
        first->is_in = false;
    }
    m->clock_rest = 0;
}

/* ---- events ---------------------------------------------------------------------------------- */

static uint32_t open_calls(const struct naive *m, uint32_t program, bool all)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < NAIVE_CALLS_MAX; i++) {
        count += m->calls[i].open && (all || m->calls[i].program == program);
    }
    return count;
}

/* One of the first eight calls that the program has in this stage can run. */
static bool job_can_run(const struct naive *m, uint32_t program, uint32_t stage)
{
    int64_t last = INT64_MIN;
    for (uint32_t looks = 0; looks < 8; looks++) {
        const struct naive_call *first = NULL;
        for (uint32_t i = 0; i < NAIVE_CALLS_MAX; i++) {
            const struct naive_call *call = &m->calls[i];
            const struct naive_job *job = &m->jobs[i];
            bool is_next = job->order > last &&
                           (first == NULL || job->order < m->jobs[first - m->calls].order);
            if (call->open && call->program == program && job->queue == stage && is_next) {
                first = call;
            }
        }
        if (first == NULL || (!first->paused && !first->cancel)) {
            return first != NULL;
        }
        last = m->jobs[first - m->calls].order;
    }
    return false;
}

static bool is_of(const struct naive *m, uint32_t program, uint32_t tenant)
{
    bool is_its = false;
    for (uint32_t i = 0; i < NAIVE_CALLS_MAX; i++) {
        const struct naive_call *call = &m->calls[i];
        is_its = is_its || (call->open && call->program == program && call->tenant == tenant);
    }
    return is_its;
}

/* The smallest counter of a program of the tenant that can run. There are no more programs than
 * the real one looks at. */
static void lift(struct naive *m, uint32_t program, uint32_t tenant)
{
    struct naive_account *account = &m->accounts[program];
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < NAIVE_PROGRAMS_MAX; i++) {
        for (uint32_t stage = 0; stage < SCHED_STAGES; stage++) {
            if (i != program && m->accounts[i].key < least && is_of(m, i, tenant) &&
                job_can_run(m, i, stage)) {
                least = m->accounts[i].key;
            }
        }
    }
    if (least != UINT64_MAX && least > account->base + account->served) {
        account->base = least - account->served;
    }
}

void naive_key_arrive(struct naive *m, const struct naive_call *call)
{
    struct naive_account *account = &m->accounts[call->program];
    if (!counts(m)) {
        return;
    }
    if (m->set.policy == SCHED_VTC && open_calls(m, call->program, false) == 1 &&
        !call->goes_on) {
        lift(m, call->program, call->tenant);
    }
    if (account->cost == 0) {
        uint64_t least = counts_tokens(m) ? call->prompt + 2 : call->prompt + 1;
        account->cost = call->cost > 0 ? call->cost : least;
        account->foreseen = account->cost;
        account->salt = ++m->salts;
        if (has_tags(m)) {
            account->base = m->clock;
            enter(m, call->program);
        }
    }
    account->key = key_now(m, call->program);
}

void naive_key_meet(struct naive *m, uint32_t program)
{
    m->accounts[program] = (struct naive_account){.cost = 0};
}

void naive_key_take_up(struct naive *m, uint32_t index, const struct program *program)
{
    const struct sched_ideal *ideal = &m->sched->ideal;
    struct naive_account *account = &m->accounts[index];
    *account = (struct naive_account){
        .foreseen = program->cost_foreseen, .cost = program->cost, .served = program->served,
        .base = program->key_base, .salt = ++m->salts};
    account->key = key_now(m, index);
    if (has_tags(m)) {
        m->clock = ideal->virtual_time;
        m->clock_rest = ideal->remainder;
    }
    if (program->in_use && has_tags(m) && sched_ideal_has(ideal, program->ideal, index)) {
        enter(m, index);
    }
}

void naive_key_ended(struct naive *m)
{
    if (has_tags(m) && open_calls(m, 0, true) == 0) {
        rest(m);
    }
}

void naive_key_admit(struct naive *m, const struct naive_call *call)
{
    if (counts_tokens(m) && call->generated == 0) {
        m->accounts[call->program].served += call->prompt;
        m->served += call->prompt;
    }
}

void naive_key_charge(struct naive *m, const struct naive_call *call, uint32_t fed,
                      uint32_t produced)
{
    struct naive_account *account = &m->accounts[call->program];
    if (!counts(m)) {
        return;
    }
    for (uint32_t i = 1; i <= produced; i++) {
        account->served += counts_tokens(m) ? 2 : fed + i;
        m->served += counts_tokens(m) ? 2 : fed + i;
    }
    m->served += produced == 0 && !counts_tokens(m) ? fed : 0;
}

void naive_key_advance(struct naive *m)
{
    const struct kvmem_settings *kv = &naive_kv(m)->settings;
    bool is_served = m->set.virtual_clock == SCHED_CLOCK_SERVED || counts_tokens(m);
    if (has_tags(m)) {
        uint64_t all = (uint64_t)kv->device_blocks * kv->block_tokens * m->on->rounds;
        advance(m, is_served ? m->served : all);
    }
    m->served = 0;
}

static void retag(struct naive *m, uint32_t program)
{
    struct naive_account *account = &m->accounts[program];
    bool is_in = false;
    for (uint64_t over = account->foreseen / 4 + 1; account->cost < account->served; over *= 2) {
        uint64_t cost = account->foreseen + over;
        account->cost = cost > account->cost ? cost : account->cost;
    }
    for (uint32_t i = 0; i < m->ideal_count; i++) {
        if (m->ideal[i].is_in && m->ideal[i].salt == account->salt) {
            m->ideal[i].tag = account->base + account->cost;
            is_in = true;
        }
    }
    if (has_tags(m) && !is_in && account->base + account->cost > m->clock) {
        enter(m, program);
    }
}

void naive_key_settle(struct naive *m, uint32_t program)
{
    const struct naive_account *account = &m->accounts[program];
    if (counts(m)) {
        if (m->set.retag && account->served > account->cost &&
            open_calls(m, program, false) > 0) {
            retag(m, program);
        }
        naive_key_show(m, program);
    }
}

void naive_key_show(struct naive *m, uint32_t program)
{
    m->accounts[program].key = key_now(m, program);
}

void naive_stage(struct naive *m, struct naive_call *call, enum sched_stage stage)
{
    struct naive_job *job = naive_job_of(m, call);
    int64_t order = job->order;
    if (naive_has_stages(m) && job->queue != stage) {
        naive_enter(m, job, stage, false);
        job->order = m->set.policy == SCHED_SJF ? order : job->order;
    }
}

void naive_key_compare(const struct naive *m, const struct naive_call *call)
{
    const struct program *program = sched_view_program(m->sched, (uint32_t)(call - m->calls));
    const struct naive_account *account = &m->accounts[call->program];
    if (counts(m)) {
        ASSERT(program->cost == account->cost && program->served == account->served);
        ASSERT(program->key_base == account->base);
    }
    if (has_tags(m)) {
        const struct sched_ideal *ideal = &m->sched->ideal;
        ASSERT(ideal->virtual_time == m->clock && ideal->remainder == m->clock_rest);
        ASSERT(ideal->weights == in_system(m));
    }
}
