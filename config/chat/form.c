/* SPDX-License-Identifier: MIT */
/*
 * What: the table of forms. Each is the reverse of what a format writes for an answer that calls
 * tools: qwen.c, llama.c, mistral.c, deepseek.c, plain.c. A format without a row has neither tools
 * nor thoughts.
 *
 * In most files the marks of Llama, Mistral and DeepSeek are control tokens, of which TOKENS carry
 * no text unless the call wants it. So these forms are known without their marks, too, by the words
 * that stand between.
 */
#include "config/chat/answer.h"

#include <stddef.h>

#include "config/base/assert.h"

#define TEXT(literal) {CHAT_STEP_TEXT, literal}
#define MAYBE(literal) {CHAT_STEP_MAYBE, literal}
#define NAME(end)     {CHAT_STEP_NAME, end}
#define SPACES        {CHAT_STEP_SPACES, NULL}
#define JSON          {CHAT_STEP_JSON, NULL}
#define LINE          {CHAT_STEP_LINE, NULL}

/* mark {"name": NAME, member: */
#define JSON_CALL(mark, member) \
    .begin = mark "{\"name\":", .before_name = " \"", .after_name = "\", \"" member "\":"

/* <tool_call>{"name": ..., "arguments": {...}}</tool_call> */
#define QWEN .marks = {{.text = "<tool_call>", .is_call = true}}, \
             .steps = {JSON, SPACES, TEXT("</tool_call>")},    \
             JSON_CALL("<tool_call>\n", "arguments")

/* {"name": ..., "parameters": {...}} is all of the answer. Further ones come after a semicolon. */
#define LLAMA .marks = {{.text = "{", .place = CHAT_AT_START, .is_call = true, .is_kept = true}, \
                        {.text = "<|python_tag|>", .place = CHAT_AT_START},                      \
                        {.text = ";", .place = CHAT_AFTER_CALL}},                                \
              .steps = {JSON}, .knows_tools = true,                                              \
              JSON_CALL("", "parameters")

/* [TOOL_CALLS] [{"name": ..., "arguments": {...}, "id": ...}, ...] */
#define MISTRAL .marks = {{.text = "[TOOL_CALLS]", .is_call = true},      \
                          {.text = "[{", .place = CHAT_AT_START,          \
                           .is_call = true, .is_kept = true}},            \
                .steps = {JSON}, .knows_tools = true

/* The list of calls is not always closed (deepseek.c), so its marks say nothing. */
#define DEEPSEEK .marks = {{.text = "<｜tool▁call▁begin｜>", .is_call = true},     \
                           {.text = "<｜tool▁calls▁begin｜>"},                     \
                           {.text = "<｜tool▁calls▁end｜>"},                       \
                           {.text = "function", .place = CHAT_AT_LINE,           \
                            .is_call = true, .is_kept = true}},                  \
                 .steps = {MAYBE("function"), MAYBE("<｜tool▁sep｜>"), NAME("\n"), \
                           TEXT("```json\n"), JSON, SPACES, TEXT("```"),         \
                           MAYBE("<｜tool▁call▁end｜>")}, .knows_tools = true,     \
                 .begin = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>", \
                 .before_name = "", .after_name = "\n```json\n"

/* Act: NAME[ ARGUMENT ] */
#define PLAIN .marks = {{.text = "Act: ", .place = CHAT_AT_LINE, .is_call = true}, \
                        {.text = "Answer:", .place = CHAT_AT_START}},             \
              .steps = {NAME("["), LINE}, .knows_tools = true,                        \
              .begin = "Act:", .before_name = " ", .after_name = "["

static const struct chat_form forms[CHAT_FORMATS] = {
    [CHAT_PLAIN] = {PLAIN},
    [CHAT_QWEN2_5] = {QWEN},
    [CHAT_QWQ] = {QWEN, .thinks = true},
    [CHAT_QWEN3] = {QWEN, .thinks = true},
    [CHAT_QWEN3_THINK] = {QWEN, .thinks = true},
    [CHAT_LLAMA3_1] = {LLAMA},
    [CHAT_LLAMA3_2] = {LLAMA},
    [CHAT_MISTRAL_V3] = {MISTRAL, JSON_CALL("[TOOL_CALLS] [", "arguments")},
    [CHAT_MISTRAL_NEMO] = {MISTRAL, JSON_CALL("[TOOL_CALLS][", "arguments")},
    [CHAT_DEEPSEEK_R1] = {DEEPSEEK, .thinks = true},
    [CHAT_DEEPSEEK_R1_THINK] = {DEEPSEEK, .thinks = true},
};

/* Results of tools go on an answer in DeepSeek's. */
bool chat_begins_in_thought(const struct chat_format *format, const struct chat *chat)
{
    bool is_result = chat->messages_count > 0 &&
                     chat->messages[chat->messages_count - 1].role == CHAT_TOOL;
    switch (format->id) {
    case CHAT_QWQ:
    case CHAT_QWEN3_THINK:
        return true;
    case CHAT_DEEPSEEK_R1_THINK:
        return !is_result;
    default:
        return false;
    }
}

const struct chat_form *chat_form_of(enum chat_id id)
{
    ASSERT(id < CHAT_FORMATS);
    return &forms[id];
}

const char *chat_answer_mark(enum chat_id id, uint32_t index)
{
    const struct chat_mark *mark = chat_form_of(id)->marks;
    for (; mark->text != NULL && (!mark->is_call || index > 0); mark++) {
        index -= mark->is_call;
    }
    return mark->text;
}
