/* SPDX-License-Identifier: MIT */
/*
 * Goal: a move to the front that stops anywhere goes on to the same end.
 * Method: a move is stopped after any number of its bytes, the next part half copied, and gone on.
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
        struct net_span span = {.base = 1000, .target = 1000, .bytes = 9, .done = 5};
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
        assert_false(net_span_is_sane(&wrong[i], BYTES_MAX));
    }
    const struct net_span right = {.base = 7, .target = 7, .bytes = UINT32_MAX, .done = 1};
    assert_true(net_span_is_sane(&right, BYTES_MAX));       /* no move: the rest means nothing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_move_goes_on_where_it_was_stopped),
        cmocka_unit_test(test_a_move_that_is_not_stopped),
        cmocka_unit_test(test_what_is_no_span_of_a_buffer_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
