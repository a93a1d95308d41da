/* SPDX-License-Identifier: MIT */
/*
 * What: which stop text has ended an answer (tools/door/stop.h).
 *
 * The last tokens of a choice are kept: a stop text has DOOR_STOP_TOKENS bytes at most, and a token
 * of it one at least. The text that is complete first is the one: had another been complete before,
 * the answer would have ended there.
 */
#include "tools/door/stop.h"

#include <string.h>

#include "config/config.h"

void stop_hear(struct choice *choice, const uint32_t *tokens, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        choice->last_tokens[choice->tokens_heard++ % DOOR_STOP_TOKENS] = tokens[i];
    }
}

static bool read_end(const struct choice *choice, struct buffer *text)
{
    const struct vocab *vocab = &choice->request->door->model.vocab;
    uint64_t heard = choice->tokens_heard;
    char piece[GGUF_TOKEN_BYTES_MAX];
    for (uint64_t at = heard > DOOR_STOP_TOKENS ? heard - DOOR_STOP_TOKENS : 0; at < heard; at++) {
        uint32_t token = choice->last_tokens[at % DOOR_STOP_TOKENS], bytes = 0;
        const char *said = choice->call.want_control ? vocab_control_text(vocab, token, &bytes)
                                                     : NULL;
        if (said == NULL) {
            bytes = vocab_decode(vocab, token, at == 0, piece, sizeof piece);
            said = piece;
        }
        if (!buffer_add(text, said, bytes)) {
            return false;
        }
    }
    return text->count > 0;
}

static uint32_t first_complete(const struct choice *choice, const struct buffer *text)
{
    uint32_t first = choice->call.stop_texts_count;
    size_t first_end = SIZE_MAX;
    for (uint32_t i = 0; i < choice->call.stop_texts_count; i++) {
        size_t bytes = strlen(choice->stops[i]);
        const char *found = memmem(text->at, text->count, choice->stops[i], bytes);
        if (found != NULL && (size_t)(found - text->at) + bytes < first_end) {
            first_end = (size_t)(found - text->at) + bytes;
            first = i;
        }
    }
    return first;
}

const char *stop_find(const struct choice *choice)
{
    struct buffer text = {0};
    const char *stop = NULL;
    if (choice->finish == AGX_FINISH_STOP_TEXT && choice->own_stops_count > 0 &&
        read_end(choice, &text)) {
        uint32_t index = first_complete(choice, &text);
        stop = index < choice->own_stops_count ? choice->stops[index] : NULL;
    }
    buffer_free(&text);
    return stop;
}
