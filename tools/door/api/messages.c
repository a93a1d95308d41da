/* SPDX-License-Identifier: MIT */
/* What: conversations of all APIs in one form (tools/door/api/messages.h). */
#include "tools/door/api/messages.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/agx/chat/conversation.h"
#include "tools/door/answer.h"
#include "tools/door/parse.h"
#include "tools/door/program.h"
#include "tools/door/request.h"

bool talk_refuse(struct talk *talk, const char *param, const char *text)
{
    char placed[256];
    if (talk->place[0] == '\0') {
        return request_refuse(talk->request, 400, param, text);
    }
    snprintf(placed, sizeof placed, "%s: %s", talk->place, text);
    return request_refuse(talk->request, 400, talk->place, placed);
}

void talk_at(struct talk *talk, const char *list, size_t index)
{
    talk->place[0] = '\0';
    if (list != NULL) {
        snprintf(talk->place, sizeof talk->place, "%s[%zu]", list, index);
    }
}

static bool no_memory(struct talk *talk)
{
    return request_refuse_memory(talk->request);
}

/* `word` may be NULL. */
static bool is(const char *word, const char *expected)
{
    return word != NULL && strcmp(word, expected) == 0;
}

bool talk_begin(struct talk *talk, struct request *request)
{
    *talk = (struct talk){.request = request, .messages = json_array(), .tools = json_array()};
    return (talk->messages != NULL && talk->tools != NULL) || no_memory(talk);
}

void talk_end(struct talk *talk)
{
    json_decref(talk->messages);
    json_decref(talk->tools);
}

/* ---- messages -------------------------------------------------------------------------------- */

static bool append(struct talk *talk, json_t *list, json_t *item)
{
    return json_array_append_new(list, item) == 0 || no_memory(talk);
}

static bool add_part(struct talk *talk, struct buffer *text, const json_t *part, const char *param)
{
    static const char *const texts[] = {"text", "input_text", "output_text"};
    const char *type = json_string_value(json_object_get(part, "type"));
    const json_t *said = json_object_get(part, "text");
    bool is_text = false;
    char problem[160];
    for (uint32_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        is_text = is_text || is(type, texts[i]);
    }
    if (is_text && json_is_string(said)) {
        return buffer_add(text, json_string_value(said), json_string_length(said)) ||
               no_memory(talk);
    }
    if (type == NULL) {
        return talk_refuse(talk, param, "a part of the content is an object with a 'type'");
    }
    snprintf(problem, sizeof problem, is_text ? "a part of type '%.40s' needs a 'text'"
                                              : "a part of type '%.40s' is not supported by this "
                                                "server: it reads text", type);
    return talk_refuse(talk, param, problem);
}

/* A text out of a text, of parts, or of nothing. The result is new; NULL after a refusal. */
static json_t *read_content(struct talk *talk, const json_t *content, const char *param)
{
    struct buffer text = {0};
    const json_t *part;
    size_t index;
    bool is_valid = true;
    if (json_is_string(content)) {
        return json_copy((json_t *)(uintptr_t)content);
    }
    if (content != NULL && !json_is_null(content) && !json_is_array(content)) {
        (void)talk_refuse(talk, param, "the content of a message is a text, or a list of parts");
        return NULL;
    }
    json_array_foreach((json_t *)(uintptr_t)content, index, part) {
        is_valid = is_valid && add_part(talk, &text, part, param);
    }
    json_t *json = is_valid ? json_of(&text) : NULL;
    buffer_free(&text);
    return json;
}

bool talk_say(struct talk *talk, const char *role, const json_t *content, const char *param)
{
    json_t *text = read_content(talk, content, param);
    return text != NULL && append(talk, talk->messages,
                                  json_pack("{ssso}", "role", role, "content", text));
}

bool talk_say_text(struct talk *talk, const char *role, const char *text, size_t bytes)
{
    return append(talk, talk->messages, json_pack("{sssb}", "role", role, "content", 0)) &&
           (json_object_set_new(json_array_get(talk->messages,
                                               json_array_size(talk->messages) - 1),
                                "content", json_stringn(text, bytes)) == 0 || no_memory(talk));
}

/* ---- tools ----------------------------------------------------------------------------------- */

bool talk_may_list(struct talk *talk, const json_t *list, const char *param)
{
    char problem[80];
    if (list == NULL || json_is_null(list) || json_is_array(list)) {
        return true;
    }
    snprintf(problem, sizeof problem, "'%s' must be a list", param);
    return talk_refuse(talk, param, problem);
}

/* The assistant's message that calls are added to. */
static json_t *calling_message(struct talk *talk)
{
    size_t count = json_array_size(talk->messages);
    json_t *last = count > 0 ? json_array_get(talk->messages, count - 1) : NULL;
    const char *role = json_string_value(json_object_get(last, "role"));
    if (!is(role, "assistant")) {
        if (!talk_say_text(talk, "assistant", "", 0)) {
            return NULL;
        }
        last = json_array_get(talk->messages, count);
    }
    if (json_object_get(last, "tool_calls") == NULL) {
        (void)json_object_set_new(last, "tool_calls", json_array());
    }
    return last;
}

/* What a model has written. `*object` is new; NULL: it is no JSON. False after a refusal. */
static bool read_arguments(struct talk *talk, const json_t *arguments, json_t **object)
{
    json_error_t error;
    char problem[240];
    bool has_none = json_string_length(arguments) == 0;         /* as some models write it */
    const char *text = has_none ? "{}" : json_string_value(arguments);
    enum parse_result result = parse_json(text, has_none ? 2 : json_string_length(arguments),
                                          object, &error);
    if (result == PARSE_NO_ROOM || result == PARSE_TOO_LARGE) {
        return no_memory(talk);
    }
    if (result == PARSE_RANGE) {
        snprintf(problem, sizeof problem, "the arguments of a tool call have a number out of "
                 "range: %.70s; " PARSE_RANGE_TEXT, error.text);
        return talk_refuse(talk, "tool_calls", problem);
    }
    return true;
}

bool talk_call(struct talk *talk, const char *id, const char *name, const json_t *arguments)
{
    json_t *object = json_incref((json_t *)(uintptr_t)arguments);
    if (json_is_string(arguments)) {
        json_decref(object);
        if (!read_arguments(talk, arguments, &object)) {
            return false;
        }
    }
    json_t *message = name != NULL && json_is_object(object) ? calling_message(talk) : NULL;
    if (message == NULL) {
        json_decref(object);
        return talk_refuse(talk, "tool_calls", "a tool call needs a name, and arguments that are a "
                           "JSON object");
    }
    return append(talk, json_object_get(message, "tool_calls"),
                  json_pack("{sssss{ssso}}", "id", id != NULL ? id : "", "type", "function",
                            "function", "name", name, "arguments", object));
}

bool talk_tool_said(struct talk *talk, const char *call_id, const json_t *content)
{
    if (!talk_say(talk, "tool", content, "messages")) {
        return false;
    }
    json_t *last = json_array_get(talk->messages, json_array_size(talk->messages) - 1);
    return json_object_set_new(last, "tool_call_id", json_string(call_id != NULL ? call_id : "")) ==
               0 || no_memory(talk);
}

bool talk_tool(struct talk *talk, const char *name, const char *description,
               const json_t *parameters)
{
    if (name == NULL) {
        return talk_refuse(talk, "tools", "a tool needs a name");
    }
    json_t *function = json_pack("{ss}", "name", name);
    if (description != NULL) {
        (void)json_object_set_new(function, "description", json_string(description));
    }
    (void)json_object_set_new(function, "parameters",
                              json_is_object(parameters)
                                  ? json_incref((json_t *)(uintptr_t)parameters)
                                  : json_object());
    return append(talk, talk->tools, json_pack("{ssso}", "type", "function", "function", function));
}

/* ---- OpenAI's form --------------------------------------------------------------------------- */

static bool read_openai_calls(struct talk *talk, const json_t *calls)
{
    const json_t *call;
    size_t index;
    if (!talk_may_list(talk, calls, "tool_calls")) {
        return false;
    }
    json_array_foreach((json_t *)(uintptr_t)calls, index, call) {
        const json_t *function = json_object_get(call, "function");
        if (!talk_call(talk, json_string_value(json_object_get(call, "id")),
                       json_string_value(json_object_get(function, "name")),
                       json_object_get(function, "arguments"))) {
            return false;
        }
    }
    return true;
}

static bool read_openai_message(struct talk *talk, const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    const json_t *content = json_object_get(message, "content");
    if (is(role, "tool")) {
        return talk_tool_said(talk, json_string_value(json_object_get(message, "tool_call_id")),
                              content);
    }
    bool is_system = is(role, "developer") || is(role, "system");
    if (!is_system && !is(role, "user") && !is(role, "assistant")) {
        return talk_refuse(talk, "messages", "the role of a message is system, developer, user, "
                           "assistant or tool");
    }
    if (content == NULL && !is(role, "assistant")) {
        return talk_refuse(talk, "messages", "'content' is missing");
    }
    return talk_say(talk, is_system ? "system" : role, content, "messages") &&
           read_openai_calls(talk, json_object_get(message, "tool_calls"));
}

static bool read_openai_tool(struct talk *talk, const json_t *tool)
{
    const json_t *function = json_object_get(tool, "function");
    const char *type = json_string_value(json_object_get(tool, "type"));
    if (!is(type, "function") || !json_is_string(json_object_get(function, "name"))) {
        return talk_refuse(talk, "tools",
                           "a tool is of type 'function', and its function has a name");
    }
    return append(talk, talk->tools, json_incref((json_t *)(uintptr_t)tool));
}

bool talk_read_openai(struct talk *talk, const json_t *messages, const json_t *tools)
{
    const json_t *one;
    size_t index;
    if (!json_is_array(messages) || json_array_size(messages) == 0) {
        return talk_refuse(talk, "messages", "'messages' must be a list of at least one message");
    }
    json_array_foreach((json_t *)(uintptr_t)messages, index, one) {
        talk_at(talk, "messages", index);
        if (!read_openai_message(talk, one)) {
            return false;
        }
    }
    talk_at(talk, NULL, 0);
    bool is_valid = talk_may_list(talk, tools, "tools");
    json_array_foreach((json_t *)(uintptr_t)tools, index, one) {
        talk_at(talk, "tools", index);
        is_valid = is_valid && read_openai_tool(talk, one);
    }
    talk_at(talk, NULL, 0);
    return is_valid;
}

/* ---- an answer ------------------------------------------------------------------------------- */

json_t *talk_answer(const struct choice *choice)
{
    struct talk talk = {.request = choice->request, .messages = json_array()};
    const struct buffer *content = &choice->content;
    bool is_whole = talk.messages != NULL &&
                    talk_say_text(&talk, "assistant", content->at != NULL ? content->at : "",
                                  content->count);
    for (uint32_t i = 0; is_whole && i < choice->tool_calls_count; i++) {
        const struct tool_call *call = &choice->tool_calls[i];
        json_t *arguments = json_stringn(call->arguments.at, call->arguments.count);
        is_whole = talk_call(&talk, call->id, call->name.at, arguments);
        json_decref(arguments);
    }
    json_t *json = is_whole ? json_pack("{sO}", "messages", talk.messages) : NULL;
    json_decref(talk.messages);
    return json;
}

/* ---- the prompt ------------------------------------------------------------------------------ */

static void write_today(char *text, size_t bytes)
{
    time_t now = time(NULL);
    struct tm day;
    gmtime_r(&now, &day);
    (void)strftime(text, bytes, "%d %b %Y", &day);
}

static bool render(struct talk *talk, struct prompt_source *source)
{
    struct door *door = talk->request->door;
    struct chat_output *output = &door->rendered;
    output->text_bytes = output->parts_count = 0;
    enum chat_result result = chat_render(&door->model.format, &door->conversation->chat, output);
    if (result != CHAT_OK) {
        return request_refuse(talk->request, result == CHAT_ERROR_SPACE ? 413 : 400,
                              result == CHAT_ERROR_THOUGHT ? "tool_choice" : "messages",
                              chat_result_text(result));
    }
    source->parts = memory_take(output->parts_count * sizeof *source->parts);
    if (source->parts == NULL || !buffer_add(&source->text, output->text, output->text_bytes)) {
        memory_give(source->parts);
        source->parts = NULL;
        return no_memory(talk);
    }
    memcpy(source->parts, output->parts, output->parts_count * sizeof *source->parts);
    source->parts_count = output->parts_count;
    source->is_chat = true;
    return true;
}

/* Of the tool at this index; NULL: there are fewer. */
static const char *tool_name(const struct talk *talk, size_t index)
{
    const json_t *tool = json_array_get(talk->tools, index);
    return json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
}

static bool has_tool(const struct talk *talk, const char *name)
{
    bool has = false;
    for (size_t i = 0; i < json_array_size(talk->tools); i++) {
        has = has || is(tool_name(talk, i), name);
    }
    return has;
}

/* A call that must be is begun in the prompt; with one tool there is no choice. */
static bool demand_call(struct talk *talk, struct chat *chat)
{
    size_t count = json_array_size(talk->tools);
    if (talk->calls != TALK_MUST_CALL) {
        return true;
    }
    if (talk->called == NULL && count == 1) {
        talk->called = tool_name(talk, 0);
    }
    if (count == 0 || (talk->called != NULL && !has_tool(talk, talk->called))) {
        return talk_refuse(talk, "tool_choice", "'tool_choice' demands a call of a tool that is "
                           "not among 'tools'");
    }
    chat->begins_call = true;
    chat->called = talk->called != NULL
                       ? (struct chat_text){talk->called, (uint32_t)strlen(talk->called)}
                       : (struct chat_text){"", 0};
    return true;
}

/* A text that ends an answer, for models that have no token for it. */
static bool add_format_stop(struct talk *talk, struct wish *wish)
{
    const char *stop = chat_format_stop(talk->request->door->model.format.id);
    if (stop == NULL) {
        return true;
    }
    if (wish->stops_count == AGX_STOP_TEXTS_MAX) {
        return talk_refuse(talk, "stop", "this model's chat format leaves room for 3 stop texts");
    }
    snprintf(wish->stops[wish->stops_count++], DOOR_STOP_BYTES, "%s", stop);
    return true;
}

static struct chat_text begun_in(const struct chat_output *output)
{
    return (struct chat_text){output->text + output->text_bytes - output->answer_bytes,
                              output->answer_bytes};
}

bool talk_prompt(struct talk *talk, struct wish *wish, struct prompt_source *source)
{
    struct door *door = talk->request->door;
    char today[16];
    write_today(today, sizeof today);
    if (door->model.verdict == CHAT_UNKNOWN) {
        return talk_refuse(talk, "messages", "the model's chat template is not one that is known: "
                           "use /v1/completions");
    }
    json_t *whole = json_pack("{sOsOss}", "messages", talk->messages, "tools", talk->tools, "date",
                              chat_format_has_date(door->model.format.id) ? today : "");
    if (whole == NULL) {
        return no_memory(talk);
    }
    const char *problem = conversation_read(door->conversation, whole);
    bool is_valid = problem == NULL || talk_refuse(talk, "messages", problem);
    if (is_valid) {
        struct chat *chat = &door->conversation->chat;
        chat->no_thinking = talk->no_thinking;
        wish->call.want_control = door->model.has_control_marks && chat->tools_count > 0;
        program_read_conversation(talk->request, chat);
        is_valid = demand_call(talk, chat) && render(talk, source) &&
                   add_format_stop(talk, wish) &&
                   (answer_keep_context(talk->request, chat, begun_in(&door->rendered)) ||
                    no_memory(talk));
    }
    conversation_drop(door->conversation);      /* also of one that was read in part */
    json_decref(whole);
    return is_valid;
}
