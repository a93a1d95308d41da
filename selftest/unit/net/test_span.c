/* SPDX-License-Identifier: MIT */
/*
 * Goal: a move to the front that stops anywhere goes on to the same end, and garbage is found.
 * Method: a move is stopped after any number of its bytes, the next part half copied, and gone on;
 * the stores of a change are undone, the last ones first; each word is changed.
 */
#include "selftest/unit/test.h"

#include "net/kept/span.h"

#define BYTES_MAX 200u

static void fill(uint8_t *buffer)
{
    for (uint32_t i = 0; i < BYTES_MAX; i++) {
        buffer[i] = (uint8_t)(3 * i + 1);
    }
}

static void expect_moved(const uint8_t *buffer, const struct net_span *span, uint32_t gap,
                         uint32_t bytes)
{
    assert_int_equal(span->base, 1000 + gap);
    assert_int_equal(span->target, span->base);
    for (uint32_t i = 0; i < bytes; i++) {
        assert_int_equal(buffer[i], (uint8_t)(3 * (gap + i) + 1));
    }
}

static struct net_span whole(struct net_span span)
{
    span.check = span.next_check = net_span_check(&span);
    return span;
}

/* As a move leaves it that has done so many whole parts, and `torn` bytes of the next. */
static void stop_at(struct net_span *span, uint8_t *buffer, uint32_t parts, uint32_t torn)
{
    uint32_t gap = (uint32_t)(span->target - span->base);
    while (parts-- > 0 && span->done < span->bytes) {
        uint32_t rest = span->bytes - span->done, part = gap < rest ? gap : rest;
        memcpy(buffer + span->done, buffer + gap + span->done, part);
        span->done += part;
    }
    uint32_t rest = span->bytes - span->done, part = gap < rest ? gap : rest;
    memcpy(buffer + span->done, buffer + gap + span->done, torn < part ? torn : part);
}

static void test_a_move_goes_on_where_it_was_stopped(void **state)
{
    uint8_t buffer[BYTES_MAX];
    for (uint32_t gap = 1; gap <= 40; gap++) {
        for (uint32_t bytes = 0; bytes <= BYTES_MAX - gap; bytes += 7) {
            for (uint32_t parts = 0; parts <= bytes / gap + 1; parts++) {
                struct net_span span = {.base = 1000, .target = 1000 + gap, .bytes = bytes};
                fill(buffer);
                stop_at(&span, buffer, parts, (gap + parts) / 2);
                span = whole(span);
                assert_true(net_span_is_sane(&span, BYTES_MAX));
                net_span_go_on(&span, buffer);
                expect_moved(buffer, &span, gap, bytes);
            }
        }
    }
}

static void test_a_move_that_is_not_stopped(void **state)
{
    uint8_t buffer[BYTES_MAX];
    for (uint32_t gap = 0; gap <= BYTES_MAX; gap++) {
        struct net_span span = whole((struct net_span){.base = 1000, .target = 1000, .bytes = 9,
                                                       .done = 5});
        fill(buffer);
        net_span_move(&span, buffer, 1000 + gap, BYTES_MAX - gap);
        expect_moved(buffer, &span, gap, BYTES_MAX - gap);
    }
}

static void test_what_is_no_span_of_a_buffer_is_found(void **state)
{
    const struct net_span wrong[] = {
        {.base = 10, .target = 9},                          /* backwards */
        {.base = 0, .target = BYTES_MAX + 1},
        {.base = 0, .target = 10, .bytes = BYTES_MAX - 9},  /* ends after the buffer */
        {.base = 0, .target = 10, .bytes = 5, .done = 6},
        {.base = 0, .target = UINT64_MAX},
    };
    for (uint32_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const struct net_span span = whole(wrong[i]);
        assert_false(net_span_is_sane(&span, BYTES_MAX));
    }
    struct net_span right = whole((struct net_span){.base = 7, .target = 7, .bytes = 9});
    right.bytes = UINT32_MAX;
    right.done = 1;
    assert_true(net_span_is_sane(&right, BYTES_MAX));       /* no move: the rest means nothing */
}

/* Expects `span` as it was before or as it is after, and the same again once it is settled: by a
 * core that dies after its first change, too. */
static void expect_one_of(struct net_span span, const struct net_span *old,
                          const struct net_span *now)
{
    assert_true(net_span_is_whole(&span));
    assert_true(net_span_check(&span) == old->check || net_span_check(&span) == now->check);
    net_span_settle(&span);
    assert_true(span.check == span.next_check && span.check == net_span_check(&span));
}

static void test_a_death_at_any_store_leaves_the_old_or_the_new(void **state)
{
    const struct net_span old = whole((struct net_span){.base = 9, .target = 20, .bytes = 30});
    for (uint32_t member = 0; member < 3; member++) {
        struct net_span next = old, now = old;
        next.base += member == 0 ? 11 : 0;
        next.target -= member == 1 ? 11 : 0;
        next.done += member == 2 ? 5 : 0;
        net_span_become(&now, next);
        struct net_span span = old;
        expect_one_of(span, &old, &now);
        span.next_check = now.next_check;
        expect_one_of(span, &old, &now);
        span.base = now.base;
        span.target = now.target;
        span.done = now.done;
        expect_one_of(span, &old, &now);
        span.check = now.check;
        expect_one_of(span, &old, &now);
    }
}

static void test_any_changed_bit_of_a_place_is_found(void **state)
{
    for (uint32_t gap = 0; gap < 20; gap += 19) {
        const struct net_span old = whole((struct net_span){.base = 9, .target = 9 + gap,
                                                            .bytes = 30, .done = 19});
        uint64_t words = gap == 0 ? 2 : 3;      /* no move: the third means nothing */
        for (uint64_t bit = 0; bit < 64 * words; bit++) {
            struct net_span span = old;
            ((uint8_t *)&span)[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_false(net_span_is_sane(&span, BYTES_MAX));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_move_goes_on_where_it_was_stopped),
        cmocka_unit_test(test_a_move_that_is_not_stopped),
        cmocka_unit_test(test_what_is_no_span_of_a_buffer_is_found),
        cmocka_unit_test(test_a_death_at_any_store_leaves_the_old_or_the_new),
        cmocka_unit_test(test_any_changed_bit_of_a_place_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
