/* SPDX-License-Identifier: MIT */
/*
 * Goal: a field is read exactly, left alone where it is absent or null, and refused by its name
 * where it is wrong.
 * Method: bodies of one field, at the edges of what is allowed.
 */
#include "selftest/unit/door/door_rig.h"

#include "tools/door/api/fields.h"

static json_t *body;
static struct fields fields;

/* The body of a new request, in place of the one before. */
static void give(const char *text)
{
    if (fields.request != NULL) {
        request_free(fields.request);
    }
    json_decref(body);
    body = json_loads(text, JSON_ALLOW_NUL, NULL);
    assert_non_null(body);
    fields = (struct fields){rig_take("/v1/completions"), body};
}

static void begin(void)
{
    fields = (struct fields){NULL, NULL};
    body = NULL;
    rig_begin();
}

static void end(void)
{
    json_decref(body);
    rig_end();
}

static void assert_refused(const char *param)
{
    assert_int_equal(fields.request->refusal.status, 400);
    assert_string_equal(fields.request->refusal.param, param);
}

static void test_count_is_read_within_its_bounds(void **state)
{
    static const char *const wrong[] = {"0", "11", "-1", "1.5", "\"5\"", "true", "[]", "{}",
                                        "9223372036854775807", "-9223372036854775808"};
    uint64_t count = 3;
    char text[64];
    begin();
    give("{}");
    assert_true(field_count(&fields, "a", 1, 10, &count) && count == 3);
    give("{\"a\":null}");
    assert_true(field_count(&fields, "a", 1, 10, &count) && count == 3);
    give("{\"a\":1}");
    assert_true(field_count(&fields, "a", 1, 10, &count) && count == 1);
    give("{\"a\":10}");
    assert_true(field_count(&fields, "a", 1, 10, &count) && count == 10);
    for (uint32_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(text, sizeof text, "{\"a\":%s}", wrong[i]);
        give(text);
        assert_false(field_count(&fields, "a", 1, 10, &count));
        assert_refused("a");
    }
    assert_int_equal(count, 10);
    end();
}

static void test_number_flag_and_text_are_of_their_kind(void **state)
{
    double number = 7;
    bool flag = true;
    const char *text = "as it was";
    begin();
    give("{\"a\":0.25,\"b\":false,\"c\":\"x\",\"d\":1e300}");
    assert_true(field_number(&fields, "a", 0, 1, &number) && number == 0.25);
    assert_true(field_flag(&fields, "b", &flag) && !flag);
    assert_true(field_text(&fields, "c", &text));
    assert_string_equal(text, "x");
    assert_true(field_text(&fields, "none", &text) && field_flag(&fields, "none", &flag));
    assert_false(field_number(&fields, "d", 0, 1, &number));
    assert_refused("d");
    give("{\"a\":\"0.25\",\"b\":0,\"c\":[\"x\"]}");
    assert_false(field_number(&fields, "a", 0, 1, &number));
    assert_refused("a");
    assert_false(field_flag(&fields, "b", &flag));
    assert_refused("a");                                    /* the first refusal counts */
    assert_false(field_text(&fields, "c", &text));
    end();
}

static void test_what_says_nothing_is_not_refused(void **state)
{
    static const char *const names[] = {"a", "b", NULL};
    static const char *const nothing[] = {"null", "false", "0", "0.0", "\"\"", "[]", "{}"};
    static const char *const something[] = {"true", "1", "\"x\"", "[0]", "{\"x\":null}"};
    char text[64];
    begin();
    for (uint32_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++) {
        snprintf(text, sizeof text, "{\"b\":%s}", nothing[i]);
        give(text);
        assert_true(fields_refuse(&fields, names));
    }
    for (uint32_t i = 0; i < sizeof something / sizeof something[0]; i++) {
        snprintf(text, sizeof text, "{\"b\":%s}", something[i]);
        give(text);
        assert_false(fields_refuse(&fields, names));
        assert_refused("b");
    }
    end();
}

/* The nearest thing there is, and what it does not promise. */
static void test_format_that_is_refused_comes_with_advice_where_there_are_tools(void **state)
{
    static const char *const asked[][3] = {
        {"/v1/chat/completions", "{\"response_format\":{\"type\":\"json_object\"}}",
         "'response_format'"},
        {"/v1/responses", "{\"text\":{\"format\":{\"type\":\"json_object\"}}}", "'text.format'"},
        {"/v1/messages", "{\"output_config\":{\"format\":{\"type\":\"json_schema\"}}}",
         "'output_config.format'"},
        {"/v1/completions", "{\"response_format\":{\"type\":\"json_object\"}}",
         "'response_format'"}};
    char text[256];
    rig_begin();
    for (uint32_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        bool has_tools = i + 1 < sizeof asked / sizeof asked[0];
        struct request *request = rig_ask(asked[i][0], asked[i][1]);
        snprintf(text, sizeof text, "%s of another type than 'text' is not supported by this "
                 "server%s", asked[i][2], !has_tools ? "" : "; demand a tool by 'tool_choice' "
                 "instead, and check its arguments: decoding is not constrained to a schema");
        assert_int_equal(request->status, 400);
        assert_string_equal(request->refusal.text, text);
        request_free(request);
    }
    rig_end();
}

/* {} is how web search is asked for with the defaults. */
static void test_web_search_is_refused_whatever_its_options_say(void **state)
{
    static const char *const options[] = {"{}", "{\"search_context_size\":\"low\"}", "false"};
    char text[96];
    rig_begin();
    for (uint32_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        snprintf(text, sizeof text, "{\"prompt\":\"a\",\"web_search_options\":%s}", options[i]);
        struct request *request = rig_ask("/v1/completions", text);
        assert_int_equal(request->status, 400);
        assert_string_equal(request->refusal.param, "web_search_options");
        request_free(request);
    }
    struct request *request = rig_ask("/v1/completions",
                                      "{\"prompt\":\"a\",\"web_search_options\":null}");
    assert_int_equal(request->state, REQUEST_WAITING);
    rig_close(request->choices[0]);
    request_free(request);
    rig_end();
}

/* They change answers, so they are not ignored. */
static void test_bounds_of_vllm_are_refused_by_name_unless_they_are_null(void **state)
{
    static const char *const bodies[][2] = {
        {"{\"prompt\":\"a\",\"min_tokens\":5}", "min_tokens"},
        {"{\"prompt\":\"a\",\"stop_token_ids\":[7]}", "stop_token_ids"}};
    rig_begin();
    for (uint32_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        struct request *request = rig_ask("/v1/completions", bodies[i][0]);
        assert_int_equal(request->status, 400);
        assert_string_equal(request->refusal.param, bodies[i][1]);
        assert_non_null(strstr(request->refusal.text, "is not supported by this server"));
        request_free(request);
    }
    struct request *request = rig_ask(
        "/v1/completions", "{\"prompt\":\"a\",\"min_tokens\":null,\"stop_token_ids\":null}");
    assert_int_equal(request->state, REQUEST_WAITING);
    rig_close(request->choices[0]);
    request_free(request);
    rig_end();
}

static bool read_stops(const char *text, struct wish *wish)
{
    give(text);
    wish_begin(wish, &rig.door);
    return wish_read_stops(wish, &fields, "stop");
}

static void test_stop_texts_are_bounded(void **state)
{
    struct wish wish;
    char text[128], stop[66];
    begin();
    assert_true(read_stops("{\"stop\":null}", &wish) && wish.stops_count == 0);
    assert_true(read_stops("{\"stop\":\"x\"}", &wish) && wish.stops_count == 1);
    assert_true(read_stops("{\"stop\":[\"a\",\"b\",\"c\",\"d\"]}", &wish));
    assert_int_equal(wish.own_stops_count, 4);
    assert_string_equal(wish.stops[3], "d");
    assert_false(read_stops("{\"stop\":[\"a\",\"b\",\"c\",\"d\",\"e\"]}", &wish));
    assert_refused("stop");
    assert_false(read_stops("{\"stop\":\"\"}", &wish));
    assert_false(read_stops("{\"stop\":[1]}", &wish));
    assert_false(read_stops("{\"stop\":\"a\\u0000b\"}", &wish));
    memset(stop, 'x', sizeof stop);
    snprintf(text, sizeof text, "{\"stop\":\"%.64s\"}", stop);
    assert_true(read_stops(text, &wish) && strlen(wish.stops[0]) == 64);
    snprintf(text, sizeof text, "{\"stop\":\"%.65s\"}", stop);
    assert_false(read_stops(text, &wish));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_count_is_read_within_its_bounds),
        cmocka_unit_test(test_number_flag_and_text_are_of_their_kind),
        cmocka_unit_test(test_what_says_nothing_is_not_refused),
        cmocka_unit_test(test_format_that_is_refused_comes_with_advice_where_there_are_tools),
        cmocka_unit_test(test_bounds_of_vllm_are_refused_by_name_unless_they_are_null),
        cmocka_unit_test(test_web_search_is_refused_whatever_its_options_say),
        cmocka_unit_test(test_stop_texts_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
