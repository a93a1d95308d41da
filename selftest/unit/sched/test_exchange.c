/* SPDX-License-Identifier: MIT */
/*
 * Goal: what an exchange costs follows from how fast the engine reads prompts, and from where the
 * blocks go: with a host tier they move, without one they are computed again, which costs more.
 * Method: exchange.c alone is told of steps; the prices are counted by hand.
 */
#include "selftest/unit/sched/bench.h"

#include "sched/engine/active/exchange.h"

enum { BLOCKS = 16, TOKEN_US = 32 };

/* An engine that reads a token of a prompt in TOKEN_US. */
static struct sched_engine *engine_with_host(uint32_t host_blocks)
{
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    struct kvmem_settings kv = bench_kv(BLOCKS);
    settings.exchange_permille = 0;
    kv.host_blocks = host_blocks;
    struct sched_engine *engine = bench_engine(bench_start_kv(&settings, &kv));
    uint32_t tokens = settings.prefill_tokens;
    sched_exchange_learn(engine, (uint64_t)tokens * TOKEN_US, 1, tokens);
    return engine;
}

static uint64_t block_us(const struct sched_engine *engine)
{
    return (uint64_t)engine->kv->settings.block_tokens * TOKEN_US;
}

static void test_blocks_that_move_cost_an_eighth_of_computing_them(void **state)
{
    (void)state;
    struct sched_engine *engine = engine_with_host(BLOCKS);
    assert_int_equal(sched_exchange_cost_us(engine, 4, true), 4 * block_us(engine) / 8);
    assert_int_equal(sched_exchange_break_even_us(engine, 1), BLOCKS * block_us(engine) / 8);
    sched_exchange_pay(engine, 4);
    assert_false(sched_exchange_may(engine));
}

static void test_without_a_host_tier_an_exchange_is_computing_again(void **state)
{
    (void)state;
    struct sched_engine *engine = engine_with_host(0);
    assert_int_equal(sched_exchange_cost_us(engine, 4, false), 4 * block_us(engine));
    assert_int_equal(sched_exchange_break_even_us(engine, 1), BLOCKS * block_us(engine));
    sched_exchange_pay(engine, 4);
    assert_true(sched_exchange_may(engine));        /* nothing has moved, or been lost yet */
    sched_exchange_pay_lost(engine, 1);
    assert_false(sched_exchange_may(engine));
}

/* What displaced programs have left needs the host's room, too. */
static void test_a_host_that_is_full_holds_no_more(void **state)
{
    (void)state;
    struct sched_engine *engine = engine_with_host(BLOCKS);
    engine->active.away_blocks = BLOCKS - 3;
    assert_int_equal(sched_exchange_break_even_us(engine, 3), BLOCKS * block_us(engine) / 8);
    assert_int_equal(sched_exchange_break_even_us(engine, 4), BLOCKS * block_us(engine));
}

/* Nothing is computed again while the host has room: then moves may take twice the share. */
static void test_a_host_with_room_doubles_the_share(void **state)
{
    (void)state;
    const struct {
        uint32_t host_blocks, away_blocks, permille;
        int64_t credit_us;
    } cases[] = {{BLOCKS, 0, 100, 20}, {BLOCKS, BLOCKS - 1, 100, 20}, {BLOCKS, BLOCKS, 100, 10},
                 {0, 0, 100, 10}, {BLOCKS, 0, 600, 100}};
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sched_engine *engine = engine_with_host(cases[i].host_blocks);
        engine->sched->settings.exchange_permille = cases[i].permille;
        engine->active.away_blocks = cases[i].away_blocks;
        sched_exchange_accrue(engine, 1000);
        engine->active.credit_us = -1000;               /* far below the cap */
        engine->active.busy_us = 100;
        sched_exchange_accrue(engine, 1100);
        assert_int_equal(engine->active.credit_us, cases[i].credit_us - 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_that_move_cost_an_eighth_of_computing_them),
        cmocka_unit_test(test_a_host_that_is_full_holds_no_more),
        cmocka_unit_test(test_a_host_with_room_doubles_the_share),
        cmocka_unit_test(test_without_a_host_tier_an_exchange_is_computing_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
