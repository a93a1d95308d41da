/* SPDX-License-Identifier: MIT */
#pragma once
/* What: generated tokens as the client's text. Only net/ includes this. */
#include <string.h>

#include "net/net.h"

/* The text of generated token `token_index` of the call; room for NET_TOKEN_TEXT_BYTES_MAX. */
static inline uint32_t net_text_of_token(const struct net *net, const struct call *call,
                                         uint32_t token_index, char *piece)
{
    ASSERT(token_index < call->published_tokens);
    ASSERT(net->vocab->info.token_bytes_max <= NET_TOKEN_TEXT_BYTES_MAX);
    /* A text that begins with BOS alone begins without the space that SentencePiece puts there. */
    bool first = token_index == 0 && call->prompt_tokens == 1 &&
                 call->tokens[0] == net->vocab->info.bos_id;
    uint32_t token = call->tokens[call->prompt_tokens + token_index], bytes = 0;
    const char *control =
        call->want_control ? vocab_control_text(net->vocab, token, &bytes) : NULL;
    if (control != NULL) {
        memcpy(piece, control, bytes);
        return bytes;
    }
    return vocab_decode(net->vocab, token, first, piece, NET_TOKEN_TEXT_BYTES_MAX);
}

/* True when the call has come to the end that its tokens give it. A call that was cancelled, met
 * its deadline or failed has not: executed again, it may come further. */
static inline bool net_text_is_whole(const struct call *call)
{
    return call->state == CALL_FINISHED &&
           (call->stop_text_hit || call->finish <= CALL_FINISH_STOP_TEXT);
}

/* Appends the complete characters at the beginning of raw[0 .. bytes), U+FFFD for what is none, to
 * `text`, which holds *count bytes; returns how many bytes they were. */
uint32_t net_text_characters(const char *raw, uint32_t bytes, char *text, uint32_t *count);
/* The most bytes that the next net_text_add(), and a net_text_end() after it, can append. */
uint32_t net_text_bytes_max(const struct net *net, const struct call *call);
/* Adds a token; appends to `text`, which holds *count bytes, what is certain now. */
void net_text_add(const struct net *net, struct call *call, uint32_t token_index, char *text,
                  uint32_t *count);
/* After the last token, when the text is whole: appends what is still held. */
void net_text_end(struct call *call, char *text, uint32_t *count);
