/* SPDX-License-Identifier: MIT */
/*
 * Goal: agents of each kind ask the right questions, use their tools, and judge the answer. Any
 * other words of a model make them wrong, and nothing worse. Method: the test plays the model.
 */
#include "selftest/unit/test.h"

#include <stdio.h>

#include "tools/agx/agents/agent.h"

static struct agent agent;
static struct task_book book;

static void begin(const char *text)
{
    char fault[TASK_FAULT_BYTES] = "";
    task_book_free(&book);
    if (!task_book_parse(&book, "x", text, strlen(text), fault)) {
        print_error("%s\n", fault);
        fail();
    }
    memset(&agent, 0xee, sizeof agent);         /* an agent's memory is used again */
    agent_begin(&agent, &book.tasks[0], 7);
}

/* The one call of the next turn is asked `prompt` and answers `said`. */
static enum agent_next turn(const char *prompt, const char *said)
{
    agent_begin_turn(&agent);
    assert_int_equal(agent.calls_count, 1);
    assert_string_equal(agent.calls[0].prompt, prompt);
    assert_int_equal(agent.calls[0].prompt_bytes, strlen(prompt));
    assert_true(agent.calls[0].temperature == 0);
    agent_hear(&agent.calls[0], said, strlen(said));
    return agent_end_turn(&agent);
}

/* All calls of the next turn answer, one text each. */
static enum agent_next fan(const char *const *said, uint32_t count)
{
    agent_begin_turn(&agent);
    assert_int_equal(agent.calls_count, count);
    for (uint32_t i = 0; i < count; i++) {
        agent_hear(&agent.calls[i], said[i], strlen(said[i]));
    }
    return agent_end_turn(&agent);
}

static void assert_over(enum agent_next next, bool is_right, const char *got)
{
    assert_int_equal(next, AGENT_OVER);
    assert_string_equal(agent.got, got);
    assert_int_equal(agent.is_right, is_right);
}

#define SHOP "Table:\nrice: price 12, stock 40\nTask: What do 3 bags of rice cost?\n"
static const char shop_task[] = "task react a\n> Table:\n> rice: price 12, stock 40\n"
                                "> Task: What do 3 bags of rice cost?\n= 36\n";

/* ---- react ----------------------------------------------------------------------------------- */

static void test_a_loop_uses_its_tools_and_answers(void **state)
{
    (void)state;
    begin(shop_task);
    assert_int_equal(turn(SHOP, "Think: I need the price of rice.\nAct: lookup[ rice price ]"),
                     AGENT_TOOL);
    assert_string_equal(agent.observed, "12");
    assert_int_equal(turn(SHOP "Think: I need the price of rice.\nAct: lookup[ rice price ]"
                          "\nObs: 12\n", "Act: calc[3*12]"), AGENT_TOOL);
    assert_string_equal(agent.observed, "36");
    assert_over(turn(SHOP "Think: I need the price of rice.\nAct: lookup[ rice price ]\nObs: 12\n"
                     "Act: calc[3*12]\nObs: 36\n", "Answer: 36"), true, "36");
    assert_string_equal(agent.expected, "36");
    assert_string_equal(agent.record.bytes, SHOP
                        "Think: I need the price of rice.\nAct: lookup[ rice price ]\nObs: 12\n"
                        "Act: calc[3*12]\nObs: 36\nAnswer: 36");
}

static void test_only_the_first_prompt_of_a_loop_is_news(void **state)
{
    (void)state;
    begin(shop_task);
    agent_begin_turn(&agent);
    assert_string_equal(agent.calls[0].news, SHOP);
    agent_hear(&agent.calls[0], "Act: calc[1]", 12);
    assert_int_equal(agent_end_turn(&agent), AGENT_TOOL);
    agent_begin_turn(&agent);
    assert_string_equal(agent.calls[0].news, "");
}

static void test_the_last_line_decides(void **state)
{
    (void)state;
    begin(shop_task);
    assert_over(turn(SHOP, "Act: calc[1]\nAnswer: 9\nAnswer:  36 \n"), true, "36");
    begin(shop_task);
    assert_int_equal(turn(SHOP, "Answer: 36\nAct: calc[1]\nAct: calc[2]\nso."), AGENT_TOOL);
    assert_string_equal(agent.observed, "2");
    begin(shop_task);
    assert_over(turn(SHOP, "Answer: 37"), false, "37");
    begin(shop_task);
    assert_over(turn(SHOP, "Answer: 36 bags"), false, "36 bags");
}

static void test_what_is_neither_ends_a_loop(void **state)
{
    static const char *const rows[][2] = {
        {"", "neither an act nor an answer"}, {"Think: well.", "neither an act nor an answer"},
        {"so Answer: 36", "neither an act nor an answer"},
        {"Answer: ", "neither an act nor an answer"}, {"Act:", "neither an act nor an answer"},
        {"Act: calc", "no such tool"}, {"Act: calc[1", "no such tool"},
        {"Act: calc]", "no such tool"}, {"Act: [1]", "no such tool"},
        {"Act: shell[ls]", "no such tool"}, {"Act: calc[1] ]x", "no such tool"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        begin(shop_task);
        assert_over(turn(SHOP, rows[i][0]), false, rows[i][1]);
    }
    begin(shop_task);
    assert_int_equal(turn(SHOP, "Act: calc[]"), AGENT_TOOL);
    assert_string_equal(agent.observed, "error");
    begin(shop_task);
    assert_int_equal(turn(SHOP, "Act: lookup[]"), AGENT_TOOL);
    assert_string_equal(agent.observed, "none");
}

static void test_a_loop_without_end_ends(void **state)
{
    (void)state;
    begin(shop_task);
    for (int i = 1; i <= AGENT_TURNS_MAX; i++) {
        agent_begin_turn(&agent);
        agent_hear(&agent.calls[0], "Act: calc[1+1]", 14);
        assert_int_equal(agent_end_turn(&agent), i < AGENT_TURNS_MAX ? AGENT_TOOL : AGENT_OVER);
    }
    assert_string_equal(agent.got, "no answer in 12 turns");
    assert_false(agent.is_right);
}

/* ---- map ------------------------------------------------------------------------------------- */

static const char map_task[] = "task map a\n> N: a\n-\n> N: b\n-\n> N: c\n= 15\n";

static void test_parts_are_found_at_once_and_merged(void **state)
{
    static const char *const said[] = {"Found: 3+5", "Think: no.\nFound: 7", "Found: 0"};
    static const char merge[] = "Parts: 3+5+7+0\nTask: Add the parts.\n";
    (void)state;
    begin(map_task);
    assert_int_equal(fan(said, 3), AGENT_GO_ON);
    assert_string_equal(agent.calls[1].prompt, "N: b\n");
    assert_int_equal(turn(merge, "Act: calc[3+5+7+0]"), AGENT_TOOL);
    assert_over(turn("Parts: 3+5+7+0\nTask: Add the parts.\nAct: calc[3+5+7+0]\nObs: 15\n",
                     "Answer: 15"), true, "15");
    assert_non_null(strstr(agent.record.bytes, "N: b\nThink: no.\nFound: 7\n"));
}

static void test_a_part_without_a_find_is_wrong(void **state)
{
    static const char *const said[] = {"Found: 3+5", "I found 7", "Found: 0"};
    (void)state;
    begin(map_task);
    assert_over(fan(said, 3), false, "a part that found nothing");
}

/* ---- vote ------------------------------------------------------------------------------------ */

static void test_most_votes_win_and_the_first_of_equals(void **state)
{
    static const struct { const char *said[3]; const char *got; } rows[] = {
        {{"Answer: 84", "Think: x.\nAnswer: 85", "Answer: 85"}, "85"},
        {{"Answer: 84", "Answer: 85", "Answer: 86"}, "84"},
        {{"none", "Answer: ", "Answer: 86"}, "86"},
        {{"", "", ""}, "no answer"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        begin("task vote a\n> p\n-\n> q\n-\n> r\n= 85\n");
        assert_over(fan(rows[i].said, 3), i == 0, rows[i].got);
        assert_true(agent.calls[2].temperature == 0);
    }
}

static void test_samples_differ_by_their_seeds(void **state)
{
    static const char *const said[] = {"Answer: 1", "Answer: 85", "Answer: 85"};
    (void)state;
    begin("task vote a\nsamples 3\n> p\n= 85\n");
    assert_over(fan(said, 3), true, "85");
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(agent.calls[i].temperature == 1);
        assert_int_equal(agent.calls[i].seed, 7 + i);
        assert_string_equal(agent.calls[i].prompt, "p\n");
        assert_string_equal(agent.calls[i].news, i == 0 ? "p\n" : "");
    }
}

/* ---- chat ------------------------------------------------------------------------------------ */

static const char chat_task[] = "task chat a\n> My name is Mara.\n= mara\n> What do bees make?\n"
                                "= honey\n> Who am I?\n= Mara\n";

static void test_a_chat_is_told_what_was_said_before(void **state)
{
    (void)state;
    begin(chat_task);
    assert_int_equal(turn("User: My name is Mara.\nBot:", " Hello, MARA."), AGENT_READER);
    assert_int_equal(turn("User: My name is Mara.\nBot: Hello, MARA.\nUser: What do bees make?\n"
                          "Bot:", " Honey."), AGENT_READER);
    assert_string_equal(agent.calls[0].news, "What do bees make?");
    assert_over(turn("User: My name is Mara.\nBot: Hello, MARA.\nUser: What do bees make?\nBot:"
                     " Honey.\nUser: Who am I?\nBot:", " You are Mara."), true, "You are Mara.");
}

static void test_every_reply_must_have_its_key(void **state)
{
    (void)state;
    begin(chat_task);
    agent_begin_turn(&agent);
    agent_hear(&agent.calls[0], " Hello, Mar", 11);
    assert_int_equal(agent_end_turn(&agent), AGENT_READER);
    for (int i = 0; i < 2; i++) {
        agent_begin_turn(&agent);
        agent_hear(&agent.calls[0], " Honey, Mara.", 13);
        assert_int_equal(agent_end_turn(&agent), i == 0 ? AGENT_READER : AGENT_OVER);
    }
    assert_false(agent.is_right);
    assert_string_equal(agent.expected, "mara");
    assert_string_equal(agent.got, "Hello, Mar");
}

/* ---- models that say anything ---------------------------------------------------------------- */

static void test_a_flood_of_words_is_cut(void **state)
{
    static char flood[3 * AGENT_SAID_BYTES];
    (void)state;
    memset(flood, 'x', sizeof flood);
    begin(shop_task);
    agent_begin_turn(&agent);
    agent_hear(&agent.calls[0], flood, sizeof flood);
    agent_hear(&agent.calls[0], "y", 1);
    assert_int_equal(strlen(agent.calls[0].said), AGENT_SAID_BYTES - 1);
    assert_int_equal(agent_end_turn(&agent), AGENT_OVER);
    memcpy(flood, "Answer: ", 8);
    begin(shop_task);
    agent_begin_turn(&agent);
    agent_hear(&agent.calls[0], flood, sizeof flood);
    assert_int_equal(agent_end_turn(&agent), AGENT_OVER);
    assert_int_equal(strlen(agent.got), AGENT_GOT_BYTES - 1);
}

static void test_a_chat_that_outgrows_its_memory_is_wrong(void **state)
{
    static char text[TASK_PROMPTS_MAX * 32], flood[AGENT_SAID_BYTES];
    size_t at = (size_t)snprintf(text, sizeof text, "task chat a\n");
    enum agent_next next = AGENT_READER;
    (void)state;
    for (int i = 0; i < TASK_PROMPTS_MAX; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "> q\n= x\n");
    }
    begin(text);
    memset(flood, 'x', sizeof flood);
    for (int i = 0; i < TASK_PROMPTS_MAX && next == AGENT_READER; i++) {
        agent_begin_turn(&agent);
        agent_hear(&agent.calls[0], flood, sizeof flood);
        next = agent_end_turn(&agent);
    }
    assert_over(next, false, "said more than an agent can hold");
    assert_true(strlen(agent.text.bytes) < AGENT_TEXT_BYTES);
}

static void test_an_agent_that_was_not_served_is_wrong(void **state)
{
    (void)state;
    begin(chat_task);
    assert_int_equal(turn("User: My name is Mara.\nBot:", " Mara"), AGENT_READER);
    assert_true(agent.is_right);
    agent_fail(&agent, "refused");
    assert_over(AGENT_OVER, false, "refused");
}

static int free_book(void **state)
{
    (void)state;
    task_book_free(&book);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_loop_uses_its_tools_and_answers),
        cmocka_unit_test(test_only_the_first_prompt_of_a_loop_is_news),
        cmocka_unit_test(test_the_last_line_decides),
        cmocka_unit_test(test_what_is_neither_ends_a_loop),
        cmocka_unit_test(test_a_loop_without_end_ends),
        cmocka_unit_test(test_parts_are_found_at_once_and_merged),
        cmocka_unit_test(test_a_part_without_a_find_is_wrong),
        cmocka_unit_test(test_most_votes_win_and_the_first_of_equals),
        cmocka_unit_test(test_samples_differ_by_their_seeds),
        cmocka_unit_test(test_a_chat_is_told_what_was_said_before),
        cmocka_unit_test(test_every_reply_must_have_its_key),
        cmocka_unit_test(test_a_flood_of_words_is_cut),
        cmocka_unit_test(test_a_chat_that_outgrows_its_memory_is_wrong),
        cmocka_unit_test(test_an_agent_that_was_not_served_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, free_book);
}
