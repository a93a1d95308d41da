/* SPDX-License-Identifier: MIT */
/*
 * What: the replies of the last calls that ended: how each ended, and its tokens. A client that
 * asks again, because the reply was lost on its way, gets it from here; nothing is computed twice.
 *
 *   records   limits.replies, in a list for each account, the oldest first; chained by the hash of
 *             their ids
 *   tokens    limits.reply_tokens, in chunks, linked
 *
 * When either runs short, records make room: the oldest of the account that has most beyond its
 * minimum (config/base/quota.h), so that a tenant cannot push out what another may ask for.
 *
 * Invariants: a pair of ids is on record once, because a second CALL with it is answered from here
 * or refused. There is always a chunk where quotas have room: each record wastes less than one, and
 * there is one more for each. A record is found in its own trust domain only.
 *
 * Bounds: one copy of the tokens. A record leaves once, so keeping one is O(accounts) amortised. A
 * chain is as short as those of open calls.
 * Why not a ring: its oldest record is of any account.
 * Why not failed calls: they have no answer to repeat, and the client may try again.
 */
#include "net/replies.h"

#include <string.h>

#include "net/open_calls.h"

static uint32_t heads_count(const struct limits *limits)
{
    return limits->replies > 0 ? ring_capacity_ceil(limits->replies) : 0;
}

static uint32_t chunks_count(const struct limits *limits)
{
    return limits->replies > 0 ? limits->reply_tokens / NET_REPLY_CHUNK + limits->replies + 1 : 0;
}

void net_replies_plan_memory(struct memory_plan *plan, const struct limits *limits)
{
    uint64_t chunks = chunks_count(limits);
    memory_plan_add(plan, MEMORY_CORE, "net replies", limits->replies, sizeof(struct net_reply));
    memory_plan_add(plan, MEMORY_CORE, "net reply heads", heads_count(limits), sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_CORE, "net reply tokens", chunks * NET_REPLY_CHUNK,
                    sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_CORE, "net reply chunks", chunks, sizeof(uint32_t));
}

/* A list of all, in order. */
static void link_all(uint32_t *next, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        next[i] = i + 1 < count ? i + 1 : CALL_NONE;
    }
}

void net_replies_init(struct net *net, struct arena *arena)
{
    const struct limits *limits = net->settings.limits;
    struct net_replies *replies = &net->replies;
    uint32_t heads = heads_count(limits), chunks = chunks_count(limits);
    ASSERT(limits->replies == 0 || limits->reply_tokens >= limits->context_tokens);
    *replies = (struct net_replies){.heads_count = heads};
    replies->records = arena_take(arena, limits->replies, sizeof(struct net_reply));
    replies->heads = arena_take(arena, heads, sizeof(uint32_t));
    replies->tokens = arena_take(arena, (uint64_t)chunks * NET_REPLY_CHUNK, sizeof(uint32_t));
    replies->chunk_next = arena_take(arena, chunks, sizeof(uint32_t));
    link_all(replies->chunk_next, chunks);
    for (uint32_t i = 0; i < heads; i++) {
        replies->heads[i] = CALL_NONE;
    }
    for (uint32_t i = 0; i < limits->replies; i++) {
        replies->records[i].next = i + 1 < limits->replies ? i + 1 : CALL_NONE;
    }
    for (uint32_t i = 0; i < QUOTA_ACCOUNTS_MAX; i++) {
        replies->of[i].first = replies->of[i].last = CALL_NONE;
    }
    quota_init(&replies->quota, limits->replies);
    quota_init(&replies->tokens_quota, limits->reply_tokens);
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

static uint32_t *tokens_of(const struct net *net, uint32_t chunk)
{
    return net->replies.tokens + (uint64_t)chunk * NET_REPLY_CHUNK;
}

static uint32_t part_of_chunk(uint32_t tokens)
{
    return tokens < NET_REPLY_CHUNK ? tokens : NET_REPLY_CHUNK;
}

/* Returns the first chunk. */
static uint32_t write_tokens(struct net *net, const uint32_t *tokens, uint32_t count)
{
    struct net_replies *replies = &net->replies;
    uint32_t first = CALL_NONE, *link = &first;
    while (count > 0) {
        uint32_t chunk = replies->chunk_free, part = part_of_chunk(count);
        ASSERT(chunk != CALL_NONE);
        replies->chunk_free = replies->chunk_next[chunk];
        memcpy(tokens_of(net, chunk), tokens, part * sizeof *tokens);
        *link = chunk;
        link = &replies->chunk_next[chunk];
        *link = CALL_NONE;
        tokens += part;
        count -= part;
    }
    return first;
}

void net_reply_tokens(const struct net *net, const struct net_reply *reply, uint32_t *tokens)
{
    uint32_t count = reply->done.generated_tokens;
    for (uint32_t at = reply->chunk; count > 0; at = net->replies.chunk_next[at]) {
        uint32_t part = part_of_chunk(count);
        ASSERT(at != CALL_NONE);
        memcpy(tokens, tokens_of(net, at), part * sizeof *tokens);
        tokens += part;
        count -= part;
    }
}

static void free_tokens(struct net *net, uint32_t first)
{
    struct net_replies *replies = &net->replies;
    while (first != CALL_NONE) {
        uint32_t chunk = first;
        first = replies->chunk_next[chunk];
        replies->chunk_next[chunk] = replies->chunk_free;
        replies->chunk_free = chunk;
    }
}

/* ---- keeping --------------------------------------------------------------------------------- */

static void unchain(struct net *net, uint32_t place)
{
    const struct net_reply *reply = &net->replies.records[place];
    uint32_t *link = head_of(net, reply->domain, reply->program_id, reply->done.call_id);
    while (*link != place) {
        ASSERT(*link != CALL_NONE);
        link = &net->replies.records[*link].chain_next;
    }
    *link = reply->chain_next;
}

static void forget_oldest(struct net *net, uint32_t account)
{
    struct net_replies *replies = &net->replies;
    uint32_t place = replies->of[account].first;
    struct net_reply *reply = &replies->records[place];
    ASSERT(reply->number != 0 && quota_account(reply->domain) == account);
    unchain(net, place);
    free_tokens(net, reply->chunk);
    quota_give(&replies->quota, account, 1);
    quota_give(&replies->tokens_quota, account, reply->done.generated_tokens);
    replies->of[account].first = reply->next;
    if (reply->next == CALL_NONE) {
        replies->of[account].last = CALL_NONE;
    }
    *reply = (struct net_reply){.next = replies->free};
    replies->free = place;
}

/* The account whose oldest record goes, so that another with so many tokens has room. */
static uint32_t victim_for(const struct net *net, uint32_t account, uint32_t tokens)
{
    const struct net_replies *replies = &net->replies;
    uint64_t ages[QUOTA_ACCOUNTS_MAX];
    for (uint32_t i = 0; i < QUOTA_ACCOUNTS_MAX; i++) {
        uint32_t first = replies->of[i].first;
        ages[i] = first != CALL_NONE ? replies->records[first].number : QUOTA_AGE_NONE;
    }
    return quota_room(&replies->quota, account) == 0
               ? quota_victim(&replies->quota, account, 1, ages)
               : quota_victim(&replies->tokens_quota, account, tokens, ages);
}

static bool make_room(struct net *net, uint32_t account, uint32_t tokens)
{
    const struct net_replies *replies = &net->replies;
    while (quota_room(&replies->quota, account) == 0 ||
           quota_room(&replies->tokens_quota, account) < tokens) {
        uint32_t victim = victim_for(net, account, tokens);
        if (victim == QUOTA_ACCOUNT_NONE) {
            return false;
        }
        forget_oldest(net, victim);
    }
    return true;
}

/* A free record becomes the youngest of the account. */
static uint32_t append(struct net *net, uint32_t account)
{
    struct net_replies *replies = &net->replies;
    uint32_t place = replies->free, last = replies->of[account].last;
    ASSERT(place != CALL_NONE);
    replies->free = replies->records[place].next;
    if (last != CALL_NONE) {
        replies->records[last].next = place;
    } else {
        replies->of[account].first = place;
    }
    replies->of[account].last = place;
    return place;
}

void net_reply_keep(struct net *net, const struct call *call, const struct wire_done *done)
{
    struct net_replies *replies = &net->replies;
    uint32_t tokens = done->generated_tokens;
    if (net->settings.limits->replies == 0 || done->finish == CALL_FINISH_FAILED) {
        return;
    }
    ASSERT(net_reply_find(net, call->domain, call->program_id, done->call_id) == NULL);
    if (!make_room(net, call->account, tokens)) {
        return;
    }
    uint32_t place = append(net, call->account);
    uint32_t *head = head_of(net, call->domain, call->program_id, done->call_id);
    struct net_reply *reply = &replies->records[place];
    *reply = (struct net_reply){
        .domain = call->domain, .request = call->emit.request, .done = *done,
        .number = ++replies->kept, .next = CALL_NONE, .chain_next = *head,
        .chunk = write_tokens(net, call->tokens + call->prompt_tokens, tokens)};
    memcpy(reply->program_id, call->program_id, sizeof reply->program_id);
    quota_take(&replies->quota, call->account, 1);
    quota_take(&replies->tokens_quota, call->account, tokens);
    *head = place;
}

/* ---- reporting ------------------------------------------------------------------------------- */

/* Returns how many chunks are linked from there on. */
static uint32_t chunks_from(const struct net *net, uint32_t first)
{
    uint32_t count = 0, all = chunks_count(net->settings.limits);
    for (uint32_t at = first; at != CALL_NONE; at = net->replies.chunk_next[at]) {
        ASSERT(++count <= all);
    }
    return count;
}

static uint32_t check_account(const struct net *net, uint32_t account, uint32_t *chunks)
{
    const struct net_replies *replies = &net->replies;
    uint32_t records = 0, tokens = 0, last = CALL_NONE;
    for (uint32_t at = replies->of[account].first; at != CALL_NONE;
         at = replies->records[at].next) {
        const struct net_reply *reply = &replies->records[at];
        uint32_t linked = chunks_from(net, reply->chunk), count = reply->done.generated_tokens;
        ASSERT(last == CALL_NONE || replies->records[last].number < reply->number);
        ASSERT(net_reply_find(net, reply->domain, reply->program_id, reply->done.call_id) == reply);
        ASSERT(linked == count / NET_REPLY_CHUNK + (count % NET_REPLY_CHUNK != 0));
        *chunks += linked;
        tokens += count;
        records++;
        last = at;
    }
    ASSERT(replies->of[account].last == last);
    ASSERT(replies->quota.used_by[account] == records);
    ASSERT(replies->tokens_quota.used_by[account] == tokens);
    return records;
}

void net_replies_check(const struct net *net)
{
    if (net->settings.limits->replies == 0) {
        return;
    }
    uint32_t records = 0, chunks = chunks_from(net, net->replies.chunk_free);
    quota_check(&net->replies.quota);
    quota_check(&net->replies.tokens_quota);
    for (uint32_t i = 0; i < QUOTA_ACCOUNTS_MAX; i++) {
        records += check_account(net, i, &chunks);
    }
    ASSERT(records <= net->settings.limits->replies);
    ASSERT(chunks == chunks_count(net->settings.limits));
}
