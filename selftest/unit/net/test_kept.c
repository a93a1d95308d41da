/* SPDX-License-Identifier: MIT */
/*
 * Goal: what a core has left, its successor takes up: replies are repeated, calls that were open go
 * on. A death at any moment, and any garbage, cost no more than what they hit: it is never a wrong
 * token, and never another domain's.
 * Method: fixtures one after the other over the same kept memory. Deaths: each word is that from
 * before a pass or that from after it, by chance, which is more than any death leaves. Garbage:
 * words of any value anywhere. The token at place i of call c is always FIXTURE_BYTE(c + i).
 */
#include "selftest/unit/draw.h"
#include "selftest/unit/net/net_client.h"

#include "net/kept/replies.h"

#define KEPT_WORDS (1u << 14)
#define ROUNDS     3000

static _Alignas(ARENA_ALIGN_BYTES) uint64_t kept[KEPT_WORDS];
static uint64_t before[KEPT_WORDS], after[KEPT_WORDS];
static uint64_t random_state = 1;

static uint64_t draw(uint64_t bound)
{
    return draw_below(&random_state, bound);
}

/* Another core, which has nothing but what is kept. */
static struct fixture *begin_core(void)
{
    struct arena arena = {.base = (uint8_t *)kept, .size_bytes = sizeof kept};    /* not zeroed */
    fixture_kept = &arena;
    fixture_init(&fixture, test_arena(), &fixture_limits);
    fixture_kept = NULL;
    net_check(&fixture.net);
    memset(answers, 0, sizeof answers);
    return &fixture;
}

static int begin(void **state)
{
    memset(kept, 0, sizeof kept);
    *state = begin_core();
    return 0;
}

static struct wire_call call_of(uint64_t id)
{
    struct wire_call call = fixture_wire_call(id);
    call.max_tokens = 20;
    return call;
}

static void generate(struct fixture *f, uint32_t slot, uint32_t tokens)
{
    for (uint32_t i = 0; i < tokens; i++) {
        const struct call *call = fixture_call(f, slot);
        fixture_generate(f, slot, FIXTURE_BYTE(call->client_call_id + call->generated_tokens));
        fixture_pass(f);
    }
}

static uint32_t run(struct fixture *f, uint32_t peer, uint64_t id, uint32_t tokens, bool ends)
{
    struct wire_call call = call_of(id);
    uint32_t slot = start_call(f, peer, &call);
    generate(f, slot, tokens);
    if (ends) {
        fixture_finish(f, slot, CALL_FINISH_EOS, STATUS_OK);
        fixture_pass(f);
    }
    read_all(f, peer);
    return slot;
}

static void expect_tokens(const struct answer_so_far *answer, uint64_t id)
{
    for (uint32_t i = 0; i < answer->tokens_count; i++) {
        assert_int_equal(answer->tokens[i], FIXTURE_BYTE(id + i));
    }
}

/* With `number` others before it. */
static struct net_reply *record_of(struct fixture *f, uint64_t number)
{
    uint32_t at = f->net.replies.of[0].first;
    while (number-- > 0) {
        at = f->net.replies.records[at].next;
    }
    return &f->net.replies.records[at];
}

/* ---- in order -------------------------------------------------------------------------------- */

static void test_replies_are_repeated(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    for (uint64_t id = 1; id <= 6; id++) {          /* there is room for four */
        run(f, peer, id, (uint32_t)(3 * id), true);
    }
    for (uint32_t deaths = 0; deaths < 3; deaths++) {
        f = begin_core();
        peer = open_client(f);
        for (uint64_t id = 3; id <= 6; id++) {
            struct wire_call call = call_of(id);
            fixture_send_call(f, peer, &call);
            fixture_passes(f, 2);
            read_all(f, peer);
            assert_true(answers[id].replayed && answers[id].done);
            assert_int_equal(answers[id].tokens_count, 3 * id);
            expect_tokens(&answers[id], id);
        }
        assert_int_equal(f->commands[COMMAND_CALL], 0);
    }
    run(f, peer, 7, 1, true);                       /* the oldest still makes room */
    struct wire_call call = call_of(3);
    memset(&answers[3], 0, sizeof answers[3]);
    start_call(f, peer, &call);
}

static void test_calls_go_on(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    run(f, peer, 1, 9, false);
    run(f, peer, 2, 20, false);                     /* it has all, and not ended */
    run(f, peer, 3, 1, false);
    f = begin_core();
    peer = open_client(f);
    static const uint32_t left[] = {0, 8, 19, 0};
    for (uint64_t id = 1; id <= 3; id++) {
        struct wire_call call = call_of(id);
        uint32_t slot = start_call(f, peer, &call);
        assert_int_equal(fixture_call(f, slot)->generated_tokens, left[id]);
        generate(f, slot, 20 - left[id]);
        fixture_finish(f, slot, CALL_FINISH_LENGTH, STATUS_OK);
        fixture_pass(f);
        read_all(f, peer);
        assert_true(answers[id].done && !answers[id].replayed);
        assert_int_equal(answers[id].tokens_count, 20);
        expect_tokens(&answers[id], id);
    }
    assert_int_equal(f->stats.calls_continued, 2);
}

static void test_a_call_that_goes_on_goes_on_again(void **state)
{
    struct fixture *f = *state;
    const struct wire_call call = call_of(1);
    uint32_t slot = start_call(f, open_client(f), &call);
    for (uint32_t had = 0, deaths = 0; deaths < 6; deaths++) {
        generate(f, slot, 3);
        f = begin_core();
        slot = start_call(f, open_client(f), &call);
        had += 2;                                   /* all but the last */
        assert_int_equal(fixture_call(f, slot)->generated_tokens, had);
    }
}

static void test_a_part_of_another_request_is_of_no_use(void **state)
{
    struct fixture *f = *state;
    run(f, open_client(f), 1, 9, false);
    f = begin_core();
    struct wire_call call = call_of(1);
    call.sampling.seed++;
    uint32_t slot = start_call(f, open_client(f), &call);
    assert_int_equal(fixture_call(f, slot)->generated_tokens, 0);
}

/* A digest is no defence: a request that has it by design may have room for fewer tokens. */
static void test_a_part_that_is_too_long_is_of_no_use(void **state)
{
    struct fixture *f = *state;
    run(f, open_client(f), 1, 9, false);
    f = begin_core();
    struct wire_call call = call_of(1);
    call.max_tokens = 8;
    uint32_t peer = open_client(f);
    for (uint32_t i = 0; i < fixture_limits.replies; i++) {
        struct net_reply *reply = &f->net.replies.records[i];
        uint8_t payload[1024];
        uint32_t bytes = wire_call_encode(&call, payload, sizeof payload) - WIRE_HEADER_BYTES;
        reply->request = net_reply_request(payload + WIRE_HEADER_BYTES, bytes);
    }
    uint32_t slot = start_call(f, peer, &call);
    assert_int_equal(fixture_call(f, slot)->generated_tokens, 0);
}

static void test_what_has_log_probabilities_begins_anew(void **state)
{
    struct fixture *f = *state;
    struct wire_call call = call_of(1);
    call.flags = WIRE_CALL_MORE;
    call.sampling.wants_logprobs = true;
    generate(f, start_call(f, open_client(f), &call), 3);
    f = begin_core();
    uint32_t slot = start_call(f, open_client(f), &call);
    assert_int_equal(fixture_call(f, slot)->generated_tokens, 0);
}

static void test_a_call_whose_client_left_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    run(f, peer, 1, 9, false);
    fake_client_reset(&f->fake, peer);
    fixture_passes(f, 2);
    f = begin_core();
    const struct wire_call call = call_of(1);
    uint32_t slot = start_call(f, open_client(f), &call);
    assert_int_equal(fixture_call(f, slot)->generated_tokens, 0);
}

/* Of two records that have the same tokens in the same place, one is stale. */
static void test_no_two_records_have_the_same_tokens(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = call_of(1);
    for (uint8_t i = 0; i < 2; i++) {
        call.program_id[0] = i;
        uint32_t slot = start_call(f, peer, &call);
        generate(f, slot, 5);
        fixture_finish(f, slot, CALL_FINISH_EOS, STATUS_OK);
        fixture_pass(f);
    }
    struct net_reply *a = record_of(f, 0), *b = record_of(f, 1);
    b->chunk = a->chunk;
    b->check = fnv_add_words(FNV_START, b, offsetof(struct net_reply, check));
    f = begin_core();
    assert_int_equal(f->net.replies.quota.used, 1);
}

/* ---- deaths ---------------------------------------------------------------------------------- */

/* All that is taken up is right. */
static uint32_t expect_right(const struct fixture *f)
{
    uint32_t count = 0, tokens[256];
    for (uint32_t i = 0; i < fixture_limits.replies; i++) {
        const struct net_reply *reply = &f->net.replies.records[i];
        if (reply->number == 0) {
            continue;
        }
        assert_true(reply->domain == 0 || net_domain_is_user(reply->domain));
        assert_true(reply->done.call_id < 16 && reply->done.generated_tokens <= 20);
        net_reply_tokens(&f->net, reply, tokens);
        for (uint32_t k = 0; k < reply->done.generated_tokens; k++) {
            assert_int_equal(tokens[k], FIXTURE_BYTE(reply->done.call_id + k));
        }
        count++;
    }
    return count;
}

/* A pass or more: a call begins, goes on, or ends. */
static void do_something(struct fixture *f, uint32_t peer, uint64_t *next_id)
{
    for (uint32_t slot = 0; slot < f->calls.count; slot++) {
        struct call *call = fixture_call(f, slot);
        if (call->state == CALL_QUEUED && draw(3) != 0) {
            if (call->generated_tokens < call->max_tokens && draw(6) != 0) {
                generate(f, slot, 1);
            } else {
                fixture_finish(f, slot, CALL_FINISH_EOS, STATUS_OK);
            }
            fixture_pass(f);
            break;
        }
    }
    if (f->calls.free_count > 2 && draw(3) == 0) {
        struct wire_call call = call_of(*next_id);
        call.program_id[0] = (uint8_t)draw(256);
        call.program_id[1] = (uint8_t)draw(256);
        *next_id = 1 + *next_id % 15;
        fixture_send_call(f, peer, &call);
        fixture_pass(f);
    }
    while (fixture_receive(f, peer, &got)) {
    }
}

static void test_a_death_at_any_moment_leaves_nothing_wrong(void **state)
{
    struct fixture *f = *state;
    uint64_t next_id = 1, taken = 0;
    uint32_t peer = open_client(f);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint64_t i = draw(12); i > 0; i--) {
            do_something(f, peer, &next_id);
        }
        memcpy(before, kept, sizeof kept);
        do_something(f, peer, &next_id);
        memcpy(after, kept, sizeof kept);
        for (uint32_t i = 0; i < KEPT_WORDS; i++) {
            kept[i] = draw(2) != 0 ? after[i] : before[i];
        }
        f = begin_core();
        taken += expect_right(f);
        peer = open_client(f);
    }
    assert_true(taken > 2 * ROUNDS);
}

static void test_garbage_is_not_taken_up(void **state)
{
    struct fixture *f = *state;
    uint64_t next_id = 1;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t peer = open_client(f);
        for (uint64_t i = draw(12); i > 0; i--) {
            do_something(f, peer, &next_id);
        }
        for (uint64_t i = draw(40); i > 0; i--) {
            uint64_t *word = &kept[draw(KEPT_WORDS)];
            *word = draw(2) != 0 ? *word ^ UINT64_C(1) << draw(64) : draw(64);
        }
        f = begin_core();
        expect_right(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_replies_are_repeated, begin),
        cmocka_unit_test_setup(test_calls_go_on, begin),
        cmocka_unit_test_setup(test_a_call_that_goes_on_goes_on_again, begin),
        cmocka_unit_test_setup(test_a_part_of_another_request_is_of_no_use, begin),
        cmocka_unit_test_setup(test_a_part_that_is_too_long_is_of_no_use, begin),
        cmocka_unit_test_setup(test_what_has_log_probabilities_begins_anew, begin),
        cmocka_unit_test_setup(test_a_call_whose_client_left_leaves_nothing, begin),
        cmocka_unit_test_setup(test_no_two_records_have_the_same_tokens, begin),
        cmocka_unit_test_setup(test_a_death_at_any_moment_leaves_nothing_wrong, begin),
        cmocka_unit_test_setup(test_garbage_is_not_taken_up, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
