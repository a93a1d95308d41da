/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: up to four streams of text side by side. On a terminal of 80x24 or more they are panels
 * that are drawn over themselves; elsewhere, whole lines that begin with the name of their panel.
 * Of a model's words only printable ASCII is written.
 *
 *      -- chat a_talk --------------- reading ---- react cost ------------------ tool --
 *      call 2  queue 0  wait 0.00s  31 tok     |  call 1  queue 1  wait 0.02s  9 tok
 *      blocks: what was said, one after        |
 *      the other; a block may grow ...         |
 *      -- map parts ---------------- running --+-- vote sum -------------------- done --
 *      ...                                     |
 *
 * Words appear no faster than a person can follow: a block shows a growing part of its text, and
 * the blocks of the next step wait. screen_is_shown() tells when a panel has caught up.
 */
#include <stdbool.h>
#include <stdint.h>

#define SCREEN_PANELS      4
#define SCREEN_BLOCKS_MAX  48       /* of one panel; a new one replaces the oldest */
#define SCREEN_TEXT_BYTES  1024     /* of one block; more text drops the front half */
#define SCREEN_WIDTH_MAX   80       /* of one panel */
#define SCREEN_LABEL_MAX   12

enum screen_style { SCREEN_MODEL, SCREEN_PROMPT, SCREEN_TOOL, SCREEN_RIGHT, SCREEN_WRONG };
struct screen_block {
    uint32_t id;                    /* its writer's; 0: it is closed */
    enum screen_style style;
    char label[SCREEN_LABEL_MAX];   /* "a " */
    char text[SCREEN_TEXT_BYTES];
    uint32_t count, printed;        /* bytes of text; of those, printed to the pipe */
    double shown;                   /* bytes that a person has been shown */
    uint32_t lines_max;             /* a model's last lines, others' first; 0: all */
    uint32_t step;
    bool is_seen;                   /* its step has begun */
};
struct screen_panel {
    char kind[8], name[SCREEN_WIDTH_MAX];
    const char *state;
    char figures[SCREEN_WIDTH_MAX + 1];
    struct screen_block blocks[SCREEN_BLOCKS_MAX];
    uint32_t count, step;
};
struct screen {
    struct screen_panel panels[SCREEN_PANELS];
    uint32_t panels_count;
    bool is_terminal, is_utf8, is_drawn;
    uint32_t width, body;           /* of a panel's text: columns, lines */
    uint64_t drawn_us;
};

void screen_init(struct screen *screen, uint32_t panels_count);
void screen_title(struct screen *screen, uint32_t panel, const char *kind, const char *name);
/* Blocks after this appear after those before it are complete. */
void screen_step(struct screen *screen, uint32_t panel);
struct screen_head { enum screen_style style; const char *label; uint32_t lines_max; };
/* A block that is complete at once. */
void screen_say(struct screen *screen, uint32_t panel, struct screen_head head, const char *text);
/* A block that grows under `id` (not 0) until it is closed. */
void screen_open(struct screen *screen, uint32_t panel, uint32_t id, const char *label,
                 uint32_t lines_max);
void screen_add(struct screen *screen, uint32_t panel, uint32_t id, const char *text,
                uint32_t count);
void screen_close(struct screen *screen, uint32_t panel, uint32_t id);
/* The last line: the answer, or the expected one. */
void screen_verdict(struct screen *screen, uint32_t panel, bool is_right, const char *text);
/* The panel's state ("running") and the line under the title. */
void screen_status(struct screen *screen, uint32_t panel, const char *state, const char *figures);
/* True when the panel shows all its text. */
bool screen_is_shown(const struct screen *screen, uint32_t panel);
/* Draws, at most 25 times a second. */
void screen_draw(struct screen *screen, uint64_t now_us);
