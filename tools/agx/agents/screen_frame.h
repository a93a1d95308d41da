/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the picture of a screen on a terminal: two panels in a row, two rows. */
#include "tools/agx/agents/screen.h"

/* Chooses the size of the panels; false: the terminal is too small for them. */
bool screen_frame_fits(struct screen *screen, uint32_t columns, uint32_t rows);
/* Draws all panels, over the last picture if there is one. */
void screen_frame_draw(struct screen *screen);
