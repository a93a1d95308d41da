/* SPDX-License-Identifier: MIT */
/*
 * Goal: an answer comes out as what its format wrote into it: text, thoughts and calls, however its
 * text is divided; and what is no call is text, byte for byte.
 * Method: answers are cut out of what chat_render() makes of a conversation that has them, and by
 * hand; each is fed whole, byte by byte, and in random fragments, with much memory and with little.
 */
#include "selftest/unit/test.h"

#include <stdio.h>
#include <string.h>

#include "config/chat/answer.h"

#define TEXT_MAX 8192

static struct chat_format format;

/* ---- tools ----------------------------------------------------------------------------------- */

#define TEXT(literal) {(literal), sizeof(literal) - 1}
#define SCHEMA "{\"type\": \"object\", \"properties\": {\"sum\": {\"type\": \"string\"}}}"

static const struct chat_member calc_members[] = {
    {TEXT("name"), TEXT("calc"), true}, {TEXT("parameters"), TEXT(SCHEMA), false}};
static const struct chat_member now_members[] = {{TEXT("name"), TEXT("now"), true}};
static const struct chat_tool tools[] = {
    {TEXT("{}"), TEXT("{}"), calc_members, 2}, {TEXT("{}"), TEXT("{}"), now_members, 1}};

/* ---- what a reader says ---------------------------------------------------------------------- */

struct said {
    char content[TEXT_MAX], thought[TEXT_MAX], calls[TEXT_MAX];     /* calls: NAME ID ARGUMENTS; */
    uint32_t calls_count;
    bool is_cut;
};

static struct said said;
static struct chat_answer answer;

static void add(char *text, struct chat_text more)
{
    size_t used = strlen(text);
    assert_true(used + more.count < TEXT_MAX);
    memcpy(text + used, more.bytes, more.count);
    text[used + more.count] = '\0';
}

static void hear(void)
{
    struct chat_piece piece;
    while (chat_answer_next(&answer, &piece)) {
        chat_answer_check(&answer);
        if (piece.kind != CHAT_PIECE_CALL) {
            assert_true(piece.text.count > 0);
            add(piece.kind == CHAT_PIECE_CONTENT ? said.content : said.thought, piece.text);
            continue;
        }
        add(said.calls, piece.name);
        add(said.calls, (struct chat_text)TEXT(" "));
        add(said.calls, piece.id);
        add(said.calls, (struct chat_text)TEXT(" "));
        add(said.calls, piece.text);
        add(said.calls, (struct chat_text)TEXT(";"));
    }
    chat_answer_check(&answer);
}

/* Feeds fragments of 1 to `most` bytes. */
static void feed(const char *text, uint32_t bytes, uint32_t most)
{
    uint32_t at = 0, draw = bytes;
    while (at < bytes) {
        draw = draw * 1664525u + 1013904223u;
        uint32_t count = 1 + (draw >> 16) % most;
        count = count < bytes - at ? count : bytes - at;
        uint32_t taken = chat_answer_feed(&answer, text + at, count);
        assert_true(taken > 0);
        at += taken;
        hear();
    }
}

static void read_in(const struct chat *chat, const char *text, uint32_t memory_bytes, uint32_t most)
{
    static char memory[TEXT_MAX];
    memset(&said, 0, sizeof said);
    chat_answer_init(&answer, &format, chat, memory, memory_bytes);
    feed(text, (uint32_t)strlen(text), most);
    chat_answer_end(&answer);
    hear();
    said.calls_count = answer.calls_count;
    said.is_cut = answer.is_cut;
}

/* Reads the text in many ways, which agree. */
static void read_with(const struct chat *chat, const char *text)
{
    static struct said whole;
    read_in(chat, text, CHAT_ANSWER_BYTES_MIN, (uint32_t)strlen(text) + 1);
    whole = said;
    for (uint32_t most = 1; most <= 40; most++) {
        read_in(chat, text, CHAT_ANSWER_BYTES_MIN, most);
        assert_string_equal(said.content, whole.content);
        assert_string_equal(said.thought, whole.thought);
        assert_string_equal(said.calls, whole.calls);
        assert_int_equal(said.is_cut, whole.is_cut);
    }
}

static void read(const char *name, const char *text)
{
    static const struct chat chat = {.tools = tools, .tools_count = 2};
    format.id = chat_format_find(name);
    read_with(&chat, text);
}

static void assert_said(const char *content, const char *thought, const char *calls)
{
    assert_string_equal(said.content, content);
    assert_string_equal(said.thought, thought);
    assert_string_equal(said.calls, calls);
}

/* ---- what a format writes -------------------------------------------------------------------- */

#define CALL_OF(number, sum)                                                        \
    {.id = TEXT("abcdefgh" number), .name = TEXT("calc"), .arguments = TEXT(sum), \
     .function = TEXT("{\"name\": \"calc\", \"arguments\": " sum "}")}
#define SUM_ONE "{\"sum\": \"1+2\"}"
#define SUM_TWO "{\"sum\": \"a\\\"} [{</tool_call>\"}"

static char prompt[TEXT_MAX], history[TEXT_MAX];

static void render(struct chat *chat, uint32_t messages_count, char *text)
{
    uint32_t parts[64];
    struct chat_output output = {.text = text, .text_max = TEXT_MAX - 1, .parts = parts,
                                 .parts_max = 64};
    chat->messages_count = messages_count;
    assert_int_equal(chat_render(&format, chat, &output), CHAT_OK);
    text[output.text_bytes] = '\0';
}

/* What the format writes for an answer with calls, and nothing around it. */
static const char *written(const struct chat_call *calls, uint32_t calls_count)
{
    static const char *const ends[] = {"<|im_end|>", "<|eot_id|>", "</s>", "Obs: ",
                                       "<｜end▁of▁sentence｜>", "<｜tool▁outputs▁begin｜>"};
    const struct chat_message messages[] = {
        {.role = CHAT_USER, .content = TEXT("How much?")},
        {.role = CHAT_ASSISTANT, .calls = calls, .calls_count = calls_count},
        {.role = CHAT_TOOL, .content = TEXT("3"), .content_json = TEXT("\"3\""),
         .call_id = TEXT("abcdefgh1")}};
    struct chat chat = {.messages = messages, .tools = tools, .tools_count = 1};
    render(&chat, 1, prompt);
    render(&chat, 3, history);
    char *thought = strstr(prompt, "<think>\n");
    if (thought != NULL) {
        *thought = '\0';                /* it is not kept in the history */
    }
    assert_memory_equal(prompt, history, strlen(prompt));
    char *text = history + strlen(prompt);
    for (uint32_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char *end = strstr(text, ends[i]);
        if (end != NULL) {
            *end = '\0';
        }
    }
    return text;
}

static bool writes_one_call(void)
{
    return format.id == CHAT_LLAMA3_1 || format.id == CHAT_LLAMA3_2 || format.id == CHAT_PLAIN;
}

static bool writes_ids(void)
{
    return format.id == CHAT_MISTRAL_V3 || format.id == CHAT_MISTRAL_NEMO;
}

static void test_read_calls_of_every_format_gives_what_was_rendered(void **state)
{
    static const struct chat_call calls[] = {CALL_OF("1", SUM_ONE), CALL_OF("2", SUM_TWO)};
    uint32_t formats = 0;
    for (uint32_t id = 0; id < CHAT_FORMATS; id++) {
        format = (struct chat_format){.id = (enum chat_id)id, .bos = "<s>", .eos = "</s>"};
        for (uint32_t count = 1; chat_format_has_tools(format.id) && count <= 2; count++) {
            if (count == 2 && writes_one_call()) {
                continue;
            }
            static char text[TEXT_MAX];
            bool thinks = chat_form_of(format.id)->thinks;
            snprintf(text, sizeof text, "%s%s", thinks ? "<think>\nwhy\n</think>\n\n" : "",
                     written(calls, count));
            read(chat_format_name(format.id), text);
            const char *one = writes_ids() ? "calc abcdefgh1 " SUM_ONE ";" : "calc  " SUM_ONE ";";
            const char *two = writes_ids() ? "calc abcdefgh2 " SUM_TWO ";" : "calc  " SUM_TWO ";";
            static char expected[TEXT_MAX];
            snprintf(expected, sizeof expected, "%s%s", one, count == 2 ? two : "");
            assert_said("", thinks ? "why" : "", expected);
            assert_int_equal(said.calls_count, count);
            assert_false(said.is_cut);
            formats += count == 1;
        }
    }
    assert_int_equal(formats, 11);
}

static void test_marks_of_calls_are_those_of_the_form(void **state)
{
    assert_string_equal(chat_answer_mark(CHAT_QWEN3, 0), "<tool_call>");
    assert_null(chat_answer_mark(CHAT_QWEN3, 1));
    assert_string_equal(chat_answer_mark(CHAT_MISTRAL_V3, 0), "[TOOL_CALLS]");
    assert_string_equal(chat_answer_mark(CHAT_MISTRAL_V3, 1), "[{");
    assert_null(chat_answer_mark(CHAT_MISTRAL_V3, 2));
    assert_string_equal(chat_answer_mark(CHAT_LLAMA3_1, 0), "{");
    assert_null(chat_answer_mark(CHAT_LLAMA3_1, 1));
    assert_string_equal(chat_answer_mark(CHAT_DEEPSEEK_R1, 1), "function");
    assert_null(chat_answer_mark(CHAT_CHATML, 0));
}

/* What the prompt has of the answer is what the format writes at the beginning of such an answer;
 * before it the prompt is that of any other answer. */
static void assert_begins(struct chat_text name, bool ends_in_arguments)
{
    static const struct chat_call calls[] = {CALL_OF("1", SUM_ONE)};
    static const struct chat_message question = {.role = CHAT_USER, .content = TEXT("How much?")};
    struct chat chat = {.messages = &question, .messages_count = 1, .tools = tools,
                        .tools_count = 1, .begins_call = true, .called = name};
    static char text[TEXT_MAX];
    uint32_t parts[64];
    struct chat_output output = {.text = text, .text_max = sizeof text, .parts = parts,
                                 .parts_max = 64};
    assert_int_equal(chat_render(&format, &chat, &output), CHAT_OK);
    uint32_t prompt_bytes = output.text_bytes - output.answer_bytes;
    const char *answer_text = written(calls, 1);
    assert_true(output.answer_bytes > 3 && output.answer_bytes < strlen(answer_text));
    assert_memory_equal(text + prompt_bytes, answer_text, output.answer_bytes);
    assert_int_not_equal(text[output.text_bytes - 1], ' ');
    bool has_name = memmem(answer_text, output.answer_bytes, "calc", 4) != NULL;
    assert_int_equal(has_name, ends_in_arguments);
    chat.begins_call = false;
    chat.no_thinking = true;
    render(&chat, 1, prompt);
    assert_int_equal(strlen(prompt), prompt_bytes);
    assert_memory_equal(prompt, text, prompt_bytes);
}

static void test_answer_begins_with_a_call_as_it_is_rendered(void **state)
{
    uint32_t formats = 0;
    for (uint32_t id = 0; id < CHAT_FORMATS; id++) {
        format = (struct chat_format){.id = (enum chat_id)id, .bos = "<s>", .eos = "</s>"};
        bool thinks = id == CHAT_QWQ || id == CHAT_QWEN3_THINK || id == CHAT_DEEPSEEK_R1_THINK;
        if (chat_format_has_tools(format.id) && !thinks) {
            assert_begins((struct chat_text)TEXT("calc"), true);
            assert_begins((struct chat_text){"", 0}, false);
            formats++;
        }
    }
    assert_int_equal(formats, 8);
}

static void test_answer_that_begins_with_a_thought_cannot_begin_with_a_call(void **state)
{
    static const struct chat_message messages[] = {
        {.role = CHAT_USER, .content = TEXT("How much?")},
        {.role = CHAT_TOOL, .content = TEXT("3"), .call_id = TEXT("abcdefgh1")}};
    struct chat chat = {.messages = messages, .messages_count = 1, .tools = tools,
                        .tools_count = 1, .begins_call = true};
    uint32_t parts[64];
    struct chat_output output = {.text = history, .text_max = TEXT_MAX, .parts = parts,
                                 .parts_max = 64};
    static const enum chat_id thinkers[] = {CHAT_QWQ, CHAT_QWEN3_THINK, CHAT_DEEPSEEK_R1_THINK};
    for (uint32_t i = 0; i < 3; i++) {
        format = (struct chat_format){.id = thinkers[i]};
        assert_int_equal(chat_render(&format, &chat, &output), CHAT_ERROR_THOUGHT);
    }
    chat.messages_count = 2;            /* the result of a tool goes on DeepSeek's answer */
    assert_int_equal(chat_render(&format, &chat, &output), CHAT_OK);
}

/* ---- text ------------------------------------------------------------------------------------ */

#define LOSSLESS " \n Hej, <tool \xe2\x82\xac <| [TOOL_ \xf0\x9f\x90\x9d { } <｜tool▁ca " \
                 "\xff\xe2\x82 \n\n  \n "

static void test_read_text_without_marks_is_lossless(void **state)
{
    for (uint32_t id = 0; id < CHAT_FORMATS; id++) {
        if (id == CHAT_QWQ || id == CHAT_QWEN3_THINK || id == CHAT_DEEPSEEK_R1_THINK) {
            continue;                   /* an answer without a mark is a thought */
        }
        read(chat_format_name((enum chat_id)id), LOSSLESS);
        assert_said(LOSSLESS, "", "");
        read(chat_format_name((enum chat_id)id), "");
        assert_said("", "", "");
        assert_false(said.is_cut);
    }
}

static void test_read_without_tools_takes_nothing_for_a_call(void **state)
{
    static const struct chat chat = {.tools_count = 0};
    static const char *const texts[] = {
        "<tool_call>{\"name\": \"calc\", \"arguments\": {}}</tool_call>", "Act: calc[ 1 ]",
        "{\"name\": \"calc\", \"parameters\": {}}"};
    static const char *const names[] = {"qwen2.5", "plain", "llama3.1"};
    for (uint32_t i = 0; i < 3; i++) {
        format.id = chat_format_find(names[i]);
        read_with(&chat, texts[i]);
        assert_said(texts[i], "", "");
    }
}

static void test_read_gives_whole_characters_only(void **state)
{
    static const struct chat chat = {.tools_count = 0};
    static char memory[CHAT_ANSWER_BYTES_MIN];
    const char *text = "\xc3\xa5\xe2\x82\xac\xf0\x9f\x90\x9d";
    static const uint32_t bytes[] = {0, 2, 0, 0, 3, 0, 0, 0, 4};
    format.id = CHAT_QWEN3;
    chat_answer_init(&answer, &format, &chat, memory, sizeof memory);
    for (uint32_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        struct chat_piece piece;
        assert_int_equal(chat_answer_feed(&answer, text + i, 1), 1);
        assert_int_equal(chat_answer_next(&answer, &piece), bytes[i] > 0);
        if (bytes[i] > 0) {
            assert_int_equal(piece.text.count, bytes[i]);
        }
    }
}

static void test_read_text_before_and_after_calls_loses_only_spaces_between(void **state)
{
    read("qwen2.5", "I add.\n\n<tool_call>\n{\"name\": \"calc\", \"arguments\": {}}\n</tool_call>\n"
                    " <tool_call>{\"arguments\":{\"a\":[1e5]},\"name\":\"x.y\"}</tool_call>\n"
                    "Done. ");
    assert_said("I add.\nDone. ", "", "calc  {};x.y  {\"a\":[1e5]};");
    read("mistral-nemo", "So:[TOOL_CALLS] [{\"name\": \"now\", \"arguments\": {}} ]\n");
    assert_said("So:", "", "now  {};");
    read("llama3.1", "\n<|python_tag|>{\"name\": \"calc\", \"parameters\": {\"a\": \"b\"}}; "
                     "{\"name\": \"now\", \"parameters\": {}}");
    assert_said("", "", "calc  {\"a\": \"b\"};now  {};");
    read("llama3.1", "; no");
    assert_said("; no", "", "");
    read("plain", "Think: I add.\nAct: calc[ 1+\"2\"\\ ]\nAct: now[  ]");
    assert_said("Think: I add.", "", "calc  {\"sum\": \"1+\\\"2\\\"\\\\\"};"
                                     "now  {\"input\": \"\"};");
    read("plain", "Answer: 42");
    assert_said("42", "", "");
}

/* ---- thoughts -------------------------------------------------------------------------------- */

static void test_read_thoughts_of_formats_that_think(void **state)
{
    static const char *const begun[] = {"qwq", "qwen3-think", "deepseek-r1-think"};
    for (uint32_t i = 0; i < 3; i++) {
        read(begun[i], "\nso it <tool_call>\n is</think>\n\nYes </think>.");
        assert_said("Yes </think>.", "so it <tool_call>\n is", "");
        read(begun[i], "and so on");
        assert_said("", "and so on", "");
        assert_true(said.is_cut);
    }
    read("qwen3", "<think>\n\n</think>\n\nYes.");
    assert_said("Yes.", "", "");
    read("deepseek-r1", "\n<think>\nwell\n\n</think>\n\nYes. <think>");
    assert_said("Yes. <think>", "well", "");
    read("qwen2.5", "<think>x</think>");
    assert_said("<think>x</think>", "", "");
}

static void test_read_after_a_tools_result_begins_as_the_prompt_does(void **state)
{
    static const struct chat_message result = {.role = CHAT_TOOL};
    static const struct chat chat = {.messages = &result, .messages_count = 1};
    format.id = CHAT_DEEPSEEK_R1_THINK;
    read_with(&chat, "It is 3.");
    assert_said("It is 3.", "", "");
    format.id = CHAT_QWQ;
    read_with(&chat, "It is 3.");
    assert_said("", "It is 3.", "");
}

/* ---- broken calls ---------------------------------------------------------------------------- */

static void test_read_what_is_no_call_is_text(void **state)
{
    static const struct { const char *name, *text; } broken[] = {
        {"qwen2.5", "<tool_call>{\"name\": \"calc\" \"arguments\": {}}</tool_call> x"},
        {"qwen2.5", "<tool_call>{\"name\": \"calc\", \"arguments\": [1]}</tool_call>"},
        {"qwen2.5", "<tool_call>{\"name\": \"calc\", \"arguments\": \"{}\"}</tool_call>"},
        {"qwen2.5", "<tool_call>{\"name\": \"a b\", \"arguments\": {}}</tool_call>"},
        {"qwen2.5", "<tool_call>{\"name\": \"a\", \"arguments\": {\"a\": 01}}</tool_call>"},
        {"qwen2.5", "<tool_call>{\"name\": \"a\", \"arguments\": {}}</tool_cal>"},
        {"qwen2.5", "<tool_call>[]</tool_call>"}, {"qwen2.5", "<tool_call>calc</tool_call>"},
        {"qwen2.5", "<tool_call>{\"a\": {\"name\": \"b\", \"arguments\": {}}}</tool_call>"},
        {"llama3.1", "{\"name\": \"unknown\", \"parameters\": {}}"},
        {"llama3.1", "{\"name\": \"calc\"}"}, {"llama3.1", "{calc}"},
        {"llama3.1", "Say {\"name\": \"calc\", \"parameters\": {}}"},
        {"mistral-v3", "[TOOL_CALLS] [{\"name\": \"a\", \"arguments\": {}}, {\"name\": \"b\"}]"},
        {"mistral-v3", "[TOOL_CALLS] none"}, {"mistral-v3", "[TOOL_CALLS] []"},
        {"mistral-v3", "[TOOL_CALLS] [1]"},
        {"deepseek-r1", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n[1]\n```"},
        {"deepseek-r1", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>\n```json\n{}\n```"},
        {"plain", "Act: calc 1+2"}, {"plain", "Act: calc[ 1+2"}, {"plain", "Act: buy[ 1 ]"},
        {"plain", "An Act: calc[ 1 ]"},
    };
    for (uint32_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        read(broken[i].name, broken[i].text);
        assert_said(broken[i].text, "", "");
        assert_false(said.is_cut);
    }
}

/* Control tokens have no text. */
static void test_read_calls_without_the_text_of_control_tokens(void **state)
{
    read("mistral-v3", " [{\"name\": \"calc\", \"arguments\": {}}]");
    assert_said("", "", "calc  {};");
    read("mistral-v3", " [{\"name\": \"other\", \"arguments\": {}}]");
    assert_said(" [{\"name\": \"other\", \"arguments\": {}}]", "", "");
    read("deepseek-r1", "So it is a function.\nfunctioncalc\n```json\n{\"a\": 1}\n```\n"
                        "functionnow\n```json\n{}\n```");
    assert_said("So it is a function.", "", "calc  {\"a\": 1};now  {};");
    read("deepseek-r1", "functionx\n```json\n{}\n``` \n");
    assert_said("functionx\n```json\n{}\n``` \n", "", "");
}

static void test_read_a_call_after_a_broken_one(void **state)
{
    read("qwen3", "<tool_call>{} <tool_call>{\"name\": \"calc\", \"arguments\": {}}</tool_call>");
    assert_said("<tool_call>{} ", "", "calc  {};");
    read("qwen3", "a <tool_call>x <tool_call>{\"name\": \"calc\", \"arguments\": {}}</tool_call>");
    assert_said("a <tool_call>x", "", "calc  {};");
}

static void test_read_a_call_that_is_cut_off_is_text(void **state)
{
    static const char call[] =
        "<tool_call>\n{\"name\": \"calc\", \"arguments\": {\"a\": [\"\xc3\xa5\"]}}";
    static char text[sizeof call];
    for (uint32_t bytes = 11; bytes < sizeof call - 1; bytes++) {
        memcpy(text, call, bytes);
        read("qwen2.5", text);
        assert_said(text, "", "");
        assert_true(said.is_cut);
    }
    read("qwen2.5", call);              /* only what closes it is missing */
    assert_said("", "", "calc  {\"a\": [\"\xc3\xa5\"]};");
    assert_false(said.is_cut);
}

/* The longest call has as many bytes as the reader has memory. */
static void test_read_a_call_too_long_is_text(void **state)
{
    static const char head[] = "<tool_call>{\"name\": \"calc\", \"arguments\": {\"a\": \"",
                      tail[] = "\"}}</tool_call>";
    static char text[2 * CHAT_ANSWER_BYTES_MIN];
    for (uint32_t over = 0; over < 2; over++) {
        uint32_t fill = CHAT_ANSWER_BYTES_MIN - (uint32_t)(sizeof head + sizeof tail - 2) + over;
        memset(text, 'x', sizeof text);
        memcpy(text, head, sizeof head - 1);
        memcpy(text + sizeof head - 1 + fill, tail, sizeof tail);
        read("qwen2.5", text);
        assert_int_equal(said.calls_count, 1 - over);
        assert_string_equal(said.content, over ? text : "");
    }
    memset(text, '[', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    memcpy(text, "<tool_call>", 11);
    read("qwen2.5", text);
    assert_said(text, "", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_calls_of_every_format_gives_what_was_rendered),
        cmocka_unit_test(test_marks_of_calls_are_those_of_the_form),
        cmocka_unit_test(test_answer_begins_with_a_call_as_it_is_rendered),
        cmocka_unit_test(test_answer_that_begins_with_a_thought_cannot_begin_with_a_call),
        cmocka_unit_test(test_read_text_without_marks_is_lossless),
        cmocka_unit_test(test_read_without_tools_takes_nothing_for_a_call),
        cmocka_unit_test(test_read_gives_whole_characters_only),
        cmocka_unit_test(test_read_text_before_and_after_calls_loses_only_spaces_between),
        cmocka_unit_test(test_read_thoughts_of_formats_that_think),
        cmocka_unit_test(test_read_after_a_tools_result_begins_as_the_prompt_does),
        cmocka_unit_test(test_read_what_is_no_call_is_text),
        cmocka_unit_test(test_read_calls_without_the_text_of_control_tokens),
        cmocka_unit_test(test_read_a_call_after_a_broken_one),
        cmocka_unit_test(test_read_a_call_that_is_cut_off_is_text),
        cmocka_unit_test(test_read_a_call_too_long_is_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
