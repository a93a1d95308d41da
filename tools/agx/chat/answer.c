/* SPDX-License-Identifier: MIT */
/*
 * What: the loop over the events of a call, with an eye on Ctrl-C. What the model says goes through
 * the filter for terminals; to a pipe it goes as it is.
 */
#include "tools/agx/chat/answer.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The spaces that the answer begins with are kept, but not shown. */
static uint32_t shown_from(const struct answer *answer, uint32_t first)
{
    uint32_t spaces = (uint32_t)strspn(answer->text, " \n");
    return spaces > first ? spaces : first;
}

static bool keep_text(struct answer *answer, const char *text, uint32_t count)
{
    if (answer->room - answer->bytes <= count) {
        uint32_t room = 2 * (answer->room + count) + 256;
        char *grown = realloc(answer->text, room);
        if (grown == NULL) {
            return false;
        }
        answer->text = grown;
        answer->room = room;
    }
    memcpy(answer->text + answer->bytes, text, count);
    answer->bytes += count;
    answer->text[answer->bytes] = '\0';
    return true;
}

static bool take_tokens(struct answer *answer, const struct agx_event *event)
{
    pace_add(&answer->pace, event->tokens_count, dial_now_us());
    if (!keep_text(answer, event->text, event->text_bytes)) {
        fprintf(stderr, "agx: out of memory\n");
        return false;
    }
    uint32_t first = shown_from(answer, answer->bytes - event->text_bytes);
    printable_add(&answer->out, answer->text + first, answer->bytes - first);
    fflush(stdout);
    return true;
}

/* Waits until the connection has something to do, or Ctrl-C. */
static void wait_for(const struct dial *dial, const struct line *line)
{
    struct pollfd wait[2] = {{.fd = agx_descriptor(&dial->agx), .events = POLLIN},
                             {.fd = line->signals, .events = POLLIN}};
    wait[0].events |= agx_wants_write(&dial->agx) ? POLLOUT : 0;
    poll(wait, 2, agx_wait_ms(&dial->agx));
}

/* True when the event ends the call. A refused CANCEL came too late: DONE is on its way. */
static bool is_end(const struct agx_event *event, const struct agx *agx)
{
    return event->kind == AGX_DONE ||
           (event->kind == AGX_REFUSED && strcmp(agx_fault(agx)->frame, "CANCEL") != 0);
}

enum answer_kind answer_take(struct answer *answer, struct dial *dial, const struct agx_call *call,
                             struct line *line, int *code)
{
    struct agx_event event;
    enum agx_result result = agx_call_start(&dial->agx, call);
    answer->bytes = 0;
    pace_start(&answer->pace, dial_now_us());
    while (result == AGX_OK || result == AGX_AGAIN) {
        if (line_interrupted(line)) {
            result = agx_cancel(&dial->agx, call->program_id, call->call_id);
            if (result != AGX_OK && result != AGX_AGAIN) {
                break;
            }
        }
        result = dial_next(dial, &event, 0);
        if (result == AGX_AGAIN) {
            wait_for(dial, line);
        } else if (result == AGX_OK && event.kind == AGX_TOKENS && !take_tokens(answer, &event)) {
            result = AGX_ERROR_SPACE;
        } else if (result == AGX_OK && is_end(&event, &dial->agx)) {
            answer->done = event;
            printable_end(&answer->out);
            return event.kind == AGX_DONE ? ANSWER_DONE : ANSWER_REFUSED;
        }
    }
    printable_end(&answer->out);
    *code = dial_fail(&dial->agx, result, "call");
    return ANSWER_BROKEN;
}
