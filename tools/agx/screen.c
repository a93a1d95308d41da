/* SPDX-License-Identifier: MIT */
#include "tools/agx/screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/*
 * What: panels of blocks, wrapped into columns or flushed as lines.
 *
 * Invariants: text in blocks is printable ASCII; a frame is written with one call and has exactly
 * `height` lines, so going up that many lines finds its start again.
 * Why not the alternate screen: what was drawn last stays in the scrollback, above the summary.
 */

#define FRAME_US     50000
#define HEAD_LINES   4              /* title, two of status, rule */
#define FOOT_LINES   8              /* left below the columns for the summary */
#define PIPE_WIDTH   68
#define CELL_BYTES   96             /* a panel's line with its colours */

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Line ends become blanks; what cannot be printed, one '.' for each character. */
static void append(struct screen_block *block, const char *text, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte >= 0x80 && byte < 0xc0) {
            continue;               /* inside a character */
        }
        if (block->count == SCREEN_TEXT_BYTES) {
            uint32_t half = SCREEN_TEXT_BYTES / 2;
            memmove(block->text, block->text + half, half);
            block->count = half;
            block->printed = block->printed > half ? block->printed - half : 0;
        }
        bool is_blank = byte == '\n' || byte == '\r' || byte == '\t';
        block->text[block->count++] =
            (char)(is_blank ? ' ' : byte < 0x20 || byte >= 0x7f ? '.' : byte);
    }
}

static struct screen_block *new_block(struct screen_panel *panel)
{
    if (panel->count == SCREEN_BLOCKS_MAX) {
        memmove(panel->blocks, panel->blocks + 1,
                (SCREEN_BLOCKS_MAX - 1) * sizeof panel->blocks[0]);
        panel->count--;
    }
    struct screen_block *block = &panel->blocks[panel->count++];
    memset(block, 0, sizeof *block);
    return block;
}

static struct screen_block *find_block(struct screen_panel *panel, uint64_t id)
{
    for (uint32_t i = 0; i < panel->count; i++) {
        if (panel->blocks[i].id == id) {
            return &panel->blocks[i];
        }
    }
    return NULL;                    /* it was the oldest, and went */
}

/* Where the line that starts at `from` ends, at most `width` further; before a word if possible. */
static uint32_t line_end(const struct screen_block *block, uint32_t from, uint32_t width)
{
    if (block->count - from <= width) {
        return block->count;
    }
    for (uint32_t end = from + width; end > from + width / 2; end--) {
        if (block->text[end] == ' ') {
            return end;
        }
    }
    return from + width;
}

static uint32_t line_start(const struct screen_block *block, uint32_t from)
{
    while (from < block->count && block->text[from] == ' ') {
        from++;
    }
    return from;
}

/* ---- in a pipe ------------------------------------------------------------------------------- */

/* Whole lines of a block; with `all`, what is left of it too. */
static void print_lines(const struct screen_panel *panel, struct screen_block *block, bool all)
{
    for (;;) {
        uint32_t from = line_start(block, block->printed);
        if (from == block->count || (!all && block->count - from <= PIPE_WIDTH)) {
            return;
        }
        uint32_t end = line_end(block, from, PIPE_WIDTH);
        printf("[%s]%*s %s%.*s\n", panel->title, (int)(6 - strlen(panel->title)), "",
               block->label, (int)(end - from), block->text + from);
        block->printed = end;
    }
}

/* ---- on a terminal --------------------------------------------------------------------------- */

struct frame { char text[(SCREEN_HEIGHT_MAX + 1) * SCREEN_PANELS * CELL_BYTES * 2]; size_t count; };

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

/* `count` bytes of text in a colour, and blanks up to `width`. */
static void put_cell(struct frame *frame, const char *colour, const char *text, uint32_t count,
                     uint32_t width)
{
    put_text(frame, colour);
    put(frame, text, count < width ? count : width);
    put_text(frame, "\033[0m");
    for (uint32_t i = count; i < width; i++) {
        put(frame, " ", 1);
    }
}

static uint32_t lines_of(const struct screen_block *block, uint32_t width)
{
    uint32_t lines = 0, label = (uint32_t)strlen(block->label);
    for (uint32_t from = line_start(block, 0); from < block->count || lines == 0;) {
        uint32_t end = line_end(block, from, width - label);
        from = line_start(block, end);
        lines++;
        if (from >= block->count) {
            break;
        }
    }
    return lines;
}

/* The block's line with this index; every line is indented as far as the label is long. */
static void put_block_line(struct frame *frame, const struct screen_block *block, uint32_t index,
                           uint32_t width, bool with_label)
{
    static const char *const colours[] = {"", "\033[2m", "\033[32m"};
    uint32_t label = (uint32_t)strlen(block->label), from = line_start(block, 0);
    char line[SCREEN_WIDTH_MAX + 1];
    for (uint32_t i = 0; i < index; i++) {
        from = line_start(block, line_end(block, from, width - label));
    }
    uint32_t end = line_end(block, from, width - label);
    memset(line, ' ', label);
    if (with_label) {
        memcpy(line, block->label, label);
    }
    memcpy(line + label, block->text + from, end - from);
    put_cell(frame, colours[block->style], line, label + end - from, width);
}

/* Line `row` of a panel's text, counted from the top of what is shown: the last lines win. */
static void put_panel_line(struct frame *frame, const struct screen_panel *panel, uint32_t row,
                           uint32_t rows, uint32_t width)
{
    uint32_t shown[SCREEN_BLOCKS_MAX], all[SCREEN_BLOCKS_MAX], total = 0;
    for (uint32_t i = 0; i < panel->count; i++) {
        uint32_t most = panel->blocks[i].lines_max;
        all[i] = lines_of(&panel->blocks[i], width);
        shown[i] = most > 0 && all[i] > most ? most : all[i];
        total += shown[i];
    }
    uint32_t at = row + (total > rows ? total - rows : 0);
    for (uint32_t i = 0; i < panel->count; i++) {
        if (at < shown[i]) {
            put_block_line(frame, &panel->blocks[i], all[i] - shown[i] + at, width, at == 0);
            return;
        }
        at -= shown[i];
    }
    put_cell(frame, "", "", 0, width);
}

static void put_head(struct frame *frame, const struct screen *screen, uint32_t panel, uint32_t row)
{
    static const char *const colours[SCREEN_PANELS] = {"\033[1;36m", "\033[1;33m", "\033[1;35m"};
    const struct screen_panel *p = &screen->panels[panel];
    char rule[SCREEN_WIDTH_MAX];
    memset(rule, '-', sizeof rule);
    const char *texts[HEAD_LINES] = {p->title, p->status[0], p->status[1], rule};
    uint32_t count = row == HEAD_LINES - 1 ? screen->width : (uint32_t)strlen(texts[row]);
    put_cell(frame, row == 0 ? colours[panel] : row == HEAD_LINES - 1 ? "\033[2m" : "",
             texts[row], count, screen->width);
}

static void draw_columns(struct screen *screen)
{
    static struct frame frame;
    frame.count = 0;
    if (screen->is_drawn) {
        char up[16];
        snprintf(up, sizeof up, "\033[%uA\r", (unsigned)screen->height);
        put_text(&frame, up);
    }
    for (uint32_t row = 0; row < screen->height; row++) {
        for (uint32_t panel = 0; panel < SCREEN_PANELS; panel++) {
            put_text(&frame, panel > 0 ? screen->bar : "");
            if (row < HEAD_LINES) {
                put_head(&frame, screen, panel, row);
            } else {
                put_panel_line(&frame, &screen->panels[panel], row - HEAD_LINES,
                               screen->height - HEAD_LINES, screen->width);
            }
        }
        put_text(&frame, "\033[K\n");
    }
    fwrite(frame.text, 1, frame.count, stdout);
    fflush(stdout);
    screen->is_drawn = true;
}

/* ---- interface ------------------------------------------------------------------------------- */

/* A box line where the locale says that the terminal knows UTF-8. */
static const char *choose_bar(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (uint32_t i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && *value != '\0') {
            return strstr(value, "UTF-8") != NULL || strstr(value, "utf8") != NULL
                       ? " \033[2m\xe2\x94\x82\033[0m " : " | ";
        }
    }
    return " | ";
}

void screen_init(struct screen *screen, const char *const titles[SCREEN_PANELS])
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    memset(screen, 0, sizeof *screen);
    for (uint32_t i = 0; i < SCREEN_PANELS; i++) {
        screen->panels[i].title = titles[i];
    }
    screen->bar = choose_bar();
    screen->is_terminal = isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    if (size.ws_col == 0 || size.ws_row == 0) {
        size.ws_col = 80;
        size.ws_row = 24;
    }
    screen->is_terminal = screen->is_terminal && size.ws_col >= 60 && size.ws_row >= 18;
    uint32_t width = (size.ws_col - 1u - 3 * (SCREEN_PANELS - 1)) / SCREEN_PANELS;
    uint32_t height = size.ws_row > FOOT_LINES ? size.ws_row - FOOT_LINES : 1;
    screen->width = width < SCREEN_WIDTH_MAX ? width : SCREEN_WIDTH_MAX;
    screen->height = height < 32 ? height : 32;
}

void screen_say(struct screen *screen, uint32_t panel, enum screen_style style, const char *label,
                const char *text)
{
    struct screen_block *block = new_block(&screen->panels[panel]);
    block->style = style;
    snprintf(block->label, sizeof block->label, "%s", label);
    append(block, text, (uint32_t)strlen(text));
    if (!screen->is_terminal) {
        print_lines(&screen->panels[panel], block, true);
    }
}

void screen_open(struct screen *screen, uint32_t panel, uint64_t id, const char *label,
                 uint32_t lines_max)
{
    struct screen_block *block = new_block(&screen->panels[panel]);
    block->id = id;
    block->lines_max = lines_max;
    snprintf(block->label, sizeof block->label, "%s", label);
}

void screen_add(struct screen *screen, uint32_t panel, uint64_t id, const char *text,
                uint32_t count)
{
    struct screen_block *block = find_block(&screen->panels[panel], id);
    if (block != NULL) {
        append(block, text, count);
        if (!screen->is_terminal) {
            print_lines(&screen->panels[panel], block, false);
        }
    }
}

void screen_close(struct screen *screen, uint32_t panel, uint64_t id)
{
    struct screen_block *block = find_block(&screen->panels[panel], id);
    if (block != NULL) {
        block->id = 0;
        if (!screen->is_terminal) {
            print_lines(&screen->panels[panel], block, true);
        }
    }
}

void screen_status(struct screen *screen, uint32_t panel, const char *first, const char *second)
{
    struct screen_panel *p = &screen->panels[panel];
    snprintf(p->status[0], sizeof p->status[0], "%s", first);
    snprintf(p->status[1], sizeof p->status[1], "%s", second);
}

void screen_draw(struct screen *screen, uint64_t now_us)
{
    if (!screen->is_terminal) {
        fflush(stdout);
        return;
    }
    if (now_us == UINT64_MAX || !screen->is_drawn || now_us - screen->drawn_us >= FRAME_US) {
        screen->drawn_us = now_us;
        draw_columns(screen);
    }
}
