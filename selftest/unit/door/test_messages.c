/* SPDX-License-Identifier: MIT */
/*
 * Goal: a conversation becomes the same prompt, and the same program, through every API; what
 * no API may say is refused.
 * Method: one conversation, with a call of a tool, as each API writes it.
 */
#include "selftest/unit/door/door_rig.h"

#define SCHEMA "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"number\"}}}"
#define FUNCTION "\"name\":\"sum\",\"description\":\"adds\",\"parameters\":" SCHEMA
#define ARGUMENTS "\"{\\\"a\\\": 2}\""

static const char chat[] =
    "{\"messages\":["
    "{\"role\":\"developer\",\"content\":\"Be kind.\"},"
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Two \"},"
    "{\"type\":\"text\",\"text\":\"and 2?\"}]},"
    "{\"role\":\"assistant\",\"content\":\"Let me see.\",\"tool_calls\":[{\"id\":\"c\",\"type\":"
    "\"function\",\"function\":{\"name\":\"sum\",\"arguments\":" ARGUMENTS "}}]},"
    "{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"4\"},"
    "{\"role\":\"user\",\"content\":\"Sure?\"}],"
    "\"tools\":[{\"type\":\"function\",\"function\":{" FUNCTION "}}]}";
static const char response[] =
    "{\"instructions\":\"Be kind.\",\"input\":["
    "{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"Two and 2?\"}]},"
    "{\"type\":\"reasoning\",\"summary\":[]},"
    "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":"
    "\"Let me see.\"}]},"
    "{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"sum\",\"arguments\":" ARGUMENTS "},"
    "{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"4\"},"
    "{\"role\":\"user\",\"content\":\"Sure?\"}],"
    "\"tools\":[{\"type\":\"function\"," FUNCTION "}]}";
static const char message[] =
    "{\"max_tokens\":9,\"thinking\":{\"type\":\"enabled\"},\"system\":\"Be kind.\",\"messages\":["
    "{\"role\":\"user\",\"content\":\"Two and 2?\"},"
    "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\"},"
    "{\"type\":\"text\",\"text\":\"Let me see.\"},"
    "{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"sum\",\"input\":{\"a\": 2}}]},"
    "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"c\",\"content\":"
    "[{\"type\":\"text\",\"text\":\"4\"}]},{\"type\":\"text\",\"text\":\"Sure?\"}]}],"
    "\"tools\":[{\"name\":\"sum\",\"description\":\"adds\",\"input_schema\":" SCHEMA "}]}";

/* The body, with another member behind its first brace. */
static const char *with_member(const char *body, const char *member)
{
    static char text[2048];
    snprintf(text, sizeof text, "{%s,%s", member, body + 1);
    return text;
}

/* Each API demands a call of `sum`: the prompt begins it, and the model's words go on with it. */
static void test_demanded_call_is_begun_in_the_prompt(void **state)
{
    static const struct { const char *path, *body, *member; } rows[] = {
        {"/v1/chat/completions", chat,
         "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"sum\"}}"},
        {"/v1/chat/completions", chat, "\"tool_choice\":\"required\""},
        {"/v1/responses", response, "\"tool_choice\":{\"type\":\"function\",\"name\":\"sum\"}"},
        {"/v1/messages", message, "\"tool_choice\":{\"type\":\"tool\",\"name\":\"sum\"}"},
        {"/v1/messages", message, "\"tool_choice\":{\"type\":\"any\"}"}};
    static const char begun[] = "<|im_start|>assistant\n<tool_call>\n{\"name\": \"sum\", "
                                "\"arguments\":";
    static const char *const rest[] = {" {\"a\"", ": 3}}\n</tool_call>", NULL};
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        rig_begin();
        struct request *request = rig_ask(rows[i].path, with_member(rows[i].body, rows[i].member));
        assert_int_equal(request->state, REQUEST_WAITING);
        struct choice *choice = request->choices[0];
        const struct buffer *prompt = &choice->prompt->text;
        size_t bytes = sizeof begun - 1;
        assert_memory_equal(prompt->at + prompt->count - bytes, begun, bytes);
        rig_say(choice, rest, AGX_FINISH_EOS);
        assert_int_equal(choice->tool_calls_count, 1);
        assert_int_equal(choice->content.count, 0);
        assert_memory_equal(choice->tool_calls[0].arguments.at, "{\"a\": 3}", 8);
        assert_memory_equal(choice->tool_calls[0].name.at, "sum", 3);
        rig_end();
    }
}

static void test_demanded_call_that_cannot_be_is_refused(void **state)
{
    static const char *const members[] = {
        "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"other\"}}",
        "\"tool_choice\":{\"type\":\"function\"}", "\"tool_choice\":\"always\"",
        "\"tool_choice\":7"};
    rig_begin();
    for (uint32_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        struct request *request = rig_take("/v1/chat/completions");
        assert_false(rig_read(request, with_member(chat, members[i])));
        assert_string_equal(request->refusal.param, "tool_choice");
        request_free(request);
    }
    rig.door.model.format.id = CHAT_QWQ;
    struct request *request = rig_take("/v1/chat/completions");
    assert_false(rig_read(request, with_member(chat, "\"tool_choice\":\"required\"")));
    assert_string_equal(request->refusal.param, "tool_choice");
    assert_non_null(strstr(request->refusal.text, "thought"));
    rig_end();
}

static void test_each_api_makes_the_same_prompt(void **state)
{
    rig_begin();
    struct request *one = rig_take("/v1/chat/completions"), *two = rig_take("/v1/responses"),
                   *three = rig_take("/v1/messages");
    assert_true(rig_read(one, chat) && rig_read(two, response) && rig_read(three, message));
    const char *prompt = one->choices[0]->prompt->text.at;
    assert_string_equal(two->choices[0]->prompt->text.at, prompt);
    assert_string_equal(three->choices[0]->prompt->text.at, prompt);
    assert_non_null(strstr(prompt, "<|im_start|>system\nBe kind."));
    assert_non_null(strstr(prompt, "<|im_start|>user\nTwo and 2?<|im_end|>"));
    assert_non_null(strstr(prompt, "{\"name\": \"sum\", \"arguments\": {\"a\": 2}}"));
    assert_non_null(strstr(prompt, "<tool_response>\n4\n</tool_response>"));
    assert_memory_equal(one->conversation, two->conversation, sizeof one->conversation);
    assert_memory_equal(one->conversation, three->conversation, sizeof one->conversation);
    rig_end();
}

static void test_a_call_without_arguments_has_an_empty_object(void **state)
{
    rig_begin();
    struct request *request = rig_take("/v1/chat/completions");
    assert_true(rig_read(request, "{\"messages\":[{\"role\":\"assistant\",\"content\":null,"
                                  "\"tool_calls\":[{\"id\":\"c\",\"function\":{\"name\":\"now\","
                                  "\"arguments\":\"\"}}]},{\"role\":\"tool\",\"tool_call_id\":"
                                  "\"c\",\"content\":\"noon\"}]}"));
    assert_non_null(strstr(request->choices[0]->prompt->text.at,
                           "{\"name\": \"now\", \"arguments\": {}}"));
    rig_end();
}

static void test_texts_of_users_are_quoted(void **state)
{
    rig_begin();
    struct request *request = rig_take("/v1/messages");
    assert_true(rig_read(request, "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":"
                                  "\"<|im_end|>\"}]}"));
    const struct prompt *prompt = request->choices[0]->prompt;
    size_t at = 0, is_quoted = 0;
    const char *said = strstr(prompt->text.at, "user\n<|im_end|>") + 5;
    for (uint32_t i = 0; i < prompt->parts_count; i++) {
        is_quoted += i % 2 == 1 && said == prompt->text.at + at && prompt->parts[i] == 10;
        at += prompt->parts[i];
    }
    assert_int_equal(is_quoted, 1);
    assert_int_equal(at, prompt->text.count);
    rig_end();
}

static void test_what_no_api_may_say_is_refused_by_name(void **state)
{
    static const struct { const char *path, *body, *param; } rows[] = {
        {"/v1/chat/completions", "{}", "messages"},
        {"/v1/chat/completions", "{\"messages\":[]}", "messages"},
        {"/v1/chat/completions", "{\"messages\":[1]}", "messages[0]"},
        {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":5}]}",
         "messages[0]"},
        {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"\"},"
         "{\"role\":\"user\"}]}", "messages[1]"},
        {"/v1/chat/completions", "{\"messages\":[{\"role\":\"x\",\"content\":\"\"}]}",
         "messages[0]"},
        {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
         "\"image_url\"}]}]}", "messages[0]"},
        {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"tools\":"
         "[{\"type\":\"function\"}]}", "tools[0]"},
        {"/v1/chat/completions", "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{"
         "\"function\":{\"name\":\"f\",\"arguments\":\"[1]\"}}]}]}", "messages[0]"},
        {"/v1/responses", "{\"input\":[{\"type\":\"item_reference\"}]}", "input[0]"},
        {"/v1/responses", "{\"input\":[{\"role\":\"user\",\"content\":\"\"},{\"type\":"
         "\"function_call_output\",\"call_id\":\"c\",\"output\":5}]}", "input[1]"},
        {"/v1/responses", "{\"input\":5}", "input"},
        {"/v1/responses", "{\"input\":\"\",\"previous_response_id\":\"resp_0\"}",
         "previous_response_id"},
        {"/v1/messages", "{\"messages\":[{\"role\":\"user\",\"content\":\"\"}]}", "max_tokens"},
        {"/v1/messages", "{\"max_tokens\":1,\"messages\":[{\"role\":\"system\"}]}", "messages[0]"},
    };
    rig_begin();
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct request *request = rig_take(rows[i].path);
        assert_false(rig_read(request, rows[i].body));
        assert_true(request->refusal.status == 400 || request->refusal.status == 404);
        assert_string_equal(request->refusal.param, rows[i].param);
        request_free(request);
    }
    rig_end();
}

static void test_many_tools_leave_no_memory_behind(void **state)
{
    rig_begin();
    for (uint32_t i = 0; i < 50; i++) {
        struct request *request = rig_take("/v1/chat/completions");
        assert_true(rig_read(request, chat));
        request_free(request);
        assert_int_equal(memory_taken_bytes(), 0);
    }
    rig_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_demanded_call_is_begun_in_the_prompt),
        cmocka_unit_test(test_demanded_call_that_cannot_be_is_refused),
        cmocka_unit_test(test_each_api_makes_the_same_prompt),
        cmocka_unit_test(test_a_call_without_arguments_has_an_empty_object),
        cmocka_unit_test(test_texts_of_users_are_quoted),
        cmocka_unit_test(test_what_no_api_may_say_is_refused_by_name),
        cmocka_unit_test(test_many_tools_leave_no_memory_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
