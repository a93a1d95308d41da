/* SPDX-License-Identifier: MIT */
#include "tools/agx/agents/screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/agx/agents/screen_frame.h"

/*
 * What: blocks of text, the part of each that is shown so far, and lines for a pipe. screen_frame.c
 * draws the panels.
 *
 * Invariant: text in blocks is printable ASCII and line ends.
 * Why not the alternate screen: the last picture is to stay in the scrollback, above the summary.
 */

#define FRAME_US       40000
#define LETTERS_S      40.0         /* shown in a second, of each block, */
#define CATCH_UP_S     0.8          /* and this many times of its lag */

/* ---- blocks ---------------------------------------------------------------------------------- */

/* A character that cannot be printed becomes a '.'. */
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
            block->shown = block->shown > half ? block->shown - half : 0;
        }
        bool is_blank = byte == '\r' || byte == '\t';
        bool is_good = byte == '\n' || (byte >= 0x20 && byte < 0x7f);
        block->text[block->count++] = (char)(is_blank ? ' ' : is_good ? byte : '.');
    }
}

static struct screen_block *new_block(struct screen_panel *panel, struct screen_head head)
{
    if (panel->count == SCREEN_BLOCKS_MAX) {
        memmove(panel->blocks, panel->blocks + 1,
                (SCREEN_BLOCKS_MAX - 1) * sizeof panel->blocks[0]);
        panel->count--;
    }
    struct screen_block *block = &panel->blocks[panel->count++];
    memset(block, 0, sizeof *block);
    block->style = head.style;
    block->lines_max = head.lines_max;
    block->step = panel->step;
    snprintf(block->label, sizeof block->label, "%s", head.label);
    return block;
}

static struct screen_block *find_block(struct screen_panel *panel, uint32_t id)
{
    for (uint32_t i = 0; i < panel->count; i++) {
        if (panel->blocks[i].id == id) {
            return &panel->blocks[i];
        }
    }
    return NULL;                    /* it was the oldest, and is replaced */
}

/* ---- what a person has been shown ------------------------------------------------------------ */

/* A model's words appear letter by letter, in all blocks of a step; other text at once. */
static void show_more(struct screen_panel *panel, double seconds)
{
    bool is_whole = true;           /* all blocks so far */
    uint32_t step = 0;
    for (uint32_t i = 0; i < panel->count; i++) {
        struct screen_block *block = &panel->blocks[i];
        if (block->step != step && !is_whole) {
            return;
        }
        step = block->step;
        block->is_seen = true;
        if (block->style != SCREEN_MODEL) {
            block->shown = block->count;
            continue;
        }
        double lag = block->count - block->shown;
        double more = seconds * (LETTERS_S + CATCH_UP_S * lag);
        block->shown += more < lag ? more : lag;
        is_whole = is_whole && block->id == 0 && block->shown >= block->count;
    }
}

bool screen_is_shown(const struct screen *screen, uint32_t panel)
{
    const struct screen_panel *p = &screen->panels[panel];
    for (uint32_t i = 0; i < p->count && screen->is_terminal; i++) {
        if (!p->blocks[i].is_seen || p->blocks[i].shown < p->blocks[i].count) {
            return false;
        }
    }
    return true;
}

/* ---- in a pipe ------------------------------------------------------------------------------- */

static void print_line(const struct screen_panel *panel, const struct screen_block *block,
                       uint32_t end)
{
    uint32_t from = block->printed;
    while (from < end && block->text[from] == ' ') {
        from++;
    }
    if (from < end) {
        printf("[%s %s] %s%.*s\n", panel->kind, panel->name, block->label, (int)(end - from),
               block->text + from);
    }
}

/* Prints whole lines of a block; with `all`, the rest too. Half a block of text without a line end
 * is a line. */
static void print_lines(const struct screen_panel *panel, struct screen_block *block, bool all)
{
    for (uint32_t i = block->printed; i < block->count; i++) {
        if (block->text[i] == '\n') {
            print_line(panel, block, i);
            block->printed = i + 1;
        }
    }
    if (all || block->count - block->printed > SCREEN_TEXT_BYTES / 2) {
        print_line(panel, block, block->count);
        block->printed = block->count;
    }
}

/* ---- interface ------------------------------------------------------------------------------- */

static bool knows_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (uint32_t i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && *value != '\0') {
            return strstr(value, "UTF-8") != NULL || strstr(value, "utf8") != NULL;
        }
    }
    return false;
}

void screen_init(struct screen *screen, uint32_t panels_count)
{
    struct winsize size = {0};
    memset(screen, 0, sizeof *screen);
    screen->panels_count = panels_count;
    screen->is_utf8 = knows_utf8();
    screen->is_terminal = isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
                          screen_frame_fits(screen, size.ws_col, size.ws_row);
    for (uint32_t i = 0; i < panels_count; i++) {
        screen->panels[i].state = "";
    }
}

void screen_title(struct screen *screen, uint32_t panel, const char *kind, const char *name)
{
    struct screen_panel *p = &screen->panels[panel];
    struct screen_block plain = {0};
    append(&plain, name, (uint32_t)strlen(name));
    snprintf(p->kind, sizeof p->kind, "%s", kind);
    snprintf(p->name, sizeof p->name, "%.*s", (int)plain.count, plain.text);
}

void screen_step(struct screen *screen, uint32_t panel)
{
    screen->panels[panel].step++;
}

void screen_say(struct screen *screen, uint32_t panel, struct screen_head head, const char *text)
{
    struct screen_block *block = new_block(&screen->panels[panel], head);
    append(block, text, (uint32_t)strlen(text));
    if (!screen->is_terminal) {
        print_lines(&screen->panels[panel], block, true);
    }
}

void screen_open(struct screen *screen, uint32_t panel, uint32_t id, const char *label,
                 uint32_t lines_max)
{
    struct screen_head head = {SCREEN_MODEL, label, lines_max};
    new_block(&screen->panels[panel], head)->id = id;
}

void screen_add(struct screen *screen, uint32_t panel, uint32_t id, const char *text,
                uint32_t count)
{
    struct screen_block *block = find_block(&screen->panels[panel], id);
    for (uint32_t done = 0; block != NULL && done < count;) {
        uint32_t part = count - done < 128 ? count - done : 128;
        append(block, text + done, part);
        done += part;
        if (!screen->is_terminal) {
            print_lines(&screen->panels[panel], block, false);
        }
    }
}

void screen_close(struct screen *screen, uint32_t panel, uint32_t id)
{
    struct screen_block *block = find_block(&screen->panels[panel], id);
    if (block != NULL) {
        block->id = 0;
        if (!screen->is_terminal) {
            print_lines(&screen->panels[panel], block, true);
        }
    }
}

void screen_verdict(struct screen *screen, uint32_t panel, bool is_right, const char *text)
{
    const char *right = screen->is_utf8 ? "\xe2\x9c\x93 " : "ok ";
    const char *wrong = screen->is_utf8 ? "\xe2\x9c\x97 " : "WRONG ";
    struct screen_head head = {is_right ? SCREEN_RIGHT : SCREEN_WRONG, is_right ? right : wrong, 2};
    screen_step(screen, panel);
    screen_say(screen, panel, head, text);
}

void screen_status(struct screen *screen, uint32_t panel, const char *state, const char *figures)
{
    struct screen_panel *p = &screen->panels[panel];
    p->state = state;
    snprintf(p->figures, sizeof p->figures, "%s", figures);
}

void screen_draw(struct screen *screen, uint64_t now_us)
{
    if (!screen->is_terminal) {
        fflush(stdout);
        return;
    }
    uint64_t past_us = now_us - screen->drawn_us;
    if (screen->is_drawn && past_us < FRAME_US) {
        return;
    }
    for (uint32_t i = 0; i < screen->panels_count && screen->is_drawn; i++) {
        show_more(&screen->panels[i], (double)past_us / 1e6);
    }
    screen->drawn_us = now_us;
    screen_frame_draw(screen);
}
