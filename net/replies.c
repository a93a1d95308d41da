/* SPDX-License-Identifier: MIT */
/*
 * What: the replies of the last calls that ended: how each ended, and its tokens. A client that
 * asks again, because the reply was lost on its way, gets it from here; nothing is computed twice.
 *
 *   records   a ring of limits.replies, the oldest first; chained by the hash of their ids
 *   tokens    a ring of limits.reply_tokens; a record's tokens follow those of the record before it
 *
 * Both rings count since boot; the place of a number is its remainder. When either ring is full,
 * the oldest records make room.
 *
 * Invariants: a pair of ids is on record once, because a second CALL with it is answered from here
 * or refused. Every reply fits the ring of tokens (limits.reply_tokens >= context_tokens). A record
 * is found in its own trust domain only.
 *
 * Bounds: one copy of the tokens. A record leaves once, so keeping one is O(1) amortised. A chain
 * is as short as those of open calls.
 * Why not failed calls: they have no answer to repeat, and the client may try again.
 */
#include "net/replies.h"

#include <string.h>

#include "net/open_calls.h"

static uint32_t heads_count(const struct limits *limits)
{
    return limits->replies > 0 ? ring_capacity_ceil(limits->replies) : 0;
}

void net_replies_plan_memory(struct memory_plan *plan, const struct limits *limits)
{
    memory_plan_add(plan, MEMORY_CORE, "net replies", limits->replies, sizeof(struct
                                                                                net_reply));
    memory_plan_add(plan, MEMORY_CORE, "net reply heads", heads_count(limits), sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_CORE, "net reply tokens", limits->reply_tokens,
                    sizeof(uint32_t));
}

void net_replies_init(struct net *net, struct arena *arena)
{
    const struct limits *limits = net->settings.limits;
    struct net_replies *replies = &net->replies;
    uint32_t heads = heads_count(limits);
    ASSERT(limits->replies == 0 || limits->reply_tokens >= limits->context_tokens);
    *replies = (struct net_replies){.heads_count = heads};
    replies->records = arena_take(arena, limits->replies, sizeof(struct net_reply));
    replies->heads = arena_take(arena, heads, sizeof(uint32_t));
    replies->tokens = arena_take(arena, limits->reply_tokens, sizeof(uint32_t));
    for (uint32_t i = 0; i < heads; i++) {
        replies->heads[i] = CALL_NONE;
    }
}

uint64_t net_reply_request(const uint8_t *payload, uint32_t payload_bytes)
{
    return fnv_add(FNV_START, payload, payload_bytes);
}

/* ---- finding --------------------------------------------------------------------------------- */

static uint32_t *head_of(const struct net *net, uint64_t domain, const uint8_t *program_id,
                         uint64_t call_id)
{
    const struct net_replies *replies = &net->replies;
    return &replies->heads[net_open_hash(net, domain, program_id, call_id) &
                            (replies->heads_count - 1)];
}

static bool is_of(const struct net_reply *reply, uint64_t domain, const uint8_t *program_id,
                  uint64_t call_id)
{
    return reply->done.call_id == call_id && reply->domain == domain &&
           memcmp(reply->program_id, program_id, CALL_PROGRAM_ID_BYTES) == 0;
}

const struct net_reply *net_reply_find(const struct net *net, uint64_t domain,
                                           const uint8_t *program_id, uint64_t call_id)
{
    if (net->settings.limits->replies == 0) {
        return NULL;
    }
    uint32_t at = *head_of(net, domain, program_id, call_id);
    while (at != CALL_NONE) {
        const struct net_reply *reply = &net->replies.records[at];
        if (is_of(reply, domain, program_id, call_id)) {
            return reply;
        }
        at = reply->chain_next;
    }
    return NULL;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* The stretch from `first` on, up to `count` tokens or the end of the array. */
static uint32_t *stretch(const struct net *net, uint64_t first, uint32_t count, uint32_t *length)
{
    uint32_t capacity = net->settings.limits->reply_tokens;
    uint32_t place = (uint32_t)(first % capacity);
    *length = count < capacity - place ? count : capacity - place;
    return net->replies.tokens + place;
}

static void write_tokens(struct net *net, const uint32_t *tokens, uint32_t count)
{
    uint32_t length;
    uint32_t *to = stretch(net, net->replies.tokens_next, count, &length);
    memcpy(to, tokens, length * sizeof *tokens);
    memcpy(net->replies.tokens, tokens + length, (count - length) * sizeof *tokens);
    net->replies.tokens_next += count;
}

void net_reply_tokens(const struct net *net, const struct net_reply *reply, uint32_t *tokens)
{
    uint32_t count = reply->done.generated_tokens, length;
    const uint32_t *from = stretch(net, reply->tokens_first, count, &length);
    memcpy(tokens, from, length * sizeof *tokens);
    memcpy(tokens + length, net->replies.tokens, (count - length) * sizeof *tokens);
}

/* ---- keeping --------------------------------------------------------------------------------- */

static uint32_t place_of(const struct net *net, uint64_t number)
{
    return (uint32_t)(number % net->settings.limits->replies);
}

/* A record is put at the front of its chain, so the records after it are older: the oldest is the
 * last of its chain. */
static void forget_oldest(struct net *net)
{
    struct net_replies *replies = &net->replies;
    uint32_t place = place_of(net, replies->records_first++);
    const struct net_reply *reply = &replies->records[place];
    uint32_t *link = head_of(net, reply->domain, reply->program_id, reply->done.call_id);
    while (*link != place) {
        ASSERT(*link != CALL_NONE);
        link = &replies->records[*link].chain_next;
    }
    ASSERT(reply->chain_next == CALL_NONE);
    *link = CALL_NONE;
}

/* True when one of the rings has no room for another record with so many tokens. */
static bool is_full(const struct net *net, uint32_t tokens)
{
    const struct net_replies *replies = &net->replies;
    const struct limits *limits = net->settings.limits;
    if (replies->records_first == replies->records_next) {
        return false;
    }
    const struct net_reply *oldest =
        &replies->records[place_of(net, replies->records_first)];
    return replies->records_next - replies->records_first == limits->replies ||
           replies->tokens_next + tokens - oldest->tokens_first > limits->reply_tokens;
}

void net_reply_keep(struct net *net, const struct call *call, const struct wire_done *done)
{
    struct net_replies *replies = &net->replies;
    if (net->settings.limits->replies == 0 || done->finish == CALL_FINISH_FAILED) {
        return;
    }
    ASSERT(net_reply_find(net, call->domain, call->program_id, done->call_id) == NULL);
    while (is_full(net, done->generated_tokens)) {
        forget_oldest(net);
    }
    uint32_t place = place_of(net, replies->records_next++);
    uint32_t *head = head_of(net, call->domain, call->program_id, done->call_id);
    struct net_reply *reply = &replies->records[place];
    *reply = (struct net_reply){
        .domain = call->domain, .request = call->emit.request, .done = *done,
        .tokens_first = replies->tokens_next, .chain_next = *head};
    memcpy(reply->program_id, call->program_id, sizeof reply->program_id);
    write_tokens(net, call->tokens + call->prompt_tokens, done->generated_tokens);
    *head = place;
}

/* ---- reporting ------------------------------------------------------------------------------- */

void net_replies_check(const struct net *net)
{
    const struct net_replies *replies = &net->replies;
    const struct limits *limits = net->settings.limits;
    uint64_t tokens = replies->tokens_next;
    for (uint64_t number = replies->records_next; number-- > replies->records_first;) {
        const struct net_reply *reply = &replies->records[place_of(net, number)];
        tokens -= reply->done.generated_tokens;
        ASSERT(reply->tokens_first == tokens);
        ASSERT(replies->tokens_next - tokens <= limits->reply_tokens);
        ASSERT(net_reply_find(net, reply->domain, reply->program_id,
                                reply->done.call_id) == reply);
    }
    ASSERT(replies->records_next - replies->records_first <= limits->replies);
}
