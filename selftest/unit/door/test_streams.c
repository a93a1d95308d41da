/* SPDX-License-Identifier: MIT */
/*
 * Goal: each API's stream is what its clients read, event by event: texts, calls of tools, ends,
 * and what went wrong in the middle.
 * Method: pieces of an answer by hand; the events as lists of their types, and in full where an API
 * has no types.
 */
#include "selftest/unit/door/door_rig.h"

#define CHUNK(choices) "data: {\"id\":\"chatcmpl-ID\",\"object\":\"chat.completion.chunk\"," \
                       "\"created\":7,\"model\":\"m\",\"choices\":[" choices "]}\n\n"
#define DELTA(delta, reason) CHUNK("{\"index\":0,\"delta\":{" delta "},\"logprobs\":null," \
                                   "\"finish_reason\":" reason "}")
#define CALL(rest) "\"tool_calls\":[{\"index\":0," rest "}]"
#define TEXT_OF(index, text, reason) \
    "data: {\"id\":\"cmpl-ID\",\"object\":\"text_completion\",\"created\":7,\"model\":\"m\"," \
    "\"choices\":[{\"index\":" index ",\"text\":\"" text "\",\"logprobs\":null," \
    "\"finish_reason\":" reason "}]}\n\n"
#define TEXT(text, reason) TEXT_OF("0", text, reason)

static const char *const said[] = {"Hello", ", \"you\"", NULL};
static const char chat[] = "{\"model\":\"m\",\"stream\":true,\"messages\":[{\"role\":\"user\","
                           "\"content\":\"hi\"}]}";
static const char message[] = "{\"model\":\"m\",\"stream\":true,\"max_tokens\":9,\"messages\":[{"
                              "\"role\":\"user\",\"content\":\"hi\"}]}";

static struct request *begin(const char *path, const char *body)
{
    struct request *request = rig_ask(path, body);
    assert_int_equal(request->state, REQUEST_WAITING);
    return request;
}

/* A call of a tool, which the model makes in three pieces. */
static void call_tool(struct choice *choice)
{
    struct tool_call *call = &choice->tool_calls[choice->tool_calls_count++];
    const struct piece pieces[] = {
        {.kind = PIECE_CALL_BEGIN, .text = "sum", .bytes = 3},
        {.kind = PIECE_CALL_ARGUMENTS, .text = "{\"a\":", .bytes = 5},
        {.kind = PIECE_CALL_ARGUMENTS, .text = "2}", .bytes = 2}, {.kind = PIECE_CALL_END}};
    memcpy(call->id, "c1", sizeof "c1");
    assert_true(buffer_add(&call->name, "sum", 3));
    for (uint32_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        if (pieces[i].kind == PIECE_CALL_ARGUMENTS) {
            assert_true(buffer_add(&call->arguments, pieces[i].text, pieces[i].bytes));
        }
        choice->request->dialect->say(choice->request, choice, &pieces[i]);
    }
}

/* The types of all events in their order, and each event's JSON is whole. */
static void assert_types(const struct request *request, const char *expected)
{
    char types[2048] = "";
    size_t used = 0;
    for (const char *at = rig_out(request); *at != '\0';) {
        const char *data = strstr(at, "data: "), *end = strstr(at, "\n\n");
        assert_true(data != NULL && end != NULL && data < end);
        json_t *event = json_loadb(data + 6, (size_t)(end - data - 6), 0, NULL);
        const char *type = json_string_value(json_object_get(event, "type"));
        assert_non_null(type);
        assert_memory_equal(at, "event: ", 7);
        assert_memory_equal(at + 7, type, strlen(type));
        used += (size_t)snprintf(types + used, sizeof types - used, "%s ", type);
        json_decref(event);
        at = end + 2;
    }
    assert_string_equal(types, expected);
}

static void test_openai_chat(void **state)
{
    rig_begin();
    struct request *request = begin("/v1/chat/completions", chat);
    rig_say(request->choices[0], said, AGX_FINISH_LENGTH);
    assert_string_equal(rig_out(request),
        DELTA("\"role\":\"assistant\",\"content\":\"\"", "null")
        DELTA("\"content\":\"Hello\"", "null") DELTA("\"content\":\", \\\"you\\\"\"", "null")
        DELTA("", "\"length\"") "data: [DONE]\n\n");
    rig_end();
}

static void test_openai_chat_with_a_call(void **state)
{
    rig_begin();
    struct request *request = begin("/v1/chat/completions", chat);
    request_accepted(request->choices[0]);
    call_tool(request->choices[0]);
    rig_say(request->choices[0], (const char *const[]){NULL}, AGX_FINISH_EOS);
    assert_string_equal(rig_out(request),
        DELTA("\"role\":\"assistant\",\"content\":\"\"", "null")
        DELTA(CALL("\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"sum\","
                   "\"arguments\":\"\"}"), "null")
        DELTA(CALL("\"function\":{\"arguments\":\"{\\\"a\\\":\"}"), "null")
        DELTA(CALL("\"function\":{\"arguments\":\"2}\"}"), "null")
        DELTA("", "\"tool_calls\"") "data: [DONE]\n\n");
    rig_end();
}

static void test_openai_chat_that_fails_in_the_middle(void **state)
{
    rig_begin();
    struct request *request = begin("/v1/chat/completions", chat);
    request_accepted(request->choices[0]);
    request_heard(request->choices[0], "x", 1);
    rig_close(request->choices[0]);
    request_lost(request->choices[0]);
    assert_string_equal(rig_out(request),
        DELTA("\"role\":\"assistant\",\"content\":\"\"", "null") DELTA("\"content\":\"x\"", "null")
        "data: {\"error\":{\"message\":\"the appliance did not come back in time\",\"type\":"
        "\"overloaded_error\",\"param\":null,\"code\":null}}\n\ndata: [DONE]\n\n");
    assert_true(request->is_complete);
    rig_end();
}

static void test_openai_completion_with_usage(void **state)
{
    rig_begin();
    struct request *request = begin("/v1/completions", "{\"model\":\"m\",\"prompt\":\"a\","
                                    "\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    rig_say(request->choices[0], said, AGX_FINISH_EOS);
    assert_string_equal(rig_out(request),
        TEXT("Hello", "null") TEXT(", \\\"you\\\"", "null") TEXT("", "\"stop\"")
        "data: {\"id\":\"cmpl-ID\",\"object\":\"text_completion\",\"created\":7,\"model\":\"m\","
        "\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3,\"total_tokens\":8,"
        "\"prompt_tokens_details\":{\"cached_tokens\":0}}}\n\ndata: [DONE]\n\n");
    rig_end();
}

/* Pieces come as the model makes them; one choice ends while others go on, and one fails. */
static void test_openai_completion_of_several_prompts(void **state)
{
    rig_begin();
    struct request *request = begin("/v1/completions", "{\"model\":\"m\",\"prompt\":[\"a\",[1,2]],"
                                    "\"n\":2,\"stream\":true}");
    for (uint32_t i = 4; i-- > 0;) {
        request_accepted(request->choices[i]);
        request_heard(request->choices[i], "x", 1);
    }
    rig_say(request->choices[2], (const char *const[]){"y", NULL}, AGX_FINISH_LENGTH);
    rig_close(request->choices[0]);
    request_lost(request->choices[0]);
    rig_say(request->choices[3], (const char *const[]){NULL}, AGX_FINISH_EOS);
    assert_false(request->is_complete);
    rig_say(request->choices[1], (const char *const[]){NULL}, AGX_FINISH_EOS);
    assert_string_equal(rig_out(request),
        TEXT_OF("3", "x", "null") TEXT_OF("2", "x", "null") TEXT_OF("1", "x", "null")
        TEXT_OF("0", "x", "null") TEXT_OF("2", "y", "null") TEXT_OF("2", "", "\"length\"")
        TEXT_OF("3", "", "\"stop\"") TEXT_OF("1", "", "\"stop\"")
        "data: {\"error\":{\"message\":\"the appliance did not come back in time\",\"type\":"
        "\"overloaded_error\",\"param\":null,\"code\":null}}\n\ndata: [DONE]\n\n");
    assert_true(request->is_complete);
    rig_end();
}

static void test_openai_response(void **state)
{
    rig_begin();
    struct request *request = begin("/v1/responses", "{\"input\":\"a\",\"stream\":true}");
    request_accepted(request->choices[0]);
    request_heard(request->choices[0], "Hello", 5);
    call_tool(request->choices[0]);
    rig_say(request->choices[0], (const char *const[]){NULL}, AGX_FINISH_EOS);
    assert_types(request, "response.created response.in_progress response.output_item.added "
                 "response.content_part.added response.output_text.delta "
                 "response.output_text.done response.content_part.done "
                 "response.output_item.done response.output_item.added "
                 "response.function_call_arguments.delta response.function_call_arguments.delta "
                 "response.function_call_arguments.done response.output_item.done "
                 "response.completed ");
    rig_end();
}

static void test_openai_response_that_is_cut_short_or_fails(void **state)
{
    rig_begin();
    struct request *request = begin("/v1/responses", "{\"input\":\"a\",\"stream\":true}");
    rig_say(request->choices[0], said, AGX_FINISH_LENGTH);
    assert_non_null(strstr(rig_out(request), "event: response.incomplete\n"));
    request = begin("/v1/responses", "{\"input\":\"a\",\"stream\":true}");
    request_accepted(request->choices[0]);
    rig_close(request->choices[0]);
    request_lost(request->choices[0]);
    assert_types(request, "response.created response.in_progress error ");
    rig_end();
}

static void test_anthropic_message(void **state)
{
    rig_begin();
    struct request *request = begin("/v1/messages", message);
    request_accepted(request->choices[0]);
    request_heard(request->choices[0], "Hello", 5);
    call_tool(request->choices[0]);
    rig_say(request->choices[0], (const char *const[]){NULL}, AGX_FINISH_EOS);
    assert_types(request, "message_start content_block_start content_block_delta "
                 "content_block_stop content_block_start content_block_delta content_block_delta "
                 "content_block_stop message_delta message_stop ");
    assert_non_null(strstr(rig_out(request), "\"stop_reason\":\"tool_use\""));
    rig_end();
}

static void test_anthropic_message_that_fails_in_the_middle(void **state)
{
    rig_begin();
    struct request *request = begin("/v1/messages", message);
    request_accepted(request->choices[0]);
    request_heard(request->choices[0], "Hello", 5);
    rig_close(request->choices[0]);
    request_lost(request->choices[0]);
    assert_types(request, "message_start content_block_start content_block_delta error ");
    rig_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_openai_chat),
        cmocka_unit_test(test_openai_chat_with_a_call),
        cmocka_unit_test(test_openai_chat_that_fails_in_the_middle),
        cmocka_unit_test(test_openai_completion_with_usage),
        cmocka_unit_test(test_openai_completion_of_several_prompts),
        cmocka_unit_test(test_openai_response),
        cmocka_unit_test(test_openai_response_that_is_cut_short_or_fails),
        cmocka_unit_test(test_anthropic_message),
        cmocka_unit_test(test_anthropic_message_that_fails_in_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
