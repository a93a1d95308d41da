/* SPDX-License-Identifier: MIT */
/*
 * Goal: what `agx chat` keeps of a conversation is whole turns, and the times that it shows are
 * those of the tokens.
 * Method: histories by hand; times that are given, not measured.
 */
#include "selftest/unit/folder.h"

#include "tools/agx/chat/history.h"
#include "tools/agx/pace.h"

static void add(struct history *history, enum chat_role role, const char *text)
{
    assert_true(history_add(history, role, text, (uint32_t)strlen(text)));
}

static void assert_rendered(struct history *history, const char *expected)
{
    const struct chat_format format = {.id = CHAT_CHATML};
    struct chat_output output;
    assert_int_equal(history_render(history, &format, (struct chat){.messages = NULL}, &output),
                     CHAT_OK);
    assert_int_equal(output.text_bytes, strlen(expected));
    assert_memory_equal(output.text, expected, output.text_bytes);
}

#define TURN(who, what) "<|im_start|>" who "\n" what "<|im_end|>\n"
#define ANSWER "<|im_start|>assistant\n"

static void test_oldest_turn_goes_first_and_the_system_message_never(void **state)
{
    struct history history = {0};
    assert_true(history_set_system(&history, "be"));
    add(&history, CHAT_USER, "one");
    assert_false(history_drop_oldest(&history));
    add(&history, CHAT_ASSISTANT, "two");
    add(&history, CHAT_USER, "three");
    assert_true(history_drop_oldest(&history));
    assert_rendered(&history, TURN("system", "be") TURN("user", "three") ANSWER);
    assert_false(history_drop_oldest(&history));
    history_take_back(&history);
    add(&history, CHAT_USER, "four");
    assert_rendered(&history, TURN("system", "be") TURN("user", "four") ANSWER);
    history_clear(&history);
    add(&history, CHAT_USER, "five");
    assert_true(history_set_system(&history, "other"));
    assert_rendered(&history, TURN("system", "other") TURN("user", "five") ANSWER);
    assert_true(history_set_system(&history, ""));
    assert_false(history_has_system(&history));
    assert_rendered(&history, TURN("user", "five") ANSWER);
    history_free(&history);
}

static void test_long_conversation_finds_room(void **state)
{
    static char text[20000];
    struct history history = {0};
    struct chat_output output;
    const struct chat_format format = {.id = CHAT_CHATML};
    memset(text, 'x', sizeof text - 1);
    for (uint32_t i = 0; i < 40; i++) {
        add(&history, i % 2 == 0 ? CHAT_USER : CHAT_ASSISTANT, text);
    }
    add(&history, CHAT_USER, "end");
    assert_int_equal(history_render(&history, &format, (struct chat){.messages = NULL}, &output),
                     CHAT_OK);
    assert_true(output.text_bytes > 40 * 19999);
    history_free(&history);
}

static void test_pace_counts_from_token_to_token(void **state)
{
    struct pace pace;
    pace_start(&pace, 1000);
    pace_add(&pace, 0, 2000);                   /* text alone */
    assert_int_equal(pace.tokens, 0);
    assert_int_equal(pace_between_us_p99(&pace), 0);
    pace_add(&pace, 1, 5000);
    for (uint32_t i = 1; i <= 199; i++) {
        pace_add(&pace, 1, 5000 + i * 100);
    }
    pace_add(&pace, 1, 5000 + 19900 + 50000);
    assert_int_equal(pace.first_us - pace.start_us, 4000);
    assert_int_equal(pace_between_us_mean(&pace), (19900 + 50000) / 200);
    assert_true(pace_between_us_p99(&pace) >= 100 && pace_between_us_p99(&pace) < 113);
    for (uint32_t i = 0; i < 10; i++) {
        pace_add(&pace, 1, pace.last_us + 50000);
    }
    assert_true(pace_between_us_p99(&pace) >= 50000 && pace_between_us_p99(&pace) < 57344);
}

static void test_pace_of_a_burst_has_no_time_between(void **state)
{
    struct pace pace;
    pace_start(&pace, 0);
    pace_add(&pace, 8, 1000);
    assert_int_equal(pace_between_us_mean(&pace), 0);
    assert_int_equal(pace_between_us_p99(&pace), 0);
    pace_add(&pace, 8, 9000);
    assert_int_equal(pace_between_us_mean(&pace), 8000 / 8);
    assert_true(pace_between_us_p99(&pace) >= 8000);
}

static void test_pace_of_any_time_is_in_a_bucket(void **state)
{
    for (uint32_t bit = 0; bit < 64; bit++) {
        struct pace pace;
        uint64_t us = UINT64_C(1) << bit;
        pace_start(&pace, 0);
        pace_add(&pace, 1, 0);
        pace_add(&pace, 1, us);
        if (bit < 33) {
            assert_true(pace_between_us_p99(&pace) >= us);
            assert_true(pace_between_us_p99(&pace) <= us + us / 8);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oldest_turn_goes_first_and_the_system_message_never),
        cmocka_unit_test(test_long_conversation_finds_room),
        cmocka_unit_test(test_pace_counts_from_token_to_token),
        cmocka_unit_test(test_pace_of_a_burst_has_no_time_between),
        cmocka_unit_test(test_pace_of_any_time_is_in_a_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
