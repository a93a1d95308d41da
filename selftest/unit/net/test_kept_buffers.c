/* SPDX-License-Identifier: MIT */
/*
 * Goal: garbage in the place of a buffer (net/kept/span.h) never shows a client a wrong byte: its
 * connection goes on as if nothing had been, or it is closed.
 * Method: a client that reads little, so that frames wait of which a part has been sent. One word
 * of a place is changed, the next core takes over, and the client reads the rest: net_client.h
 * looks at each frame. The token at place i of call 1 is always FIXTURE_BYTE(1 + i).
 */
#include "selftest/unit/draw.h"
#include "selftest/unit/net/net_client.h"

#include "net/kept/connections.h"

#define KEPT_WORDS (1u << 14)
#define ROUNDS     300
#define TOKENS     40

static _Alignas(ARENA_ALIGN_BYTES) uint64_t kept[KEPT_WORDS];
static uint64_t random_state = 1;

static uint64_t draw(uint64_t bound)
{
    return draw_below(&random_state, bound);
}

static void begin_core(bool goes_on)
{
    struct arena arena = {.base = (uint8_t *)kept, .size_bytes = sizeof kept};    /* not zeroed */
    fixture_kept = &arena;
    fixture_keeps = true;
    fixture_goes_on = fixture_was_killed = goes_on;
    fixture_init(&fixture, test_arena(), &fixture_limits);
    fixture_kept = NULL;
    net_check(&fixture.net);
}

static int end(void **state)
{
    (void)state;
    fixture_keeps = fixture_goes_on = fixture_was_killed = false;
    return 0;
}

/* A call has all its tokens, and its client has room for a part of what is said of it. */
static uint32_t begin_call(struct fixture *f)
{
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    call.max_tokens = TOKENS;
    fake_client_window(&f->fake, peer, 1 + (uint32_t)draw(60));
    uint32_t slot = start_call(f, peer, &call);
    for (uint32_t i = 0; i < TOKENS; i++) {
        fixture_generate(f, slot, FIXTURE_BYTE(1 + i));
        fixture_pass(f);
    }
    return peer;
}

/* What has come is right; true when all has. */
static bool reads_rest(struct fixture *f, uint32_t peer)
{
    fake_client_window(&f->fake, peer, FAKE_QUEUE_BYTES);
    f->generates = true;
    for (uint32_t i = 0; i < TOKENS && !fake_client_is_closed(&f->fake, peer); i++) {
        fixture_pass(f);
        read_all(f, peer);
    }
    for (uint32_t i = 0; i < answers[1].tokens_count; i++) {
        assert_int_equal(answers[1].tokens[i], FIXTURE_BYTE(1 + i));
    }
    return answers[1].done && answers[1].tokens_count == TOKENS;
}

static uint64_t changed(uint64_t word)
{
    const uint64_t as[] = {word + 1, word - 1, word + draw(40), word - draw(40), draw(4096)};
    return as[draw(sizeof as / sizeof as[0])];
}

static void test_garbage_in_the_place_of_a_buffer_shows_no_wrong_byte(void **state)
{
    struct fixture *f = &fixture;
    uint32_t stayed = 0;
    (void)state;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        memset(kept, 0, sizeof kept);
        memset(answers, 0, sizeof answers);
        begin_core(false);
        uint32_t peer = begin_call(f);
        struct net_kept_connection *of = &f->net.kept.of[0];
        struct net_span *span = draw(4) != 0 ? &of->unsent : &of->received;
        uint64_t *word = (uint64_t *)span + draw(3), was = *word;
        *word = changed(was);
        bool is_garbage = *word != was && word != (uint64_t *)span + 2;
        f->fake.counts = draw(2) != 0;
        begin_core(true);
        bool stays = reads_rest(f, peer);
        assert_true(stays != is_garbage);
        stayed += stays;
    }
    assert_true(stayed > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_garbage_in_the_place_of_a_buffer_shows_no_wrong_byte, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
