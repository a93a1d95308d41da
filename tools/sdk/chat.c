/* SPDX-License-Identifier: MIT */
/*
 * What: what the appliance says of its model. MODEL is one frame. The chat format comes in several,
 * because the model's own system message can be longer than one: each frame asks for the next, and
 * the last is the event.
 *
 * Invariant: bytes of the message come in order; chat_due is the index of the next ones while a
 * frame that asks for them is still to be queued.
 */
#include "tools/sdk/session.h"

#include <string.h>

STATIC_ASSERT(sizeof((struct agx_chat *)0)->system > WIRE_SYSTEM_BYTES_MAX, "it fits, terminated");
STATIC_ASSERT(sizeof((struct agx_chat *)0)->format >= sizeof((struct wire_chat *)0)->format,
              "a name is terminated");
STATIC_ASSERT(sizeof((struct agx_chat *)0)->bos >= sizeof((struct wire_chat *)0)->bos,
              "a name is terminated");

static void begin(struct agx_chat *chat, const struct wire_chat *got)
{
    memset(chat, 0, sizeof *chat);
    chat->template_is = (enum agx_template)got->verdict;
    chat->template_bytes = got->template_bytes;
    memcpy(chat->format, got->format, sizeof got->format);
    memcpy(chat->bos, got->bos, sizeof got->bos);
    memcpy(chat->eos, got->eos, sizeof got->eos);
}

static enum agx_result take_chat(struct agx *agx, const uint8_t *payload, struct agx_event *event)
{
    struct wire_fault fault;
    struct wire_chat got;
    if (wire_chat_decode(payload, sizeof(struct wire_bytes_chat), &got, &fault) != STATUS_OK ||
        got.first != agx->chat_first || got.first > got.system_bytes) {
        return AGX_ERROR_PROTOCOL;
    }
    if (got.first == 0) {
        begin(&agx->chat, &got);
    }
    uint32_t left = got.system_bytes - got.first;
    uint32_t count = left < sizeof got.system ? left : (uint32_t)sizeof got.system;
    memcpy(agx->chat.system + got.first, got.system, count);
    if (count < left) {
        agx->chat_first = got.first + count;
        agx->chat_due = 1;
        agx->chat_nonce = got.nonce;
        return AGX_AGAIN;
    }
    agx->chat_first = 0;
    event->kind = AGX_CHAT;
    event->nonce = got.nonce;
    return AGX_OK;
}

static enum agx_result take_model(const uint8_t *payload, struct agx_event *event)
{
    struct wire_fault fault;
    struct wire_model model;
    if (wire_model_decode(payload, sizeof(struct wire_bytes_model), &model, &fault) != STATUS_OK) {
        return AGX_ERROR_PROTOCOL;
    }
    event->kind = AGX_MODEL;
    event->nonce = model.nonce;
    event->vocab_digest = model.vocab;
    event->chat_digest = model.chat;
    return AGX_OK;
}

enum agx_result agx_session_told(struct agx *agx, const struct agx_frame *frame,
                                 struct agx_event *event)
{
    return frame->header.type == WIRE_CHAT ? take_chat(agx, frame->payload, event)
                                           : take_model(frame->payload, event);
}

enum agx_result agx_session_chat_more(struct agx *agx)
{
    if (!agx->chat_due) {
        return AGX_OK;
    }
    enum agx_result result = agx_session_chat_ask(agx, agx->chat_nonce, agx->chat_first);
    agx->chat_due = result == AGX_AGAIN;
    return result == AGX_AGAIN ? AGX_OK : result;
}
