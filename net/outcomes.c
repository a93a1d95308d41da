/* SPDX-License-Identifier: MIT */
/*
 * What: how the last calls ended, and with which tokens. Who asks again, because the answer was
 * lost on its way, is told what happened; nothing is computed twice.
 *
 *   records   a ring of limits.outcomes, the oldest first; chained by the hash of their ids
 *   tokens    a ring of limits.outcome_tokens; a record's lie behind those of the one before it
 *
 * Both rings count since boot; a place is the remainder. The oldest records go when either is full.
 *
 * Invariants: a pair of ids is in the record once, because a second CALL with it is answered from
 * here or refused; every answer fits the ring of tokens (limits.outcome_tokens >= context_tokens).
 * A record is found in its own trust domain only.
 *
 * Bounds: one copy of the tokens; records leave once, so O(1) amortised; a chain is as short as
 * those of open calls.
 * Why not a failed call: nothing was its answer, and its client may want to try again.
 */
#include "net/outcomes.h"

#include <string.h>

#include "net/open_calls.h"

static uint32_t heads_count(const struct limits *limits)
{
    return limits->outcomes > 0 ? ring_capacity_ceil(limits->outcomes) : 0;
}

void net_outcomes_plan_memory(struct memory_plan *plan, const struct limits *limits)
{
    memory_plan_add(plan, MEMORY_CORE, "net outcomes", limits->outcomes, sizeof(struct
                                                                                net_outcome));
    memory_plan_add(plan, MEMORY_CORE, "net outcome heads", heads_count(limits), sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_CORE, "net outcome tokens", limits->outcome_tokens,
                    sizeof(uint32_t));
}

void net_outcomes_init(struct net *net, struct arena *arena)
{
    const struct limits *limits = net->settings.limits;
    struct net_outcomes *outcomes = &net->outcomes;
    uint32_t heads = heads_count(limits);
    ASSERT(limits->outcomes == 0 || limits->outcome_tokens >= limits->context_tokens);
    *outcomes = (struct net_outcomes){.heads_count = heads};
    outcomes->records = arena_take(arena, limits->outcomes, sizeof(struct net_outcome));
    outcomes->heads = arena_take(arena, heads, sizeof(uint32_t));
    outcomes->tokens = arena_take(arena, limits->outcome_tokens, sizeof(uint32_t));
    for (uint32_t i = 0; i < heads; i++) {
        outcomes->heads[i] = CALL_NONE;
    }
}

uint64_t net_outcome_request(const uint8_t *payload, uint32_t payload_bytes)
{
    return fnv_add(FNV_START, payload, payload_bytes);
}

/* ---- finding --------------------------------------------------------------------------------- */

static uint32_t *head_of(const struct net *net, uint64_t domain, const uint8_t *program_id,
                         uint64_t call_id)
{
    const struct net_outcomes *outcomes = &net->outcomes;
    return &outcomes->heads[net_open_hash(net, domain, program_id, call_id) &
                            (outcomes->heads_count - 1)];
}

static bool is_of(const struct net_outcome *outcome, uint64_t domain, const uint8_t *program_id,
                  uint64_t call_id)
{
    return outcome->done.call_id == call_id && outcome->domain == domain &&
           memcmp(outcome->program_id, program_id, CALL_PROGRAM_ID_BYTES) == 0;
}

const struct net_outcome *net_outcome_find(const struct net *net, uint64_t domain,
                                           const uint8_t *program_id, uint64_t call_id)
{
    if (net->settings.limits->outcomes == 0) {
        return NULL;
    }
    uint32_t at = *head_of(net, domain, program_id, call_id);
    while (at != CALL_NONE) {
        const struct net_outcome *outcome = &net->outcomes.records[at];
        if (is_of(outcome, domain, program_id, call_id)) {
            return outcome;
        }
        at = outcome->chain_next;
    }
    return NULL;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* The stretch from `first` on, up to `count` tokens or the end of the array. */
static uint32_t *stretch(const struct net *net, uint64_t first, uint32_t count, uint32_t *length)
{
    uint32_t capacity = net->settings.limits->outcome_tokens;
    uint32_t place = (uint32_t)(first % capacity);
    *length = count < capacity - place ? count : capacity - place;
    return net->outcomes.tokens + place;
}

static void write_tokens(struct net *net, const uint32_t *tokens, uint32_t count)
{
    uint32_t length;
    uint32_t *to = stretch(net, net->outcomes.tokens_next, count, &length);
    memcpy(to, tokens, length * sizeof *tokens);
    memcpy(net->outcomes.tokens, tokens + length, (count - length) * sizeof *tokens);
    net->outcomes.tokens_next += count;
}

void net_outcome_tokens(const struct net *net, const struct net_outcome *outcome, uint32_t *tokens)
{
    uint32_t count = outcome->done.generated_tokens, length;
    const uint32_t *from = stretch(net, outcome->tokens_first, count, &length);
    memcpy(tokens, from, length * sizeof *tokens);
    memcpy(tokens + length, net->outcomes.tokens, (count - length) * sizeof *tokens);
}

/* ---- keeping --------------------------------------------------------------------------------- */

static uint32_t place_of(const struct net *net, uint64_t number)
{
    return (uint32_t)(number % net->settings.limits->outcomes);
}

/* It was put in front of its chain, and what was behind it is older: it is the last one there. */
static void forget_oldest(struct net *net)
{
    struct net_outcomes *outcomes = &net->outcomes;
    uint32_t place = place_of(net, outcomes->records_first++);
    const struct net_outcome *outcome = &outcomes->records[place];
    uint32_t *link = head_of(net, outcome->domain, outcome->program_id, outcome->done.call_id);
    while (*link != place) {
        ASSERT(*link != CALL_NONE);
        link = &outcomes->records[*link].chain_next;
    }
    ASSERT(outcome->chain_next == CALL_NONE);
    *link = CALL_NONE;
}

/* One of the rings has no room for one more record, with `tokens` tokens. */
static bool is_full(const struct net *net, uint32_t tokens)
{
    const struct net_outcomes *outcomes = &net->outcomes;
    const struct limits *limits = net->settings.limits;
    if (outcomes->records_first == outcomes->records_next) {
        return false;
    }
    const struct net_outcome *oldest =
        &outcomes->records[place_of(net, outcomes->records_first)];
    return outcomes->records_next - outcomes->records_first == limits->outcomes ||
           outcomes->tokens_next + tokens - oldest->tokens_first > limits->outcome_tokens;
}

void net_outcome_keep(struct net *net, const struct call *call, const struct wire_done *done)
{
    struct net_outcomes *outcomes = &net->outcomes;
    if (net->settings.limits->outcomes == 0 || done->finish == CALL_FINISH_FAILED) {
        return;
    }
    ASSERT(net_outcome_find(net, call->domain, call->program_id, done->call_id) == NULL);
    while (is_full(net, done->generated_tokens)) {
        forget_oldest(net);
    }
    uint32_t place = place_of(net, outcomes->records_next++);
    uint32_t *head = head_of(net, call->domain, call->program_id, done->call_id);
    struct net_outcome *outcome = &outcomes->records[place];
    *outcome = (struct net_outcome){
        .domain = call->domain, .request = call->emit.request, .done = *done,
        .tokens_first = outcomes->tokens_next, .chain_next = *head};
    memcpy(outcome->program_id, call->program_id, sizeof outcome->program_id);
    write_tokens(net, call->tokens + call->prompt_tokens, done->generated_tokens);
    *head = place;
}

/* ---- reporting ------------------------------------------------------------------------------- */

void net_outcomes_check(const struct net *net)
{
    const struct net_outcomes *outcomes = &net->outcomes;
    const struct limits *limits = net->settings.limits;
    uint64_t tokens = outcomes->tokens_next;
    for (uint64_t number = outcomes->records_next; number-- > outcomes->records_first;) {
        const struct net_outcome *outcome = &outcomes->records[place_of(net, number)];
        tokens -= outcome->done.generated_tokens;
        ASSERT(outcome->tokens_first == tokens);
        ASSERT(outcomes->tokens_next - tokens <= limits->outcome_tokens);
        ASSERT(net_outcome_find(net, outcome->domain, outcome->program_id,
                                outcome->done.call_id) == outcome);
    }
    ASSERT(outcomes->records_next - outcomes->records_first <= limits->outcomes);
}
