/* SPDX-License-Identifier: MIT */
/*
 * What: POST /v1/responses, and what is kept of it.
 *
 * A conversation is a list of items: messages, calls of tools, and what these said. A request goes
 * on from an earlier one by previous_response_id: its items come after those that are kept.
 */
#include <stdio.h>
#include <string.h>

#include "tools/door/endpoint.h"
#include "tools/door/api/messages.h"
#include "tools/door/api/openai.h"
#include "tools/door/parse.h"
#include "tools/door/program.h"
#include "tools/door/request.h"
#include "tools/door/api/responses.h"

/* What the dialect keeps of a request. */
struct own {
    json_t *input;                  /* all items that were sent, and those that were kept */
    json_t *echo;                   /* fields of the request that its answer repeats */
    enum piece_kind kind;           /* of the item that is open in a stream */
    bool is_open, keeps;
    int items, sequence;
    size_t from;                    /* where the item's text begins in what was said */
};

/* ---- in -------------------------------------------------------------------------------------- */

static bool read_item(struct talk *talk, const json_t *item)
{
    const char *type = json_string_value(json_object_get(item, "type"));
    const char *role = json_string_value(json_object_get(item, "role"));
    if (type != NULL && strcmp(type, "function_call") == 0) {
        return talk_call(talk, json_string_value(json_object_get(item, "call_id")),
                         json_string_value(json_object_get(item, "name")),
                         json_object_get(item, "arguments"));
    }
    if (type != NULL && strcmp(type, "function_call_output") == 0) {
        return talk_tool_said(talk, json_string_value(json_object_get(item, "call_id")),
                              json_object_get(item, "output"));
    }
    if (type != NULL && strcmp(type, "reasoning") == 0) {
        return true;                            /* thoughts are not said again */
    }
    if ((type != NULL && strcmp(type, "message") != 0) || role == NULL) {
        return talk_refuse(talk, "input", "an item of 'input' is a message, a function_call, a "
                           "function_call_output or a reasoning");
    }
    bool is_system = strcmp(role, "developer") == 0 || strcmp(role, "system") == 0;
    if (!is_system && strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0) {
        return talk_refuse(talk, "input",
                           "the role of a message is system, developer, user or assistant");
    }
    return talk_say(talk, is_system ? "system" : role, json_object_get(item, "content"), "input");
}

static bool read_tools(struct talk *talk, const json_t *tools)
{
    const json_t *tool;
    size_t index;
    if (!talk_may_list(talk, tools, "tools")) {
        return false;
    }
    json_array_foreach((json_t *)(uintptr_t)tools, index, tool) {
        const char *type = json_string_value(json_object_get(tool, "type"));
        char text[160];
        talk_at(talk, "tools", index);
        if (type == NULL || strcmp(type, "function") != 0) {
            snprintf(text, sizeof text, "a tool of type '%.40s' is not supported by this server",
                     type != NULL ? type : "none");
            return talk_refuse(talk, "tools", text);
        }
        if (!talk_tool(talk, json_string_value(json_object_get(tool, "name")),
                       json_string_value(json_object_get(tool, "description")),
                       json_object_get(tool, "parameters"))) {
            return false;
        }
    }
    talk_at(talk, NULL, 0);
    return true;
}

/* All items of the conversation: kept ones, then this request's. False after a refusal. */
static bool read_input(const struct fields *fields, struct own *own)
{
    struct request *request = fields->request;
    const json_t *input = json_object_get(fields->body, "input");
    const char *previous = NULL;
    if (!field_text(fields, "previous_response_id", &previous)) {
        return false;
    }
    const struct response *kept =
        previous != NULL ? responses_find(request->door, request->domain, previous) : NULL;
    if (previous != NULL && kept == NULL) {
        return request_refuse(request, 404, "previous_response_id",
                              "there is no response of this id, or it is not kept any more");
    }
    own->input = kept != NULL ? json_copy(kept->input) : json_array();
    if (json_is_string(input)) {
        json_array_append_new(own->input, json_pack("{sssO}", "role", "user", "content", input));
    } else if (json_is_array(input)) {
        json_array_extend(own->input, (json_t *)(uintptr_t)input);
    } else {
        return request_refuse(request, 400, "input", "'input' must be a text or a list of items");
    }
    if (kept != NULL) {
        memcpy(request->origin, kept->program, AGX_ID_BYTES);
    }
    return true;
}

static bool read_talk(const struct fields *fields, struct wish *wish, struct prompt_source *source)
{
    struct own *own = fields->request->own;
    const char *instructions = NULL;
    const json_t *item;
    struct talk talk;
    size_t index;
    bool is_valid = talk_begin(&talk, fields->request) &&
                    openai_read_tool_choice(fields, &talk) &&
                    field_text(fields, "instructions", &instructions);
    if (is_valid && instructions != NULL) {
        is_valid = talk_say_text(&talk, "system", instructions, strlen(instructions));
    }
    size_t kept = json_array_size(own->input) -
                  json_array_size(json_object_get(fields->body, "input"));
    json_array_foreach(own->input, index, item) {
        talk_at(&talk, index >= kept ? "input" : NULL, index - kept);
        is_valid = is_valid && read_item(&talk, item);
    }
    talk_at(&talk, NULL, 0);
    is_valid = is_valid &&
               (talk.calls == TALK_CALLS_NONE ||
                read_tools(&talk, json_object_get(fields->body, "tools"))) &&
               talk_prompt(&talk, wish, source);
    talk_end(&talk);
    return is_valid;
}

static bool begin_own(const struct fields *fields)
{
    static const char *const repeated[] = {
        "instructions", "max_output_tokens", "previous_response_id", "temperature", "top_p",
        "tool_choice", "metadata", "reasoning", "truncation", NULL};
    struct request *request = fields->request;
    struct own *own = memory_take(sizeof *own);
    if (own == NULL) {
        return request_refuse_memory(request);
    }
    const json_t *store = json_object_get(fields->body, "store");
    const json_t *tools = json_object_get(fields->body, "tools");
    *own = (struct own){.echo = json_object(), .keeps = !json_is_false(store)};
    request->own = own;
    for (uint32_t i = 0; repeated[i] != NULL; i++) {
        json_t *value = json_object_get(fields->body, repeated[i]);
        json_object_set_new(own->echo, repeated[i],
                            value != NULL ? json_incref(value) : json_null());
    }
    json_object_set_new(own->echo, "tools",
                        tools != NULL ? json_incref((json_t *)(uintptr_t)tools) : json_array());
    json_object_set_new(own->echo, "parallel_tool_calls", json_true());
    if (json_is_null(json_object_get(own->echo, "tool_choice"))) {
        json_object_set_new(own->echo, "tool_choice", json_string("auto"));
    }
    return true;
}

static bool read(struct request *request, const json_t *body)
{
    static const char *const refused[] = {"background", "conversation", "prompt", "top_logprobs",
                                          NULL};
    const struct fields fields = {request, body};
    struct prompt_source source = {0};
    struct wish wish;
    const char *name = NULL;
    uint64_t max_tokens = 0;
    uint8_t origin[AGX_ID_BYTES];
    const json_t *format = json_object_get(json_object_get(body, "text"), "format");
    bool is_valid = openai_read(request, &fields, &wish) && fields_refuse(&fields, refused) &&
                    field_format(&fields, format, "text.format") &&
                    field_count(&fields, "max_output_tokens", 1, INT32_MAX, &max_tokens) &&
                    field_text(&fields, "prompt_cache_key", &name) && begin_own(&fields) &&
                    read_input(&fields, request->own);
    bool goes_on = is_valid && json_object_get(body, "previous_response_id") != NULL &&
                   !json_is_null(json_object_get(body, "previous_response_id"));
    memcpy(origin, request->origin, sizeof origin);
    is_valid = is_valid && read_talk(&fields, &wish, &source);
    if (goes_on) {
        request->has_origin = true;
        memcpy(request->origin, origin, sizeof origin);
    }
    wish.prompt_name = "input";
    wish.max_name = "max_output_tokens";
    is_valid = is_valid && program_find(request, name) &&
               choices_make(&wish, request, &source, max_tokens);
    prompt_source_free(&source);
    return is_valid;
}

/* ---- out: items ------------------------------------------------------------------------------ */

static json_t *name_item(const struct request *request, const char *kind, int index)
{
    char id[DOOR_ID_BYTES + 32];
    snprintf(id, sizeof id, "%s_%s%02d", kind, request->id, index);
    return json_string(id);
}

static json_t *text_part(json_t *text)
{
    return json_pack("{sssos[]s[]}", "type", "output_text", "text", text, "annotations",
                     "logprobs");
}

static json_t *message_item(const struct request *request, int index, const char *status,
                            json_t *text)
{
    json_t *content = text != NULL ? json_pack("[o]", text_part(text)) : json_array();
    return json_pack("{sossssssso}", "id", name_item(request, "msg", index), "type", "message",
                     "role", "assistant", "status", status, "content", content);
}

static json_t *thought_item(const struct request *request, int index, json_t *text)
{
    json_t *content = text != NULL ? json_pack("[{ssso}]", "type", "reasoning_text", "text", text)
                                   : json_array();
    return json_pack("{sosss[]so}", "id", name_item(request, "rs", index), "type", "reasoning",
                     "summary", "content", content);
}

static json_t *call_item(const struct request *request, int index, const struct tool_call *call,
                         const char *status)
{
    return json_pack("{sosssssossso}", "id", name_item(request, "fc", index), "type",
                     "function_call", "status", status, "name", json_of(&call->name), "call_id",
                     call->id, "arguments", json_of(&call->arguments));
}

static json_t *output_of(const struct request *request)
{
    const struct choice *choice = request->choices[0];
    json_t *output = json_array();
    int index = 0;
    if (choice->reasoning.count > 0) {
        json_array_append_new(output, thought_item(request, index++, json_of(&choice->reasoning)));
    }
    if (choice->content.count > 0 || choice->tool_calls_count == 0) {
        json_array_append_new(output, message_item(request, index++, "completed",
                                                   json_of(&choice->content)));
    }
    for (uint32_t i = 0; i < choice->tool_calls_count; i++) {
        json_array_append_new(output, call_item(request, index++, &choice->tool_calls[i],
                                                "completed"));
    }
    return output;
}

static json_t *usage_of(const struct choice *choice)
{
    return json_pack("{sIs{sIsi}sIs{si}sI}", "input_tokens", (json_int_t)choice->prompt_tokens,
                     "input_tokens_details", "cached_tokens", (json_int_t)choice->cached_tokens,
                     "cache_write_tokens", 0, "output_tokens", (json_int_t)choice->generated_tokens,
                     "output_tokens_details", "reasoning_tokens", 0, "total_tokens",
                     (json_int_t)choice->prompt_tokens + choice->generated_tokens);
}

/* The response; `output` is given away. */
static json_t *whole(const struct request *request, const char *status, json_t *output)
{
    const struct own *own = request->own;
    const struct choice *choice = request->choices[0];
    bool has_ended = strcmp(status, "in_progress") != 0;
    char id[DOOR_ID_BYTES + 16];
    snprintf(id, sizeof id, "resp_%s", request->id);
    json_t *response = json_pack("{sssssIsssnsssoso}", "id", id, "object", "response",
                                 "created_at", (json_int_t)request->created_s, "status", status,
                                 "error", "model", request->model, "output", output, "usage",
                                 has_ended ? usage_of(choice) : json_null());
    json_object_set_new(response, "incomplete_details",
                        strcmp(status, "incomplete") == 0
                            ? json_pack("{ss}", "reason", "max_output_tokens") : json_null());
    json_object_update(response, own->echo);
    return response;
}

static const char *status_of(const struct choice *choice)
{
    bool is_short = choice->finish == AGX_FINISH_LENGTH || choice->finish == AGX_FINISH_DEADLINE;
    return choice->finish == AGX_FINISH_FAILED ? "failed" : is_short ? "incomplete" : "completed";
}

/* The answer, which is kept as well. */
static json_t *conclude(struct request *request)
{
    struct own *own = request->own;
    json_t *output = output_of(request);
    json_t *response = whole(request, status_of(request->choices[0]), json_incref(output));
    if (own->keeps) {
        json_array_extend(own->input, output);
        responses_keep(request, json_incref(own->input), json_incref(response));
    }
    json_decref(output);
    return response;
}

static json_t *answer(struct request *request)
{
    return conclude(request);
}

/* ---- out: a stream --------------------------------------------------------------------------- */

static void send(struct request *request, const char *type, json_t *event)
{
    struct own *own = request->own;
    json_object_set_new(event, "type", json_string(type));
    json_object_set_new(event, "sequence_number", json_integer(own->sequence++));
    request_send(request, type, event);
}

static void begin(struct request *request)
{
    send(request, "response.created",
         json_pack("{so}", "response", whole(request, "in_progress", json_array())));
    send(request, "response.in_progress",
         json_pack("{so}", "response", whole(request, "in_progress", json_array())));
}

/* The item that is open, as far as it was said; with `is_whole` it ends. */
static json_t *open_item(const struct request *request, const struct choice *choice, bool is_whole)
{
    const struct own *own = request->own;
    const char *status = is_whole ? "completed" : "in_progress";
    int index = own->items - 1;
    if (own->kind == PIECE_CONTENT) {
        return message_item(request, index, status, is_whole
                            ? json_stringn(choice->content.at + own->from,
                                           choice->content.count - own->from) : NULL);
    }
    if (own->kind == PIECE_REASONING) {
        return thought_item(request, index, is_whole ? json_of(&choice->reasoning) : NULL);
    }
    return call_item(request, index, &choice->tool_calls[choice->tool_calls_count - 1], status);
}

static void send_of_item(struct request *request, const char *type, const char *id_kind,
                         const char *name, json_t *value)
{
    const struct own *own = request->own;
    bool is_call = own->kind == PIECE_CALL_BEGIN;
    json_t *event = json_pack("{sosiso}", "item_id", name_item(request, id_kind, own->items - 1),
                              "output_index", own->items - 1, name, value);
    if (!is_call) {
        json_object_set_new(event, "content_index", json_integer(0));
    }
    if (own->kind == PIECE_CONTENT && strcmp(name, "part") != 0) {
        json_object_set_new(event, "logprobs", json_array());
    }
    send(request, type, event);
}

static void close_item(struct request *request, const struct choice *choice)
{
    struct own *own = request->own;
    if (!own->is_open) {
        return;
    }
    if (own->kind == PIECE_CONTENT) {
        const char *at = choice->content.at + own->from;
        size_t count = choice->content.count - own->from;
        send_of_item(request, "response.output_text.done", "msg", "text", json_stringn(at, count));
        send_of_item(request, "response.content_part.done", "msg", "part",
                     text_part(json_stringn(at, count)));
    } else if (own->kind == PIECE_REASONING) {
        send_of_item(request, "response.reasoning_text.done", "rs", "text",
                     json_of(&choice->reasoning));
    } else {
        send_of_item(request, "response.function_call_arguments.done", "fc", "arguments",
                     json_of(&choice->tool_calls[choice->tool_calls_count - 1].arguments));
    }
    send(request, "response.output_item.done",
         json_pack("{siso}", "output_index", own->items - 1, "item",
                   open_item(request, choice, true)));
    own->is_open = false;
}

static void begin_item(struct request *request, const struct choice *choice,
                       const struct piece *piece)
{
    struct own *own = request->own;
    close_item(request, choice);
    own->kind = piece->kind;
    own->is_open = true;
    own->items++;
    own->from = piece->kind == PIECE_CONTENT ? choice->content.count - piece->bytes : 0;
    send(request, "response.output_item.added",
         json_pack("{siso}", "output_index", own->items - 1, "item",
                   open_item(request, choice, false)));
    if (own->kind == PIECE_CONTENT) {
        send_of_item(request, "response.content_part.added", "msg", "part",
                     text_part(json_string("")));
    }
}

static void say(struct request *request, struct choice *choice, const struct piece *piece)
{
    struct own *own = request->own;
    bool is_text = piece->kind == PIECE_CONTENT || piece->kind == PIECE_REASONING;
    if (piece->kind == PIECE_CALL_BEGIN || (is_text && (!own->is_open ||
                                                        own->kind != piece->kind))) {
        begin_item(request, choice, piece);
    }
    if (piece->kind == PIECE_CALL_END) {
        close_item(request, choice);
    } else if (piece->kind != PIECE_CALL_BEGIN) {
        bool is_said = piece->kind == PIECE_CONTENT, is_thought = piece->kind == PIECE_REASONING;
        send_of_item(request,
                     is_said      ? "response.output_text.delta"
                     : is_thought ? "response.reasoning_text.delta"
                                  : "response.function_call_arguments.delta",
                     is_said ? "msg" : is_thought ? "rs" : "fc", "delta",
                     json_stringn(piece->text, piece->bytes));
    }
}

static void end(struct request *request, struct choice *choice)
{
    close_item(request, choice);
}

static void finish(struct request *request)
{
    if (request->refusal.status != 0) {
        send(request, "error", json_pack("{sssssn}", "code", request->refusal.type, "message",
                                         request->refusal.text, "param"));
        return;
    }
    bool is_short = strcmp(status_of(request->choices[0]), "incomplete") == 0;
    send(request, is_short ? "response.incomplete" : "response.completed",
         json_pack("{so}", "response", conclude(request)));
}

static void drop(struct request *request)
{
    struct own *own = request->own;
    json_decref(own->input);
    json_decref(own->echo);
}

const struct dialect openai_response = {
    .read = read, .answer = answer, .begin = begin, .say = say, .end = end, .finish = finish,
    .refuse = openai_refuse, .drop = drop};

/* ---- what is kept ---------------------------------------------------------------------------- */

static struct response *find_kept(struct request *request)
{
    struct response *kept = responses_find(request->door, request->domain, request->rest);
    if (kept == NULL) {
        (void)request_refuse(request, 404, NULL, "there is no response of this id, or it is not "
                             "kept any more");
    }
    return kept;
}

void response_get(struct request *request, const json_t *body)
{
    const struct response *kept = find_kept(request);
    (void)body;
    if (kept != NULL) {
        request_answer(request, json_incref(kept->answer));
    }
}

void response_delete(struct request *request, const json_t *body)
{
    struct response *kept = find_kept(request);
    (void)body;
    if (kept != NULL) {
        responses_forget(kept);
        request_answer(request, json_pack("{sssssb}", "id", request->rest, "object", "response",
                                          "deleted", 1));
    }
}
