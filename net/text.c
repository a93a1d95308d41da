/* SPDX-License-Identifier: MIT */
/*
 * What: the text of a call, from tokens to valid UTF-8.
 *
 *   token --vocab_decode--> bytes --> [ certain | held ] --> text of TOKENS frames
 *
 * Two things are held back: part of a character, whose rest the next token may bring, and bytes
 * that may turn out to be a stop string (net/stop_text.c). Bytes that cannot be a character become
 * U+FFFD, one for each maximal part. The texts of a call's frames, joined, are its text.
 *
 * What is held is said when the text is whole. A call that ends before that (CANCELLED, DEADLINE,
 * FAILED) drops it: the call may be executed again and come further, and its client keeps what it
 * has. So every text that was sent is a beginning of the whole one.
 *
 * Invariants: held_bytes <= CALL_HELD_BYTES: at most a stop string less one byte, and three bytes
 * of a character. The result does not depend on how the tokens are spread over frames.
 */
#include "net/text.h"

#include <string.h>

#include "net/stop_text.h"
#include "net/utf8.h"

STATIC_ASSERT(CALL_HELD_BYTES >= CALL_STOP_TEXT_BYTES - 1 + 3, "what can be held fits");

uint32_t net_text_bytes_max(const struct net *net, const struct call *call)
{
    return UTF8_REPLACEMENT_BYTES * (call->emit.held_bytes + net->vocab->info.token_bytes_max);
}

static void append(char *text, uint32_t *count, const char *bytes, uint32_t bytes_count)
{
    memcpy(text + *count, bytes, bytes_count);
    *count += bytes_count;
}

uint32_t net_text_characters(const char *raw, uint32_t bytes, char *text, uint32_t *count)
{
    uint32_t at = 0;
    while (at < bytes) {
        int32_t length = utf8_sequence(raw + at, bytes - at);
        if (length == 0) {
            break;
        }
        if (length > 0) {
            append(text, count, raw + at, (uint32_t)length);
            at += (uint32_t)length;
        } else {
            append(text, count, UTF8_REPLACEMENT, UTF8_REPLACEMENT_BYTES);
            at += (uint32_t)-length;
        }
    }
    return at;
}

/* Appends the part of raw[0 .. raw_bytes) that the client may see, and holds the rest. `raw` ends
 * where the call's text ends now. */
static void settle(struct call *call, const char *raw, uint32_t raw_bytes, char *text,
                   uint32_t *count)
{
    struct call_emit *emit = &call->emit;
    uint64_t kept_bytes = net_stop_text_kept_bytes(call);
    uint64_t hidden = emit->text_bytes > kept_bytes ? emit->text_bytes - kept_bytes : 0;
    uint32_t visible = hidden < raw_bytes ? raw_bytes - (uint32_t)hidden : 0;
    uint32_t used = net_text_characters(raw, visible, text, count);
    uint32_t held = raw_bytes - used;
    if (call->stop_text_hit) {
        /* Bytes after the end of the text are dropped. */
        held = visible - used;
        emit->text_bytes -= hidden < raw_bytes ? hidden : raw_bytes;
    }
    ASSERT(used <= visible && held <= CALL_HELD_BYTES);
    memmove(emit->held, raw + used, held);
    emit->held_bytes = held;
}

void net_text_add(const struct net *net, struct call *call, uint32_t token_index, char *text,
                  uint32_t *count)
{
    char raw[CALL_HELD_BYTES + NET_TOKEN_TEXT_BYTES_MAX];
    struct call_emit *emit = &call->emit;
    memcpy(raw, emit->held, emit->held_bytes);
    uint32_t piece_bytes = net_text_of_token(net, call, token_index, raw + emit->held_bytes);
    ASSERT(piece_bytes <= NET_TOKEN_TEXT_BYTES_MAX);
    emit->text_bytes += piece_bytes;
    settle(call, raw, emit->held_bytes + piece_bytes, text, count);
}

void net_text_end(struct call *call, char *text, uint32_t *count)
{
    char raw[CALL_HELD_BYTES];
    uint32_t held_bytes = call->emit.held_bytes;
    ASSERT(net_text_is_whole(call));
    memcpy(raw, call->emit.held, held_bytes);
    settle(call, raw, held_bytes, text, count);
    if (call->emit.held_bytes > 0) {
        append(text, count, UTF8_REPLACEMENT, UTF8_REPLACEMENT_BYTES);
        call->emit.held_bytes = 0;
    }
}
