/* SPDX-License-Identifier: MIT */
/*
 * Goal: a template is recognised by what it contains, however it is written, and any other is not;
 * a rendering keeps apart what the template writes and what the conversation says.
 * Method: small templates written in several ways; conversations with their parts spelled out. That
 * whole conversations are written as Jinja2 writes them is selftest/e2e/test_chat_formats.py.
 */
#include "selftest/unit/test.h"

#include <string.h>

#include "config/chat/canonical.h"

static struct chat_scratch scratch;
static struct chat_format format;

static void assert_canonical(const char *source, const char *expected)
{
    assert_true(chat_canonical(&scratch, source, (uint32_t)strlen(source)));
    assert_int_equal(scratch.bytes, strlen(expected));
    assert_memory_equal(scratch.canonical, expected, scratch.bytes);
}

static enum chat_verdict recognise(const char *source)
{
    return chat_recognise(source, (uint32_t)strlen(source), &scratch, &format);
}

/* ---- the canonical form ---------------------------------------------------------------------- */

static void test_canonical_form_is_that_of_words_not_of_layout(void **state)
{
    assert_canonical("{{ a[\"b\"] + 'c d' }}", "{{a.b+'c d'}}");
    assert_canonical("{{- a . b -}}", "{{a.b}}");
    assert_canonical("{{ 'a\\nb' }}", "{{'a\nb'}}");
    assert_canonical("{%- if x['y'][0] -%}  z  {%- endif -%}", "{%ifx.y[0]%}{{'z'}}{%endif%}");
    assert_canonical("a{# not this #}b", "{{'a'}}{{'b'}}");
}

static void test_canonical_text_is_what_jinja2_prints(void **state)
{
    assert_canonical("{% a %}\nx\n{% b %}\n", "{%a%}{{'x\n'}}{%b%}");     /* trim_blocks */
    assert_canonical("  {% a %}x  {% b %}", "{%a%}{{'x  '}}{%b%}");       /* lstrip_blocks */
    assert_canonical("{{ a }}\n{{ b }}", "{{a}}{{'\n'}}{{b}}");
    assert_canonical("{{ a }}\n  {% b %}", "{{a}}{{'\n'}}{%b%}");
    assert_canonical("{{ a -}}\n  {{- b }}\n", "{{a}}{{b}}");             /* the last line end */
}

static void test_canonical_form_of_what_is_no_template_is_refused(void **state)
{
    static const char *const bad[] = {"{{", "{{ a", "{% 'a %}", "{# a", "a {%", "{{ a }", "{{ '\\"};
    for (uint32_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(chat_canonical(&scratch, bad[i], (uint32_t)strlen(bad[i])));
    }
    memset(scratch.source, '{', sizeof scratch.source);
    assert_false(chat_canonical(&scratch, scratch.source, sizeof scratch.source));
    assert_false(chat_canonical(&scratch, scratch.source, sizeof scratch.source + 1));
    memset(scratch.source, 'x', sizeof scratch.source);
    assert_true(chat_canonical(&scratch, scratch.source, sizeof scratch.source));
}

/* ---- recognition ----------------------------------------------------------------------------- */

#define TURNS   "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + " \
                "message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
#define ANSWER  "{% if add_generation_prompt %}{{ \"<|im_start|>assistant\\n\" }}{% endif %}"
#define WITH(s) "{% for message in messages %}" \
                "{% if loop.first and messages[0]['role'] != 'system' %}" \
                "{{ '<|im_start|>system\n" s "<|im_end|>\n' }}{% endif %}{{ '<|im_start|>' + " \
                "message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"

static void test_recognise_takes_the_models_own_system_message(void **state)
{
    assert_int_equal(recognise(TURNS ANSWER), CHAT_KNOWN);
    assert_int_equal(format.id, CHAT_CHATML);
    assert_string_equal(format.system, "");
    assert_int_equal(recognise(WITH("Keep bees.") ANSWER), CHAT_KNOWN);
    assert_int_equal(format.id, CHAT_CHATML);
    assert_string_equal(format.system, "Keep bees.");
    assert_int_equal(recognise("{{bos_token}}" TURNS ANSWER), CHAT_KNOWN);
    assert_int_equal(format.id, CHAT_CHATML_BOS);
    assert_string_equal(format.system, "");
}

static void test_recognise_nothing_that_says_more(void **state)
{
    static char long_one[1024] = WITH("");
    assert_int_equal(recognise(TURNS), CHAT_UNKNOWN);
    assert_int_equal(recognise(TURNS "<|extra|>" ANSWER), CHAT_UNKNOWN);
    assert_int_equal(recognise(TURNS "{{ x | trim }}" ANSWER), CHAT_UNKNOWN);
    assert_int_equal(recognise(WITH("' + name + '") ANSWER), CHAT_UNKNOWN);
    assert_int_equal(recognise(WITH("It\\'s me.") ANSWER), CHAT_UNKNOWN);
    assert_int_equal(recognise(""), CHAT_UNKNOWN);
    assert_int_equal(format.id, CHAT_PLAIN);
    assert_string_equal(format.system, "");
    char *at = strstr(long_one, "system\n") + 7, *rest = strstr(at, "<|im_end|>");
    memmove(rest + CHAT_SYSTEM_BYTES, rest, strlen(rest) + 1);
    memset(rest, 'x', CHAT_SYSTEM_BYTES);
    memcpy(long_one + strlen(long_one), ANSWER, sizeof ANSWER);
    assert_int_equal(recognise(long_one), CHAT_UNKNOWN);
    memmove(rest, rest + 1, strlen(rest));
    assert_int_equal(recognise(long_one), CHAT_KNOWN);
    assert_int_equal(strlen(format.system), CHAT_SYSTEM_BYTES - 1);
}

static void test_find_names_every_format(void **state)
{
    for (uint32_t id = 0; id < CHAT_FORMATS; id++) {
        assert_int_equal(chat_format_find(chat_format_name((enum chat_id)id)), id);
        assert_true(strlen(chat_format_name((enum chat_id)id)) < CHAT_NAME_BYTES);
    }
    assert_int_equal(chat_format_find("nonsense"), CHAT_FORMATS);
}

/* ---- rendering ------------------------------------------------------------------------------- */

static char text[512];
static uint32_t parts[32];

static enum chat_result render(const struct chat_message *messages, uint32_t count,
                               struct chat_output *output)
{
    const struct chat chat = {.messages = messages, .messages_count = count};
    *output = (struct chat_output){.text = text, .text_max = sizeof text, .parts = parts,
                                   .parts_max = sizeof parts / sizeof parts[0]};
    return chat_render(&format, &chat, output);
}

#define CHAT_TEXT_OF(literal) ((struct chat_text){(literal), sizeof(literal) - 1})
#define SAYS(who, what) {.role = CHAT_##who, .content = {(what), sizeof(what) - 1}}

static void test_render_keeps_the_users_words_apart(void **state)
{
    const struct chat_message messages[] = {SAYS(USER, "a<|im_end|>b")};
    struct chat_output output;
    format = (struct chat_format){.id = CHAT_CHATML};
    assert_int_equal(render(messages, 1, &output), CHAT_OK);
    assert_int_equal(output.parts_count, 3);
    assert_memory_equal(text, "<|im_start|>user\na<|im_end|>b<|im_end|>\n<|im_start|>assistant\n",
                        output.text_bytes);
    assert_int_equal(parts[0], 17);
    assert_int_equal(parts[1], 12);
    assert_int_equal(parts[0] + parts[1] + parts[2], output.text_bytes);
}

static void test_render_joins_what_stands_together(void **state)
{
    const struct chat_message messages[] = {SAYS(USER, ""), SAYS(USER, "x")};
    struct chat_output output;
    format = (struct chat_format){.id = CHAT_MISTRAL_V7T, .bos = "<s>", .eos = "</s>"};
    assert_int_equal(render(messages, 2, &output), CHAT_OK);
    assert_int_equal(output.parts_count, 3);
    assert_memory_equal(text, "<s>[INST][/INST][INST]x[/INST]", output.text_bytes);
}

static void test_render_without_room_says_so_and_writes_no_more(void **state)
{
    const struct chat_message messages[] = {SAYS(SYSTEM, "be"), SAYS(USER, "one"),
                                            SAYS(ASSISTANT, "two"), SAYS(USER, "three")};
    const struct chat chat = {.messages = messages, .messages_count = 4};
    struct chat_output whole;
    format = (struct chat_format){.id = CHAT_CHATML};
    assert_int_equal(render(messages, 4, &whole), CHAT_OK);
    for (uint32_t room = 0; room <= whole.text_bytes; room++) {
        struct chat_output output = {.text = text, .text_max = room, .parts = parts,
                                     .parts_max = whole.parts_count};
        memset(text, '#', sizeof text);
        assert_int_equal(chat_render(&format, &chat, &output),
                         room < whole.text_bytes ? CHAT_ERROR_SPACE : CHAT_OK);
        assert_true(text[room] == '#');
    }
    for (uint32_t room = 0; room < whole.parts_count; room++) {
        struct chat_output output = {.text = text, .text_max = sizeof text, .parts = parts,
                                     .parts_max = room};
        assert_int_equal(chat_render(&format, &chat, &output), CHAT_ERROR_SPACE);
    }
}

static void test_render_tools_for_a_model_without_a_template(void **state)
{
    struct chat_call call = {.name = {"calc", 4}, .arguments = CHAT_TEXT_OF(
        "{\"sum\": \"1+\\u20ac\\ud83d\\udc1d\\\"\\n\\/\"}")};
    const struct chat_message messages[] = {
        SAYS(SYSTEM, "Table:\n"), SAYS(USER, "How?"),
        {.role = CHAT_ASSISTANT, .content = {"I add.\n", 7}, .calls = &call, .calls_count = 1},
        SAYS(TOOL, "3"), SAYS(ASSISTANT, "3"), SAYS(USER, "Really?")};
    static const char expected[] =
        "<s>Table:\nTask: How?\nI add.\nAct: calc[ 1+\xe2\x82\xac\xf0\x9f\x90\x9d\"\n/ ]\nObs: 3\n"
        "Answer: 3\nTask: Really?\n";
    struct chat_output output;
    format = (struct chat_format){.id = CHAT_PLAIN, .bos = "<s>"};
    assert_int_equal(render(messages, 6, &output), CHAT_OK);
    assert_int_equal(output.text_bytes, sizeof expected - 1);
    assert_memory_equal(text, expected, sizeof expected - 1);
    call.arguments = CHAT_TEXT_OF("{\"a\": 1.5}");
    assert_int_equal(render(messages, 6, &output), CHAT_OK);
    call.arguments = CHAT_TEXT_OF("{\"a\": 1, \"b\": 2}");
    assert_int_equal(render(messages, 6, &output), CHAT_ERROR_ARGUMENTS);
    call.arguments = CHAT_TEXT_OF("{}");
    assert_int_equal(render(messages, 6, &output), CHAT_ERROR_ARGUMENTS);
}

static void test_render_refuses_what_asks_for_nothing(void **state)
{
    const struct chat_message answered[] = {SAYS(USER, "a"), SAYS(ASSISTANT, "b")};
    const struct chat_message twice[] = {SAYS(USER, "a"), SAYS(USER, "b")};
    const struct chat_message ruled[] = {SAYS(SYSTEM, "a"), SAYS(USER, "b")};
    const struct chat_message tool[] = {SAYS(USER, "a"), SAYS(TOOL, "b")};
    struct chat_output output;
    for (uint32_t id = 0; id < CHAT_FORMATS; id++) {
        format = (struct chat_format){.id = (enum chat_id)id};
        assert_int_equal(render(answered, 0, &output), CHAT_ERROR_EMPTY);
        assert_int_equal(render(answered, 2, &output),
                         id == CHAT_TULU ? CHAT_ERROR_ANSWERED : CHAT_OK);
        if (!chat_format_has_tools(format.id)) {
            assert_int_equal(render(tool, 2, &output), CHAT_ERROR_TOOLS);
        }
    }
    format.id = CHAT_MISTRAL_0_2;
    assert_int_equal(render(twice, 2, &output), CHAT_ERROR_ALTERNATION);
    assert_int_equal(render(ruled, 2, &output), CHAT_ERROR_SYSTEM);
    format.id = CHAT_LLAMA2;
    assert_int_equal(render(twice, 2, &output), CHAT_ERROR_ALTERNATION);
    for (uint32_t result = 0; result <= CHAT_ERROR_ARGUMENTS; result++) {
        assert_true(strlen(chat_result_text((enum chat_result)result)) > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canonical_form_is_that_of_words_not_of_layout),
        cmocka_unit_test(test_canonical_text_is_what_jinja2_prints),
        cmocka_unit_test(test_canonical_form_of_what_is_no_template_is_refused),
        cmocka_unit_test(test_recognise_takes_the_models_own_system_message),
        cmocka_unit_test(test_recognise_nothing_that_says_more),
        cmocka_unit_test(test_find_names_every_format),
        cmocka_unit_test(test_render_keeps_the_users_words_apart),
        cmocka_unit_test(test_render_joins_what_stands_together),
        cmocka_unit_test(test_render_without_room_says_so_and_writes_no_more),
        cmocka_unit_test(test_render_tools_for_a_model_without_a_template),
        cmocka_unit_test(test_render_refuses_what_asks_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
