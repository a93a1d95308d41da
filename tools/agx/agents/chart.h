/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: two sides with the same programs, side by side: one row for each program, with its time
 * from left to right, and below them, where there is room, what the agents say.
 *
 *      -- fcfs ----------- 2 of 9 short done --+-- plas ----------- 6 of 9 short done --
 *      map-honey   ####.....###....            | map-honey   ###...............
 *      chat-bees    ......#            2.8s    | chat-bees    #                0.4s
 *      0 s                        8 s          | ...
 *      chat-bees   Bees make sweet honey.      | chat-bees   Bees make sweet honey.
 *
 * Both sides have one scale of time. It grows by half when a side does not fit any more.
 */
#include <stdbool.h>
#include <stdint.h>

#include "tools/agx/agents/screen.h"
#include "tools/agx/agents/timeline.h"

#define CHART_SIDES      2
#define CHART_ROWS_MAX   40         /* programs */
#define CHART_SAID_MAX   64         /* lines of what is said; a new one replaces the oldest */
#define CHART_TEXT_BYTES 120

struct chart_row {
    char name[CHART_TEXT_BYTES];
    bool is_long, is_over, is_right;
    uint64_t took_us;               /* when it is over */
    struct timeline timeline;
};
struct chart_side {
    char title[CHART_TEXT_BYTES];
    struct chart_row rows[CHART_ROWS_MAX];
    uint32_t said_count;            /* lines so far */
    struct chart_said { uint32_t row; char text[CHART_TEXT_BYTES]; } said[CHART_SAID_MAX];
};
struct chart {
    struct chart_side sides[CHART_SIDES];
    uint32_t rows_count;
    bool is_utf8, has_colour;
    uint64_t now_us;                /* since the start */
    /* from chart_fit() */
    uint32_t width, label, bar;     /* columns of a side, of its names, of its times */
    uint32_t said_lines;
};

/* `from` as it can be shown in cells of one column each: printable ASCII only. */
void chart_name(char to[CHART_TEXT_BYTES], const char *from);
/* One more line that the agent of this row says, or a tool tells it. */
void chart_say(struct chart *chart, uint32_t side, uint32_t row, const char *line);
/* Lays the picture out, below `above` lines and above `below` others. False: it does not fit. */
bool chart_fit(struct chart *chart, const struct screen *screen, uint32_t above, uint32_t below);
/* The picture: chart_lines() lines of the same width. The last column stays free: some terminals
 * wrap there. */
void chart_write(const struct chart *chart, struct screen_text *text);
uint32_t chart_lines(const struct chart *chart);
