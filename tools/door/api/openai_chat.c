/* SPDX-License-Identifier: MIT */
/* What: POST /v1/chat/completions. */
#include <stdio.h>
#include <string.h>

#include "tools/door/api/chunk.h"
#include "tools/door/endpoint.h"
#include "tools/door/api/logprobs.h"
#include "tools/door/api/messages.h"
#include "tools/door/api/openai.h"
#include "tools/door/parse.h"
#include "tools/door/program.h"
#include "tools/door/request.h"

/* ---- in -------------------------------------------------------------------------------------- */

static bool read_max_tokens(const struct fields *fields, struct wish *wish, uint64_t *max_tokens)
{
    static const char newer[] = "max_completion_tokens";
    if (json_is_integer(json_object_get(fields->body, newer))) {
        wish->max_name = newer;
    }
    return field_count(fields, "max_tokens", 1, INT32_MAX, max_tokens) &&
           field_count(fields, newer, 1, INT32_MAX, max_tokens);
}

static bool read_thinking(const struct fields *fields, struct talk *talk)
{
    const json_t *kwargs = json_object_get(fields->body, "chat_template_kwargs");
    const char *effort = json_string_value(json_object_get(fields->body, "reasoning_effort"));
    talk->no_thinking = json_is_false(json_object_get(kwargs, "enable_thinking")) ||
                        (effort != NULL && strcmp(effort, "none") == 0);
    return true;
}

static bool read_talk(const struct fields *fields, struct wish *wish, struct prompt_source *source)
{
    struct talk talk;
    bool is_valid = talk_begin(&talk, fields->request) &&
                    openai_read_tool_choice(fields, &talk) && read_thinking(fields, &talk) &&
                    talk_read_openai(&talk, json_object_get(fields->body, "messages"),
                                     talk.calls != TALK_CALLS_NONE
                                         ? json_object_get(fields->body, "tools") : NULL) &&
                    talk_prompt(&talk, wish, source);
    talk_end(&talk);
    return is_valid;
}

static bool read(struct request *request, const json_t *body)
{
    const struct fields fields = {request, body};
    struct prompt_source source = {0};
    struct wish wish;
    const char *name = NULL;
    uint64_t max_tokens = 0;
    bool is_valid = openai_read(request, &fields, &wish) && logprobs_read_chat(&wish, &fields) &&
                    read_max_tokens(&fields, &wish, &max_tokens) &&
                    field_text(&fields, "prompt_cache_key", &name) &&
                    read_talk(&fields, &wish, &source) && program_find(request, name) &&
                    choices_make(&wish, request, &source, max_tokens);
    prompt_source_free(&source);
    return is_valid;
}

/* ---- out: whole ------------------------------------------------------------------------------ */

static json_t *calls_of(const struct choice *choice)
{
    json_t *calls = json_array();
    for (uint32_t i = 0; i < choice->tool_calls_count; i++) {
        const struct tool_call *call = &choice->tool_calls[i];
        json_array_append_new(calls, json_pack("{sssss{soso}}", "id", call->id, "type", "function",
                                               "function", "name", json_of(&call->name),
                                               "arguments", json_of(&call->arguments)));
    }
    return calls;
}

static json_t *message_of(const struct choice *choice)
{
    bool is_call = choice->tool_calls_count > 0;
    json_t *content = is_call && choice->content.count == 0 ? json_null()
                                                            : json_of(&choice->content);
    json_t *message = json_pack("{ssso}", "role", "assistant", "content", content);
    if (choice->reasoning.count > 0) {
        json_object_set_new(message, "reasoning_content", json_of(&choice->reasoning));
    }
    if (is_call) {
        json_object_set_new(message, "tool_calls", calls_of(choice));
    }
    return message;
}

static json_t *frame(const struct request *request, const char *object, json_t *choices)
{
    char id[DOOR_ID_BYTES + 16];
    snprintf(id, sizeof id, "chatcmpl-%s", request->id);
    return json_pack("{sssssIssso}", "id", id, "object", object, "created",
                     (json_int_t)request->created_s, "model", request->model, "choices", choices);
}

static json_t *answer(struct request *request)
{
    json_t *choices = json_array();
    for (uint32_t i = 0; i < request->choices_count; i++) {
        struct choice *choice = request->choices[i];
        json_array_append_new(choices, json_pack("{sisososs}", "index", (int)i, "message",
                                                 message_of(choice), "logprobs",
                                                 logprobs_take_chat(choice), "finish_reason",
                                                 openai_finish(choice)));
    }
    json_t *whole = frame(request, "chat.completion", choices);
    json_object_set_new(whole, "usage", openai_usage(request));
    return whole;
}

/* ---- out: a stream --------------------------------------------------------------------------- */

/* `delta` is given away; `finish` NULL: the choice goes on. */
static json_t *chunk_of(struct request *request, uint32_t index, json_t *delta, const char *finish)
{
    json_t *reason = finish != NULL ? json_string(finish) : json_null();
    json_t *choices = json_pack("[{sisososo}]", "index", (int)index, "delta", delta, "logprobs",
                                logprobs_take_chat(request->choices[index]), "finish_reason",
                                reason);
    json_t *chunk = frame(request, "chat.completion.chunk", choices);
    if (request->wants_usage) {
        json_object_set_new(chunk, "usage", json_null());
    }
    return chunk;
}

static void send(struct request *request, uint32_t index, json_t *delta, const char *finish)
{
    request_send(request, NULL, chunk_of(request, index, delta, finish));
}

static json_t *example(struct request *request, uint32_t index)
{
    return chunk_of(request, index, json_pack("{ss}", "content", CHUNK_TEXT), NULL);
}

static void begin(struct request *request)
{
    if (chunks_make(request, example) == NULL) {
        request_send_text(request, NULL);
        return;
    }
    for (uint32_t i = 0; i < request->choices_count; i++) {
        send(request, i, json_pack("{ssss}", "role", "assistant", "content", ""), NULL);
    }
}

static json_t *call_delta(const struct choice *choice, const struct piece *piece)
{
    const struct tool_call *call = &choice->tool_calls[piece->call];
    json_t *text = json_stringn(piece->text, piece->bytes);
    return piece->kind == PIECE_CALL_BEGIN
               ? json_pack("{s[{sisssss{soss}}]}", "tool_calls", "index", (int)piece->call, "id",
                           call->id, "type", "function", "function", "name", text, "arguments", "")
               : json_pack("{s[{sis{so}}]}", "tool_calls", "index", (int)piece->call, "function",
                           "arguments", text);
}

static void say(struct request *request, struct choice *choice, const struct piece *piece)
{
    const struct chunk *chunks = request->own;
    bool is_content = piece->kind == PIECE_CONTENT;
    if (is_content && choice->logprobs == NULL) {
        chunk_send(request, &chunks[choice->index], piece);
    } else if (is_content || piece->kind == PIECE_REASONING) {
        send(request, choice->index, json_pack("{so}", is_content ? "content" : "reasoning_content",
                                               json_stringn(piece->text, piece->bytes)), NULL);
    } else if (piece->kind != PIECE_CALL_END) {
        send(request, choice->index, call_delta(choice, piece), NULL);
    }
}

static void end(struct request *request, struct choice *choice)
{
    if (choice->finish != AGX_FINISH_FAILED) {
        send(request, choice->index, json_object(), openai_finish(choice));
    }
}

static void finish(struct request *request)
{
    openai_send_refusal(request);
    if (request->wants_usage && request->refusal.status == 0) {
        json_t *chunk = frame(request, "chat.completion.chunk", json_array());
        json_object_set_new(chunk, "usage", openai_usage(request));
        request_send(request, NULL, chunk);
    }
    request_send_text(request, "data: [DONE]\n\n");
}

const struct dialect openai_chat = {
    .read = read, .answer = answer, .begin = begin, .say = say, .end = end, .finish = finish,
    .drop = chunks_drop, .refuse = openai_refuse};
