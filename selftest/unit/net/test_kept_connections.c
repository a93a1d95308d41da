/* SPDX-License-Identifier: MIT */
/*
 * Goal: a core may die before any of its stores to kept memory, in a pass or while it takes over:
 * connections stay, and a client gets each frame once and in order. What is torn in a record beyond
 * that, or is garbage, costs connections; on those that stay each call ends, with the right tokens.
 * Method: cores one after the other over the same kept memory, in one fake world. Each store is
 * counted (selftest/fake/store_trap.h), and one of them does not come back. The token at place i of
 * call c is always FIXTURE_BYTE(c + i).
 */
#include <setjmp.h>

#define TEST_ARENA_BYTES (1u << 20)     /* zeroed for each core */

#include "selftest/fake/store_trap.h"
#include "selftest/unit/draw.h"
#include "selftest/unit/net/net_client.h"

#include "net/kept/connections.h"
#include "net/kept/progress.h"

#define KEPT_WORDS (1u << 13)
#define OPEN_MAX   3
#define RECORDS_STORES 24               /* about as many as a pass makes */
#define DAMAGES    1000
#define PAGE_BYTES 4096

static _Alignas(PAGE_BYTES) uint64_t kept[KEPT_WORDS];
static uint64_t before[KEPT_WORDS];
static uint64_t random_state = 1;

static uint64_t draw(uint64_t bound)
{
    return draw_below(&random_state, bound);
}

/* ---- death at a store ------------------------------------------------------------------------ */

static sigjmp_buf death;
static volatile uint64_t stores, stores_max;        /* so far; then it dies */
static volatile bool aims_at_records;   /* only those to the records of connections count */

static void on_store(void *context, const uint8_t *at)
{
    (void)context;
    bool counts = !aims_at_records || (at >= (const uint8_t *)fixture.net.kept.of &&
                                       at < (const uint8_t *)fixture.net.kept.head);
    if (counts && stores++ == stores_max) {
        siglongjmp(death, 1);
    }
}

static void arm(uint64_t most)
{
    stores = 0;
    stores_max = most;
    store_trap_arm(&(struct store_trap){.base = (uint8_t *)kept, .bytes = sizeof kept,
                                        .on_store = on_store});
}

/* ---- cores ----------------------------------------------------------------------------------- */

static void build_core(void)
{
    struct arena arena = {.base = (uint8_t *)kept, .size_bytes = sizeof kept};    /* not zeroed */
    fixture_kept = &arena;
    struct limits few = fixture_limits;
    few.calls = 4;
    few.connections = 2;
    fixture_init(&fixture, test_arena(), &few);
    fixture_kept = NULL;
    fixture.generates = true;
}

static uint64_t deaths, survivors_stores = 100;

/* True when it died in it. */
static bool dies_in(void (*act)(void), uint64_t most)
{
    arm(most);
    if (sigsetjmp(death, 1) != 0) {
        store_trap_disarm();
        deaths++;
        return true;
    }
    act();
    store_trap_disarm();
    survivors_stores = stores > 0 && !aims_at_records ? stores : survivors_stores;
    return false;
}

static void begin_successor(bool may_die)
{
    aims_at_records = false;
    fixture_goes_on = fixture_was_killed = true;
    while (may_die && dies_in(build_core, draw(1200))) {
        may_die = draw(4) != 0;
    }
    if (!may_die) {
        build_core();
    }
    net_check(&fixture.net);
}

static void pass(void)
{
    fixture_pass(&fixture);
}

static int begin(void **state)
{
    memset(kept, 0, sizeof kept);
    memset(answers, 0, sizeof answers);
    fixture_goes_on = fixture_was_killed = false;
    fixture_keeps = true;
    build_core();
    *state = &fixture;
    return 0;
}

static int end(void **state)
{
    (void)state;
    fixture_keeps = fixture_goes_on = fixture_was_killed = false;
    return 0;
}

/* ---- a client -------------------------------------------------------------------------------- */

static bool is_open[16];

static uint32_t open_count(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < 16; i++) {
        count += is_open[i];
    }
    return count;
}

static void ask(struct fixture *f, uint32_t peer)
{
    uint64_t id = 1 + draw(15);
    if (is_open[id] || open_count() == OPEN_MAX) {
        return;
    }
    struct wire_call call = fixture_wire_call(id);
    uint64_t name = draw(UINT64_MAX);
    memcpy(call.program_id, &name, sizeof name);    /* ids of a reply are not used again */
    call.max_tokens = 20;
    memset(&answers[id], 0, sizeof answers[id]);
    is_open[id] = true;
    fixture_send_call(f, peer, &call);
}

static void listen_to(struct fixture *f, uint32_t peer)
{
    read_all(f, peer);
    for (uint32_t id = 1; id < 16; id++) {
        const struct answer_so_far *answer = &answers[id];
        for (uint32_t i = 0; is_open[id] && i < answer->tokens_count; i++) {
            assert_int_equal(answer->tokens[i], FIXTURE_BYTE(id + i));
        }
        assert_true(!answer->done || answer->tokens_count == 20 || !is_open[id]);
        is_open[id] = is_open[id] && !answer->done;
    }
}

static void finish_all(struct fixture *f, uint32_t peer)
{
    for (uint32_t i = 0; i < 200 && open_count() > 0; i++) {
        fixture_pass(f);
        listen_to(f, peer);
    }
    assert_int_equal(open_count(), 0);
}

/* Of a closed connection; what had come before that was right. */
static uint32_t come_back(struct fixture *f, uint32_t peer)
{
    listen_to(f, peer);
    memset(is_open, 0, sizeof is_open);
    fake_client_forget(&f->fake, peer);
    f->fake.transfer_max = 0;
    return open_client(f);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void die_often(struct fixture *f, uint32_t rounds, bool counts)
{
    memset(is_open, 0, sizeof is_open);
    uint32_t peer = open_client(f);
    f->fake.counts = counts;
    deaths = 0;
    for (uint32_t round = 0; round < rounds; round++) {
        if (draw(2) != 0) {
            ask(f, peer);
        }
        f->fake.transfer_max = draw(3) != 0 ? 0 : 1 + (uint32_t)draw(60);
        aims_at_records = draw(2) != 0;
        if (dies_in(pass, draw(aims_at_records ? RECORDS_STORES : 2 * survivors_stores))) {
            begin_successor(draw(3) == 0);
        }
        if (draw(3) == 0) {
            listen_to(f, peer);
        }
        if (fake_client_is_closed(&f->fake, peer)) {
            assert_false(counts);               /* in doubt */
            peer = come_back(f, peer);
        }
    }
    f->fake.transfer_max = 0;
    finish_all(f, peer);
    assert_true(deaths > rounds / 8);
}

static void test_connection_outlives_a_death_at_any_store(void **state)
{
    die_often(*state, 600, true);
}

/* The kernel had no room for its handle when it came. */
static void test_connection_that_could_not_be_kept_is_kept_later(void **state)
{
    struct fixture *f = *state;
    f->fake.keeps = false;
    uint32_t peer = open_client(f);
    f->fake.keeps = true;
    ask(f, peer);
    fixture_pass(f);
    begin_successor(false);
    finish_all(f, peer);
    assert_false(fake_client_is_closed(&f->fake, peer));
}

static void test_connection_in_doubt_is_closed_and_its_client_comes_back(void **state)
{
    die_often(*state, 200, false);
}

/* True for a word of what has a check word or makes that hold, or of what has been transferred: all
 * up to `member` of a connection, and calls. */
static bool is_before(const struct fixture *f, const uint64_t *word, uint64_t member)
{
    const uint8_t *at = (const uint8_t *)word, *of = (const uint8_t *)f->net.kept.of;
    const uint8_t *calls = (const uint8_t *)f->net.progress;
    uint64_t bytes = f->limits.connections * sizeof(struct net_kept_connection);
    if (at >= calls && at < calls + f->limits.calls * sizeof(struct net_progress)) {
        return true;
    }
    return at >= of && at < of + bytes &&
           (uint64_t)(at - of) % sizeof(struct net_kept_connection) < member;
}

static bool is_checked(const struct fixture *f, const uint64_t *word)
{
    return is_before(f, word, offsetof(struct net_kept_connection, deaths));
}

/* Places of buffers change with what is in the buffers, which is not torn. */
static bool may_be_torn(const struct fixture *f, const uint64_t *word)
{
    return is_before(f, word, offsetof(struct net_kept_connection, received));
}

static void tear(const struct fixture *f)
{
    uint64_t one_in = 1 + draw(50);         /* from half of what has changed to hardly anything */
    for (uint32_t i = 0; i < KEPT_WORDS; i++) {
        if (may_be_torn(f, &kept[i]) && draw(1 + one_in) == 0) {
            kept[i] = before[i];
        }
    }
}

static void garble(const struct fixture *f)
{
    for (uint64_t i = draw(draw(2) != 0 ? 400 : 40); i > 0; i--) {
        uint64_t *word = &kept[draw(KEPT_WORDS)];
        if (is_checked(f, word)) {
            *word = draw(2) != 0 ? *word ^ UINT64_C(1) << draw(64) : draw(64);
        }
    }
}

/* A connection that stays has lost no call. True when it does. */
static bool all_goes_on(struct fixture *f, uint32_t peer)
{
    for (uint32_t i = 0; i < 200 && open_count() > 0; i++) {
        if (fake_client_is_closed(&f->fake, peer)) {
            return false;
        }
        fixture_pass(f);
        listen_to(f, peer);
    }
    assert_int_equal(open_count(), 0);
    return !fake_client_is_closed(&f->fake, peer);
}

static void damage_often(struct fixture *f, void (*damage)(const struct fixture *f))
{
    uint32_t stayed = 0;
    memset(is_open, 0, sizeof is_open);
    uint32_t peer = open_client(f);
    for (uint32_t round = 0; round < DAMAGES; round++) {
        ask(f, peer);
        fixture_passes(f, (uint32_t)draw(3));
        memcpy(before, kept, sizeof kept);
        fixture_pass(f);
        damage(f);
        begin_successor(false);
        bool stays = !fake_client_is_closed(&f->fake, peer) && all_goes_on(f, peer);
        stayed += stays;
        if (!stays) {
            peer = come_back(f, peer);
        }
    }
    assert_true(stayed > DAMAGES / 30 && stayed < DAMAGES);
}

static void test_torn_records_cost_connections_and_no_call_on_others(void **state)
{
    damage_often(*state, tear);
}

static void test_garbage_in_records_costs_connections_and_no_call_on_others(void **state)
{
    damage_often(*state, garble);
}

/* ---- one word at a time ---------------------------------------------------------------------- */

#define GARBLINGS 5

static uint64_t garbled(uint64_t word, uint32_t how)
{
    const uint64_t as[GARBLINGS] = {0, word + 1, word - 1, UINT64_MAX,
                                    word ^ UINT64_C(1) << draw(64)};
    return as[how];
}

/* Calls have just come, run, or have ended, and frames of them wait. True when the connection
 * stays: then all of them have ended. */
static bool outlives_a_word(struct fixture *f, uint32_t peer, uint64_t *word, uint32_t how)
{
    f->fake.transfer_max = draw(2) != 0 ? 0 : 1 + (uint32_t)draw(60);
    for (uint64_t i = 1 + draw(3); i > 0; i--) {
        ask(f, peer);
        fixture_passes(f, (uint32_t)draw(draw(3) == 0 ? 22 : 4));
    }
    *word = garbled(*word, how);
    f->fake.counts = draw(2) != 0;
    begin_successor(false);
    f->fake.transfer_max = 0;
    return all_goes_on(f, peer);
}

static void test_any_garbled_word_costs_a_connection_and_no_call_on_one_that_stays(void **state)
{
    struct fixture *f = *state;
    uint32_t stayed = 0, lost = 0, peer = open_client(f);
    memset(is_open, 0, sizeof is_open);
    for (uint32_t i = 0; i < KEPT_WORDS; i++) {
        for (uint32_t how = 0; is_checked(f, &kept[i]) && how < GARBLINGS; how++) {
            bool stays = outlives_a_word(f, peer, &kept[i], how);
            stayed += stays;
            lost += !stays;
            if (!stays) {
                peer = come_back(f, peer);
            }
        }
    }
    assert_true(stayed > lost && lost > 100);
}

/* A core that dies before it has closed it leaves it in doubt. */
static void test_connection_in_doubt_is_closed_by_a_later_core_too(void **state)
{
    struct fixture *f = *state;
    bool dies = true;
    deaths = 0;
    for (uint32_t store = 0; dies; store++) {
        begin(state);
        f->fake.counts = false;
        uint32_t peer = open_client(f);
        net_transfer_ask(&f->net.kept.of[0].sent);
        fixture_goes_on = fixture_was_killed = aims_at_records = true;
        dies = store < RECORDS_STORES && dies_in(build_core, store);
        begin_successor(false);
        assert_true(fake_client_is_closed(&f->fake, peer));
    }
    assert_true(deaths > 0);
}

/* A core dies of frames, and the next one while it takes over, at any store: that is no second
 * death of these frames. Only where it has just counted the first one is it counted again. */
static void test_death_while_a_core_takes_over_is_not_the_clients(void **state)
{
    struct fixture *f = *state;
    uint32_t lost = 0;
    bool dies = true;
    deaths = 0;
    for (uint32_t store = 0; dies; store++) {
        begin(state);
        uint32_t peer = open_client(f);
        net_kept_act(&f->net, 0);
        fixture_goes_on = true;
        aims_at_records = false;
        dies = dies_in(build_core, store);
        if (dies) {
            build_core();
        }
        fixture_pass(f);
        lost += fake_client_is_closed(&f->fake, peer);
    }
    assert_true(deaths > 10 && lost <= 1);
}

/* Where no check word is, either: the next core lives. */
static void test_garbage_anywhere_ends_no_core(void **state)
{
    struct fixture *f = *state;
    for (uint32_t round = 0; round < DAMAGES; round++) {
        begin(state);
        uint32_t peer = open_client(f);
        memset(is_open, 0, sizeof is_open);
        for (uint32_t i = 0; i < 3; i++) {
            ask(f, peer);
            fixture_pass(f);
        }
        uint64_t *of = (uint64_t *)f->net.kept.of;
        uint64_t words = f->limits.connections * sizeof *f->net.kept.of / sizeof *of;
        for (uint64_t i = draw(12); i > 0; i--) {
            of[draw(words)] = draw(3) == 0 ? draw(UINT64_MAX) : draw(8192);
        }
        begin_successor(false);
        fixture_passes(f, 3);
    }
}

/* A call that has its ACCEPT, and tokens, and finds no engine any more. */
static void test_call_that_finds_no_engine_ends_failed_and_its_connection_stays(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    f->generates = false;
    struct wire_call call = fixture_wire_call(1);
    call.max_tokens = 20;
    uint32_t slot = start_call(f, peer, &call);
    for (uint32_t i = 0; i < 5; i++) {
        fixture_generate(f, slot, FIXTURE_BYTE(1 + i));
        fixture_pass(f);
    }
    begin_successor(false);
    f->refuse_with = STATUS_DEVICE_FAILED;
    fixture_passes(f, 2);
    read_all(f, peer);
    assert_true(answers[1].done && answers[1].tokens_count == 5);
    assert_int_equal(answers[1].end.finish, CALL_FINISH_FAILED);
    assert_status(STATUS_DEVICE_FAILED, answers[1].end.status);
    f->refuse_with = STATUS_OK;
    expect_alive(f, peer);
}

/* The time of half a frame. */
static void test_time_of_half_a_header_runs_after_a_death(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    fixture_send(f, peer, (const uint8_t *)"AGX", 3);
    fixture_pass(f);
    begin_successor(false);
    fixture_pass(f);
    assert_false(fake_client_is_closed(&f->fake, peer));
    fixture_sleep(f, f->net.settings.frame_deadline_us + 1000);
    expect_error(f, peer, STATUS_GONE_DEADLINE, WIRE_FIELD_CONNECTION, true);
}

#define T(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_connection_outlives_a_death_at_any_store),
        T(test_connection_that_could_not_be_kept_is_kept_later),
        T(test_connection_in_doubt_is_closed_and_its_client_comes_back),
        T(test_torn_records_cost_connections_and_no_call_on_others),
        T(test_garbage_in_records_costs_connections_and_no_call_on_others),
        T(test_any_garbled_word_costs_a_connection_and_no_call_on_one_that_stays),
        T(test_connection_in_doubt_is_closed_by_a_later_core_too),
        T(test_death_while_a_core_takes_over_is_not_the_clients),
        T(test_garbage_anywhere_ends_no_core),
        T(test_call_that_finds_no_engine_ends_failed_and_its_connection_stays),
        T(test_time_of_half_a_header_runs_after_a_death),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
