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
 * Death: records and tokens lie in memory that the core's successor takes up. It takes a record
 * whose check word and digest of tokens agree, so one that was half written, or half forgotten, is
 * as if it had not been; all that links records is made anew. The newest records are taken up
 * first, so that the oldest are dropped where accounts may have less than they had.
 * File: the same memory may lie in a file, which a core of another boot takes up in the same way
 * (appliance/keeper/replies/). Pages that change are marked after that. Numbers of trust domains
 * are those of one boot; a record has the domain's name, too, and without a domain of that name it
 * is dropped. Numbers of statuses are those of one version; a record has the code on the wire.
 *
 * Bounds: one copy of the tokens. A record leaves once, so keeping one is O(accounts) amortised. A
 * chain is as short as those of open calls.
 * Why not a ring: its oldest record is of any account.
 * Why not failed calls: they have no answer to repeat, and the client may try again.
 */
#include "net/kept/replies.h"

#include <string.h>

#include "net/auth/owner.h"
#include "net/kept/places.h"
#include "net/open_calls.h"

STATIC_ASSERT(offsetof(struct net_reply, check) % 8 == 0, "no padding in what is digested");

uint64_t net_reply_request(const uint8_t *payload, uint32_t payload_bytes)
{
    return fnv_add(FNV_START, payload, payload_bytes);
}

static uint32_t *tokens_of(const struct net *net, uint32_t chunk)
{
    return net->replies.tokens + (uint64_t)chunk * NET_REPLY_CHUNK;
}

/* ---- what a file may have -------------------------------------------------------------------- */

/* Once it has changed. */
static void mark(struct net *net, const void *changed, uint64_t bytes)
{
    pages_change(&net->replies.pages, changed, bytes);
}

static void mark_tokens(struct net *net, uint32_t first)
{
    const struct net_replies *replies = &net->replies;
    for (uint32_t at = first; at != CALL_NONE; at = replies->chunk_next[at]) {
        mark(net, tokens_of(net, at), NET_REPLY_CHUNK * sizeof(uint32_t));
        mark(net, &replies->chunk_next[at], sizeof(uint32_t));
    }
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

struct wire_done net_reply_done(const struct net_reply *reply)
{
    struct wire_done done = reply->done;
    done.status = status_from_wire((uint16_t)reply->status_code);
    return done;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

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

/* The record after `previous` in the account's list; CALL_NONE stands for before the first. */
static void forget_after(struct net *net, uint32_t account, uint32_t previous)
{
    struct net_replies *replies = &net->replies;
    uint32_t *link = previous != CALL_NONE ? &replies->records[previous].next
                                           : &replies->of[account].first;
    uint32_t place = *link;
    struct net_reply *reply = &replies->records[place];
    ASSERT(reply->number != 0 && quota_account(reply->domain) == account);
    unchain(net, place);
    free_tokens(net, reply->chunk);
    quota_give(&replies->quota, account, 1);
    quota_give(&replies->tokens_quota, account, reply->done.generated_tokens);
    *link = reply->next;
    if (reply->next == CALL_NONE) {
        replies->of[account].last = previous;
    }
    *reply = (struct net_reply){.next = replies->free};
    replies->free = place;
    mark(net, reply, sizeof *reply);
}

/* Walks the account's list: only parts go before their time, each once. */
void net_reply_forget(struct net *net, const struct net_reply *reply)
{
    const struct net_replies *replies = &net->replies;
    uint32_t account = quota_account(reply->domain), previous = CALL_NONE;
    uint32_t place = (uint32_t)(reply - replies->records);
    for (uint32_t at = replies->of[account].first; at != place; at = replies->records[at].next) {
        ASSERT(at != CALL_NONE);
        previous = at;
    }
    forget_after(net, account, previous);
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
        forget_after(net, victim, CALL_NONE);
    }
    return true;
}

static uint64_t check_of(const struct net_reply *reply)
{
    return fnv_add_words(FNV_START, reply, offsetof(struct net_reply, check));
}

/* Into the lists; the record is whole. Of its account it is the newest, or the oldest. */
static void enter(struct net *net, uint32_t place, bool is_newest)
{
    struct net_replies *replies = &net->replies;
    struct net_reply *reply = &replies->records[place];
    uint32_t account = quota_account(reply->domain);
    uint32_t *first = &replies->of[account].first, *last = &replies->of[account].last;
    uint32_t *head = head_of(net, reply->domain, reply->program_id, reply->done.call_id);
    reply->next = is_newest ? CALL_NONE : *first;
    if (*last == CALL_NONE) {
        *first = *last = place;
    } else if (is_newest) {
        replies->records[*last].next = place;
        *last = place;
    } else {
        *first = place;
    }
    reply->chain_next = *head;
    *head = place;
    quota_take(&replies->quota, account, 1);
    quota_take(&replies->tokens_quota, account, reply->done.generated_tokens);
}

/* `done` says how many tokens there are. */
static uint64_t keep(struct net *net, const struct net_reply_part *part,
                     const struct wire_done *done)
{
    struct net_replies *replies = &net->replies;
    ASSERT(net_reply_find(net, part->domain, part->program_id, part->call_id) == NULL);
    if (!make_room(net, quota_account(part->domain), done->generated_tokens)) {
        return 0;
    }
    uint32_t place = replies->free;
    ASSERT(place != CALL_NONE);
    struct net_reply *reply = &replies->records[place];
    replies->free = reply->next;
    *reply = (struct net_reply){
        .owner = net_owner_of(net, part->domain), .domain = part->domain,
        .request = part->request, .done = *done,
        .chunk = write_tokens(net, part->tokens, done->generated_tokens),
        .status_code = status_wire(done->status), .number = ++replies->kept};
    reply->done.status = STATUS_OK;
    memcpy(reply->program_id, part->program_id, sizeof reply->program_id);
    reply->check = check_of(reply);
    enter(net, place, true);
    mark_tokens(net, reply->chunk);
    mark(net, reply, sizeof *reply);
    pages_number(&replies->pages, reply->number);
    return reply->number;
}

uint64_t net_reply_keep(struct net *net, const struct call *call, const struct wire_done *done)
{
    if (net->settings.limits->replies == 0 || done->finish == CALL_FINISH_FAILED) {
        return 0;
    }
    struct net_reply_part whole = {.domain = call->domain, .call_id = done->call_id,
                                   .request = call->emit.request,
                                   .tokens = call->tokens + call->prompt_tokens};
    memcpy(whole.program_id, call->program_id, sizeof whole.program_id);
    return keep(net, &whole, done);
}

void net_reply_keep_part(struct net *net, const struct net_reply_part *part)
{
    if (net->settings.limits->replies == 0) {
        return;
    }
    const struct wire_done done = {
        .call_id = part->call_id, .prompt_tokens = part->prompt_tokens,
        .generated_tokens = part->tokens_count,
        .digest = wire_digest(WIRE_DIGEST_START, part->tokens, part->tokens_count)};
    (void)keep(net, part, &done);
}

/* ---- taking up what a core has left ---------------------------------------------------------- */

static uint32_t chunks_of(uint32_t tokens)
{
    return tokens / NET_REPLY_CHUNK + (tokens % NET_REPLY_CHUNK != 0);
}

/* True when so many chunks that no other record has hold the tokens that it ended with. */
static bool has_its_tokens(const struct net *net, const struct net_reply *reply)
{
    const struct net_replies *replies = &net->replies;
    uint32_t chunks = net_reply_chunks(net->settings.limits), rest = reply->done.generated_tokens;
    uint64_t digest = WIRE_DIGEST_START;
    uint32_t at = reply->chunk;
    for (uint32_t i = chunks_of(rest); i > 0; i--) {
        if (at >= chunks || replies->chunk_is_used[at]) {
            return false;
        }
        digest = wire_digest(digest, tokens_of(net, at), part_of_chunk(rest));
        rest -= part_of_chunk(rest);
        at = replies->chunk_next[at];
    }
    return at == CALL_NONE && digest == reply->done.digest;
}

static bool is_whole(const struct net *net, const struct net_reply *reply)
{
    const struct net_replies *replies = &net->replies;
    uint32_t account = quota_account(reply->domain), tokens = reply->done.generated_tokens;
    return reply->number != 0 && reply->check == check_of(reply) &&
           tokens <= net->settings.limits->context_tokens && has_its_tokens(net, reply) &&
           quota_room(&replies->quota, account) > 0 &&
           quota_room(&replies->tokens_quota, account) >= tokens &&
           net_reply_find(net, reply->domain, reply->program_id, reply->done.call_id) == NULL;
}

/* Two lists that descend by number, as one. */
static uint32_t merge(struct net_reply *records, uint32_t a, uint32_t b)
{
    uint32_t merged = CALL_NONE, *link = &merged;
    while (a != CALL_NONE && b != CALL_NONE) {
        uint32_t *newest = records[a].number > records[b].number ? &a : &b;
        *link = *newest;
        link = &records[*newest].next;
        *newest = *link;
    }
    *link = a != CALL_NONE ? a : b;
    return merged;
}

/* All records in a list that descends by number. lists[i] has none, or 2^i of them. */
static uint32_t sort(struct net_reply *records, uint32_t count)
{
    uint32_t lists[32], all = CALL_NONE;
    memset(lists, 0xff, sizeof lists);
    for (uint32_t at = 0; at < count; at++) {
        uint32_t i = 0, list = at;
        records[at].next = CALL_NONE;
        for (; lists[i] != CALL_NONE; i++) {
            list = merge(records, lists[i], list);
            lists[i] = CALL_NONE;
        }
        lists[i] = list;
    }
    for (uint32_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        all = merge(records, all, lists[i]);
    }
    return all;
}

static void take_up_records(struct net *net)
{
    struct net_replies *replies = &net->replies;
    uint32_t next = CALL_NONE;
    for (uint32_t at = sort(replies->records, net->settings.limits->replies); at != CALL_NONE;
         at = next) {
        struct net_reply *reply = &replies->records[at];
        next = reply->next;
        if (!net_owner_find(net, &reply->owner, &reply->domain) || !is_whole(net, reply)) {
            *reply = (struct net_reply){.next = replies->free};
            replies->free = at;
            continue;
        }
        for (uint32_t of = reply->chunk; of != CALL_NONE; of = replies->chunk_next[of]) {
            replies->chunk_is_used[of] = true;
        }
        replies->kept = reply->number > replies->kept ? reply->number : replies->kept;
        enter(net, at, false);
    }
}

void net_replies_init(struct net *net, struct arena *arena)
{
    const struct limits *limits = net->settings.limits;
    struct net_replies *replies = &net->replies;
    uint32_t heads = net_reply_heads(limits), chunks = net_reply_chunks(limits);
    const struct net_reply_places places = net_reply_places(limits);
    const struct pages pages = replies->pages;
    ASSERT(limits->replies == 0 || limits->reply_tokens >= limits->context_tokens);
    *replies = (struct net_replies){
        .heads_count = heads, .free = CALL_NONE, .chunk_free = CALL_NONE,
        .pages = pages, .records = (struct net_reply *)pages.base,
        .tokens = (uint32_t *)(pages.base + places.tokens),
        .chunk_next = (uint32_t *)(pages.base + places.links)};
    replies->heads = arena_take(arena, heads, sizeof(uint32_t));
    replies->chunk_is_used = arena_take(arena, chunks, sizeof(bool));
    for (uint32_t i = 0; i < heads; i++) {
        replies->heads[i] = CALL_NONE;
    }
    for (uint32_t i = 0; i < QUOTA_ACCOUNTS_MAX; i++) {
        replies->of[i].first = replies->of[i].last = CALL_NONE;
    }
    quota_init(&replies->quota, limits->replies);
    quota_init(&replies->tokens_quota, limits->reply_tokens);
}

void net_replies_take_up(struct net *net)
{
    struct net_replies *replies = &net->replies;
    if (net->settings.limits->replies > 0) {
        take_up_records(net);
    }
    for (uint32_t i = net_reply_chunks(net->settings.limits); i-- > 0;) {
        if (!replies->chunk_is_used[i]) {
            replies->chunk_next[i] = replies->chunk_free;
            replies->chunk_free = i;
        }
    }
    /* A number counts once: what the core before has said to be there, or written, stays so. */
    const struct pages *pages = &replies->pages;
    uint64_t before = pages->numbers->changed;
    replies->kept = replies->kept > before ? replies->kept : before;
    pages_change(pages, pages->base, pages->bytes);
    pages_number(pages, replies->kept);
}

/* ---- reporting ------------------------------------------------------------------------------- */

/* Returns how many chunks are linked from there on. */
static uint32_t chunks_from(const struct net *net, uint32_t first)
{
    uint32_t count = 0, all = net_reply_chunks(net->settings.limits);
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
        ASSERT(linked == chunks_of(count));
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
    ASSERT(chunks == net_reply_chunks(net->settings.limits));
}
