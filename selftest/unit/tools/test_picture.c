/* SPDX-License-Identifier: MIT */
/*
 * Goal: events become Chrome trace events as a reader of that format expects them: complete JSON,
 * tracks without overlaps, waits and runs that cover a call; also when the events begin in the
 * middle, have a gap, or contradict each other.
 * Method: events written by hand and at random; the file is read by libjansson.
 */
#include "selftest/unit/folder.h"

#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "tools/agx/command.h"
#include "tools/agx/watch/picture.h"

static char path[64];
static struct chrome chrome;
static struct picture picture;
static json_t *root;

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s/trace", test_folder());
    assert_true(chrome_open(&chrome, path));
    picture_begin(&picture, &chrome);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    json_decref(root);
    root = NULL;
    return 0;
}

static json_t *finish(uint64_t now_us)
{
    json_error_t error;
    picture_end(&picture, now_us);
    assert_true(chrome_close(&chrome));
    root = json_load_file(path, 0, &error);
    if (root == NULL) {
        fail_msg("line %d: %s", error.line, error.text);
    }
    return json_object_get(root, "traceEvents");
}

static void add(uint64_t time_us, uint32_t call, uint32_t program, struct event_what what)
{
    struct event event = {.time_us = time_us, .client_call_id = 100 + call, .call = call,
                          .program = program, .what = what};
    event.program_tag[0] = (uint8_t)(0xa0 + program);
    picture_add(&picture, &event);
}

static json_int_t integer(const json_t *event, const char *key)
{
    return json_integer_value(json_object_get(event, key));
}

static bool is_named(const json_t *event, const char *name)
{
    return strcmp(json_string_value(json_object_get(event, "name")), name) == 0;
}

/* Sum of all stretches of this name in the process, and their number. */
static json_int_t time_in(const json_t *events, json_int_t pid, const char *name, size_t *count)
{
    size_t index;
    json_t *event;
    json_int_t sum = 0;
    *count = 0;
    json_array_foreach(events, index, event) {
        if (integer(event, "pid") == pid && is_named(event, name)) {
            sum += integer(event, "dur");
            ++*count;
        }
    }
    return sum;
}

static size_t count_of(const json_t *events, json_int_t pid, const char *name)
{
    size_t count;
    (void)time_in(events, pid, name, &count);
    return count;
}

static void assert_stretches(const json_t *events, json_int_t pid, const char *name,
                             size_t count, json_int_t us)
{
    size_t found;
    json_int_t sum = time_in(events, pid, name, &found);
    if (found != count || sum != us) {
        fail_msg("process %d has %zu '%s' of %d us, expected %zu of %d", (int)pid, found, name,
                 (int)sum, count, (int)us);
    }
}

/* Every event has the fields of its phase; no two stretches of a track overlap. */
static void assert_well_formed(json_t *events)
{
    size_t i, j;
    json_t *event, *other;
    json_array_foreach(events, i, event) {
        const char *phase = json_string_value(json_object_get(event, "ph"));
        assert_non_null(json_string_value(json_object_get(event, "name")));
        assert_true(integer(event, "pid") > 0 && integer(event, "tid") > 0);
        if (strcmp(phase, "M") == 0) {
            assert_non_null(json_object_get(event, "args"));
            continue;
        }
        assert_true(json_is_integer(json_object_get(event, "ts")));
        if (strcmp(phase, "i") == 0) {
            assert_string_equal(json_string_value(json_object_get(event, "s")), "t");
            continue;
        }
        assert_string_equal(phase, "X");
        json_int_t from = integer(event, "ts"), to = from + integer(event, "dur");
        assert_true(to > from);
        json_array_foreach(events, j, other) {
            json_int_t begin = integer(other, "ts"), end = begin + integer(other, "dur");
            if (j != i && end > begin && integer(other, "pid") == integer(event, "pid") &&
                integer(other, "tid") == integer(event, "tid")) {
                assert_true(end <= from || begin >= to);
            }
        }
    }
}

static void test_call_is_covered_by_waits_and_runs(void **state)
{
    (void)state;
    add(1000, 0, 0, (struct event_what){EVENT_QUEUED, {0, 5, 9}});
    add(1100, 0, 0, (struct event_what){EVENT_RAN, {0, 40, 5, 8}});     /* from 1060 */
    add(1140, 0, 0, (struct event_what){EVENT_RAN, {1, 40, 1, 8}});     /* goes on */
    add(1150, 0, 0, (struct event_what){EVENT_PREEMPTED, {3, 13}});
    add(1300, 0, 0, (struct event_what){EVENT_RAN, {0, 50, 1, 2}});     /* from 1250 */
    add(1300, 0, 0, (struct event_what){EVENT_FINISHED, {2, 0, 18, 1}});
    add(1500, 0, 0, (struct event_what){EVENT_QUEUED, {0, 5, 9}});
    add(1500, 1, 0, (struct event_what){EVENT_QUEUED, {0, 5, 9}});
    json_t *events = finish(1600);
    assert_well_formed(events);
    assert_stretches(events, 2, "wait", 4, 60 + 110 + 100 + 100);
    assert_stretches(events, 2, "run", 2, 80 + 50);
    assert_stretches(events, 2, "gap", 1, 200);
    assert_stretches(events, 1, "0:a0000000 call 100", 3, 130);
    assert_int_equal(count_of(events, 2, "preempted"), 1);
    assert_int_equal(count_of(events, 2, "finished eos"), 1);
    assert_int_equal(count_of(events, 2, "thread_name"), 2);        /* two calls at once */
    assert_int_equal(picture.calls_seen, 3);
}

static void test_story_that_begins_in_the_middle(void **state)
{
    (void)state;
    add(1100, 7, 0, (struct event_what){EVENT_RAN, {0, 40, 1, 8}});
    add(1200, 8, 1, (struct event_what){EVENT_DEMOTED, {1}});
    add(1300, 9, 1, (struct event_what){EVENT_FINISHED, {5, 0, 0, 0}});
    json_t *events = finish(1400);
    assert_well_formed(events);
    assert_stretches(events, 2, "run", 1, 40);
    assert_stretches(events, 2, "wait", 1, 300);
    assert_stretches(events, 3, "wait", 1, 200);
    assert_int_equal(count_of(events, 3, "finished cancelled"), 1);
}

static void test_call_first_heard_of_beside_one_that_ends(void **state)
{
    (void)state;
    add(1000, 0, 0, (struct event_what){EVENT_QUEUED, {0, 5, 9}});
    add(1100, 0, 0, (struct event_what){EVENT_RAN, {0, 100, 5, 8}});
    add(1100, 0, 0, (struct event_what){EVENT_FINISHED, {1, 0, 8, 0}});
    add(1100, 1, 0, (struct event_what){EVENT_RAN, {1, 100, 1, 8}});
    add(1200, 1, 0, (struct event_what){EVENT_RAN, {1, 100, 1, 8}});
    json_t *events = finish(1200);
    assert_well_formed(events);
    assert_stretches(events, 2, "run", 2, 100 + 100);
    assert_stretches(events, 1, "0:a0000000 call 101", 2, 200);
}

static void test_after_a_hole_nothing_goes_on(void **state)
{
    (void)state;
    add(1000, 0, 0, (struct event_what){EVENT_QUEUED, {0, 5, 9}});
    add(1050, 0, 0, (struct event_what){EVENT_RAN, {0, 40, 5, 8}});
    picture_lose(&picture, 12, 1050);
    add(5000, 0, 0, (struct event_what){EVENT_RAN, {0, 10, 1, 8}});
    add(6000, 1, 0, (struct event_what){EVENT_QUEUED, {0, 5, 9}});
    json_t *events = finish(6000);
    assert_well_formed(events);
    assert_stretches(events, 2, "wait", 2, 10 + 1000);
    assert_stretches(events, 2, "run", 2, 40 + 10);
    assert_int_equal(count_of(events, 2, "gap"), 0);
    assert_int_equal(count_of(events, 1, "events lost"), 1);
}

static void test_steps_and_what_belongs_to_the_engine(void **state)
{
    struct event event = {.call = CALL_NONE, .program = EVENT_PROGRAM_NONE};
    static const struct { uint64_t time_us; struct event_what what; } story[] = {
        {1000, {EVENT_STEP_BEGUN, {2, 0}}}, {1060, {EVENT_SWAPPED_OUT, {4}}},
        {1060, {EVENT_STEP_ENDED, {60}}}, {1070, {EVENT_STEP_BEGUN, {2, 0}}},
        {1100, {EVENT_ENGINE_LOST, {0}}}, {1200, {EVENT_ENGINE_LOST, {0}}},
        {1300, {EVENT_STEP_BEGUN, {1, 0}}}};
    (void)state;
    add(900, 0, 0, (struct event_what){EVENT_QUEUED, {0, 5, 9}});
    for (size_t i = 0; i < sizeof story / sizeof story[0]; i++) {
        event.time_us = story[i].time_us;
        event.what = story[i].what;
        picture_add(&picture, &event);
    }
    json_t *events = finish(2000);
    assert_well_formed(events);
    assert_stretches(events, 1, "step", 1, 60);
    assert_stretches(events, 1, "lost step", 1, 30);
    assert_int_equal(count_of(events, 1, "engine_lost"), 2);
    assert_int_equal(count_of(events, 1, "swapped_out"), 1);
    /* It is unknown whether the call is in the step in flight. */
    assert_stretches(events, 2, "wait", 1, 400);
}

static void test_a_slot_with_another_program_is_another_process(void **state)
{
    struct event event = {.call = CALL_NONE, .program = 3,
                          .what = {.kind = EVENT_PROGRAM_STARTED}};
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        event.program_tag[3] = (uint8_t)(i / 2);        /* the same id twice, then another */
        picture_add(&picture, &event);
    }
    json_t *events = finish(0);
    assert_well_formed(events);
    assert_int_equal(picture.programs_count, 2);
    assert_int_equal(count_of(events, 2, "program_started"), 2);
    assert_int_equal(count_of(events, 3, "program_started"), 1);
}

/* A client may choose any id; readers that take numbers for doubles must still tell them apart. */
static void test_ids_of_64_bits_are_read_to_the_last_digit(void **state)
{
    static const struct { uint64_t id; const char *text; } cases[] = {
        {(UINT64_C(1) << 53) - 1, NULL}, {UINT64_C(1) << 53, "9007199254740992"},
        {UINT64_MAX, "18446744073709551615"}};
    size_t index, found = 0;
    json_t *drawn;
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        struct event event = {.time_us = 10, .client_call_id = cases[i].id, .call = i,
                              .what = {.kind = EVENT_PREEMPTED}};
        picture_add(&picture, &event);
    }
    json_t *events = finish(20);
    json_array_foreach(events, index, drawn) {
        const json_t *call = json_object_get(json_object_get(drawn, "args"), "call");
        if (!is_named(drawn, "preempted")) {
            continue;
        }
        if (cases[found].text == NULL) {
            assert_true(json_integer_value(call) == (json_int_t)cases[found].id);
        } else {
            assert_string_equal(json_string_value(call), cases[found].text);
        }
        found++;
    }
    assert_int_equal(found, 3);
}

static void test_slots_beyond_all_limits_are_told(void **state)
{
    (void)state;
    add(1, (1u << 20) - 1, (1u << 20) - 1, (struct event_what){EVENT_QUEUED, {0}});
    assert_false(picture.out_of_memory);
    add(2, 1u << 20, 0, (struct event_what){EVENT_QUEUED, {0}});
    assert_true(picture.out_of_memory);
    picture.out_of_memory = false;
    add(3, 0, 1u << 20, (struct event_what){EVENT_QUEUED, {0}});
    assert_true(picture.out_of_memory);
    assert_well_formed(finish(4));
}

static void test_events_without_sense_draw_something_well_formed(void **state)
{
    uint32_t seed = 7;
    uint64_t time_us = 0;
    (void)state;
    for (uint32_t i = 0; i < 3000; i++) {
        struct event_what what = {.kind = (seed >> 16) % EVENT_KINDS_COUNT};
        for (uint32_t j = 0; j < EVENT_VALUES_COUNT; j++) {
            seed = seed * 1664525 + 1013904223;
            what.values[j] = (seed >> 20) % 9;
        }
        time_us += (seed >> 10) % 30;
        /* Rows do not overlap; all other events may come in any order. */
        what.values[1] = what.kind == EVENT_RAN ? 1 : what.values[1];
        time_us += what.kind == EVENT_RAN;
        add(time_us, (seed >> 5) % 5, (seed >> 8) % 3, what);
        if (i % 500 == 499) {
            picture_lose(&picture, i, time_us);
        }
    }
    static const uint32_t beyond[] = {1u << 20, UINT32_MAX - 1, UINT32_MAX};
    for (uint32_t i = 0; i < 3; i++) {
        add(time_us, beyond[i], 0, (struct event_what){EVENT_QUEUED, {0}});
        add(time_us, 0, beyond[i], (struct event_what){EVENT_QUEUED, {0}});
        add(time_us, 0, 0, (struct event_what){EVENT_RAN, {beyond[i], 1, 0, 0}});
    }
    assert_well_formed(finish(time_us));
    assert_true(picture.programs_count >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_call_is_covered_by_waits_and_runs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_story_that_begins_in_the_middle, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_call_first_heard_of_beside_one_that_ends, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_after_a_hole_nothing_goes_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_steps_and_what_belongs_to_the_engine, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_slot_with_another_program_is_another_process,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ids_of_64_bits_are_read_to_the_last_digit, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_slots_beyond_all_limits_are_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_events_without_sense_draw_something_well_formed,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
