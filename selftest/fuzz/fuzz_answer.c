/* SPDX-License-Identifier: MIT */
/*
 * Goal: whatever a model writes, in whatever fragments it comes, a reader of answers gives out the
 * same pieces; each call is a name and one JSON object; and without marks nothing is lost.
 * Method: an input is a format, options, and an answer. It is fed whole, byte by byte, and in
 * fragments, to readers with the least memory; what they say is written down and compared.
 */
#include <string.h>

#include "config/base/assert.h"
#include "config/chat/answer.h"
#include "selftest/fuzz/dictionary.h"

#define ANSWER_BYTES_MAX 8192u
#define TEXT(literal) {(literal), sizeof(literal) - 1}

/* What a reader said: the pieces in order, texts of one kind joined. */
struct record {
    char bytes[16 * ANSWER_BYTES_MAX];
    uint32_t count, text_bytes, calls_count;
    int kind;
    bool is_cut;
};

static void add(struct record *record, struct chat_text text)
{
    ASSERT(text.count <= sizeof record->bytes - record->count);
    memcpy(record->bytes + record->count, text.bytes, text.count);
    record->count += text.count;
}

static void check_call(const struct chat_piece *piece)
{
    struct chat_json json = {.depth = 0};
    ASSERT(piece->name.count > 0 && piece->name.count <= CHAT_CALL_NAME_BYTES);
    ASSERT(piece->id.count <= CHAT_CALL_NAME_BYTES && piece->text.bytes[0] == '{');
    for (uint32_t i = 0; i < piece->text.count; i++) {
        enum chat_json_verdict verdict = chat_json_take(&json, piece->text.bytes[i]);
        ASSERT(verdict == (i + 1 < piece->text.count ? CHAT_JSON_MORE : CHAT_JSON_WHOLE));
    }
}

static void take(struct record *record, const struct chat_piece *piece)
{
    const char mark[] = {'\0', (char)piece->kind};
    if (piece->kind == CHAT_PIECE_CALL || record->kind != (int)piece->kind) {
        add(record, (struct chat_text){mark, sizeof mark});
    }
    record->kind = (int)piece->kind;
    if (piece->kind == CHAT_PIECE_CALL) {
        check_call(piece);
        add(record, piece->name);
        add(record, (struct chat_text)TEXT("\0"));
        add(record, piece->id);
        add(record, (struct chat_text)TEXT("\0"));
    } else {
        ASSERT(piece->text.count > 0);
        record->text_bytes += piece->text.count;
    }
    add(record, piece->text);
}

static void hear(struct chat_answer *answer, struct record *record)
{
    struct chat_piece piece;
    while (chat_answer_next(answer, &piece)) {
        chat_answer_check(answer);
        take(record, &piece);
    }
    chat_answer_check(answer);
}

/* Fragments of 1 to `most` bytes. */
static void read_answer(const struct chat_format *format, const struct chat *chat,
                        struct chat_text text, uint32_t most, struct record *record)
{
    static struct chat_answer answer;
    static char memory[CHAT_ANSWER_BYTES_MIN];
    uint32_t draw = text.count;
    *record = (struct record){.kind = -1};
    chat_answer_init(&answer, format, chat, memory, sizeof memory);
    for (uint32_t at = 0; at < text.count;) {
        draw = draw * 1664525u + 1013904223u;
        uint32_t rest = text.count - at, count = 1 + (draw >> 16) % most;
        uint32_t taken = chat_answer_feed(&answer, text.bytes + at, count < rest ? count : rest);
        ASSERT(taken > 0);
        at += taken;
        hear(&answer, record);
    }
    chat_answer_end(&answer);
    hear(&answer, record);
    record->calls_count = answer.calls_count;
    record->is_cut = answer.is_cut;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const struct chat_member members[] = {
        {TEXT("name"), TEXT("calc"), true},
        {TEXT("parameters"), TEXT("{\"properties\": {\"sum\": {}}}"), false}};
    static const struct chat_tool tool = {TEXT("{}"), TEXT("{}"), members, 2};
    static const struct chat_message result = {.role = CHAT_TOOL};
    static struct record whole, other;
    if (count < 2 || count > ANSWER_BYTES_MAX) {
        return 0;
    }
    const struct chat_format format = {.id = (enum chat_id)(bytes[0] % CHAT_FORMATS)};
    const struct chat chat = {.messages = &result, .messages_count = bytes[1] & 1, .tools = &tool,
                              .tools_count = (bytes[1] & 2) != 0};
    const struct chat_text text = {(const char *)bytes + 2, (uint32_t)count - 2};
    read_answer(&format, &chat, text, ANSWER_BYTES_MAX, &whole);
    for (uint32_t most = 1; most <= 64; most *= 4) {
        read_answer(&format, &chat, text, most, &other);
        ASSERT(other.count == whole.count && memcmp(other.bytes, whole.bytes, whole.count) == 0);
        ASSERT(other.calls_count == whole.calls_count && other.is_cut == whole.is_cut);
    }
    ASSERT(whole.text_bytes <= text.count);
    if (!chat_form_of(format.id)->thinks && chat.tools_count == 0 && text.count > 0) {
        ASSERT(whole.count == text.count + 2);
        ASSERT(memcmp(whole.bytes + 2, text.bytes, text.count) == 0);
    }
    return 0;
}

/* The marks and the words of calls. */
void dictionary_write(void)
{
    static const char *const words[] = {
        "<think>", "</think>", "{\"name\": \"calc\", \"arguments\": ", "\"parameters\": ",
        "\"id\": \"", "[ "};
    for (uint32_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        dictionary_text(words[i]);
    }
    for (uint32_t id = 0; id < CHAT_FORMATS; id++) {
        const struct chat_form *form = chat_form_of((enum chat_id)id);
        for (uint32_t i = 0; i < CHAT_MARKS_MAX && form->marks[i].text != NULL; i++) {
            dictionary_text(form->marks[i].text);
        }
        for (uint32_t i = 0; i < CHAT_STEPS_MAX; i++) {
            if (form->steps[i].text != NULL) {
                dictionary_text(form->steps[i].text);
            }
        }
    }
}
