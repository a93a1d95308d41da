/* SPDX-License-Identifier: MIT */
/*
 * What: the rendering of a conversation: what holds for every format, and the output.
 *
 * Invariants: parts alternate, the template's first; their lengths add up to text_bytes. Once
 * something did not fit, nothing more is written.
 */
#include "config/chat/render.h"

#include "config/chat/form.h"

#include "config/base/assert.h"

const char *chat_result_text(enum chat_result result)
{
    static const char *const texts[] = {
        [CHAT_OK] = "ok",
        [CHAT_ERROR_SPACE] = "the conversation is too long",
        [CHAT_ERROR_EMPTY] = "the conversation has no message",
        [CHAT_ERROR_ANSWERED] = "the last message is the assistant's, and no answer follows",
        [CHAT_ERROR_ALTERNATION] = "in this format user and assistant must take turns",
        [CHAT_ERROR_SYSTEM] = "this format has no place for that system message",
        [CHAT_ERROR_TOOLS] = "this format has no tools",
        [CHAT_ERROR_CALLS] = "in this format a message calls one tool at most",
        [CHAT_ERROR_CALL_ID] = "in this format the id of a call has nine characters",
        [CHAT_ERROR_ARGUMENTS] = "in this format a call has one argument",
        [CHAT_ERROR_THOUGHT] = "in this format an answer begins with a thought, not with a call",
    };
    size_t index = (size_t)result;
    return index < sizeof texts / sizeof texts[0] ? texts[index] : "unknown result";
}

/* ---- output ---------------------------------------------------------------------------------- */

/* Appends to a part of the kind: parts of even index are the template's. */
static void append(struct chat_work *work, const char *bytes, uint32_t count, bool by_template)
{
    struct chat_output *output = work->output;
    while (work->fits && (output->parts_count == 0 || output->parts_count % 2 != by_template)) {
        work->fits = output->parts_count < output->parts_max;
        if (work->fits) {
            output->parts[output->parts_count++] = 0;
        }
    }
    work->fits = work->fits && count <= output->text_max - output->text_bytes;
    if (!work->fits || count == 0) {
        return;
    }
    memcpy(output->text + output->text_bytes, bytes, count);
    output->text_bytes += count;
    output->parts[output->parts_count - 1] += count;
}

void chat_say(struct chat_work *work, const char *text)
{
    for (const char *at = text; *at != '\0';) {
        size_t count = strcspn(at, CHAT_BOS CHAT_EOS);
        append(work, at, (uint32_t)count, true);
        at += count;
        if (*at != '\0') {
            const char *token = *at == CHAT_BOS[0] ? work->format->bos : work->format->eos;
            append(work, token, (uint32_t)strlen(token), true);
            at++;
        }
    }
}

void chat_put(struct chat_work *work, struct chat_text text)
{
    if (text.count > 0) {
        append(work, text.bytes, text.count, false);
    }
}

/* ---- conversations --------------------------------------------------------------------------- */

static enum chat_result admit(const struct chat_format *format, const struct chat *chat)
{
    bool has_tools = chat_format_has_tools(format->id);
    if (chat->messages_count == 0) {
        return CHAT_ERROR_EMPTY;
    }
    /* The template of Tulu ends such a conversation in another way than all others do. */
    if (chat->messages[chat->messages_count - 1].role == CHAT_ASSISTANT &&
        format->id == CHAT_TULU) {
        return CHAT_ERROR_ANSWERED;
    }
    for (uint32_t i = 0; i < chat->messages_count; i++) {
        const struct chat_message *message = &chat->messages[i];
        if (!has_tools && (message->role == CHAT_TOOL || chat_message_calls(message))) {
            return CHAT_ERROR_TOOLS;
        }
    }
    return !has_tools && chat->tools_count > 0 ? CHAT_ERROR_TOOLS : CHAT_OK;
}

static enum chat_result render(struct chat_work *work)
{
    switch (work->format->id) {
#define FORMAT(id, name, render, traits, help) \
    case CHAT_##id:                            \
        return chat_render_##render(work);
#include "config/chat/formats.def"
    case CHAT_FORMATS:
        break;
    }
    ASSERT(false);
    return CHAT_ERROR_EMPTY;
}

/* The name is the conversation's, as it is in the calls of earlier messages. */
static enum chat_result begin_call(struct chat_work *work)
{
    const struct chat_form *form = chat_form_of(work->format->id);
    uint32_t prompt_bytes = work->output->text_bytes;
    ASSERT(form->begin != NULL && work->chat->tools_count > 0);
    if (chat_begins_in_thought(work->format, work->chat)) {
        return CHAT_ERROR_THOUGHT;
    }
    chat_say(work, form->begin);
    if (work->chat->called.count > 0) {
        chat_say(work, form->before_name);
        chat_put(work, work->chat->called);
        chat_say(work, form->after_name);
    }
    work->output->answer_bytes = work->output->text_bytes - prompt_bytes;
    return CHAT_OK;
}

enum chat_result chat_render(const struct chat_format *format, const struct chat *chat,
                             struct chat_output *output)
{
    struct chat asked = *chat;
    struct chat_work work = {.format = format, .chat = &asked, .output = output, .fits = true};
    ASSERT(format->id < CHAT_FORMATS);
    output->text_bytes = output->answer_bytes = output->parts_count = 0;
    asked.no_thinking = chat->no_thinking || chat->begins_call;
    enum chat_result result = admit(format, chat);
    if (result == CHAT_OK) {
        result = render(&work);
    }
    if (result == CHAT_OK && chat->begins_call) {
        result = begin_call(&work);
    }
    return result == CHAT_OK && !work.fits ? CHAT_ERROR_SPACE : result;
}

struct chat_turns chat_turns_of(const struct chat *chat)
{
    bool has_system = chat->messages[0].role == CHAT_SYSTEM;
    return (struct chat_turns){.system = has_system ? &chat->messages[0] : NULL,
                               .messages = chat->messages + has_system,
                               .count = chat->messages_count - has_system};
}
