/* SPDX-License-Identifier: MIT */
/* What: Anthropic's API: POST /v1/messages and /v1/messages/count_tokens. */
#include <stdio.h>
#include <string.h>

#include "tools/door/endpoint.h"
#include "tools/door/api/messages.h"
#include "tools/door/parse.h"
#include "tools/door/program.h"
#include "tools/door/request.h"
#include "tools/door/stop.h"

/* {"type": "error", "error": {"type", "message"}} */
static json_t *refuse(const struct refusal *refusal)
{
    return json_pack("{sss{ssss}}", "type", "error", "error", "type", refusal->type, "message",
                     refusal->text);
}

/* ---- in -------------------------------------------------------------------------------------- */

static const char *type_of(const json_t *block)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    return type != NULL ? type : "";
}

static bool is_thought(const json_t *block)
{
    const char *type = type_of(block);
    return strcmp(type, "thinking") == 0 || strcmp(type, "redacted_thinking") == 0;
}

/* A block of a message that is no text. Text is collected, and said once for all. */
static bool read_block(struct talk *talk, const json_t *block, json_t *texts)
{
    if (strcmp(type_of(block), "tool_result") == 0) {
        return talk_tool_said(talk, json_string_value(json_object_get(block, "tool_use_id")),
                              json_object_get(block, "content"));
    }
    if (strcmp(type_of(block), "tool_use") == 0 || is_thought(block)) {
        return true;
    }
    return json_array_append(texts, (json_t *)(uintptr_t)block) == 0 ||
           request_refuse_memory(talk->request);
}

static bool read_calls(struct talk *talk, const json_t *content)
{
    const json_t *block;
    size_t index;
    json_array_foreach((json_t *)(uintptr_t)content, index, block) {
        if (strcmp(type_of(block), "tool_use") == 0 &&
            !talk_call(talk, json_string_value(json_object_get(block, "id")),
                       json_string_value(json_object_get(block, "name")),
                       json_object_get(block, "input"))) {
            return false;
        }
    }
    return true;
}

/* The results of tools come first, as the API demands; then what is said; then calls. */
static bool read_blocks(struct talk *talk, const char *role, const json_t *content)
{
    json_t *texts = json_array();
    const json_t *block;
    size_t index;
    bool is_valid = true;
    json_array_foreach((json_t *)(uintptr_t)content, index, block) {
        is_valid = is_valid && read_block(talk, block, texts);
    }
    if (is_valid && json_array_size(texts) > 0) {
        is_valid = talk_say(talk, role, texts, "messages");
    }
    json_decref(texts);
    return is_valid && (strcmp(role, "assistant") != 0 || read_calls(talk, content));
}

static bool read_message(struct talk *talk, const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    const json_t *content = json_object_get(message, "content");
    if (role == NULL || (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0)) {
        return talk_refuse(talk, "messages", "the role of a message is user or assistant");
    }
    if (content == NULL) {
        return talk_refuse(talk, "messages", "'content' is missing");
    }
    return json_is_array(content) ? read_blocks(talk, role, content)
                                  : talk_say(talk, role, content, "messages");
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
        talk_at(talk, "tools", index);
        if (type != NULL && strcmp(type, "custom") != 0) {
            return talk_refuse(talk, "tools", "only tools of the client's own are supported");
        }
        if (!talk_tool(talk, json_string_value(json_object_get(tool, "name")),
                       json_string_value(json_object_get(tool, "description")),
                       json_object_get(tool, "input_schema"))) {
            return false;
        }
    }
    talk_at(talk, NULL, 0);
    return true;
}

static bool read_tool_choice(const struct fields *fields, struct talk *talk)
{
    const json_t *choice = json_object_get(fields->body, "tool_choice");
    const char *type = type_of(choice);
    bool is_named = strcmp(type, "tool") == 0;
    if (choice == NULL || strcmp(type, "auto") == 0) {
        return true;
    }
    talk->calls = strcmp(type, "none") == 0 ? TALK_CALLS_NONE : TALK_MUST_CALL;
    talk->called = is_named ? json_string_value(json_object_get(choice, "name")) : NULL;
    if (strcmp(type, "none") == 0 || strcmp(type, "any") == 0 || talk->called != NULL) {
        return true;
    }
    return request_refuse(fields->request, 400, "tool_choice",
                          "tool_choice: must be of type auto, none, any, or tool with a name");
}

/* An answer that the client has begun, for the model to go on with, is not one that it writes. */
static bool ends_with_user(const struct fields *fields, const json_t *messages)
{
    const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    return strcmp(role, "user") == 0 ||
           request_refuse(fields->request, 400, "messages",
                          "This server does not support assistant message prefill. The "
                          "conversation must end with a user message.");
}

static bool read_talk(const struct fields *fields, struct wish *wish, struct prompt_source *source)
{
    const json_t *body = fields->body, *messages = json_object_get(body, "messages"), *message;
    const json_t *system = json_object_get(body, "system");
    struct talk talk;
    size_t index;
    bool is_valid = talk_begin(&talk, fields->request) && read_tool_choice(fields, &talk) &&
                    (system == NULL || json_is_null(system) ||
                     talk_say(&talk, "system", system, "system"));
    if (is_valid && json_array_size(messages) == 0) {
        is_valid = request_refuse(fields->request, 400, "messages",
                                  "messages: must be a list of at least one message");
    }
    json_array_foreach((json_t *)(uintptr_t)messages, index, message) {
        talk_at(&talk, "messages", index);
        is_valid = is_valid && read_message(&talk, message);
    }
    talk_at(&talk, NULL, 0);
    is_valid = is_valid && ends_with_user(fields, messages);
    talk.no_thinking = strcmp(type_of(json_object_get(body, "thinking")), "enabled") != 0;
    is_valid = is_valid &&
               (talk.calls == TALK_CALLS_NONE ||
                read_tools(&talk, json_object_get(body, "tools"))) &&
               talk_prompt(&talk, wish, source);
    talk_end(&talk);
    return is_valid;
}

static bool read_wish(struct request *request, const struct fields *fields, struct wish *wish)
{
    static const char *const refused[] = {"mcp_servers", "container", NULL};
    const json_t *config = json_object_get(fields->body, "output_config");
    const char *model = "";
    wish_begin(wish, request->door);
    if (!field_flag(fields, "stream", &request->streams) ||
        !field_text(fields, "model", &model) || !fields_refuse(fields, refused) ||
        !field_format(fields, json_object_get(config, "format"), "output_config.format") ||
        !field_format(fields, json_object_get(fields->body, "output_format"), "output_format")) {
        return false;
    }
    request_name_model(request, model[0] != '\0' ? model : request->door->model.name);
    return wish_read_sampling(wish, fields, 1) &&
           wish_read_stops(wish, fields, "stop_sequences");
}

static bool read(struct request *request, const json_t *body)
{
    const struct fields fields = {request, body};
    struct prompt_source source = {0};
    struct wish wish;
    const char *user = json_string_value(json_object_get(json_object_get(body, "metadata"),
                                                         "user_id"));
    uint64_t max_tokens = 0;
    bool is_valid = read_wish(request, &fields, &wish) &&
                    field_count(&fields, "max_tokens", 1, INT32_MAX, &max_tokens) &&
                    (max_tokens > 0 || request_refuse(request, 400, "max_tokens",
                                                      "max_tokens: Field required")) &&
                    read_talk(&fields, &wish, &source) && program_find(request, user) &&
                    choices_make(&wish, request, &source, max_tokens);
    prompt_source_free(&source);
    return is_valid;
}

void anthropic_count_tokens(struct request *request, const json_t *body)
{
    const struct fields fields = {request, body};
    struct prompt_source source = {0};
    struct wish wish;
    const uint32_t *ids;
    uint32_t count = 0;
    wish_begin(&wish, request->door);
    if (read_talk(&fields, &wish, &source)) {
        (void)prompt_source_encode(&request->door->model, &source, &ids, &count);
        request_answer(request, json_pack("{sI}", "input_tokens", (json_int_t)count));
    }
    prompt_source_free(&source);
}

/* ---- out: whole ------------------------------------------------------------------------------ */

static json_t *stop_reason(const struct choice *choice)
{
    return json_string(choice->tool_calls_count > 0             ? "tool_use"
                       : choice->finish == AGX_FINISH_LENGTH    ? "max_tokens"
                       : choice->finish == AGX_FINISH_DEADLINE  ? "max_tokens"
                       : stop_find(choice) != NULL              ? "stop_sequence"
                                                                : "end_turn");
}

static json_t *usage_of(const struct choice *choice)
{
    uint32_t cached = choice->cached_tokens;
    return json_pack("{sIsIsIsI}", "input_tokens", (json_int_t)(choice->prompt_tokens - cached),
                     "cache_creation_input_tokens", (json_int_t)0, "cache_read_input_tokens",
                     (json_int_t)cached, "output_tokens", (json_int_t)choice->generated_tokens);
}

static json_t *input_of(const struct tool_call *call)
{
    json_t *input;
    json_error_t error;
    (void)parse_json(call->arguments.at != NULL ? call->arguments.at : "{}",
                     call->arguments.at != NULL ? call->arguments.count : 2, &input, &error);
    return input != NULL ? input : json_object();
}

static json_t *content_of(const struct choice *choice)
{
    json_t *content = json_array();
    if (choice->reasoning.count > 0) {
        json_array_append_new(content, json_pack("{sssoss}", "type", "thinking", "thinking",
                                                 json_of(&choice->reasoning), "signature", ""));
    }
    if (choice->content.count > 0 || choice->tool_calls_count == 0) {
        json_array_append_new(content, json_pack("{ssso}", "type", "text", "text",
                                                 json_of(&choice->content)));
    }
    for (uint32_t i = 0; i < choice->tool_calls_count; i++) {
        const struct tool_call *call = &choice->tool_calls[i];
        json_array_append_new(content, json_pack("{sssssoso}", "type", "tool_use", "id", call->id,
                                                 "name", json_of(&call->name), "input",
                                                 input_of(call)));
    }
    return content;
}

static json_t *message(const struct request *request, json_t *content, json_t *reason)
{
    char id[DOOR_ID_BYTES + 16];
    snprintf(id, sizeof id, "msg_%s", request->id);
    return json_pack("{sssssssssososs?so}", "id", id, "type", "message", "role", "assistant",
                     "model", request->model, "content", content, "stop_reason", reason,
                     "stop_sequence", stop_find(request->choices[0]), "usage",
                     usage_of(request->choices[0]));
}

static json_t *answer(struct request *request)
{
    const struct choice *choice = request->choices[0];
    return message(request, content_of(choice), stop_reason(choice));
}

/* ---- out: a stream --------------------------------------------------------------------------- */

/* Blocks are numbered; one is open at a time. */
struct blocks { enum piece_kind kind; int index; bool is_open; };

static struct blocks *blocks_of(struct request *request)
{
    if (request->own == NULL) {
        request->own = memory_take(sizeof(struct blocks));
        if (request->own != NULL) {
            *(struct blocks *)request->own = (struct blocks){.index = -1};
        }
    }
    return request->own;
}

static void begin(struct request *request)
{
    request_send(request, "message_start",
                 json_pack("{ssso}", "type", "message_start", "message",
                           message(request, json_array(), json_null())));
}

static void close_block(struct request *request, struct blocks *blocks)
{
    if (blocks->is_open) {
        blocks->is_open = false;
        request_send(request, "content_block_stop", json_pack("{sssi}", "type",
                     "content_block_stop", "index", blocks->index));
    }
}

static json_t *empty_block(const struct choice *choice, const struct piece *piece)
{
    if (piece->kind == PIECE_CONTENT) {
        return json_pack("{ssss}", "type", "text", "text", "");
    }
    if (piece->kind == PIECE_REASONING) {
        return json_pack("{ssssss}", "type", "thinking", "thinking", "", "signature", "");
    }
    const struct tool_call *call = &choice->tool_calls[piece->call];
    return json_pack("{sssssoso}", "type", "tool_use", "id", call->id, "name",
                     json_of(&call->name), "input", json_object());
}

static void open_block(struct request *request, struct blocks *blocks, const struct choice *choice,
                       const struct piece *piece)
{
    close_block(request, blocks);
    *blocks = (struct blocks){.kind = piece->kind, .index = blocks->index + 1, .is_open = true};
    request_send(request, "content_block_start",
                 json_pack("{sssiso}", "type", "content_block_start", "index", blocks->index,
                           "content_block", empty_block(choice, piece)));
}

static void send_delta(struct request *request, const struct blocks *blocks,
                       const struct piece *piece)
{
    const char *type = piece->kind == PIECE_CONTENT     ? "text_delta"
                       : piece->kind == PIECE_REASONING ? "thinking_delta"
                                                        : "input_json_delta";
    const char *name = piece->kind == PIECE_CONTENT     ? "text"
                       : piece->kind == PIECE_REASONING ? "thinking"
                                                        : "partial_json";
    request_send(request, "content_block_delta",
                 json_pack("{sssis{ssso}}", "type", "content_block_delta", "index", blocks->index,
                           "delta", "type", type, name, json_stringn(piece->text, piece->bytes)));
}

static void say(struct request *request, struct choice *choice, const struct piece *piece)
{
    struct blocks *blocks = blocks_of(request);
    bool is_text = piece->kind == PIECE_CONTENT || piece->kind == PIECE_REASONING;
    if (blocks == NULL) {
        return;
    }
    if (piece->kind == PIECE_CALL_BEGIN ||
        (is_text && (!blocks->is_open || blocks->kind != piece->kind))) {
        open_block(request, blocks, choice, piece);
    }
    if (is_text || piece->kind == PIECE_CALL_ARGUMENTS) {
        send_delta(request, blocks, piece);
    }
    if (piece->kind == PIECE_CALL_END) {
        close_block(request, blocks);
    }
}

static void end(struct request *request, struct choice *choice)
{
    struct blocks *blocks = blocks_of(request);
    if (blocks == NULL || choice->finish == AGX_FINISH_FAILED) {
        return;
    }
    close_block(request, blocks);
    request_send(request, "message_delta",
                 json_pack("{sss{soss?}so}", "type", "message_delta", "delta", "stop_reason",
                           stop_reason(choice), "stop_sequence", stop_find(choice), "usage",
                           usage_of(choice)));
}

static void finish(struct request *request)
{
    if (request->refusal.status != 0) {
        request_send(request, "error", refuse(&request->refusal));
    } else {
        request_send(request, "message_stop", json_pack("{ss}", "type", "message_stop"));
    }
}

const struct dialect anthropic_message = {
    .read = read, .answer = answer, .begin = begin, .say = say, .end = end, .finish = finish,
    .refuse = refuse};
