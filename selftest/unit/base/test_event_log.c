/* SPDX-License-Identifier: MIT */
/*
 * Goal: the event log keeps exactly the last events, numbers them without end, and costs its
 * writers nothing when there is none.
 * Method: counted notes, several times around a small ring.
 */
#include "selftest/unit/test.h"

#include "config/base/event_log.h"

static struct event_log event_log;

static void note(uint32_t count)
{
    for (; count > 0; count--) {
        uint32_t number = (uint32_t)event_log.next;
        event_log_note(&event_log, 1000 + number,
                     (struct event_what){EVENT_STEP_ENDED, {number}});
    }
}

static void test_ring_keeps_the_last_and_forgets_the_oldest(void **state)
{
    (void)state;
    event_log_init(&event_log, 8, 0, test_arena());
    assert_int_equal(event_log_first(&event_log), 0);
    for (uint32_t noted = 1; noted <= 50; noted++) {
        note(1);
        uint64_t first = noted > 8 ? noted - 8 : 0;
        assert_int_equal(event_log.next, noted);
        assert_int_equal(event_log_first(&event_log), first);
        for (uint64_t n = first; n < noted; n++) {
            assert_int_equal(event_log_at(&event_log, n)->what.values[0], n);
            assert_int_equal(event_log_at(&event_log, n)->time_us, 1000 + n);
        }
    }
    expect_assert_failure(event_log_at(&event_log, 41));
    expect_assert_failure(event_log_at(&event_log, 50));
    expect_assert_failure(event_log_at(&event_log, UINT64_MAX));
}

static void test_capacity_is_rounded_up_and_planned_to_the_byte(void **state)
{
    static const struct { uint32_t asked, kept; } cases[] = {{0, 0}, {1, 1}, {5, 8}, {64, 64}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = test_arena();
        static struct memory_plan plan;
        plan = (struct memory_plan){0};
        event_log_plan_memory(&plan, cases[i].asked, 0);
        event_log_init(&event_log, cases[i].asked, 0, arena);
        assert_int_equal(event_log.capacity, cases[i].kept);
        assert_int_equal(arena->used_bytes, memory_plan_bytes(&plan, MEMORY_CORE));
    }
}

static void test_without_a_ring_nothing_is_noted(void **state)
{
    static const uint8_t id[CALL_PROGRAM_ID_BYTES];
    const struct call none = {0};
    (void)state;
    event_log_init(&event_log, 0, 0, test_arena());
    note(3);
    struct event_log *event_logs[] = {&event_log, NULL};
    for (size_t i = 0; i < 2; i++) {
        event_log_note(event_logs[i], 1, (struct event_what){.kind = EVENT_ENGINE_LOST});
        event_log_note_program(event_logs[i], 1, 0, id, (struct event_what){EVENT_PROGRAM_ENDED,
                                                                            {0}});
        event_log_note_call(event_logs[i], 1, &none, (struct event_what){.kind = EVENT_PAUSED});
    }
    assert_int_equal(event_log.next, 0);
    assert_int_equal(event_log_first(&event_log), 0);
}

static void test_events_say_whose_they_are_and_no_whole_id(void **state)
{
    struct arena *arena = test_arena();
    struct call_table table;
    (void)state;
    call_table_init(&table, 4, 16, arena, arena);
    event_log_init(&event_log, 4, 0, arena);
    uint32_t slot = call_take(&table, 0);
    struct call *call = &table.calls[slot];
    call->client_call_id = UINT64_MAX;
    call->program = 3;
    memset(call->program_id, 0xab, sizeof call->program_id);
    event_log_note_call(&event_log, 5, call,
                        (struct event_what){EVENT_PREEMPTED, {9, event_value(UINT64_MAX)}});
    const struct event *event = event_log_at(&event_log, 0);
    assert_int_equal(event->call, slot);
    assert_true(event->client_call_id == UINT64_MAX);
    assert_int_equal(event->program, 3);
    assert_memory_equal(event->program_tag, call->program_id, EVENT_PROGRAM_TAG_BYTES);
    assert_int_equal(event->what.values[0], 9);
    assert_int_equal(event->what.values[1], UINT32_MAX);
    event_log_note_program(&event_log, 6, 2, call->program_id,
                         (struct event_what){.kind = EVENT_PROGRAM_ENDED});
    assert_int_equal(event_log_at(&event_log, 1)->call, CALL_NONE);
    assert_int_equal(event_log_at(&event_log, 1)->program, 2);
    event_log_note(&event_log, 7, (struct event_what){.kind = EVENT_ENGINE_LOST});
    assert_int_equal(event_log_at(&event_log, 2)->program, EVENT_PROGRAM_NONE);
    expect_assert_failure(event_log_note(&event_log, 8, (struct event_what){EVENT_KINDS_COUNT,
                                                                            {0}}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_keeps_the_last_and_forgets_the_oldest),
        cmocka_unit_test(test_capacity_is_rounded_up_and_planned_to_the_byte),
        cmocka_unit_test(test_without_a_ring_nothing_is_noted),
        cmocka_unit_test(test_events_say_whose_they_are_and_no_whole_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
