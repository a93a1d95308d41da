/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the terminal at standard output, if it is one: its size, what it can show, and a picture
 * that is drawn over itself.
 *
 * Why not the alternate screen: the last picture is to stay in the scrollback, above the summary.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct screen {
    bool is_terminal;
    bool is_utf8;                   /* by LC_ALL, LC_CTYPE, LANG */
    bool has_colour;                /* a terminal, and NO_COLOR is not set */
    uint32_t columns, lines;        /* 0: no terminal */
    /* private: only screen.c */
    uint32_t drawn;                 /* lines of the picture that the cursor is below of */
};
/* A picture. What does not fit is dropped; there is room for a thousand lines. */
struct screen_text { char bytes[1 << 17]; size_t count; };

void screen_open(struct screen *screen);
/* Draws `lines` lines over those of the last picture. */
void screen_draw(struct screen *screen, const struct screen_text *text, uint32_t lines);
void screen_put(struct screen_text *text, const char *bytes, size_t count);
