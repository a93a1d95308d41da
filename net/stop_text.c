/* SPDX-License-Identifier: MIT */
/*
 * What: the search for stop strings in the text of the generated tokens. A stop string may begin
 * and end inside a token and span several.
 *
 * How: for each string an automaton of Knuth, Morris and Pratt runs over the bytes of every new
 * token, whether or not the client reads. So the call stops soon, and what may be sent is known
 * before it is sent. When the text ends with the beginning of a stop string, the longest such
 * beginning is held back.
 *
 * Result: the string that is complete first ends the call; of several at the same byte, the
 * longest. The token that completes it is the last one of the call; the text ends before the
 * string.
 *
 * Bounds: amortised O(bytes * strings); nothing for calls without stop strings.
 */
#include "net/stop_text.h"

#include "net/cancel.h"
#include "net/text.h"

void net_stop_text_prepare(struct call *call)
{
    ASSERT(call->stop_texts_count <= CALL_STOP_TEXTS_MAX);
    for (uint32_t i = 0; i < call->stop_texts_count; i++) {
        const struct call_stop_text *stop = &call->stop_texts[i];
        uint8_t *fallback = call->emit.scan.fallback[i];
        uint32_t matched = 0;
        ASSERT(stop->length_bytes > 0 && stop->length_bytes <= CALL_STOP_TEXT_BYTES);
        fallback[0] = 0;
        for (uint32_t at = 1; at < stop->length_bytes; at++) {
            while (matched > 0 && stop->bytes[at] != stop->bytes[matched]) {
                matched = fallback[matched - 1];
            }
            matched += stop->bytes[at] == stop->bytes[matched] ? 1 : 0;
            fallback[at] = (uint8_t)matched;
        }
    }
}

/* Takes one byte; true when it completes stop string `i`. */
static bool advance(struct call *call, uint32_t i, char byte)
{
    const struct call_stop_text *stop = &call->stop_texts[i];
    struct call_scan *scan = &call->emit.scan;
    uint32_t matched = scan->matched[i];
    ASSERT(matched < stop->length_bytes);
    while (matched > 0 && byte != stop->bytes[matched]) {
        matched = scan->fallback[i][matched - 1];
    }
    matched += byte == stop->bytes[matched] ? 1 : 0;
    scan->matched[i] = (uint8_t)matched;
    return matched == stop->length_bytes;
}

/* Takes one byte in all automata; true on a hit. */
static bool scan_byte(struct call *call, char byte)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i < call->stop_texts_count; i++) {
        uint32_t length = call->stop_texts[i].length_bytes;
        if (advance(call, i, byte) && length > longest) {
            longest = length;
        }
    }
    call->emit.scan.bytes++;
    call->emit.scan.stop_at = call->emit.scan.bytes - longest;
    ASSERT(longest <= call->emit.scan.bytes);
    return longest > 0;
}

static bool scan_token(const struct net *net, struct call *call, uint32_t token_index)
{
    char piece[NET_TOKEN_TEXT_BYTES_MAX];
    uint32_t count = net_text_of_token(net, call, token_index, piece);
    for (uint32_t i = 0; i < count; i++) {
        if (scan_byte(call, piece[i])) {
            return true;
        }
    }
    return false;
}

/* Number of tokens whose text ends where the stop string begins, or before. */
static uint32_t tokens_before(const struct net *net, const struct call *call)
{
    char piece[NET_TOKEN_TEXT_BYTES_MAX];
    uint64_t end = 0;
    for (uint32_t i = 0; i < call->stop_text_tokens; i++) {
        end += net_text_of_token(net, call, i, piece);
        if (end > call->emit.scan.stop_at) {
            return i;
        }
    }
    return call->stop_text_tokens;
}

void net_stop_text_scan(struct net *net, uint32_t call_index)
{
    struct call *call = &net->calls->calls[call_index];
    struct call_scan *scan = &call->emit.scan;
    if (call->stop_texts_count == 0) {
        return;
    }
    if (call->workflow != CALL_NONE && scan->tokens == 0) {
        net_stop_text_prepare(call);        /* the scheduler has filled it, not intake */
    }
    while (!call->stop_text_hit && scan->tokens < call->published_tokens) {
        if (scan_token(net, call, scan->tokens++)) {
            call->stop_text_hit = true;
            call->stop_text_tokens = scan->tokens;
            call->stop_text_before = tokens_before(net, call);
            net_cancel(net, call_index);
        }
    }
}

uint32_t net_stop_text_kept_tokens(const struct call *call)
{
    bool cut = call->stop_text_hit && call->stop_text_tokens < call->published_tokens;
    return cut ? call->stop_text_tokens : call->published_tokens;
}

uint64_t net_stop_text_kept_bytes(const struct call *call)
{
    const struct call_scan *scan = &call->emit.scan;
    uint32_t longest = 0;
    if (call->stop_text_hit) {
        return scan->stop_at;
    }
    if (call->stop_texts_count == 0 || net_text_is_whole(call)) {
        return UINT64_MAX;
    }
    for (uint32_t i = 0; i < call->stop_texts_count; i++) {
        longest = scan->matched[i] > longest ? scan->matched[i] : longest;
    }
    ASSERT(longest <= scan->bytes);
    return scan->bytes - longest;
}
