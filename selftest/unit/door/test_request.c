/* SPDX-License-Identifier: MIT */
/*
 * Goal: whatever is refused while a request lives, memory or a call, its client gets a whole answer
 * or a refusal, and everything comes back.
 * Method: the same requests with every allowance from none to enough; the appliance's words by
 * hand.
 */
#include "selftest/unit/door/door_rig.h"

#define STEP_BYTES 48u

static const char *const said[] = {"Bees ", "make ", "honey.", NULL};
#define TOOLS "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"sum\"," \
              "\"description\":\"adds\",\"parameters\":{\"type\":\"object\"}}}]"
#define USER  "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"What?\"}]}"
#define CALLS "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"c1\",\"type\":" \
              "\"function\",\"function\":{\"name\":\"sum\",\"arguments\":" \
              "\"{\\\"a\\\":[1,2]}\"}}]}," \
              "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"3\"}"
static const struct { const char *path, *body, *wanted; } asked[] = {
    {"/v1/chat/completions", "{\"messages\":[" USER "," CALLS "]," TOOLS ",\"n\":2}",
     "\"content\":\"Bees make honey.\""},
    {"/v1/chat/completions", "{\"stream\":true,\"messages\":[" USER "," CALLS "]," TOOLS "}",
     "data: [DONE]"},
    {"/v1/completions", "{\"prompt\":\"What?\",\"stop\":[\"a\",\"b\"]}",
     "\"text\":\"Bees make honey.\""},
    {"/v1/completions", "{\"prompt\":\"What?\",\"stream\":true}", "data: [DONE]"},
    {"/v1/completions", "{\"prompt\":[\"What?\",[1,2,3],\"\"],\"n\":2}",
     "\"text\":\"Bees make honey.\""},
    {"/v1/completions", "{\"prompt\":[[1,2],[3]],\"stream\":true}", "data: [DONE]"},
    {"/v1/responses", "{\"input\":[" USER "],\"instructions\":\"Be kind.\"}",
     "\"text\":\"Bees make honey.\""},
    {"/v1/responses", "{\"input\":\"What?\",\"stream\":true}", "response.completed"},
    {"/v1/messages", "{\"max_tokens\":9,\"system\":\"Be kind.\",\"messages\":[" USER "]}",
     "\"text\":\"Bees make honey.\""},
    {"/v1/messages", "{\"max_tokens\":9,\"stream\":true,\"messages\":[" USER "]}", "message_stop"},
};

static void close_and_free(struct request *request)
{
    for (uint32_t i = 0; i < request->choices_count; i++) {
        rig_close(request->choices[i]);
    }
    request_free(request);
}

/* True when the answer is whole. */
static bool is_whole(uint32_t i)
{
    struct request *request = rig_ask(asked[i].path, asked[i].body);
    bool was_waiting = request->state == REQUEST_WAITING;
    for (uint32_t n = 0; was_waiting && n < request->choices_count; n++) {
        rig_say(request->choices[n], said, AGX_FINISH_EOS);
    }
    bool is_stream = request->state == REQUEST_STREAMING;
    bool is_cut = request->has_left || request->constant != NULL || request->status == 503;
    if (is_stream && !is_cut) {
        assert_true(request->is_complete);
    } else if (!is_stream) {
        assert_int_equal(request->state, REQUEST_ANSWERED);
        assert_true(request->status == 200 || request->status == 503 || request->status == 413);
    }
    bool is_good = request->status == 200 && !is_cut;
    if (is_good) {
        assert_non_null(strstr(rig_out(request), asked[i].wanted));
    }
    close_and_free(request);
    return is_good;
}

static void forget_kept(void)
{
    struct responses *kept = rig.door.responses;
    for (uint32_t i = 0; i < kept->count; i++) {
        responses_forget(&kept->ring[i]);
    }
    kept->kept = 0;
}

static void test_any_allowance_gives_a_whole_answer_or_a_refusal(void **state)
{
    rig_begin();
    for (uint32_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        bool was_whole = false;
        for (uint32_t bytes = 0; !was_whole; bytes += STEP_BYTES) {
            assert_true(bytes < 1 << 20);
            rig_connect();
            memory_begin(bytes);
            was_whole = is_whole(i);
            forget_kept();
            assert_int_equal(memory_taken_bytes(), 0);
        }
    }
    rig_end();
}

static void test_memory_that_ends_while_an_answer_comes_ends_it(void **state)
{
    rig_begin();
    for (uint32_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        rig_connect();
        struct request *request = rig_ask(asked[i].path, asked[i].body);
        assert_int_equal(request->state, REQUEST_WAITING);
        request_accepted(request->choices[0]);
        bool is_stream = request->state == REQUEST_STREAMING;
        memory_begin(memory_taken_bytes());
        char more[512];
        memset(more, 'x', sizeof more);
        request_heard(request->choices[0], more, sizeof more);
        assert_true(is_stream ? request->has_left : request->constant != NULL);
        size_t sent = request->out.count;
        memory_begin(RIG_MEMORY);
        rig_say(request->choices[0], said, AGX_FINISH_EOS);     /* too late */
        assert_int_equal(request->out.count, sent);
        close_and_free(request);
        forget_kept();
    }
    rig_end();
}

static void assert_says(const struct request *request, uint32_t status, const char *text)
{
    assert_int_equal(request->status, status);
    assert_string_equal(request->refusal.text, text);
}

static void test_a_body_in_a_coding_is_refused_as_that(void **state)
{
    static const char body[] = "{\"prompt\":\"a\"}";
    static const char *const plain[] = {"", "identity", "Identity"};
    rig_begin();
    rig_header("Content-Encoding", "gzip");
    assert_says(rig_ask("/v1/completions", "\x1f\x8b\x08"), 415, "the body has "
                "'Content-Encoding: gzip': this server takes bodies as they are, without one");
    for (uint32_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        rig_no_headers();
        rig_header("Content-Encoding", plain[i]);
        struct request *request = rig_ask("/v1/completions", body);
        assert_int_equal(request->state, REQUEST_WAITING);
        close_and_free(request);
    }
    rig_end();
}

#define RANGES "; integers are from -9223372036854775808 to 9223372036854775807, other numbers " \
               "up to 1.8e308"

static void test_a_number_without_room_is_named_with_its_place(void **state)
{
    rig_begin();
    assert_says(rig_ask("/v1/completions", "{\"prompt\":\"a\",\"x\":[{\"max\":18446744073709551615"
                        "}]}"), 400, "the body has a number out of range: too big integer near "
                "'18446744073709551615' at byte 46" RANGES);
    assert_says(rig_ask("/v1/completions", "{\"prompt\":}"), 400,
                "the body is not JSON: unexpected token near '}' at byte 11");
    assert_says(rig_ask("/v1/chat/completions", "{\"messages\":[{\"role\":\"assistant\","
                        "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":"
                        "\"{\\\"a\\\":-9223372036854775809}\"}}]}]}"), 400,
                "messages[0]: the arguments of a tool call have a number out of range: too big "
                "negative integer near '-9223372036854775809'" RANGES);
    rig_end();
}

static void test_kept_answers_yield_to_requests(void **state)
{
    rig_begin();
    static char body[20000];
    uint32_t whole = 0;
    memory_begin(500000);
    memset(body, 'x', sizeof body - 1);
    memcpy(body, "{\"input\":\"", 10);
    memcpy(body + sizeof body - 4, "\"}", 3);
    rig.door.responses->count = 4;
    for (uint32_t i = 0; i < 40; i++) {
        rig_connect();
        struct request *request = rig_ask("/v1/responses", body);
        assert_int_equal(request->state, REQUEST_WAITING);
        rig_say(request->choices[0], said, AGX_FINISH_EOS);
        whole += request->status == 200;
        request_free(request);
    }
    assert_int_equal(whole, 40);
    void *others = memory_take(400000 - memory_taken_bytes());      /* of other requests */
    assert_non_null(others);
    responses_yield(&rig.door);
    assert_int_equal(rig.door.responses->kept, 0);
    memory_give(others);
    rig_end();
}

static void test_second_call_that_is_refused_leaves_one_answer(void **state)
{
    rig_begin();
    rig.uplinks[0].calls_open = AGX_CALLS_MAX - 1;              /* room for one */
    static struct choice others[AGX_CALLS_MAX];
    for (uint32_t i = 0; i < rig.uplinks[0].calls_open; i++) {
        rig.uplinks[0].calls[i] = &others[i];
    }
    struct request *request = rig_ask("/v1/completions", "{\"prompt\":\"a\",\"n\":3}");
    assert_int_equal(request->state, REQUEST_ANSWERED);
    assert_int_equal(request->status, 429);
    const char *at = request->out.at;
    size_t count = request->out.count;
    rig_say(request->choices[0], said, AGX_FINISH_CANCELLED);
    assert_ptr_equal(request->out.at, at);                  /* HTTP is sending it */
    assert_int_equal(request->out.count, count);
    request_free(request);
    rig_end();
}

/* An answer that lacks some of its log probabilities would look whole. */
static void test_log_probabilities_without_room_end_the_answer(void **state)
{
    rig_begin();
    struct request *request = rig_ask("/v1/completions", "{\"prompt\":\"a\",\"logprobs\":1}");
    const uint32_t token = 0;
    const struct agx_logprob entries[] = {{0, -1}, {1, -2}};
    const struct agx_event event = {.kind = AGX_TOKENS, .tokens = &token, .tokens_count = 1,
                                    .logprobs = entries, .logprobs_each = 2};
    assert_int_equal(request->state, REQUEST_WAITING);
    memory_begin(memory_taken_bytes());
    request_scored(request->choices[0], &event);
    memory_begin(RIG_MEMORY);
    assert_int_equal(request->state, REQUEST_ANSWERED);
    assert_int_equal(request->status, 503);
    rig_close(request->choices[0]);
    request_free(request);
    rig_end();
}

static void test_same_key_of_two_programs_is_two_calls(void **state)
{
    rig_begin();
    rig_header("Idempotency-Key", "k");
    rig_header("X-Agentix-Program", "one");
    struct request *first = rig_ask("/v1/completions", "{\"prompt\":\"a\"}");
    struct request *again = rig_ask("/v1/completions", "{\"prompt\":\"a\"}");
    assert_int_equal(first->state, REQUEST_WAITING);
    assert_int_equal(again->status, 409);
    rig_no_headers();
    rig_header("Idempotency-Key", "k");
    rig_header("X-Agentix-Program", "two");
    struct request *other = rig_ask("/v1/completions", "{\"prompt\":\"a\"}");
    assert_int_equal(other->state, REQUEST_WAITING);
    assert_true(first->choices[0]->call.call_id != other->choices[0]->call.call_id);
    rig_close(first->choices[0]);
    rig_close(other->choices[0]);
    rig_end();
}

static void test_choices_outlive_a_client_that_leaves(void **state)
{
    rig_begin();
    struct request *request = rig_ask("/v1/completions", "{\"prompt\":\"a\",\"n\":2}");
    struct choice *choice = request->choices[0];
    rig_close(request->choices[1]);
    request_leave(request);
    request_free(request);
    assert_true(choice->is_used && choice->is_open && choice->request == NULL);
    assert_string_equal(choice->call.prompt_text, "a");     /* the library may send it again */
    rig_close(choice);
    choice_free(choice);
    rig_end();
}

static void test_as_many_requests_as_there_are_and_no_more(void **state)
{
    rig_begin();
    for (uint32_t i = 0; i < RIG_REQUESTS; i++) {
        (void)rig_take("/v1/completions");
    }
    assert_null(request_take(&rig.door, "POST", "/v1/completions"));
    request_free(&rig.requests[3]);
    assert_ptr_equal(rig_take("/v1/completions"), &rig.requests[3]);
    rig_end();
}

static void test_body_beyond_its_bound_is_refused_and_not_kept(void **state)
{
    rig_begin();
    struct request *request = rig_take("/v1/completions");
    static const char part[RIG_BODY_BYTES];
    assert_true(request_receive(request, part, sizeof part));
    assert_false(request_receive(request, part, 1));
    assert_false(request_receive(request, part, sizeof part));
    assert_int_equal(memory_taken_bytes(), 0);
    request_judge(request);
    assert_int_equal(request->status, 413);
    rig_end();
}

/* Found by selftest/fuzz/fuzz_door.c: what is no text made an answer that was empty. */
static void test_what_is_quoted_in_part_stays_text(void **state)
{
    rig_begin();
    char body[512];
    struct request *request = rig_ask("/v1/completions", "{\"a\":\"\\u00\xc3\xa9\xc3\xa9\"}");
    assert_int_equal(request->status, 400);
    assert_non_null(strstr(rig_out(request), "the body is not JSON"));
    for (uint32_t i = 120; i < 135; i++) {                  /* a name that ends within é */
        int bytes = snprintf(body, sizeof body, "{\"prompt\":\"a\",\"model\":\"%0*d", (int)i, 0);
        snprintf(body + bytes, sizeof body - (size_t)bytes, "\xc3\xa9\"}");
        request = rig_ask("/v1/completions", body);
        rig_say(request->choices[0], said, AGX_FINISH_EOS);
        assert_int_equal(request->status, 200);
        assert_non_null(strstr(rig_out(request), "\"model\":\"000"));
        request_free(request);
    }
    rig_end();
}

/* What is refused before its body is read, too: a client of Anthropic's reads no other shape. */
static void test_refusals_at_and_below_messages_have_the_shape_of_its_api(void **state)
{
    static const struct { const char *method, *path, *begins; uint32_t status; } wrong[] = {
        {"POST", "/v1/messages/batches", "{\"type\":\"error\"", 404},
        {"GET", "/v1/messages/batches/1/results", "{\"type\":\"error\"", 404},
        {"GET", "/v1/messages", "{\"type\":\"error\"", 405},
        {"POST", "/v1/messages/count_tokens", "{\"type\":\"error\"", 400},
        {"POST", "/v1/messagesX", "{\"error\"", 404}, {"POST", "/v1/batches", "{\"error\"", 404}};
    rig_begin();
    for (uint32_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct request *request = request_take(&rig.door, wrong[i].method, wrong[i].path);
        assert_non_null(request);
        request_judge(request);
        assert_int_equal(request->status, wrong[i].status);
        assert_memory_equal(rig_out(request), wrong[i].begins, strlen(wrong[i].begins));
        request_free(request);
    }
    rig_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_allowance_gives_a_whole_answer_or_a_refusal),
        cmocka_unit_test(test_log_probabilities_without_room_end_the_answer),
        cmocka_unit_test(test_memory_that_ends_while_an_answer_comes_ends_it),
        cmocka_unit_test(test_a_body_in_a_coding_is_refused_as_that),
        cmocka_unit_test(test_a_number_without_room_is_named_with_its_place),
        cmocka_unit_test(test_kept_answers_yield_to_requests),
        cmocka_unit_test(test_second_call_that_is_refused_leaves_one_answer),
        cmocka_unit_test(test_same_key_of_two_programs_is_two_calls),
        cmocka_unit_test(test_choices_outlive_a_client_that_leaves),
        cmocka_unit_test(test_as_many_requests_as_there_are_and_no_more),
        cmocka_unit_test(test_what_is_quoted_in_part_stays_text),
        cmocka_unit_test(test_body_beyond_its_bound_is_refused_and_not_kept),
        cmocka_unit_test(test_refusals_at_and_below_messages_have_the_shape_of_its_api),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
