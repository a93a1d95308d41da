/* SPDX-License-Identifier: MIT */
/*
 * Goal: no template makes its recognition read or write out of bounds, and no conversation its
 * rendering; what a conversation says is never in a part of the template.
 * Method: an input that begins with 'T' is a template. Any other is a tape: a format, room, and
 * messages. Their texts are bytes that no template writes, and the words that formats look for.
 */
#include <string.h>

#include "config/base/assert.h"
#include "config/chat/chat.h"
#include "selftest/fuzz/dictionary.h"

#define MESSAGES_MAX 16
#define TEXT_MAX     2048
#define OURS_FIRST   0x0e           /* bytes that stand for a user's, up to OURS_LAST */
#define OURS_LAST    0x1b

struct tape {
    const uint8_t *bytes;
    size_t count, at;
};

static uint8_t take(struct tape *tape)
{
    return tape->at < tape->count ? tape->bytes[tape->at++] : 0;
}

static void check_template(const uint8_t *bytes, size_t count)
{
    static struct chat_scratch scratch;
    struct chat_format format;
    enum chat_verdict verdict = chat_recognise((const char *)bytes, (uint32_t)count, &scratch,
                                               &format);
    ASSERT(verdict == CHAT_KNOWN || verdict == CHAT_UNKNOWN);
    ASSERT(format.id < CHAT_FORMATS && memchr(format.system, '\0', sizeof format.system) != NULL);
    ASSERT(verdict == CHAT_KNOWN || (format.id == CHAT_PLAIN && format.system[0] == '\0'));
}

/* ---- conversations --------------------------------------------------------------------------- */

static char texts[TEXT_MAX];
static uint32_t texts_used;

static void add_text(const char *bytes, uint32_t count)
{
    if (count <= sizeof texts - texts_used) {
        memcpy(texts + texts_used, bytes, count);
        texts_used += count;
    }
}

static struct chat_text take_text(struct tape *tape)
{
    static const char *const words[] = {"</think>", "<think>", "\n", " ", "\xc2\xa0", "\xe2\x80",
                                        "<tool_response>", "</tool_response>"};
    uint32_t first = texts_used, pieces = take(tape) % 12;
    for (uint32_t i = 0; i < pieces; i++) {
        uint8_t piece = take(tape);
        char ours = (char)(OURS_FIRST + piece % (OURS_LAST - OURS_FIRST + 1));
        const char *text = piece >= 240 ? words[piece % 8] : &ours;
        add_text(text, piece >= 240 ? (uint32_t)strlen(text) : 1);
    }
    return (struct chat_text){texts + first, texts_used - first};
}

static uint32_t take_messages(struct tape *tape, struct chat_message *messages,
                              struct chat_call *calls)
{
    uint32_t count = take(tape) % (MESSAGES_MAX + 1);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t kind = take(tape);
        messages[i] = (struct chat_message){.role = (enum chat_role)(kind % 4),
                                            .content = take_text(tape)};
        messages[i].content_json = messages[i].call_id = messages[i].content;
        messages[i].calls = &calls[i];
        messages[i].calls_count = messages[i].role == CHAT_ASSISTANT && kind >= 128;
        calls[i] = (struct chat_call){.id = take_text(tape), .name = messages[i].content,
                                      .arguments = take_text(tape), .function = take_text(tape)};
    }
    return count;
}

static void check_parts(const struct chat_output *output)
{
    uint32_t at = 0;
    for (uint32_t part = 0; part < output->parts_count; part++) {
        for (uint32_t i = 0; i < output->parts[part]; i++, at++) {
            ASSERT(at < output->text_bytes);
            char byte = output->text[at];
            ASSERT(part % 2 == 1 || byte < OURS_FIRST || byte > OURS_LAST);
        }
    }
    ASSERT(at == output->text_bytes);
}

static void check_conversation(struct tape *tape)
{
    static struct chat_message messages[MESSAGES_MAX];
    static struct chat_call calls[MESSAGES_MAX];
    static char text[8192];
    static uint32_t parts[256];
    struct chat_format format = {.id = (enum chat_id)(take(tape) % CHAT_FORMATS), .bos = "<s>",
                                 .eos = "</s>"};
    uint8_t options = take(tape);
    memcpy(format.system, "Be kind.", (options & 1) != 0 ? 9 : 0);
    struct chat_output output = {.text = text, .text_max = 32u * (take(tape) + 1u), .parts = parts,
                                 .parts_max = take(tape)};
    texts_used = 0;
    const struct chat_member member = {.key = take_text(tape), .value = take_text(tape),
                                       .is_text = (options & 2) != 0};
    const struct chat_tool tool = {.json = member.value, .indented = member.value,
                                   .members = &member, .members_count = 1};
    const struct chat chat = {.messages = messages, .tools = &tool,
                              .messages_count = take_messages(tape, messages, calls),
                              .tools_count = (options & 4) != 0, .no_thinking = options & 8};
    if (chat_render(&format, &chat, &output) == CHAT_OK) {
        ASSERT(output.text_bytes <= output.text_max && output.parts_count <= output.parts_max);
        check_parts(&output);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (count > 0 && bytes[0] == 'T') {
        check_template(bytes + 1, count - 1);
    } else {
        struct tape tape = {.bytes = bytes, .count = count};
        check_conversation(&tape);
    }
    return 0;
}

/* The marks of templates, as far as they are short enough, and their special words. */
void dictionary_write(void)
{
#define MARKS(id, system, has, lacks, words) has AND words AND
    static const char *const lists =
#include "config/chat/formats.def"
        "";
    for (const char *at = lists; *at != '\0';) {
        uint32_t bytes = (uint32_t)strcspn(at, "\1");
        if (bytes > 0 && bytes <= DICTIONARY_WORD_BYTES_MAX) {
            dictionary_word(at, bytes);
        }
        at += bytes + (at[bytes] != '\0');
    }
}
