/* SPDX-License-Identifier: MIT */
/*
 * What: a conversation out of JSON: every part of it in the forms in which templates write it.
 *
 * JSON within prompts is as Python's json.dumps(ensure_ascii=False) writes it. One difference is
 * left: a real number of more than 15 digits, or with an exponent, may be written in another way.
 */
#include "tools/agx/chat/conversation.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define DUMP_FLAGS (JSON_ENCODE_ANY | JSON_REAL_PRECISION(15))

static struct chat_text text_of(const json_t *json)
{
    return json_is_string(json) ? (struct chat_text){json_string_value(json),
                                                     (uint32_t)json_string_length(json)}
                                : (struct chat_text){"", 0};
}

/* \u001F as Python writes it: \u001f. */
static void lower_escapes(char *json)
{
    for (char *at = strchr(json, '\\'); at != NULL; at = strchr(at, '\\')) {
        if (at[1] == 'u') {
            for (uint32_t i = 2; i < 6; i++) {
                at[i] = at[i] >= 'A' && at[i] <= 'F' ? (char)(at[i] + 'a' - 'A') : at[i];
            }
        }
        at += 2;
    }
}

static struct chat_text dump(struct conversation *c, const json_t *json, size_t flags)
{
    char *text = json != NULL && c->dumps_count < CONVERSATION_DUMPS_MAX
                     ? json_dumps(json, DUMP_FLAGS | flags) : NULL;
    if (text == NULL) {
        return (struct chat_text){"", 0};
    }
    lower_escapes(text);
    c->dumps[c->dumps_count++] = text;
    return (struct chat_text){text, (uint32_t)strlen(text)};
}

/* ---- messages -------------------------------------------------------------------------------- */

static const char *read_call(struct conversation *c, json_t *json)
{
    json_t *function = json_object_get(json, "function");
    json_t *name = json_object_get(function, "name");
    json_t *arguments = json_object_get(function, "arguments");
    if (!json_is_string(name) || !json_is_object(arguments)) {
        return "a tool call needs a function with a name and an object of arguments";
    }
    if (c->calls_count == CONVERSATION_CALLS_MAX) {
        return "too many tool calls";
    }
    json_t *again = json_pack("{sOsO}", "name", name, "arguments", arguments);
    c->calls[c->calls_count++] = (struct chat_call){
        .id = text_of(json_object_get(json, "id")), .name = text_of(name),
        .arguments = dump(c, arguments, 0), .function = dump(c, again, 0)};
    json_decref(again);
    return NULL;
}

static const char *read_calls(struct conversation *c, struct chat_message *message,
                              const json_t *calls)
{
    const char *problem = NULL;
    size_t index;
    json_t *call;
    message->calls = c->calls + c->calls_count;
    json_array_foreach(calls, index, call) {
        problem = problem == NULL ? read_call(c, call) : problem;
    }
    message->calls_count = (uint32_t)(c->calls + c->calls_count - message->calls);
    return problem;
}

static bool find_role(const char *name, enum chat_role *role)
{
    static const char *const names[] = {"system", "user", "assistant", "tool"};
    for (uint32_t i = 0; name != NULL && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) == 0) {
            *role = (enum chat_role)i;
            return true;
        }
    }
    return false;
}

static const char *read_message(struct conversation *c, struct chat_message *message,
                                const json_t *json)
{
    const json_t *content = json_object_get(json, "content");
    *message = (struct chat_message){.content = text_of(content)};
    if (!find_role(json_string_value(json_object_get(json, "role")), &message->role)) {
        return "the role of a message is system, user, assistant or tool";
    }
    if (content != NULL && !json_is_string(content) && !json_is_null(content)) {
        return "the content of a message is a text";
    }
    if (message->role == CHAT_TOOL) {
        message->call_id = text_of(json_object_get(json, "tool_call_id"));
        message->content_json = dump(c, content, 0);
    }
    return read_calls(c, message, json_object_get(json, "tool_calls"));
}

/* ---- tools ----------------------------------------------------------------------------------- */

static const char *read_tool(struct conversation *c, struct chat_tool *tool, json_t *json)
{
    json_t *function = json_object_get(json, "function"), *value;
    const char *key;
    size_t key_bytes;
    if (!json_is_object(function)) {
        return "a tool needs a function";
    }
    *tool = (struct chat_tool){.json = dump(c, json, 0), .indented = dump(c, json, JSON_INDENT(4)),
                               .members = c->members + c->members_count};
    json_object_keylen_foreach(function, key, key_bytes, value) {
        if (c->members_count == CONVERSATION_MEMBERS_MAX) {
            return "the tools have too many members";
        }
        c->members[c->members_count++] = (struct chat_member){
            .key = {key, (uint32_t)key_bytes}, .is_text = json_is_string(value),
            .value = json_is_string(value) ? text_of(value) : dump(c, value, 0)};
        tool->members_count++;
    }
    return NULL;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static const char *read_parts(struct conversation *c, const json_t *messages, const json_t *tools)
{
    const char *problem = NULL;
    size_t index;
    json_t *part;
    json_array_foreach(messages, index, part) {
        problem = problem == NULL ? read_message(c, &c->messages[index], part) : problem;
    }
    json_array_foreach(tools, index, part) {
        problem = problem == NULL ? read_tool(c, &c->tools[index], part) : problem;
    }
    return problem;
}

const char *conversation_read(struct conversation *c, json_t *json)
{
    const json_t *messages = json_object_get(json, "messages");
    const json_t *tools = json_object_get(json, "tools");
    c->calls_count = c->members_count = c->dumps_count = 0;
    if (!json_is_array(messages) || json_array_size(messages) > CONVERSATION_MESSAGES_MAX ||
        json_array_size(tools) > CONVERSATION_TOOLS_MAX) {
        return "a conversation needs an array of messages, of at most 1024, and 128 tools at most";
    }
    c->chat = (struct chat){
        .messages = c->messages, .messages_count = (uint32_t)json_array_size(messages),
        .tools = c->tools, .tools_count = (uint32_t)json_array_size(tools),
        .date = text_of(json_object_get(json, "date")),
        .no_thinking = json_is_false(json_object_get(json, "enable_thinking"))};
    return read_parts(c, messages, tools);
}

void conversation_drop(struct conversation *c)
{
    json_free_t free_dump;
    json_get_alloc_funcs(NULL, &free_dump);     /* a program may have memory of its own for JSON */
    while (c->dumps_count > 0) {
        free_dump(c->dumps[--c->dumps_count]);
    }
}
