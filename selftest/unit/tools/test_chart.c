/* SPDX-License-Identifier: MIT */
/*
 * Goal: a picture always has the same number of lines of the same width, for any names, words and
 * times, and holds only printable characters and our own colours. Rows show what programs did.
 * Method: the test counts the columns of each line, and reads rows without colours, in ASCII.
 */
#include "selftest/unit/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "tools/agx/agents/chart.h"

static struct chart chart;
static struct screen_text text;

/* As on a terminal of this size. */
static bool open_chart(uint32_t rows, uint32_t columns, uint32_t lines)
{
    struct screen screen = {.is_terminal = true, .columns = columns, .lines = lines};
    memset(&chart, 0, sizeof chart);
    chart.rows_count = rows;
    for (uint32_t side = 0; side < CHART_SIDES; side++) {
        chart_name(chart.sides[side].title, side == 0 ? "fcfs" : "plas");
        for (uint32_t i = 0; i < rows; i++) {
            snprintf(chart.sides[side].rows[i].name, CHART_TEXT_BYTES, "row-%u", i);
        }
    }
    return chart_fit(&chart, &screen, 3, 7);
}

static void check_picture(void)
{
    uint32_t lines = 0, columns = 0;
    chart_write(&chart, &text);
    for (size_t i = 0; i < text.count; i++) {
        unsigned char byte = (unsigned char)text.bytes[i];
        if (byte == 0x1b) {
            while (text.bytes[i] != 'm' && text.bytes[i] != 'K') {
                i++;
                assert_true(i < text.count);
            }
            assert_true(text.bytes[i] == 'K' || chart.has_colour);
        } else if (byte == '\n') {
            assert_int_equal(columns, 2 * chart.width + 3);
            columns = 0;
            lines++;
        } else {
            assert_true(byte >= 0x20 && byte != 0x7f);
            assert_true(byte < 0x80 || chart.is_utf8);
            columns += (byte & 0xc0) != 0x80;
        }
    }
    assert_int_equal(lines, chart_lines(&chart));
}

/* Line `wanted` of the picture, without what clears its end. */
static const char *line_of(uint32_t wanted)
{
    static char line[512];
    const char *at = text.bytes;
    chart_write(&chart, &text);
    text.bytes[text.count] = '\0';
    for (uint32_t i = 0; i < wanted; i++) {
        at = strchr(at, '\n') + 1;
    }
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\033"), at);
    return line;
}

static uint32_t draw_number(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

static void add_noise(uint32_t *seed)
{
    uint32_t side = draw_number(seed, 2), number = draw_number(seed, chart.rows_count);
    struct chart_row *row = &chart.sides[side].rows[number];
    char noise[200];
    uint32_t count = draw_number(seed, sizeof noise);
    for (uint32_t i = 0; i < count; i++) {
        noise[i] = (char)(1 + draw_number(seed, 255));
    }
    noise[count] = '\0';
    chart_say(&chart, side, number, noise);
    timeline_mark(&row->timeline, chart.now_us, (enum timeline_act)draw_number(seed, 3));
    if (draw_number(seed, 20) == 0) {
        chart_name(row->name, noise);
        chart_name(chart.sides[side].title, noise);
        row->is_long = draw_number(seed, 2);
        row->is_over = true;
        row->is_right = draw_number(seed, 2);
        row->took_us = (uint64_t)draw_number(seed, 1u << 24) * draw_number(seed, 1u << 24);
    }
    chart.now_us += draw_number(seed, 1000000);
}

static void test_pictures_of_noise_keep_their_shape(void **state)
{
    static const struct { uint32_t rows, columns, lines; } sizes[] = {
        {12, 80, 24}, {1, 80, 24}, {12, 81, 25}, {12, 140, 50}, {40, 500, 300}, {15, 100, 18}};
    (void)state;
    for (uint32_t i = 0; i < 4 * sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t seed = i + 1;
        assert_true(open_chart(sizes[i / 4].rows, sizes[i / 4].columns, sizes[i / 4].lines));
        chart.is_utf8 = i % 2;
        chart.has_colour = i / 2 % 2;
        assert_true(2 * chart.width + 3 < sizes[i / 4].columns);
        assert_true(chart_lines(&chart) < sizes[i / 4].lines);
        for (uint32_t k = 0; k < 200; k++) {
            add_noise(&seed);
            if (k % 10 == 0) {
                check_picture();
            }
        }
        assert_true(text.count < sizeof text.bytes - 4096);     /* nothing was dropped */
    }
}

static void test_a_terminal_that_is_too_small_has_no_picture(void **state)
{
    (void)state;
    assert_true(open_chart(12, 80, 24));
    assert_false(open_chart(12, 79, 24));
    assert_false(open_chart(12, 80, 14));
    struct screen pipe = {.columns = 200, .lines = 100};
    assert_false(chart_fit(&chart, &pipe, 0, 0));
}

/* 18 columns of 250 ms. */
static void test_a_row_shows_when_a_program_waited_and_was_served(void **state)
{
    (void)state;
    assert_true(open_chart(2, 80, 24));
    struct chart_row *row = &chart.sides[1].rows[1];
    assert_int_equal(chart.bar, 18);
    for (uint32_t i = 0; i < 1000; i += 40) {
        timeline_mark(&row->timeline, 500000 + i * 1000, TIMELINE_WAITS);
    }
    timeline_mark(&row->timeline, 1000000, TIMELINE_SERVED);
    timeline_mark(&row->timeline, 1249999, TIMELINE_WAITS);     /* served it stays */
    chart.now_us = 2000000;
    row->took_us = 1000000;
    row->is_over = row->is_right = true;
    assert_string_equal(line_of(2), "row-1                                  | "
                                    "row-1         ..#.            " "   1.0s ");
    row->is_right = false;
    chart.now_us = 4600000;                                     /* columns of 350 ms */
    assert_string_equal(line_of(2), "row-1                                  | "
                                    "row-1        .#..             " "   1.0s!");
    assert_non_null(strstr(line_of(3), "0 s          6.3 s"));
}

static void test_a_title_counts_the_short_programs_that_are_done(void **state)
{
    (void)state;
    assert_true(open_chart(3, 80, 24));
    chart.sides[0].rows[0].is_long = true;
    chart.sides[0].rows[0].is_over = true;
    chart.sides[0].rows[2].is_over = true;
    assert_non_null(strstr(line_of(0), "-- fcfs --------- 1 of 2 short done ---+--- plas --"));
}

static void test_the_newest_words_are_shown(void **state)
{
    char line[16];
    (void)state;
    assert_true(open_chart(2, 80, 30));
    assert_int_equal(chart.said_lines, 30 - 3 - 7 - 2 - 2);
    chart_say(&chart, 0, 0, "first\x1b[2J\xc2\x9b");
    assert_non_null(strstr(line_of(4), "row-0       first.[2J."));
    for (uint32_t i = 0; i < 100; i++) {
        snprintf(line, sizeof line, "line %u", i);
        chart_say(&chart, 1, 1, line);
    }
    assert_non_null(strstr(line_of(4), "| row-1       line 84 "));
    assert_non_null(strstr(line_of(19), "| row-1       line 99 "));
}

/* No colour sequence at all without colours. */
static void test_a_screen_obeys_the_environment(void **state)
{
    struct screen screen;
    (void)state;
    setenv("LC_ALL", "", 1);
    setenv("LC_CTYPE", "C.UTF-8", 1);
    screen_open(&screen);
    assert_true(screen.is_utf8);
    setenv("LC_ALL", "C", 1);
    setenv("NO_COLOR", "1", 1);
    screen_open(&screen);
    assert_false(screen.is_utf8);
    assert_false(screen.has_colour);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pictures_of_noise_keep_their_shape),
        cmocka_unit_test(test_a_terminal_that_is_too_small_has_no_picture),
        cmocka_unit_test(test_a_row_shows_when_a_program_waited_and_was_served),
        cmocka_unit_test(test_a_title_counts_the_short_programs_that_are_done),
        cmocka_unit_test(test_the_newest_words_are_shown),
        cmocka_unit_test(test_a_screen_obeys_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
