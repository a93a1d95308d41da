/* SPDX-License-Identifier: MIT */
#pragma once
/* What: one picture of `agx top` as lines of text: what the box does, and the rows below. */
#include <stdio.h>

#include "tools/agx/watch/columns.h"

#define FRAME_COLUMNS_MAX 400
#define FRAME_HEAD_LINES  7         /* above the rows: the box, and the titles */

struct frame {
    const char *address;
    uint32_t columns, lines;        /* of the terminal; lines 0: as many as there are rows */
    bool is_terminal;               /* lines end with what clears their rest, titles are inverse */
    bool has_help;                  /* the last line says which keys there are */
};

void frame_draw(const struct frame *frame, const struct columns_order *order,
                const struct snapshot *now, const struct snapshot *before, FILE *out);
