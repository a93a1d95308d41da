/* SPDX-License-Identifier: MIT */
/*
 * Goal: a table of drafts is read or refused with the place of what is wrong; drafts have the
 * measured distribution, the same at a place however it was come to; in a run the appliance's
 * scheduler has them, and a token that agrees is a round less.
 * Method: small tables; runs with the preset `unit`, where a round is a second.
 */
#include "selftest/unit/lab/traces.h"

#define HEAD "agentix-drafts 1\n"
#define NEVER HEAD "* 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
#define ALWAYS HEAD "* 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1\n"
#define SOME HEAD "# of a test\n\n* 60 20 8 5 3 2 1 1 0 0 0 0 0 0 0 0 7\n" \
    "react\t1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 2  \n"

static struct drafts drafts;

static bool reads(const char *text, char *fault)
{
    return drafts_read(&drafts, text, strlen(text), fault);
}

static const struct drafts *table(const char *text)
{
    char fault[DRAFTS_FAULT_BYTES];
    assert_true(reads(text, fault));
    return &drafts;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void test_classes_have_their_line_or_that_of_all(void **state)
{
    (void)state;
    table(SOME);
    assert_int_equal(drafts.count, 2);
    assert_string_equal(drafts_class_of(&drafts, "react")->name, "react");
    assert_string_equal(drafts_class_of(&drafts, "chat")->name, "*");
    assert_int_equal(drafts_class_of(&drafts, "react")->up_to[0], 1);
    assert_int_equal(drafts_class_of(&drafts, "react")->up_to[15], 1);
    assert_int_equal(drafts_class_of(&drafts, "react")->up_to[16], 3);
}

static void test_what_is_wrong_is_named_with_its_place(void **state)
{
    (void)state;
    static const struct { const char *text, *fault; } wrong[] = {
        {"", "1:1: expected the line \"agentix-drafts 1\", found the end of the line"},
        {"agentix-drafts 2\n", "1:1: expected the line \"agentix-drafts 1\", found 'a'"},
        {"agentix-drafts 1\r\n", "1:1: expected the line \"agentix-drafts 1\", found 'a'"},
        {HEAD, "1:17: expected a line of the class * after this one, found the end of the line"},
        {HEAD "react 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n",
         "2:40: expected a line of the class * after this one, found the end of the line"},
        {HEAD "* 1 2 3\n", "2:8: expected 17 counts of rounds: of none, of 0, 1 ... 15 tokens, "
                           "found the end of the line"},
        {HEAD "* 1 -2 3\n", "2:5: expected 17 counts of rounds: of none, of 0, 1 ... 15 tokens, "
                            "found '-'"},
        {HEAD "* 1 2.5 3\n", "2:6: expected 17 counts of rounds: of none, of 0, 1 ... 15 tokens, "
                             "found '.'"},
        {HEAD "* 1000000001 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n",
         "2:3: expected a count of at most 1000000000, found '1'"},
        {HEAD "* 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
         "2:36: expected a count above 0 in the line, found the end of the line"},
        {HEAD "* 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 7\n",
         "2:37: expected the end of the line after 17 counts, found '7'"},
        {HEAD "* 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n * 1\n",
         "3:2: expected a class that has no line yet, found '*'"},
        {HEAD "\x01 1\n", "2:1: expected the name of a class, of at most 63 letters, digits and "
                          "marks, found byte 0x01"},
        {HEAD "a234567890123456789012345678901234567890123456789012345678901234 1\n",
         "2:64: expected the name of a class, of at most 63 letters, digits and marks, found '4'"},
    };
    for (uint32_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char fault[DRAFTS_FAULT_BYTES];
        assert_false(reads(wrong[i].text, fault));
        assert_string_equal(fault, wrong[i].fault);
    }
}

/* 63 names of three letters and `*` are read, one more is not. */
static void test_no_more_classes_than_there_is_room_for(void **state)
{
    (void)state;
    char text[8192], fault[DRAFTS_FAULT_BYTES];
    int count = snprintf(text, sizeof text, "%s", ALWAYS);
    for (uint32_t i = 1; i <= DRAFTS_CLASSES_MAX; i++) {
        assert_true(reads(text, fault));
        count += snprintf(text + count, sizeof text - (size_t)count,
                          "c%02u 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n", i);
    }
    assert_false(reads(text, fault));
    assert_string_equal(fault, "66:1: expected no more than 64 classes, found 'c'");
}

/* Each beginning of a table, and each table with one other byte, is read or has a fault. */
static void test_any_bytes_are_read_or_refused(void **state)
{
    (void)state;
    static const char bytes[] = {'\0', '\n', ' ', '#', '*', '0', '9', 'r', '\x7f', '\xff'};
    char fault[DRAFTS_FAULT_BYTES];
    for (size_t length = 0; length <= strlen(SOME); length++) {
        char *text = malloc(length + 1);        /* of the exact size, for the sanitizers */
        memcpy(text, SOME, length);
        bool is_read = drafts_read(&drafts, text, length, fault);
        assert_true(is_read == (fault[0] == '\0'));
        for (uint32_t i = 0; length > 0 && i < sizeof bytes; i++) {
            memcpy(text, SOME, length);
            text[length - 1] = bytes[i];
            is_read = drafts_read(&drafts, text, length, fault);
            assert_true(is_read == (fault[0] == '\0'));
        }
        free(text);
    }
    assert_int_equal(drafts_load(&drafts, "/nonexistent"), 1);
}

/* ---- stretches ------------------------------------------------------------------------------- */

static void test_drafts_of_full_length_have_the_measured_distribution(void **state)
{
    (void)state;
    const struct drafts_class *all = drafts_class_of(table(SOME), "chat");
    struct drafts_stretch at = {0};
    uint64_t seen[DRAFTS_OUTCOMES] = {0}, rounds = 200000, before = 0;
    uint32_t place = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        drafts_seek(&at, all, 77, place);
        assert_int_equal(at.begin, place);
        uint32_t agree = drafts_agree(&at, place);
        seen[at.has_draft ? 1 + agree : 0]++;
        place += 1 + agree;
    }
    for (uint32_t i = 0; i < DRAFTS_OUTCOMES; i++) {
        double share = (double)(all->up_to[i] - before) / (double)all->up_to[DRAFTS_OUTCOMES - 1];
        before = all->up_to[i];
        assert_true((double)seen[i] / (double)rounds - share < 0.005);
        assert_true(share - (double)seen[i] / (double)rounds < 0.005);
    }
}

static void test_a_place_has_the_same_draft_however_it_was_come_to(void **state)
{
    (void)state;
    const struct drafts_class *all = drafts_class_of(table(SOME), "chat");
    struct drafts_stretch walks = {0}, again;
    uint32_t others = 0;
    for (uint32_t place = 0; place < 500; place++) {
        struct drafts_stretch jumps = {0}, other = {0};
        drafts_seek(&walks, all, 5, place);
        drafts_seek(&jumps, all, 5, place);
        assert_int_equal(walks.has_draft, jumps.has_draft);
        assert_int_equal(drafts_agree(&walks, place), drafts_agree(&jumps, place));
        assert_true(walks.has_draft || walks.tokens == 1);
        drafts_seek(&other, all, 6, place);
        others += drafts_agree(&walks, place) != drafts_agree(&other, place);
    }
    again = walks;
    drafts_seek(&again, all, 5, 3);         /* an engine has died */
    drafts_seek(&again, all, 5, 499);
    assert_int_equal(again.begin, walks.begin);
    assert_true(others > 50);
}

/* ---- in a run -------------------------------------------------------------------------------- */

static const char alone[] =
    "agentix-trace 1\nprogram p 0 x\ncall 0 after=- gap=0 in=u:1 out=200\n";

static struct lab_settings settings_of(const struct drafts *table_of)
{
    struct lab_settings settings = traces_settings("plas", "unit");
    settings.drafts = table_of;
    traces_set(&settings, "sched.steps_per_plan=8");
    traces_set(&settings, "sched.batch=16");
    return settings;
}

/* A lone call: each token that agrees is a round less, and a step brings eight at most. */
static void test_tokens_that_agree_save_rounds(void **state)
{
    (void)state;
    struct lab_settings settings = settings_of(table(ALWAYS));
    struct lab_result result = traces_play(&settings, alone);
    assert_int_equal(result.tokens_generated, 200);
    assert_int_equal(result.rounds, 200 - result.draft_tokens_agreed);
    assert_true(result.rounds < 200 / 4 && result.rounds >= 200 / 8);
    assert_int_equal(result.draft_tokens, result.draft_tokens_agreed);
    settings = settings_of(table(SOME));
    result = traces_play(&settings, alone);
    assert_int_equal(result.rounds, 200 - result.draft_tokens_agreed);
    assert_true(result.draft_tokens > result.draft_tokens_agreed && result.draft_tokens_agreed > 0);
    traces_set(&settings, "sched.speculate=1");
    assert_true(traces_play(&settings, alone).draft_tokens_agreed < result.draft_tokens_agreed);
}

/* The appliance's rule ends them, and tries again now and then. */
static void test_drafts_that_never_agree_become_few(void **state)
{
    (void)state;
    struct lab_settings settings = settings_of(table(NEVER));
    struct lab_result result = traces_play(&settings, alone);
    assert_int_equal(result.rounds, 200);
    assert_int_equal(result.draft_tokens_agreed, 0);
    assert_in_range(result.draft_tokens, 1, 200);       /* of up to 1,400 */
}

static void test_there_are_no_drafts_without_a_table_or_where_they_are_off(void **state)
{
    (void)state;
    struct lab_settings settings = settings_of(NULL);
    traces_set(&settings, "sched.speculate=7");
    struct lab_result none = traces_play(&settings, alone);
    assert_int_equal(none.draft_tokens, 0);
    assert_int_equal(none.rounds, 200);
    settings = settings_of(table(ALWAYS));
    traces_set(&settings, "sched.speculate=0");
    struct lab_result off = traces_play(&settings, alone);
    assert_int_equal(off.draft_tokens, 0);
    assert_true(off.steps == none.steps && off.makespan_s == none.makespan_s);
}

/* Two calls fill a batch of two; when the first one ends there is room for one token. */
static void test_a_full_batch_has_no_drafts(void **state)
{
    (void)state;
    static const char two[] =
        "agentix-trace 1\n"
        "program p 0 x\ncall 0 after=- gap=0 in=u:1 out=80\n"
        "program q 0 x\ncall 0 after=- gap=0 in=u:1 out=80\n";
    struct lab_settings settings = settings_of(table(ALWAYS));
    traces_set(&settings, "sched.batch=2");
    struct lab_result result = traces_play(&settings, two);
    assert_int_equal(result.draft_tokens, 0);
    assert_int_equal(result.rounds, 80);
    traces_set(&settings, "sched.batch=3");
    result = traces_play(&settings, two);
    assert_true(result.draft_tokens > 0 && result.rounds < 80);
}

/* Of the class: programs of `react` have a draft nearly everywhere, others rarely. */
static void test_a_program_has_the_drafts_of_its_class(void **state)
{
    (void)state;
    static const char react[] =
        "agentix-trace 1\nprogram p 0 react\ncall 0 after=- gap=0 in=u:1 out=200\n";
    struct lab_settings settings = settings_of(table(SOME));
    uint64_t others = traces_play(&settings, alone).draft_tokens_agreed;
    assert_true(traces_play(&settings, react).draft_tokens_agreed > others + 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes_have_their_line_or_that_of_all),
        cmocka_unit_test(test_what_is_wrong_is_named_with_its_place),
        cmocka_unit_test(test_no_more_classes_than_there_is_room_for),
        cmocka_unit_test(test_any_bytes_are_read_or_refused),
        cmocka_unit_test(test_drafts_of_full_length_have_the_measured_distribution),
        cmocka_unit_test(test_a_place_has_the_same_draft_however_it_was_come_to),
        cmocka_unit_test(test_tokens_that_agree_save_rounds),
        cmocka_unit_test(test_drafts_that_never_agree_become_few),
        cmocka_unit_test(test_there_are_no_drafts_without_a_table_or_where_they_are_off),
        cmocka_unit_test(test_a_full_batch_has_no_drafts),
        cmocka_unit_test(test_a_program_has_the_drafts_of_its_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
