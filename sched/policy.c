/* SPDX-License-Identifier: MIT */
/*
 * What: every decision in which the policies differ. config/policies.def has a row for each; a
 * policy whose order is not that of arrival has a function here, too, which gives a call's key.
 *
 * What each level stands for is in levels.c. The service of a program sinks by its half-life only
 * (program.c); W_c and T_c are since arrival or the last promotion. In round-robin the quantum of
 * the one queue is the turn of a call.
 *
 * Hazards of the ratio (docs/decisions/0002): T = 0 never promotes by division, wait_max serves
 * there; and a program whose history is above beta would be promoted again after each demotion, for
 * ever, because promotion resets only W_c and T_c. Here the program's history counts for a call's
 * first promotion; a later one must be earned by the call alone. Between two lies a full quantum of
 * its level anyway: a promotion is a turn of that length, and then the call is back at its level.
 * If a promoted call had a first quantum instead, then under load, when all calls have waited too
 * long, each would take the blocks of the others once in each first quantum.
 *
 * Stages are for policies that do not preempt (paper 001, 4.3 and appendix C):
 *
 *        arrival --> waiting --first KV--> residents <==loses KV, is given it again==> displaced
 *
 * A plan walks residents, then the displaced, then those that wait, each stage in the order of its
 * keys, and stops at the first call that does not fit. So no call is admitted while a displaced one
 * waits, and a call that is admitted takes what is free. Only the growth of a resident takes KV,
 * from the resident with the largest key.
 * Bounds: O(K) at arrival, else O(1); integers only.
 */
#include "sched/policy.h"

#include "sched/call.h"
#include "sched/cost.h"
#include "sched/levels.h"

#define MILLI 1000u

/* A row of policies.def. */
struct policy {
    enum { QUEUES_ONE, QUEUES_MANY, QUEUES_STAGES } queues;
    enum { UNIT_CALL, UNIT_PROGRAM } unit;
    enum { LEVEL_first, LEVEL_attained, LEVEL_foreseen } level;     /* as the table has them */
    uint64_t (*key)(const struct sched *sched, const struct call *call);
    enum { USED_UP_STAYS, USED_UP_TURNS, USED_UP_SINKS } used_up;
    enum { HISTORY_NONE, HISTORY_CALL, HISTORY_PROGRAM } history;
    enum { CREDIT_SUM, CREDIT_PATH } credit;
    enum sched_cost_unit cost;
};

/* ---- keys ------------------------------------------------------------------------------------ */

static uint64_t key_arrival(const struct sched *sched, const struct call *call)
{
    (void)sched;
    (void)call;
    return 0;
}

static uint64_t key_work(const struct sched *sched, const struct call *call)
{
    (void)sched;
    return call->foretold.work_left;
}

/* Programs that started first have the smallest salts. */
static uint64_t key_start(const struct sched *sched, const struct call *call)
{
    return sched->programs[call->program].salt;
}

static uint64_t key_output(const struct sched *sched, const struct call *call)
{
    uint32_t told = call->foretold.output_tokens;
    uint32_t usual = sched->programs[call->program].predicted.output_tokens;
    return told > 0 ? told : usual > 0 && usual < call->max_tokens ? usual : call->max_tokens;
}

static uint64_t key_remaining(const struct sched *sched, const struct call *call)
{
    const struct program *program = &sched->programs[call->program];
    return program->cost > program->served ? program->cost - program->served : 0;
}

static uint64_t key_tag(const struct sched *sched, const struct call *call)
{
    return sched_policy_tag(sched, &sched->programs[call->program]);
}

/* What the program has had, from where it was lifted to when it arrived. */
static uint64_t key_counter(const struct sched *sched, const struct call *call)
{
    const struct program *program = &sched->programs[call->program];
    return sched_sum(program->key_base, program->served);
}

static const struct policy policies[] = {
#define POLICY(name, word, who, queues, unit, level, key, used_up, history, credit, cost, help) \
    [SCHED_##name] = {QUEUES_##queues, UNIT_##unit, LEVEL_##level, key_##key,                   \
                      USED_UP_##used_up, HISTORY_##history, CREDIT_##credit, SCHED_COST_##cost},
#include "config/policies.def"
};

static const struct policy *policy_of(const struct sched *sched)
{
    ASSERT((uint32_t)sched->settings.policy < SCHED_POLICIES);
    return &policies[sched->settings.policy];
}

bool sched_policy_has_key(enum sched_policy policy)
{
    ASSERT((uint32_t)policy < SCHED_POLICIES);
    return policies[policy].key != key_arrival;
}

uint64_t sched_policy_key(const struct sched *sched, const struct call *call)
{
    const struct policy *policy = policy_of(sched);
    return policy->key(sched, call);
}

uint64_t sched_policy_tag(const struct sched *sched, const struct program *program)
{
    uint64_t share = program->cost / sched->tenants.of[program->tenant].weight;
    return sched_sum(program->key_base, share > 0 ? share : 1);
}

bool sched_policy_has_tags(enum sched_policy policy)
{
    ASSERT((uint32_t)policy < SCHED_POLICIES);
    return policies[policy].key == key_tag;
}

bool sched_policy_lifts(const struct sched *sched)
{
    return policy_of(sched)->key == key_counter;
}

enum sched_cost_unit sched_policy_cost(const struct sched *sched)
{
    return policy_of(sched)->cost;
}

/* ---- stages ---------------------------------------------------------------------------------- */

bool sched_policy_has_stages(enum sched_policy policy)
{
    ASSERT((uint32_t)policy < SCHED_POLICIES);
    return policies[policy].queues == QUEUES_STAGES;
}

bool sched_policy_joins_calls(const struct sched *sched)
{
    const struct policy *policy = policy_of(sched);
    return policy->unit == UNIT_PROGRAM &&
           (policy->queues == QUEUES_STAGES || sched_policy_orders_programs(sched));
}

uint32_t sched_policy_lists(const struct sched *sched, uint32_t queue)
{
    static const uint32_t lists[SCHED_STAGES] = {
        [SCHED_STAGE_RESIDENT] = CALL_LIST_RESIDENT + 1,
        [SCHED_STAGE_DISPLACED] = CALL_LIST_STARTED + 1,
        [SCHED_STAGE_WAITING] = CALL_LIST_ALL + 1,
    };
    return policy_of(sched)->queues == QUEUES_STAGES ? lists[queue] : CALL_LIST_ALL + 1;
}

/* ---- levels ---------------------------------------------------------------------------------- */

void sched_policy_init(struct sched *sched)
{
    static const uint32_t fixed[] = {
        [QUEUES_ONE] = 1, [QUEUES_MANY] = 0, [QUEUES_STAGES] = SCHED_STAGES};
    struct sched_settings *settings = &sched->settings;
    uint32_t queues = fixed[policy_of(sched)->queues];
    settings->queues = queues > 0 ? queues : settings->queues;
    if (sched_policy_has_stages(settings->policy)) {
        settings->active_programs = SCHED_ACTIVE_ALL;   /* stages keep what has begun */
    }
}

bool sched_policy_has_levels(const struct sched *sched)
{
    return policy_of(sched)->queues == QUEUES_MANY;
}

bool sched_policy_knows_programs(const struct sched *sched)
{
    return policy_of(sched)->level != LEVEL_first;
}

bool sched_policy_foresees(const struct sched *sched)
{
    return policy_of(sched)->level == LEVEL_foreseen;
}

bool sched_policy_orders_programs(const struct sched *sched)
{
    return sched_policy_knows_programs(sched) &&
           sched->settings.service == SCHED_SERVICE_LIVE;
}

/* Service that the program needs to its end, as its class knows; UINT64_MAX: that is unknown. */
static uint64_t remaining_us(const struct sched *sched, const struct program *program)
{
    const struct sched_class *class =
        sched_policy_foresees(sched) ? sched_class_of(sched, program) : NULL;
    return class != NULL
               ? sched_promise_remaining_us(&class->learnt.promises, program->service_us)
               : UINT64_MAX;
}

/* What says at which level the program stands. */
static uint64_t standing_us(const struct sched *sched, const struct program *program)
{
    uint64_t foreseen_us = remaining_us(sched, program);
    return foreseen_us < UINT64_MAX ? foreseen_us : program->service_us;
}

uint32_t sched_policy_entry_queue(const struct sched *sched, uint32_t program)
{
    if (sched_policy_has_stages(sched->settings.policy)) {
        return SCHED_STAGE_WAITING;
    }
    return sched_policy_knows_programs(sched)
               ? sched_levels_find(sched, standing_us(sched, &sched->programs[program])) : 0;
}

bool sched_policy_raises(const struct sched *sched, const struct sched_job *job)
{
    return sched_policy_foresees(sched) && sched_policy_orders_programs(sched) &&
           job->promoted_from == 0 && sched_policy_entry_queue(sched, job->program) < job->queue;
}

/* Nearer ones first, as far as the first one says: what has begun is ended, where that is right. */
bool sched_policy_goes_first(const struct sched *sched, const struct sched_job *job,
                             const struct sched_job *first)
{
    return remaining_us(sched, &sched->programs[job->program]) <
           standing_us(sched, &sched->programs[first->program]);
}

bool sched_policy_demotes(const struct sched *sched, const struct sched_job *job)
{
    const struct policy *policy = policy_of(sched);
    ASSERT(job->queue < sched->settings.queues);
    if (job->quantum_left_us > 0) {
        return false;
    }
    uint32_t lowest = sched_policy_orders_programs(sched)
                          ? sched_policy_entry_queue(sched, job->program)
                          : sched->settings.queues - 1;
    return policy->used_up == USED_UP_TURNS || job->promoted_from > 0 ||
           (policy->used_up == USED_UP_SINKS && job->queue < lowest);
}

uint32_t sched_policy_demotion_queue(const struct sched *sched, const struct sched_job *job)
{
    ASSERT(sched_policy_demotes(sched, job));
    if (policy_of(sched)->used_up == USED_UP_TURNS) {
        return job->queue;
    }
    return job->promoted_from > 0 ? job->promoted_from : job->queue + 1;
}

bool sched_policy_demotes_to_head(const struct sched *sched)
{
    return sched->settings.demoted_to_head && policy_of(sched)->used_up != USED_UP_TURNS;
}

/* wait / service >= beta, without dividing; never at a service of zero. */
static bool ratio_reached(const struct sched *sched, uint64_t wait_us, uint64_t service_us)
{
    if (sched->settings.beta_milli == 0 || service_us == 0) {
        return false;
    }
    return (unsigned __int128)wait_us * MILLI >=
           (unsigned __int128)service_us * sched->settings.beta_milli;
}

bool sched_policy_promotes(const struct sched *sched, const struct sched_job *job, uint64_t now_us)
{
    const struct program *program = &sched->programs[job->program];
    ASSERT(job->queue > 0);
    uint64_t wait_us = job->wait_us + sched_elapsed_us(job->waiting_since_us, now_us);
    uint64_t service_us = job->service_us;
    if (sched->settings.wait_max_us > 0 && wait_us >= sched->settings.wait_max_us) {
        return true;
    }
    if (policy_of(sched)->history == HISTORY_PROGRAM && job->promotions == 0) {
        wait_us = sched_sum(wait_us, program->wait_us);
        service_us = sched_policy_orders_programs(sched)
                         ? program->service_us      /* it counts in each step */
                         : sched_sum(service_us, program->service_us);
    }
    return ratio_reached(sched, wait_us, service_us);
}

void sched_policy_credit(const struct sched *sched, uint64_t *service_us, const struct call *call,
                         uint64_t duration_us)
{
    uint64_t path_us = sched_sum(call->priority_us, call->service_us);
    uint64_t before_us = *service_us;
    if (policy_of(sched)->credit == CREDIT_PATH) {
        *service_us = path_us > before_us ? path_us : before_us;
    } else {
        *service_us = sched_sum(before_us, duration_us);
    }
    ASSERT(*service_us >= before_us);
}
