/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: three streams of text side by side. On a terminal three columns, drawn over themselves; in
 * a pipe, whole lines with the name of their column in front. Only printable ASCII is ever
 * written.
 *
 *      chat                     | react                    | map
 *      call 2/3     running     | call 1/4     tool        | calls 1-4/5  queued
 *      wait 0.01 s  31 tokens   | ...                      | ...
 *      -------------------------+--------------------------+-------------------
 *      blocks: what was said, one after the other; a block may grow while others do
 */
#include <stdbool.h>
#include <stdint.h>

#define SCREEN_PANELS      3
#define SCREEN_BLOCKS_MAX  24       /* of one panel; the oldest goes */
#define SCREEN_TEXT_BYTES  640      /* of one block; the front goes */
#define SCREEN_WIDTH_MAX   64       /* of one panel */
#define SCREEN_HEIGHT_MAX  60

enum screen_style { SCREEN_MODEL, SCREEN_PROMPT, SCREEN_TOOL };
struct screen_block {
    uint64_t id;                    /* who writes into it; 0: nobody any more */
    enum screen_style style;
    char label[8];                  /* "a> " */
    char text[SCREEN_TEXT_BYTES];
    uint32_t count, printed;        /* bytes of text; of them already in the pipe */
    uint32_t lines_max;             /* its last lines only; 0: all */
};
struct screen_panel {
    const char *title;
    char status[2][SCREEN_WIDTH_MAX + 1];
    struct screen_block blocks[SCREEN_BLOCKS_MAX];
    uint32_t count;
};
struct screen {
    struct screen_panel panels[SCREEN_PANELS];
    bool is_terminal, is_drawn;
    uint32_t width, height;         /* of a panel, of the whole */
    const char *bar;
    uint64_t drawn_us;
};

void screen_init(struct screen *screen, const char *const titles[SCREEN_PANELS]);
/* A block that is complete at once. */
void screen_say(struct screen *screen, uint32_t panel, enum screen_style style, const char *label,
                const char *text);
/* A block that grows under `id` (not 0) until it is closed. */
void screen_open(struct screen *screen, uint32_t panel, uint64_t id, const char *label,
                 uint32_t lines_max);
void screen_add(struct screen *screen, uint32_t panel, uint64_t id, const char *text,
                uint32_t count);
void screen_close(struct screen *screen, uint32_t panel, uint64_t id);
/* The two lines under the title. */
void screen_status(struct screen *screen, uint32_t panel, const char *first, const char *second);
/* At most 20 times a second, unless `now_us` is UINT64_MAX: the last time. */
void screen_draw(struct screen *screen, uint64_t now_us);
