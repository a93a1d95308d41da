/* SPDX-License-Identifier: MIT */
#include "tools/agx/agents/chart.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/agx/printable.h"

/*
 * What: the picture as lines of cells.
 *
 * Invariant: a line has as many columns as every other, whatever was said: all text that others
 * wrote went through chart_name(), so that each of its bytes is one column.
 */

#define COLUMNS_MIN   80
#define WIDTH_MAX     120           /* of a side */
#define BETWEEN       3             /* columns */
#define LABEL_NARROW  11
#define LABEL_WIDE    20
#define WIDE          60            /* a side with so many columns has wide names */
#define TIME_COLUMNS  8             /* " 123.4s!" */
#define SAID_MIN      4             /* lines, or none at all */
#define RULE_LINES    2             /* the titles, the scale */
#define SCALE_FIRST   5             /* slices of a column, at the beginning */

#define DIM    "\033[2m"
#define PLAIN  "\033[0m"
#define RED    "\033[1;31m"
#define GREEN  "\033[32m"
#define LONG   "\033[33m"
#define SHORT  "\033[1;36m"

/* ---- text ------------------------------------------------------------------------------------ */

void chart_name(char to[CHART_TEXT_BYTES], const char *from)
{
    char line[CHART_TEXT_BYTES];
    uint32_t count = 0;
    printable_line(from, line, sizeof line);
    for (const char *at = line; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        if ((byte & 0xc0) != 0x80) {                /* the first of a character */
            to[count++] = byte < 0x80 ? *at : '.';
        }
    }
    to[count] = '\0';
}

void chart_say(struct chart *chart, uint32_t side, uint32_t row, const char *line)
{
    struct chart_side *s = &chart->sides[side];
    struct chart_said *said = &s->said[s->said_count++ % CHART_SAID_MAX];
    said->row = row;
    chart_name(said->text, line);
}

static void put(struct screen_text *text, const char *bytes)
{
    screen_put(text, bytes, strlen(bytes));
}

static void put_times(struct screen_text *text, const char *bytes, uint32_t times)
{
    for (uint32_t i = 0; i < times; i++) {
        put(text, bytes);
    }
}

static void paint(const struct chart *chart, struct screen_text *text, const char *colour)
{
    put(text, chart->has_colour ? colour : "");
}

/* Exactly `columns`: cut, or filled with blanks. */
static void put_cells(struct screen_text *text, const char *bytes, uint32_t columns)
{
    uint32_t count = (uint32_t)strnlen(bytes, columns);
    screen_put(text, bytes, count);
    put_times(text, " ", columns - count);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The least scale, in slices for each column, at which now is within the bar. */
static uint64_t scale_us(const struct chart *chart)
{
    uint64_t slices = SCALE_FIRST;
    while (slices * TIMELINE_SLICE_US * chart->bar < chart->now_us) {
        slices += slices / 2;
    }
    return slices * TIMELINE_SLICE_US;
}

/* What a cell shows: '#' tokens came, '.' only waited, ' ' away. */
static char cell_of(const struct chart_row *row, uint64_t from_us, uint64_t scale)
{
    static const char cells[] = {' ', '.', '#'};
    return cells[timeline_look(&row->timeline, from_us, from_us + scale - 1)];
}

static void put_bar(const struct chart *chart, const struct chart_row *row,
                    struct screen_text *text)
{
    uint64_t scale = scale_us(chart);
    char last = ' ';
    for (uint32_t i = 0; i < chart->bar; i++) {
        char cell = cell_of(row, i * scale, scale);
        if (cell != last) {
            paint(chart, text, PLAIN);
            paint(chart, text, cell == '.' ? DIM : row->is_long ? LONG : SHORT);
            last = cell;
        }
        if (chart->is_utf8) {
            put(text, cell == '#' ? "\xe2\x96\x88" : cell == '.' ? "\xe2\x96\x91" : " ");
        } else {
            screen_put(text, &cell, 1);
        }
    }
    paint(chart, text, PLAIN);
}

static void put_time(const struct chart *chart, const struct chart_row *row,
                     struct screen_text *text)
{
    char took[24];
    double seconds = (double)row->took_us / 1e6;
    snprintf(took, sizeof took, seconds < 9999 ? " %5.1fs" : "  long", seconds);
    paint(chart, text, row->is_right ? GREEN : RED);
    put_cells(text, row->is_over ? took : "", TIME_COLUMNS - 1);
    put(text, row->is_over && !row->is_right ? "!" : " ");
    paint(chart, text, PLAIN);
}

static void put_row(const struct chart *chart, const struct chart_row *row,
                    struct screen_text *text)
{
    put_cells(text, row->name, chart->label);
    put(text, " ");
    put_bar(chart, row, text);
    put_time(chart, row, text);
}

/* ---- the other lines ------------------------------------------------------------------------- */

static const char *rule_of(const struct chart *chart)
{
    return chart->is_utf8 ? "\xe2\x94\x80" : "-";
}

/* "-- fcfs ------------ 2 of 9 short done --" */
static void put_title(const struct chart *chart, const struct chart_side *side,
                      struct screen_text *text)
{
    char state[64];
    uint32_t done = 0, all = 0;
    for (uint32_t i = 0; i < chart->rows_count; i++) {
        all += !side->rows[i].is_long;
        done += !side->rows[i].is_long && side->rows[i].is_over;
    }
    uint32_t count = (uint32_t)snprintf(state, sizeof state, " %" PRIu32 " of %" PRIu32
                                        " short done ", done, all);
    uint32_t room = chart->width - 3 - 1 - count - 2;
    uint32_t title = (uint32_t)strnlen(side->title, room);
    put_times(text, rule_of(chart), 2);
    put(text, " ");
    paint(chart, text, "\033[1m");
    screen_put(text, side->title, title);
    paint(chart, text, PLAIN);
    put(text, " ");
    put_times(text, rule_of(chart), room - title);
    put(text, state);
    put_times(text, rule_of(chart), 2);
}

/* From "0 s" at the beginning of the bars to their end. */
static void put_scale(const struct chart *chart, struct screen_text *text)
{
    char end[32];
    double seconds = (double)(scale_us(chart) * chart->bar) / 1e6;
    snprintf(end, sizeof end, "%.*f s", seconds < 10 ? 1 : 0, seconds);
    uint32_t count = (uint32_t)strlen(end);
    paint(chart, text, DIM);
    put_cells(text, "", chart->label + 1);
    put_cells(text, "0 s", chart->bar - count);
    put(text, end);
    put_cells(text, "", TIME_COLUMNS);
    paint(chart, text, PLAIN);
}

/* Line `at` of those that are shown; the last one is the newest. */
static void put_said(const struct chart *chart, const struct chart_side *side, uint32_t at,
                     struct screen_text *text)
{
    uint32_t shown = side->said_count < chart->said_lines ? side->said_count : chart->said_lines;
    if (at >= shown) {
        put_cells(text, "", chart->width);
        return;
    }
    const struct chart_said *said =
        &side->said[(side->said_count - shown + at) % CHART_SAID_MAX];
    const struct chart_row *row = &side->rows[said->row];
    paint(chart, text, row->is_long ? LONG : SHORT);
    put_cells(text, row->name, chart->label);
    paint(chart, text, PLAIN);
    put(text, " ");
    put_cells(text, said->text, chart->width - chart->label - 1);
}

static void put_half(const struct chart *chart, uint32_t side, uint32_t line,
                     struct screen_text *text)
{
    const struct chart_side *s = &chart->sides[side];
    if (line == 0) {
        put_title(chart, s, text);
    } else if (line <= chart->rows_count) {
        put_row(chart, &s->rows[line - 1], text);
    } else if (line == chart->rows_count + 1) {
        put_scale(chart, text);
    } else {
        put_said(chart, s, line - chart->rows_count - RULE_LINES, text);
    }
}

static const char *between(const struct chart *chart, uint32_t line)
{
    if (line == 0) {
        return chart->is_utf8 ? "\xe2\x94\x80\xe2\x94\xac\xe2\x94\x80" : "-+-";
    }
    return chart->is_utf8 ? " \xe2\x94\x82 " : " | ";
}

/* ---- the whole ------------------------------------------------------------------------------- */

uint32_t chart_lines(const struct chart *chart)
{
    return RULE_LINES + chart->rows_count + chart->said_lines;
}

bool chart_fit(struct chart *chart, const struct screen *screen, uint32_t above, uint32_t below)
{
    uint32_t least = RULE_LINES + chart->rows_count;
    if (!screen->is_terminal || screen->columns < COLUMNS_MIN || screen->lines <= least) {
        return false;
    }
    uint32_t width = (screen->columns - 1 - BETWEEN) / CHART_SIDES;
    uint32_t taken = least + above + below;
    uint32_t left = screen->lines > taken ? screen->lines - taken : 0;
    chart->is_utf8 = screen->is_utf8;
    chart->has_colour = screen->has_colour;
    chart->width = width < WIDTH_MAX ? width : WIDTH_MAX;
    chart->label = chart->width >= WIDE ? LABEL_WIDE : LABEL_NARROW;
    chart->bar = chart->width - chart->label - 1 - TIME_COLUMNS;
    chart->said_lines = left < SAID_MIN ? 0 : left < CHART_SAID_MAX ? left : CHART_SAID_MAX;
    return true;
}

void chart_write(const struct chart *chart, struct screen_text *text)
{
    text->count = 0;
    for (uint32_t line = 0; line < chart_lines(chart); line++) {
        for (uint32_t side = 0; side < CHART_SIDES; side++) {
            put(text, side > 0 ? between(chart, line) : "");
            put_half(chart, side, line, text);
        }
        put(text, "\033[K\n");
    }
}
