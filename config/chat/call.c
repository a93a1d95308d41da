/* SPDX-License-Identifier: MIT */
/*
 * What: a call, step by step of its form, each byte once; then what it says: a name and arguments,
 * or a list of such.
 *
 * Invariants: `at` is in what is held; spans lie before it. Whatever a model writes, a call that is
 * given out has a name of printable characters, and arguments that are one JSON object.
 */
#include "config/chat/call.h"

#include "config/base/assert.h"
#include "config/chat/render.h"

STATIC_ASSERT(CHAT_CALL_LINE_BYTES < CHAT_ANSWER_BYTES_MIN, "a line has room");

/* What a step does with a byte: takes it, takes it and ends, ends before it, or fails. */
enum outcome { TAKES, ENDS, PASSES, FAILS };

static bool is_name_byte(char byte)
{
    return (unsigned char)byte > ' ' && byte != '"' && byte != '\\' && byte != '\x7f';
}

static struct chat_text text_of(const struct chat_answer *answer, struct chat_span span)
{
    ASSERT(span.first + span.count <= answer->end - answer->start);
    return (struct chat_text){answer->memory + answer->start + span.first, span.count};
}

/* ---- steps ----------------------------------------------------------------------------------- */

static enum outcome take_json(struct chat_answer *answer, char byte)
{
    enum chat_json_verdict verdict = chat_json_take(&answer->json, byte);
    answer->body = (struct chat_span){answer->step_first, answer->at + 1 - answer->step_first};
    return verdict == CHAT_JSON_MORE ? TAKES : verdict == CHAT_JSON_WHOLE ? ENDS : FAILS;
}

static enum outcome take_byte(struct chat_answer *answer, const struct chat_step *step, char byte)
{
    uint32_t taken = answer->at - answer->step_first;
    switch (step->kind) {
    case CHAT_STEP_TEXT:
    case CHAT_STEP_MAYBE:
        return byte != step->text[taken] ? FAILS : step->text[taken + 1] == '\0' ? ENDS : TAKES;
    case CHAT_STEP_SPACES:
        return chat_json_space(byte) ? TAKES : PASSES;
    case CHAT_STEP_NAME:
        answer->name = (struct chat_span){answer->step_first, taken};
        if (byte == step->text[0]) {
            return taken > 0 ? ENDS : FAILS;
        }
        return is_name_byte(byte) && taken < CHAT_CALL_NAME_BYTES ? TAKES : FAILS;
    case CHAT_STEP_JSON:
        return take_json(answer, byte);
    case CHAT_STEP_LINE:
        answer->body = (struct chat_span){answer->step_first, taken};
        return byte == '\n' ? PASSES : taken < CHAT_CALL_LINE_BYTES ? TAKES : FAILS;
    case CHAT_STEP_END:
        break;
    }
    ASSERT(false);
    return FAILS;
}

static bool takes_json(const struct chat_form *form, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        if (form->steps[i].kind == CHAT_STEP_JSON) {
            return true;
        }
    }
    return false;
}

/* True when no text is to come, and only what closes the call is missing. */
static bool is_enough(struct chat_answer *answer)
{
    if (answer->form->steps[answer->step].kind == CHAT_STEP_LINE) {
        answer->body = (struct chat_span){answer->step_first, answer->at - answer->step_first};
        return answer->has_ended;
    }
    return answer->has_ended && takes_json(answer->form, answer->step);
}

static enum chat_call_verdict walk(struct chat_answer *answer)
{
    uint32_t held = answer->end - answer->start;
    for (;;) {
        const struct chat_step *step = &answer->form->steps[answer->step];
        if (step->kind == CHAT_STEP_END) {
            return CHAT_CALL_WHOLE;
        }
        if (answer->at == held) {
            return is_enough(answer) ? CHAT_CALL_WHOLE : CHAT_CALL_MORE;
        }
        enum outcome outcome =
            take_byte(answer, step, answer->memory[answer->start + answer->at]);
        if (outcome == FAILS && (step->kind == CHAT_STEP_TEXT || step->kind == CHAT_STEP_MAYBE)) {
            answer->at = answer->step_first;    /* here something else may begin */
            outcome = step->kind == CHAT_STEP_MAYBE ? PASSES : FAILS;
        }
        if (outcome == FAILS) {
            return CHAT_CALL_BROKEN;
        }
        answer->at += outcome != PASSES;
        if (outcome != TAKES) {
            answer->step++;
            answer->step_first = answer->at;
        }
    }
}

/* ---- what a call says ------------------------------------------------------------------------ */

static bool is_name(struct chat_text text)
{
    for (uint32_t i = 0; i < text.count; i++) {
        if (!is_name_byte(text.bytes[i])) {
            return false;
        }
    }
    return text.count <= CHAT_CALL_NAME_BYTES;
}

static bool has_member(const struct chat_tool *tool, struct chat_text key, struct chat_text *value)
{
    for (uint32_t i = 0; i < tool->members_count; i++) {
        *value = tool->members[i].value;
        if (chat_text_equals(tool->members[i].key, key)) {
            return true;
        }
    }
    return false;
}

/* The declared tool of that name; NULL: there is none. */
static const struct chat_tool *tool_of(const struct chat_answer *answer, struct chat_text name)
{
    struct chat_text value;
    for (uint32_t i = 0; i < answer->chat->tools_count; i++) {
        const struct chat_tool *tool = &answer->chat->tools[i];
        if (has_member(tool, CHAT_TEXT("name"), &value) && chat_text_equals(value, name)) {
            return tool;
        }
    }
    return NULL;
}

static bool may_be_called(const struct chat_answer *answer, struct chat_text name)
{
    return name.count > 0 && is_name(name) &&
           (!answer->form->knows_tools || tool_of(answer, name) != NULL);
}

/* {"name": ..., "arguments": {...}, "id": ...}; Llama says "parameters". */
static bool read_function(const struct chat_answer *answer, struct chat_text json,
                          struct chat_piece *piece)
{
    struct chat_text value;
    *piece = (struct chat_piece){.kind = CHAT_PIECE_CALL, .id = {"", 0}};
    bool has_id = json.count > 0 && json.bytes[0] == '{' && chat_json_member(json, "id", &value) &&
                  chat_json_string(value, &piece->id);
    if (has_id && !is_name(piece->id)) {
        return false;
    }
    return json.count > 0 && json.bytes[0] == '{' && chat_json_member(json, "name", &value) &&
           chat_json_string(value, &piece->name) && may_be_called(answer, piece->name) &&
           (chat_json_member(json, "arguments", &piece->text) ||
            chat_json_member(json, "parameters", &piece->text)) &&
           piece->text.bytes[0] == '{';
}

/* ---- arguments that are no JSON -------------------------------------------------------------- */

/* The first parameter of the tool, as JSON has it between quotes. */
static struct chat_text parameter_of(const struct chat_tool *tool)
{
    struct chat_text schema, properties, key, value, name;
    if (has_member(tool, CHAT_TEXT("parameters"), &schema) &&
        chat_json_member(schema, "properties", &properties)) {
        properties = chat_json_inside(properties);
        if (chat_json_next(&properties, &key, &value) && chat_json_string(key, &name) &&
            is_name(name)) {
            return name;
        }
    }
    return CHAT_TEXT("input");
}

static uint32_t append(char *out, uint32_t used, struct chat_text text)
{
    memcpy(out + used, text.bytes, text.count);
    return used + text.count;
}

static uint32_t append_quoted(char *out, uint32_t used, struct chat_text text)
{
    static const char digits[] = "0123456789abcdef";
    for (uint32_t i = 0; i < text.count; i++) {
        unsigned char byte = (unsigned char)text.bytes[i];
        if (byte < 0x20) {
            const char escape[] = {'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]};
            used = append(out, used, (struct chat_text){escape, sizeof escape});
            continue;
        }
        if (byte == '"' || byte == '\\') {
            out[used++] = '\\';
        }
        out[used++] = (char)byte;
    }
    return used;
}

/* "[ 20+12 ]" of a tool whose parameter is `sum` becomes {"sum": "20+12"}. */
static bool read_line(struct chat_answer *answer, struct chat_piece *piece)
{
    struct chat_text line = chat_text_strip(text_of(answer, answer->body));
    const struct chat_tool *tool = tool_of(answer, piece->name);
    if (tool == NULL || !chat_text_ends(line, CHAT_TEXT("]"))) {
        return false;
    }
    line.count--;
    uint32_t used = append(answer->arguments, 0, CHAT_TEXT("{\""));
    used = append(answer->arguments, used, parameter_of(tool));
    used = append(answer->arguments, used, CHAT_TEXT("\": \""));
    used = append_quoted(answer->arguments, used, chat_text_strip(line));
    used = append(answer->arguments, used, CHAT_TEXT("\"}"));
    ASSERT(used <= sizeof answer->arguments);
    piece->text = (struct chat_text){answer->arguments, used};
    return true;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* The first of `calls`, which is cut by it; false: there is none, or it is no call. */
static bool read_call(struct chat_answer *answer, struct chat_span *calls,
                      struct chat_piece *piece)
{
    struct chat_text rest = text_of(answer, *calls), json = rest;
    uint32_t end = calls->first + calls->count;
    if (answer->name.count > 0) {
        *piece = (struct chat_piece){.kind = CHAT_PIECE_CALL, .text = json, .id = {"", 0},
                                     .name = text_of(answer, answer->name)};
        *calls = (struct chat_span){end, 0};
        return may_be_called(answer, piece->name) &&
               (takes_json(answer->form, CHAT_STEPS_MAX) ? json.bytes[0] == '{'
                                                         : read_line(answer, piece));
    }
    if (!chat_json_next(&rest, NULL, &json)) {
        return false;
    }
    while (rest.count > 0 && chat_json_space(*rest.bytes)) {
        rest = (struct chat_text){rest.bytes + 1, rest.count - 1};
    }
    *calls = (struct chat_span){end - rest.count, rest.count};
    return read_function(answer, json, piece);
}

/* A list is given out as a whole, or not at all. */
static bool are_calls(struct chat_answer *answer)
{
    struct chat_span body = answer->body;
    struct chat_text text = text_of(answer, body);
    struct chat_piece piece;
    while (body.count > 0 && chat_json_space(*text.bytes)) {
        body = (struct chat_span){body.first + 1, body.count - 1};
        text = text_of(answer, body);
    }
    if (answer->name.count == 0 && text.count > 1 && text.bytes[0] == '[') {
        body = (struct chat_span){body.first + 1, body.count - 2};
    }
    answer->calls = body;
    bool are = body.count > 0;
    while (are && body.count > 0) {
        are = read_call(answer, &body, &piece);
    }
    return are;
}

void chat_call_begin(struct chat_answer *answer, uint32_t bytes)
{
    answer->in_call = true;
    answer->step = 0;
    answer->step_first = answer->at = bytes;
    answer->json = (struct chat_json){.depth = 0};
    answer->name = answer->body = answer->calls = (struct chat_span){0, 0};
}

enum chat_call_verdict chat_call_go_on(struct chat_answer *answer)
{
    enum chat_call_verdict verdict = walk(answer);
    if (verdict == CHAT_CALL_WHOLE && !are_calls(answer)) {
        answer->calls.count = 0;
        return CHAT_CALL_BROKEN;
    }
    return verdict;
}

bool chat_call_next(struct chat_answer *answer, struct chat_piece *piece)
{
    bool is_one = answer->calls.count > 0 && read_call(answer, &answer->calls, piece);
    answer->calls_count += is_one;
    return is_one;
}
