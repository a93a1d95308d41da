/* SPDX-License-Identifier: MIT */
/*
 * What: the release of a workflow's calls. Ready instances wait in a heap, by the order that the
 * optimiser has found; at most `window` of their calls are open at once. So the order inside a
 * workflow costs the queues nothing, and siblings never preempt each other.
 *
 * The best instance is looked up in the prompt cache when it is at the top of the heap: all that it
 * reads is known then. An equal call that is open is waited for.
 *
 * Invariants: a call slot that is taken here is a QUEUED call, or free again, before we return. An
 * instance is CALLED exactly while its call is open. The first of equal greedy instances has the
 * OPEN entry of the cache; the others hang on it.
 * Bounds: BUDGET_TOKENS composed a pass, for all workflows together; what a prompt costs however
 * short it is counts as PROMPT_TOKENS more.
 */
#include "sched/workflow/release.h"

#include <string.h>

#include "config/base/assert.h"
#include "sched/admission.h"
#include "sched/call.h"
#include "sched/cost.h"
#include "sched/ending.h"
#include "sched/engine/plan.h"
#include "sched/workflow/stage.h"

#define PROMPT_TOKENS 64            /* a digest's beginning and end, and the search for a slot */

/* ---- numbers of instances, for those that wait for the cache --------------------------------- */

static uint32_t waiter_of(const struct sched *sched, struct sched_instance of)
{
    const struct workflow_table *table = sched->workflows.table;
    uint32_t flow = (uint32_t)(of.flow - table->workflows);
    return flow * table->limits.rows * table->limits.nodes + sched_instance_index(of);
}

static struct sched_instance instance_of_waiter(const struct sched *sched, uint32_t waiter)
{
    const struct workflow_table *table = sched->workflows.table;
    uint32_t stride = table->limits.rows * table->limits.nodes;
    return sched_instance_of(&table->workflows[waiter / stride], waiter % stride);
}

/* Takes the first that waits for the entry off it; false: none does. */
static bool take_waiter(struct sched *sched, uint32_t entry, struct sched_instance *of)
{
    uint32_t *first = &sched->workflows.cache.entries[entry].waiters;
    if (*first == WORKFLOW_NONE) {
        return false;
    }
    *of = instance_of_waiter(sched, *first);
    struct workflow_instance *instance = sched_instance_at(*of);
    ASSERT(instance->state == WORKFLOW_SHARED && instance->cache_entry == entry);
    *first = instance->wait_next;
    instance->cache_entry = PROMPT_CACHE_NONE;
    instance->wait_next = WORKFLOW_NONE;
    return true;
}

static void wait_for(struct sched *sched, struct sched_instance of, uint32_t entry)
{
    struct workflow_instance *instance = sched_instance_at(of);
    uint32_t *first = &sched->workflows.cache.entries[entry].waiters;
    heap_remove(&of.flow->ready, sched_instance_index(of));
    instance->state = WORKFLOW_SHARED;
    instance->owner = WORKFLOW_NONE;
    instance->cache_entry = entry;
    instance->wait_next = *first;
    *first = waiter_of(sched, of);
    of.flow->rows[of.row].shared++;
    sched->stats->values_shared++;
}

static void wait_no_more(struct sched *sched, struct sched_instance of)
{
    struct workflow_instance *instance = sched_instance_at(of);
    uint32_t self = waiter_of(sched, of);
    uint32_t *link = &sched->workflows.cache.entries[instance->cache_entry].waiters;
    while (*link != self) {
        link = &sched_instance_at(instance_of_waiter(sched, *link))->wait_next;
    }
    *link = instance->wait_next;
    instance->cache_entry = PROMPT_CACHE_NONE;
    instance->wait_next = WORKFLOW_NONE;
    of.flow->rows[of.row].shared--;
}

/* ---- a call ---------------------------------------------------------------------------------- */

static uint64_t of_all_rows(const struct workflow *flow, uint64_t cost)
{
    uint64_t product = 0;
    return __builtin_mul_overflow(cost, flow->rows_given, &product) ? UINT64_MAX : product;
}

/* The client may foresee what it likes, but no more is spent than the context and max_tokens allow:
 * the clock of the policies that go by cost is that of all clients. */
struct sched_spent sched_release_cost(const struct sched *sched, const struct workflow *flow)
{
    struct sched_spent cost = {0};
    uint32_t most = sched->settings.context_tokens;
    for (uint32_t i = 0; i < flow->order.ops_count; i++) {
        const struct workflow_op *op = &flow->order.ops[i];
        const struct workflow_node *node = &flow->nodes[op->node];
        uint32_t prompt = op->prompt_tokens < most ? op->prompt_tokens : most;
        uint32_t out = node->est_tokens < node->max_tokens ? node->est_tokens : node->max_tokens;
        cost.rounds += sched_cost_rounds(prompt, out);
        cost.tokens += sched_cost_tokens(prompt, out);
    }
    return (struct sched_spent){.rounds = of_all_rows(flow, cost.rounds),
                                .tokens = of_all_rows(flow, cost.tokens)};
}

static void fill(const struct sched *sched, struct call *call, struct sched_instance of,
                 uint32_t prompt_tokens, uint64_t now_us)
{
    const struct sched_workflows *workflows = &sched->workflows;
    const struct workflow_node *node = &of.flow->nodes[of.node];
    memcpy(call->tokens, workflows->prompt, prompt_tokens * sizeof *call->tokens);
    memcpy(call->program_id, of.flow->program_id, sizeof call->program_id);
    memcpy(call->stop_texts, node->call.stop_texts, sizeof call->stop_texts);
    call->prompt_tokens = prompt_tokens;
    call->max_tokens = node->max_tokens;
    call->client_call_id = sched_instance_index(of);
    call->workflow = (uint32_t)(of.flow - workflows->table->workflows);
    call->instance = sched_instance_index(of);
    call->sampling = node->call.sampling;
    call->stop_texts_count = node->call.stop_texts_count;
    call->deadline_us = workflows->settings.call_deadline_us != 0
                            ? sched_sum(now_us, workflows->settings.call_deadline_us)
                            : UINT64_MAX;
    const struct sched_spent cost = sched_release_cost(sched, of.flow);
    call->foretold.program_cost = cost.rounds;
    call->foretold.program_tokens = cost.tokens;
    call->foretold.output_tokens = node->est_tokens < node->max_tokens ? node->est_tokens : 0;
    if (!node->call.ignore_eos) {
        (void)call_add_stop_id(call, workflows->settings.eot_id);
        bool has_eos = call_add_stop_id(call, workflows->settings.eos_id);
        call->eos_id_index_plus_1 = has_eos ? call->sampling.stop_ids_count : 0;
    }
}

/* ---- the best instance ----------------------------------------------------------------------- */

/* BOS and what the node composes, in workflows.prompt; UINT32_MAX: it does not fit the context. */
static uint32_t compose(struct sched *sched, struct sched_instance of)
{
    struct sched_workflows *workflows = &sched->workflows;
    uint32_t most = sched->settings.context_tokens, first = 0;
    if (workflows->settings.bos_id != CALL_NONE) {
        workflows->prompt[first++] = workflows->settings.bos_id;
    }
    uint32_t count = workflow_splice(of.flow, of.row, of.node, workflows->prompt + first,
                                     most - first);
    bool fits = count <= most - first && most - first - count >= of.flow->nodes[of.node].max_tokens;
    uint32_t cost = PROMPT_TOKENS + (fits ? first + count : 0);
    workflows->budget -= cost < workflows->budget ? cost : workflows->budget;
    return fits ? first + count : UINT32_MAX;
}

/* With these baselines of the paper no two operators, or no two calls, are open at once. */
static bool barrier_is_open(const struct sched *sched, struct sched_instance of)
{
    const struct workflow *flow = of.flow;
    uint32_t op = flow->nodes[of.node].op;
    switch (sched->workflows.settings.order) {
    case WORKFLOW_ORDER_QUERYWISE:
        return flow->open_calls == 0;
    case WORKFLOW_ORDER_OPWISE:
        return flow->open_calls == 0 || flow->open_op == op;
    default:
        return true;
    }
}

/* Tokens of KV that a call of the operator needs, about, besides what it shares with others: those
 * of its row in its inner sequence, or those of its operator in other rows. */
static uint64_t footprint(struct sched_instance of)
{
    const struct workflow_order *order = &of.flow->order;
    const struct workflow_node *node = &of.flow->nodes[of.node];
    const struct workflow_op *op = &order->ops[node->op];
    bool goes_on = order->sequences[op->sequence].by_row && op->place > 0;
    return (goes_on ? op->new_tokens : op->prompt_tokens - op->static_tokens) + node->est_tokens;
}

/* More calls than the KV holds would preempt each other, and none of them in the order that was
 * found. Where other programs have calls open, the KV is not the workflow's to fill. */
static bool has_room(const struct sched *sched, struct sched_instance of)
{
    const struct workflow *flow = of.flow;
    return flow->open_calls == 0 || sched->open_calls > flow->open_calls ||
           flow->open_tokens + footprint(of) <= sched->workflows.settings.kv_tokens;
}

/* A key bounds its workflows as it does other calls of its clients. */
static bool key_has_room(const struct sched *sched, const struct workflow *flow)
{
    const struct workflow_table *table = sched->workflows.table;
    return workflow_calls_of_key(table, flow->key) < flow->calls_max;
}

static bool may_call(const struct sched *sched, struct sched_instance of)
{
    const struct sched_workflow_settings *settings = &sched->workflows.settings;
    return of.flow->open_calls < settings->window && has_room(sched, of) &&
           sched->calls->free_count > settings->calls_spared &&
           call_room(sched->calls, of.flow->domain) > 0 && key_has_room(sched, of.flow) &&
           barrier_is_open(sched, of);
}

/* Takes a slot and has the call admitted. */
static enum status call(struct sched *sched, struct sched_instance of, uint32_t prompt_tokens,
                        uint64_t now_us)
{
    struct workflow_instance *instance = sched_instance_at(of);
    uint32_t slot = call_take(sched->calls, of.flow->domain);
    ASSERT(slot != CALL_NONE);
    struct call *its = sched_call(sched, slot);
    fill(sched, its, of, prompt_tokens, now_us);
    enum status status = sched_admit(sched, its, "", now_us);
    if (status != STATUS_OK) {
        call_release(sched->calls, slot);
        return status;
    }
    sched_plan_arrival(sched_engine_of(sched, its), its);
    heap_remove(&of.flow->ready, sched_instance_index(of));
    instance->state = WORKFLOW_CALLED;
    instance->call = slot;
    of.flow->open_calls++;
    of.flow->open_tokens += footprint(of);
    of.flow->open_op = of.flow->nodes[of.node].op;
    of.flow->rows[of.row].calls++;
    return STATUS_OK;
}

/* The value from the cache, or from an equal call that is open. False: it must be called. */
static bool find_value(struct sched *sched, struct sched_instance of,
                       const struct prompt_cache_key *key, uint64_t now_us)
{
    struct prompt_cache *cache = &sched->workflows.cache;
    uint32_t entry = prompt_cache_find(cache, key);
    if (entry == PROMPT_CACHE_NONE) {
        return false;
    }
    if (cache->entries[entry].state == PROMPT_CACHE_OPEN) {
        wait_for(sched, of, entry);
        return true;
    }
    uint32_t *value = workflow_value(of.flow, of.row, of.node);
    of.flow->rows[of.row].fetched++;
    sched->stats->values_fetched++;
    sched_instance_known(sched, of, prompt_cache_read(cache, entry, value), now_us);
    return true;
}

static bool is_cached(const struct sched *sched, const struct workflow_node *node)
{
    return node->call.sampling.temperature == 0 && sched->workflows.cache.entries_count > 0;
}

/* False when nothing more can be done for the workflow in this pass. */
static bool release_best(struct sched *sched, struct sched_instance of, uint64_t now_us)
{
    struct sched_workflows *workflows = &sched->workflows;
    const struct workflow_node *node = &of.flow->nodes[of.node];
    struct workflow_instance *instance = sched_instance_at(of);
    bool may = may_call(sched, of);
    struct prompt_cache_key key;
    if (!may && (instance->is_probed || !is_cached(sched, node))) {
        return false;
    }
    uint32_t prompt_tokens = compose(sched, of);
    if (prompt_tokens == UINT32_MAX) {
        sched_instance_fail(sched, of, STATUS_BAD_PROMPT_LENGTH);
        return true;
    }
    if (is_cached(sched, node)) {
        key = prompt_cache_key(&workflows->cache, of.flow->domain, node, workflows->prompt,
                               prompt_tokens);
        if (find_value(sched, of, &key, now_us)) {
            return true;
        }
    }
    instance->is_probed = true;
    enum status status = may ? call(sched, of, prompt_tokens, now_us) : STATUS_BUSY_CALLS;
    if (status != STATUS_OK && status_class(status) != STATUS_CLASS_BUSY) {
        sched_instance_fail(sched, of, status);
        return true;
    }
    if (status == STATUS_OK && is_cached(sched, node)) {
        instance->cache_entry = prompt_cache_open(&workflows->cache, of.flow->domain, &key);
    }
    return status == STATUS_OK;
}

void sched_release(struct sched *sched, struct workflow *flow, uint64_t now_us)
{
    struct sched_workflows *workflows = &sched->workflows;
    while (flow->ready.count > 0) {
        if (workflows->budget == 0) {
            workflows->more = true;
            return;
        }
        if (!release_best(sched, sched_instance_of(flow, heap_first(&flow->ready)), now_us)) {
            return;
        }
    }
}

/* ---- a call has ended ------------------------------------------------------------------------ */

static bool has_value(const struct call *call)
{
    return call->stop_text_hit || call->finish <= CALL_FINISH_STOP_TEXT;
}

/* Without the token that ended it, and without those that hold part of the stop text. */
static uint32_t value_tokens(const struct call *call)
{
    uint32_t tokens = call->generated_tokens;
    if (call->stop_text_hit) {
        return tokens < call->stop_text_before ? tokens : call->stop_text_before;
    }
    return call->finish == CALL_FINISH_LENGTH ? tokens : tokens - 1;
}

static void give_value(struct sched *sched, struct sched_instance of, uint32_t entry,
                       uint32_t tokens, uint64_t now_us)
{
    struct sched_instance waiter;
    const uint32_t *value = workflow_value(of.flow, of.row, of.node);
    while (entry != PROMPT_CACHE_NONE && take_waiter(sched, entry, &waiter)) {
        memcpy(workflow_value(waiter.flow, waiter.row, waiter.node), value,
               tokens * sizeof *value);
        sched_instance_known(sched, waiter, tokens, now_us);
    }
    if (entry != PROMPT_CACHE_NONE) {
        prompt_cache_fill(&sched->workflows.cache, entry, value, tokens);
    }
    sched_instance_known(sched, of, tokens, now_us);
}

/* Those that waited for it take their turn again: the first of them is called. */
static void give_none(struct sched *sched, struct sched_instance of, uint32_t entry,
                      enum status status, uint64_t now_us)
{
    struct sched_instance waiter;
    while (entry != PROMPT_CACHE_NONE && take_waiter(sched, entry, &waiter)) {
        waiter.flow->rows[waiter.row].shared--;
        sched_instance_ready(sched, waiter, now_us);
    }
    if (entry != PROMPT_CACHE_NONE) {
        prompt_cache_drop(&sched->workflows.cache, entry);
    }
    sched_instance_fail(sched, of, status);
}

void sched_release_ended(struct sched *sched, const struct call *call, uint64_t now_us)
{
    struct workflow *flow = &sched->workflows.table->workflows[call->workflow];
    struct sched_instance of = sched_instance_of(flow, call->instance);
    struct workflow_instance *instance = sched_instance_at(of);
    uint32_t entry = instance->cache_entry;
    ASSERT(instance->state == WORKFLOW_CALLED && instance->call == call->slot);
    ASSERT(flow->open_calls > 0);
    flow->open_calls--;
    flow->open_tokens -= footprint(of);
    instance->call = CALL_NONE;
    instance->cache_entry = PROMPT_CACHE_NONE;
    if (has_value(call)) {
        uint32_t tokens = value_tokens(call);
        memcpy(workflow_value(flow, of.row, of.node), call->tokens + call->prompt_tokens,
               tokens * sizeof *call->tokens);
        give_value(sched, of, entry, tokens, now_us);
    } else {
        give_none(sched, of, entry, call->status, now_us);
    }
}

/* A call in a step ends when that settles; one that has ended is about to be looked at. */
static void end_call(struct sched *sched, struct call *call, uint64_t now_us)
{
    if (call->state != CALL_FINISHED) {
        call->cancel = true;
    }
    if (call->state == CALL_QUEUED) {
        sched_call_end_cancelled(sched, call, now_us);
    }
}

void sched_release_cancel(struct sched *sched, struct workflow *flow, uint64_t now_us)
{
    for (uint32_t i = 0; i < flow->rows_max * flow->nodes_count; i++) {
        struct sched_instance of = sched_instance_of(flow, i);
        struct workflow_instance *instance = sched_instance_at(of);
        if (flow->rows[of.row].state != WORKFLOW_ROW_OPEN || !workflow_is_op(flow, of.node)) {
            continue;
        }
        if (instance->state == WORKFLOW_SHARED && instance->cache_entry != PROMPT_CACHE_NONE) {
            wait_no_more(sched, of);
            sched_instance_ready(sched, of, now_us);
        } else if (instance->state == WORKFLOW_CALLED) {
            end_call(sched, sched_call(sched, instance->call), now_us);
        }
    }
}
