/* SPDX-License-Identifier: MIT */
/*
 * Goal: a choice is the call that was wished, of its own prompt; a prompt that is wrong is named,
 * and no call of its request is sent.
 * Method: bodies of /v1/completions, which has all kinds of prompts; what is said by hand.
 */
#include "selftest/unit/door/door_rig.h"

#include "tools/door/api/choices.h"

#define PATH "/v1/completions"

static void test_choices_are_calls_that_differ_in_id_seed_and_thread(void **state)
{
    rig_begin();
    rig_header("X-Agentix-Program", "p");
    rig_header("X-Agentix-Thread", "7");
    struct request *request = rig_take("/v1/completions");
    assert_true(rig_read(request, "{\"prompt\":\"a\\u0000b\",\"n\":3,\"seed\":9,\"temperature\":1,"
                                  "\"max_tokens\":5,\"stop\":\"x\"}"));
    assert_int_equal(request->choices_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const struct agx_call *call = &request->choices[i]->call;
        assert_int_equal(call->call_id, request->choices[0]->call.call_id + i);
        assert_int_equal(call->seed, 9 + i);
        assert_int_equal(call->thread, 7 + i);
        assert_int_equal(call->max_tokens, 5);
        assert_int_equal(call->prompt_text_bytes, 3);
        assert_memory_equal(call->prompt_text, "a\0b", 3);
        assert_string_equal(call->stop_texts[0], "x");
        assert_ptr_equal(request->choices[i]->prompt, request->choices[0]->prompt);
    }
    rig_end();
}

static void test_more_tokens_than_the_context_has_are_refused(void **state)
{
    rig_begin();
    struct request *request = rig_take("/v1/completions");
    rig.uplinks[0].agx.welcome.context_tokens_max = 8;
    assert_false(rig_read(request, "{\"prompt\":\"a\",\"max_tokens\":8}"));
    assert_int_equal(request->refusal.status, 400);
    request = rig_take("/v1/completions");
    rig.uplinks[0].state = UPLINK_DOWN;
    assert_false(rig_read(request, "{\"prompt\":\"a\"}"));
    assert_int_equal(request->refusal.status, 503);
    rig_end();
}

/* ---- several prompts ------------------------------------------------------------------------- */

/* Choice k of each prompt draws as choice k of a request with that prompt alone. */
static void test_choices_of_several_prompts_go_prompt_by_prompt(void **state)
{
    static const char *const texts[] = {"one", "one", "two", "two"};
    rig_begin();
    rig_header("X-Agentix-Thread", "7");
    struct request *request = rig_take(PATH);
    assert_true(rig_read(request, "{\"prompt\":[\"one\",\"two\"],\"n\":2,\"seed\":9}"));
    assert_int_equal(request->choices_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        const struct choice *choice = request->choices[i];
        assert_int_equal(choice->index, i);
        assert_string_equal(choice->call.prompt_text, texts[i]);
        assert_int_equal(choice->call.seed, 9 + i % 2);
        assert_int_equal(choice->call.call_id, request->choices[0]->call.call_id + i);
        assert_int_equal(choice->call.thread, 7 + i);
        assert_ptr_equal(choice->prompt, request->choices[i / 2 * 2]->prompt);
    }
    assert_ptr_not_equal(request->choices[0]->prompt, request->choices[2]->prompt);
    request = rig_take(PATH);
    assert_true(rig_read(request, "{\"prompt\":[\"a\",\"a\"],\"temperature\":1}"));
    assert_int_not_equal(request->choices[0]->call.seed, request->choices[1]->call.seed);
    rig_end();
}

static void assert_ids(const struct choice *choice, const uint32_t *ids, uint32_t count)
{
    assert_int_equal(choice->call.prompt_ids_count, count);
    assert_memory_equal(choice->call.prompt_ids, ids, count * sizeof *ids);
    assert_int_equal(choice->prompt->tokens, count);
}

static void test_prompts_are_texts_or_token_ids_alone_or_in_a_list(void **state)
{
    rig_begin();
    const uint32_t last = rig.door.model.vocab.info.tokens - 1;
    const uint32_t first[] = {0, 5, last}, second[] = {7};
    char body[96];
    struct request *request = rig_take(PATH);
    snprintf(body, sizeof body, "{\"prompt\":[0,5,%u]}", last);
    assert_true(rig_read(request, body));
    assert_int_equal(request->choices_count, 1);
    assert_ids(request->choices[0], first, 3);
    request = rig_take(PATH);
    snprintf(body, sizeof body, "{\"prompt\":[[0,5,%u],\"x\",[7]]}", last);
    assert_true(rig_read(request, body));
    assert_int_equal(request->choices_count, 3);
    assert_ids(request->choices[0], first, 3);
    assert_null(request->choices[1]->call.prompt_ids);
    assert_string_equal(request->choices[1]->call.prompt_text, "x");
    assert_ids(request->choices[2], second, 1);
    request = rig_take(PATH);
    assert_true(rig_read(request, "{\"prompt\":[\"x\"]}"));
    assert_int_equal(request->choices_count, 1);
    rig_end();
}

#define WORD       " together"          /* one token */
#define WORD_BYTES (sizeof WORD - 1)

/* The appliance takes every prompt that fits its context as ids, but a text of long words is longer
 * than these. */
static void test_a_text_that_is_longer_than_a_frame_is_sent_as_its_ids(void **state)
{
    static char words[910 * WORD_BYTES + 1], body[sizeof words + 64];
    struct model *model = &rig.door.model;
    const uint32_t *ids;
    uint32_t count;
    rig_begin();
    for (uint32_t i = 0; i < 910; i++) {
        memcpy(words + WORD_BYTES * i, WORD, WORD_BYTES);
    }
    snprintf(body, sizeof body, "{\"prompt\":[\"a\",\"%s\"]}", words);
    rig.uplinks[0].agx.welcome.context_tokens_max = 1024;
    rig.uplinks[0].agx.welcome.frame_bytes_max = 2 * 4096;
    struct request *request = rig_ask("/v1/completions", body);
    assert_string_equal(request->refusal.text, "");
    assert_null(request->choices[0]->call.prompt_ids);
    const struct agx_call *call = &request->choices[1]->call;
    const struct vocab_input input = {.text = words, .bytes = (uint32_t)strlen(words)};
    assert_true(model_encode(model, &input, &ids, &count));
    assert_int_equal(call->prompt_ids_count, count + 1);
    assert_int_equal(call->prompt_ids[0], model->vocab.info.bos_id);
    assert_memory_equal(call->prompt_ids + 1, ids, count * sizeof *ids);
    for (uint32_t i = 0; i < 2; i++) {
        rig_close(request->choices[i]);
    }
    rig_end();
}

static void test_a_conversation_that_is_longer_than_a_frame_is_sent_as_its_ids(void **state)
{
    static char body[910 * WORD_BYTES + 96] = "{\"messages\":[{\"role\":\"user\",\"content\":\"";
    rig_begin();
    for (uint32_t i = 0; i < 910; i++) {
        memcpy(body + strlen(body), WORD, WORD_BYTES);
    }
    memcpy(body + strlen(body), "\"}]}", sizeof "\"}]}");
    rig.uplinks[0].agx.welcome.context_tokens_max = 1024;
    struct request *request = rig_ask("/v1/chat/completions", body);
    assert_null(request->choices[0]->call.prompt_ids);
    uint32_t tokens = request->choices[0]->prompt->tokens;
    rig_close(request->choices[0]);
    rig.uplinks[0].agx.welcome.frame_bytes_max = 2 * 4096;
    request = rig_ask("/v1/chat/completions", body);
    assert_int_equal(request->state, REQUEST_WAITING);
    assert_non_null(request->choices[0]->call.prompt_ids);
    assert_int_equal(request->choices[0]->call.prompt_ids_count, tokens);
    assert_int_equal(request->choices[0]->call.prompt_parts_count, 0);
    rig_close(request->choices[0]);
    rig_end();
}

static void test_usage_counts_each_prompt_once_and_each_answer(void **state)
{
    static const char *const said[] = {"x", NULL};
    rig_begin();
    struct request *request = rig_ask(PATH, "{\"prompt\":[\"a\",\"b\",\"c\"],\"n\":2}");
    for (uint32_t i = 6; i-- > 0;) {
        request->choices[i]->cached_tokens = i == 1 || i == 2 ? 2 : 0;
        rig_say(request->choices[i], said, AGX_FINISH_EOS);
    }
    assert_int_equal(request->status, 200);
    assert_non_null(strstr(rig_out(request), "\"usage\":{\"prompt_tokens\":15,"
                           "\"completion_tokens\":18,\"total_tokens\":33,"
                           "\"prompt_tokens_details\":{\"cached_tokens\":4}}"));
    rig_end();
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void assert_nothing_is_sent(const struct request *request, const char *param,
                                   const char *text)
{
    assert_int_equal(request->status, 400);
    assert_string_equal(request->refusal.param, param);
    assert_string_equal(request->refusal.text, text);
    assert_int_equal(rig.uplinks[0].calls_open, 0);
    assert_int_equal(rig.door.stats.calls, 0);
}

static void assert_refused(const char *prompt, const char *param, const char *text)
{
    char body[1024];
    snprintf(body, sizeof body, "{\"prompt\":%s,\"max_tokens\":4}", prompt);
    struct request *request = rig_ask(PATH, body);
    assert_nothing_is_sent(request, param, text);
    request_free(request);
}

#define MUST_BE "' must be a text, "
#define A_LIST  MUST_BE "a list of token ids, or a list of these that is not empty"
#define ONE     MUST_BE "or a list of token ids that is not empty"
#define AN_ID   "' must be a token id: an integer from 0 to "

static void test_wrong_prompts_are_refused_by_name(void **state)
{
    char an_id[96], id[128];
    rig_begin();
    static const char *const none[] = {"1", "true", "null", "{}", "[]", "{\"a\":1}"};
    for (uint32_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_refused(none[i], "prompt", "'prompt" A_LIST);
    }
    static const char *const inner[] = {"null", "{}", "[]", "true", "5", "1.5"};
    for (uint32_t i = 0; i < sizeof inner / sizeof inner[0]; i++) {
        snprintf(an_id, sizeof an_id, "[\"a\",[1],%s]", inner[i]);
        assert_refused(an_id, "prompt[2]", "'prompt[2]" ONE);
    }
    snprintf(an_id, sizeof an_id, AN_ID "%u", rig.door.model.vocab.info.tokens - 1);
    static const char *const wrong[] = {"-1", "1.5", "\"1\"", "null", "true", "[1]",
                                        "9223372036854775807", "4294967297"};
    for (uint32_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char list[128];
        snprintf(list, sizeof list, "[1,%s]", wrong[i]);
        snprintf(id, sizeof id, "'prompt[1]%s", an_id);
        assert_refused(list, "prompt[1]", id);
        snprintf(list, sizeof list, "[\"a\",[1,2,%s]]", wrong[i]);
        snprintf(id, sizeof id, "'prompt[1][2]%s", an_id);
        assert_refused(list, "prompt[1][2]", id);
    }
    rig_end();
}

static void test_prompts_that_do_not_fit_are_refused_by_name(void **state)
{
    rig_begin();
    rig.uplinks[0].agx.welcome.context_tokens_max = 8;
    assert_refused("[1,1,1,1,1,1,1,1]", "prompt", "prompt is too long: 8 tokens > 7 maximum");
    assert_refused("[[1],[1,1,1,1,1,1,1,1]]", "prompt[1]",
                   "prompt is too long: 8 tokens > 7 maximum (prompt[1])");
    assert_refused("[[1],[1],[1,1,1,1,1]]", "max_tokens",
                   "input length and `max_tokens` exceed context limit: 5 + 4 > 8, decrease input "
                   "length or `max_tokens` and try again (prompt[2])");
    rig.door.model.vocab.info.bos_id = GGUF_NO_TOKEN;
    assert_refused("[\"a\",\"\"]", "prompt[1]",
                   "'prompt[1]' is empty: this model needs one token at least");
    rig_end();
}

static void test_more_choices_than_a_request_may_have_are_refused(void **state)
{
    static const char body[] = "{\"prompt\":[\"a\",\"b\",\"c\"],\"n\":3}";
    rig_begin();
    rig.door.options.door_choices.number = 9;
    struct request *request = rig_ask(PATH, body);
    assert_int_equal(request->choices_count, 9);
    for (uint32_t i = 0; i < 9; i++) {
        rig_close(request->choices[i]);
    }
    request_free(request);
    rig.door.stats.calls = 0;
    rig.door.options.door_choices.number = 8;
    assert_nothing_is_sent(rig_ask(PATH, body), "prompt", "3 prompts with 'n' = 3 ask for 9 "
                           "choices: one request may ask for 8 (door.choices)");
    rig.door.options.door_calls.number = 7;
    assert_nothing_is_sent(rig_ask(PATH, body), "prompt", "3 prompts with 'n' = 3 ask for 9 "
                           "choices: one request may ask for 7 (door.calls)");
    assert_nothing_is_sent(rig_ask(PATH, "{\"prompt\":\"a\",\"n\":8}"), "n",
                           "'n' must be an integer from 1 to 7");
    rig_end();
}

/* Room for one call is missing: none is sent, and all records are free again. */
static void test_choices_find_room_together_or_not_at_all(void **state)
{
    static const char body[] = "{\"prompt\":[\"a\",\"b\",\"c\"],\"n\":5}";
    rig_begin();
    struct request *first = rig_ask(PATH, body), *second = rig_ask(PATH, body);
    assert_int_equal(first->state, REQUEST_WAITING);
    assert_int_equal(second->status, 429);
    assert_int_equal(rig.uplinks[0].calls_open, 15);
    request_free(second);
    for (uint32_t i = 0; i < 15; i++) {
        rig_close(first->choices[i]);
    }
    request_free(first);
    assert_int_equal(rig_ask(PATH, body)->state, REQUEST_WAITING);
    rig.uplinks[0].calls_open = 0;
    for (uint32_t i = 0; i < RIG_CALLS; i++) {
        rig.choices[i].is_open = false;
    }
    rig_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choices_are_calls_that_differ_in_id_seed_and_thread),
        cmocka_unit_test(test_more_tokens_than_the_context_has_are_refused),
        cmocka_unit_test(test_choices_of_several_prompts_go_prompt_by_prompt),
        cmocka_unit_test(test_prompts_are_texts_or_token_ids_alone_or_in_a_list),
        cmocka_unit_test(test_a_text_that_is_longer_than_a_frame_is_sent_as_its_ids),
        cmocka_unit_test(test_a_conversation_that_is_longer_than_a_frame_is_sent_as_its_ids),
        cmocka_unit_test(test_usage_counts_each_prompt_once_and_each_answer),
        cmocka_unit_test(test_wrong_prompts_are_refused_by_name),
        cmocka_unit_test(test_prompts_that_do_not_fit_are_refused_by_name),
        cmocka_unit_test(test_more_choices_than_a_request_may_have_are_refused),
        cmocka_unit_test(test_choices_find_room_together_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
