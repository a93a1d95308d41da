/* SPDX-License-Identifier: MIT */
#include "tools/agx/agents/screen_frame.h"

#include <stdio.h>
#include <string.h>

/*
 * What: panels as lines of cells. A row of panels is a rule with titles and states, a line of
 * figures, and `body` lines of text, of which the last ones win.
 *
 * Invariant: a frame is written with one call and always has the same number of lines, so the
 * cursor finds its beginning again. The last column stays free: some terminals wrap there.
 */

#define COLUMNS_MIN  80
#define ROWS_MIN     24
#define ROWS_TALL    38             /* with this many the summary fits below the picture */
#define FOOT_ROWS    10
#define HEAD_ROWS    2              /* rule, figures */
#define ABOVE_ROWS   2              /* the line above the picture, the cursor below */
#define BODY_MAX     18
#define BAR_COLUMNS  3

#define DIM    "\033[2m"
#define BOLD   "\033[1m"
#define PLAIN  "\033[0m"

struct frame { char text[1 << 16]; size_t count; };

bool screen_frame_fits(struct screen *screen, uint32_t columns, uint32_t rows)
{
    if (columns < COLUMNS_MIN || rows < ROWS_MIN) {
        return false;
    }
    uint32_t grid = screen->panels_count > 2 ? 2 : 1;
    uint32_t width = (columns - 1 - BAR_COLUMNS) / 2;
    uint32_t body = (rows - ABOVE_ROWS - (rows >= ROWS_TALL ? FOOT_ROWS : 0)) / grid - HEAD_ROWS;
    screen->width = width < SCREEN_WIDTH_MAX ? width : SCREEN_WIDTH_MAX;
    screen->body = body < BODY_MAX ? body : BODY_MAX;
    return true;
}

/* ---- cells ----------------------------------------------------------------------------------- */

static void put(struct frame *frame, const char *text, size_t count)
{
    if (count <= sizeof frame->text - frame->count) {
        memcpy(frame->text + frame->count, text, count);
        frame->count += count;
    }
}

static void put_text(struct frame *frame, const char *text)
{
    put(frame, text, strlen(text));
}

static void put_times(struct frame *frame, const char *text, uint32_t times)
{
    for (uint32_t i = 0; i < times; i++) {
        put_text(frame, text);
    }
}

static uint32_t columns_of(const char *text)
{
    uint32_t columns = 0;
    for (; *text != '\0'; text++) {
        columns += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return columns;
}

/* ---- lines of blocks ------------------------------------------------------------------------- */

struct span { uint32_t from, end; };

/* The line that begins at *at, before a word that does not fit; moves *at to the next one. */
static struct span take_line(const struct screen_block *block, uint32_t shown, uint32_t width,
                             uint32_t *at)
{
    uint32_t from = *at, end = from, blank = 0;
    while (end < shown && block->text[end] != '\n' && end - from < width) {
        blank = block->text[end] == ' ' ? end : blank;
        end++;
    }
    bool is_cut = end < shown && block->text[end] != '\n' && block->text[end] != ' ';
    if (is_cut && blank > from + width / 2) {
        end = blank;
    }
    uint32_t next = end;
    if (next < shown && block->text[next] == '\n') {
        next++;
    } else {
        while (next < shown && block->text[next] == ' ') {
            next++;
        }
    }
    *at = next;
    return (struct span){from, end};
}

/* Where the text begins: without a model's first blank, or line ends at the start. */
static uint32_t first_at(const struct screen_block *block, uint32_t shown)
{
    uint32_t at = 0;
    while (at < shown && (block->text[at] == ' ' || block->text[at] == '\n')) {
        at++;
    }
    return at;
}

/* The number of lines; also the span of line `wanted`. */
static uint32_t count_lines(const struct screen_block *block, uint32_t width, uint32_t wanted,
                            struct span *span)
{
    uint32_t shown = (uint32_t)block->shown, lines = 0;
    *span = (struct span){0, 0};
    for (uint32_t at = first_at(block, shown); at < shown; lines++) {
        struct span line = take_line(block, shown, width, &at);
        *span = lines == wanted ? line : *span;
    }
    return lines > 0 ? lines : 1;
}

static void put_block_line(struct frame *frame, const struct screen_block *block, uint32_t index,
                           uint32_t width, bool with_label)
{
    static const char *const colours[] = {"", DIM, "\033[32m", "\033[1;32m", "\033[1;31m"};
    uint32_t label = columns_of(block->label);
    struct span span;
    count_lines(block, width - label, index, &span);
    put_text(frame, colours[block->style]);
    if (with_label) {
        put_text(frame, block->label);
    } else {
        put_times(frame, " ", label);
    }
    put(frame, block->text + span.from, span.end - span.from);
    put_text(frame, PLAIN);
    put_times(frame, " ", width - label - (span.end - span.from));
}

/* A cut question shows its beginning, a cut answer its end. */
static uint32_t line_index(const struct screen_block *block, uint32_t all, uint32_t shown,
                           uint32_t at)
{
    return block->style == SCREEN_MODEL ? all - shown + at : at;
}

/* Line `row` of the panel's shown text, from its top; the last lines have precedence. */
static void put_body(struct frame *frame, const struct screen *screen,
                     const struct screen_panel *panel, uint32_t row)
{
    uint32_t shown[SCREEN_BLOCKS_MAX], all[SCREEN_BLOCKS_MAX], total = 0, count = 0;
    struct span span;
    for (; count < panel->count && panel->blocks[count].is_seen; count++) {
        const struct screen_block *block = &panel->blocks[count];
        uint32_t width = screen->width - columns_of(block->label);
        all[count] = count_lines(block, width, 0, &span);
        shown[count] = block->lines_max > 0 && all[count] > block->lines_max ? block->lines_max
                                                                             : all[count];
        total += shown[count];
    }
    uint32_t at = row + (total > screen->body ? total - screen->body : 0);
    for (uint32_t i = 0; i < count; i++) {
        if (at < shown[i]) {
            const struct screen_block *block = &panel->blocks[i];
            put_block_line(frame, block, line_index(block, all[i], shown[i], at), screen->width,
                           at == 0);
            return;
        }
        at -= shown[i];
    }
    put_times(frame, " ", screen->width);
}

/* ---- heads ----------------------------------------------------------------------------------- */

static const char *rule_of(const struct screen *screen)
{
    return screen->is_utf8 ? "\xe2\x94\x80" : "-";
}

/* "-- chat a_talk ------------- reading --", as wide as a panel. */
static void put_rule(struct frame *frame, const struct screen *screen, uint32_t index)
{
    static const char *const colours[SCREEN_PANELS] = {"\033[1;36m", "\033[1;33m", "\033[1;35m",
                                                       "\033[1;34m"};
    const struct screen_panel *panel = &screen->panels[index];
    uint32_t kind = (uint32_t)strlen(panel->kind), state = (uint32_t)strlen(panel->state);
    uint32_t name = (uint32_t)strlen(panel->name), fixed = 2 + 1 + kind + 1 + 1 + 1 + state + 3;
    uint32_t room = screen->width > fixed ? screen->width - fixed : 0;
    name = name < room ? name : room;
    put_text(frame, DIM);
    put_times(frame, rule_of(screen), 2);
    put_text(frame, PLAIN " ");
    put_text(frame, colours[index]);
    put_text(frame, panel->kind);
    put_text(frame, PLAIN " ");
    put(frame, panel->name, name);
    put_text(frame, DIM " ");
    put_times(frame, rule_of(screen), room - name);
    put_text(frame, PLAIN " ");
    put_text(frame, panel->state);
    put_text(frame, DIM " ");
    put_times(frame, rule_of(screen), 2);
    put_text(frame, PLAIN);
}

static void put_figures(struct frame *frame, const struct screen *screen,
                        const struct screen_panel *panel)
{
    uint32_t count = (uint32_t)strlen(panel->figures);
    count = count < screen->width ? count : screen->width;
    put_text(frame, DIM);
    put(frame, panel->figures, count);
    put_text(frame, PLAIN);
    put_times(frame, " ", screen->width - count);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void put_bar(struct frame *frame, const struct screen *screen, uint32_t pair, uint32_t row)
{
    put_text(frame, DIM);
    if (row > 0) {
        put_text(frame, screen->is_utf8 ? " \xe2\x94\x82 " : " | ");
    } else {
        put_text(frame, rule_of(screen));
        put_text(frame, !screen->is_utf8 ? "+" : pair == 0 ? "\xe2\x94\xac" : "\xe2\x94\xbc");
        put_text(frame, rule_of(screen));
    }
    put_text(frame, PLAIN);
}

static void put_cell(struct frame *frame, const struct screen *screen, uint32_t index, uint32_t row)
{
    if (index >= screen->panels_count) {
        put_times(frame, row == 0 ? rule_of(screen) : " ", screen->width);
    } else if (row == 0) {
        put_rule(frame, screen, index);
    } else if (row == 1) {
        put_figures(frame, screen, &screen->panels[index]);
    } else {
        put_body(frame, screen, &screen->panels[index], row - HEAD_ROWS);
    }
}

void screen_frame_draw(struct screen *screen)
{
    static struct frame frame;
    uint32_t pairs = (screen->panels_count + 1) / 2, rows = HEAD_ROWS + screen->body;
    frame.count = 0;
    if (screen->is_drawn) {
        char up[16];
        snprintf(up, sizeof up, "\033[%uA\r", (unsigned)(pairs * rows));
        put_text(&frame, up);
    }
    for (uint32_t i = 0; i < pairs * rows; i++) {
        uint32_t pair = i / rows, row = i % rows;
        put_cell(&frame, screen, 2 * pair, row);
        put_bar(&frame, screen, pair, row);
        put_cell(&frame, screen, 2 * pair + 1, row);
        put_text(&frame, "\033[K\n");
    }
    fwrite(frame.text, 1, frame.count, stdout);
    fflush(stdout);
    screen->is_drawn = true;
}
