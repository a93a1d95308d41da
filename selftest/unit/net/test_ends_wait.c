/* SPDX-License-Identifier: MIT */
/*
 * Goal: where ends wait, a client is told DONE once the reply of its call is written, and not
 * before: whatever breaks, comes again, or dies in between. Tokens, other calls, and ends that are
 * not on record do not wait.
 * Method: what the writer has written is a number; the test counts it up.
 */
#include "selftest/unit/net/net_client.h"

#include "net/kept/replies.h"

#define KEPT_WORDS (1u << 14)

static _Alignas(ARENA_ALIGN_BYTES) uint64_t kept[KEPT_WORDS];

static struct fixture *begin_core(bool goes_on)
{
    struct arena arena = {.base = (uint8_t *)kept, .size_bytes = sizeof kept};    /* not zeroed */
    fixture_kept = &arena;
    fixture_goes_on = fixture_was_killed = goes_on;
    fixture_init(&fixture, test_arena(), &fixture_limits);
    fixture_kept = NULL;
    fixture.net.settings.ends_wait = true;
    return &fixture;
}

static int begin(void **state)
{
    memset(kept, 0, sizeof kept);
    memset(answers, 0, sizeof answers);
    fixture_keeps = true;
    *state = begin_core(false);
    return 0;
}

static int end(void **state)
{
    (void)state;
    fixture_keeps = fixture_goes_on = fixture_was_killed = false;
    return 0;
}

static void run(struct fixture *f, uint32_t peer, const struct wire_call *call,
                enum call_finish finish)
{
    uint32_t slot = start_call(f, peer, call);
    for (uint32_t i = 0; i < 3; i++) {
        fixture_generate(f, slot, FIXTURE_BYTE(call->call_id + i));
        fixture_pass(f);
    }
    fixture_finish(f, slot, finish, STATUS_OK);
    fixture_passes(f, 3);
    read_all(f, peer);
}

static void write_all(struct fixture *f)
{
    struct pages_numbers *numbers = f->net.replies.pages.numbers;
    numbers->written = numbers->changed;
    fixture_passes(f, 3);
}

static void expect(uint64_t id, bool done)
{
    assert_int_equal(answers[id].tokens_count, 3);
    assert_int_equal(answers[id].done, done);
}

static void test_done_waits_for_the_disk_and_tokens_do_not(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    const struct wire_call call = fixture_wire_call(1);
    run(f, peer, &call, CALL_FINISH_EOS);
    expect(1, false);
    assert_false(net_is_flushed(&f->net));
    write_all(f);
    read_all(f, peer);
    expect(1, true);
    expect_slots_free(f, 8);
    net_check(&f->net);
}

static void test_calls_wait_for_their_own_record_and_for_no_other(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    for (call.call_id = 1; call.call_id <= 3; call.call_id++) {
        run(f, peer, &call, CALL_FINISH_EOS);
        expect(call.call_id, false);
    }
    struct pages_numbers *numbers = f->net.replies.pages.numbers;
    numbers->written = 2;
    fixture_passes(f, 3);
    read_all(f, peer);
    expect(1, true);
    expect(2, true);
    expect(3, false);
    write_all(f);
    read_all(f, peer);
    expect(3, true);
}

static void test_an_end_that_is_not_on_record_does_not_wait(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    run(f, peer, &call, CALL_FINISH_FAILED);
    expect(1, true);
}

static void test_a_repeated_end_waits_for_the_same_record(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f), other = open_client(f);
    const struct wire_call call = fixture_wire_call(1);
    run(f, peer, &call, CALL_FINISH_EOS);
    fixture_send_call(f, other, &call);             /* it is still open */
    fixture_pass(f);
    expect_error(f, other, STATUS_BUSY_CALL_OPEN, WIRE_FIELD_CALL_ID, false);
    fake_client_reset(&f->fake, peer);
    fixture_passes(f, 3);
    memset(&answers[1], 0, sizeof answers[1]);
    fixture_send_call(f, other, &call);
    fixture_passes(f, 3);
    read_all(f, other);
    assert_true(answers[1].replayed);
    expect(1, false);
    write_all(f);
    read_all(f, other);
    expect(1, true);
    assert_int_equal(f->commands[COMMAND_CALL], 1);
}

static void test_an_end_waits_in_the_next_core_too(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    const struct wire_call call = fixture_wire_call(1);
    run(f, peer, &call, CALL_FINISH_EOS);
    f = begin_core(true);
    fixture_passes(f, 3);
    read_all(f, peer);
    expect(1, false);
    write_all(f);
    read_all(f, peer);
    expect(1, true);
    assert_int_equal(f->commands[COMMAND_CALL], 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        T(test_done_waits_for_the_disk_and_tokens_do_not),
        T(test_calls_wait_for_their_own_record_and_for_no_other),
        T(test_an_end_that_is_not_on_record_does_not_wait),
        T(test_a_repeated_end_waits_for_the_same_record),
        T(test_an_end_waits_in_the_next_core_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
