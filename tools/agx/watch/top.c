/* SPDX-License-Identifier: MIT */
/*
 * What: `agx top`: programs and calls of an appliance while they run, over its text port.
 * Bounds: five pages for each picture; a picture each `--every`, and one for each key.
 */
#include <stdio.h>
#include <time.h>

#include "tools/agx/command.h"
#include "tools/agx/dial.h"
#include "tools/agx/watch/frame.h"
#include "tools/agx/watch/terminal.h"

#define EVERY_MS_MAX 60000

struct top {
    struct text_port port;
    struct snapshot snapshots[2];   /* the last two */
    uint32_t last;
    struct columns_order order;
    uint32_t every_ms;
};

/* Takes a snapshot in place of the older one. */
static int look(struct top *top)
{
    uint32_t other = 1 - top->last;
    int code = snapshot_take(&top->snapshots[other], &top->port);
    if (code == EXIT_COMPLETE) {
        top->last = other;
        snapshot_compare(&top->snapshots[other], &top->snapshots[1 - other]);
    }
    return code;
}

static void draw(struct top *top, const struct frame *frame)
{
    frame_draw(frame, &top->order, &top->snapshots[top->last], &top->snapshots[1 - top->last],
               stdout);
    fflush(stdout);
}

/* Two looks, so that there are rates; then every row, as plain text. */
static int run_once(struct top *top, uint32_t width)
{
    const struct frame frame = {.address = top->port.address, .columns = width};
    struct timespec pause = {top->every_ms / 1000, top->every_ms % 1000 * 1000000L};
    int code = look(top);
    if (code == EXIT_COMPLETE) {
        nanosleep(&pause, NULL);
        code = look(top);
    }
    if (code == EXIT_COMPLETE) {
        draw(top, &frame);
    }
    return code;
}

/* False: the key ends the command. */
static bool take_key(struct top *top, char key)
{
    if (key == 'p' || key == 'c') {
        top->order.view = key == 'p' ? VIEW_PROGRAMS : VIEW_CALLS;
    } else if (columns_has_key(key)) {
        top->order.key = key;
    }
    return key != 'q';
}

static void draw_terminal(struct top *top)
{
    struct frame frame = {.address = top->port.address, .is_terminal = true, .has_help = true};
    terminal_size(&frame.columns, &frame.lines);
    frame.columns = frame.columns < FRAME_COLUMNS_MAX ? frame.columns : FRAME_COLUMNS_MAX;
    fputs("\033[H", stdout);
    draw(top, &frame);
}

/* Draws until it is time for the next look. False: the command ends. */
static bool rest(struct top *top)
{
    uint64_t until_us = dial_now_us() + top->every_ms * UINT64_C(1000);
    draw_terminal(top);
    for (uint64_t now_us = dial_now_us(); now_us < until_us; now_us = dial_now_us()) {
        char key = terminal_key((uint32_t)((until_us - now_us) / 1000 + 1));
        if (terminal_ends() || !take_key(top, key)) {
            return false;
        }
        draw_terminal(top);
    }
    return true;
}

static int run_terminal(struct top *top)
{
    if (!terminal_open()) {
        fprintf(stderr, "agx: top: this is no terminal; --once prints one picture\n");
        return EXIT_USAGE;
    }
    int code = look(top);
    while (code == EXIT_COMPLETE && rest(top)) {
        code = look(top);
    }
    terminal_close();
    return code;
}

static int run(struct top *top, const char *text, bool once, uint32_t width)
{
    int code = text_port_open(&top->port, text);
    if (code == EXIT_COMPLETE) {
        code = once ? run_once(top, width) : run_terminal(top);
    }
    text_port_close(&top->port);
    snapshot_free(&top->snapshots[0]);
    snapshot_free(&top->snapshots[1]);
    return code;
}

int top_main(const char *to, int argc, char **argv)
{
    static const char *const words[] = {"service", "wait", "tokens", "kv", "level", "open", "who",
                                        "number", NULL};
    static const char keys[] = "swtkloun";
    struct argument_choice sort = {.words = words};
    const char *text = text_port_default();
    uint32_t every_ms = 1000, width = 140;
    bool once = false, calls = false;
    const struct argument rows[] = {
        {"--text", "ADDRESS", ARGUMENT_TEXT, &text, 0, 0, TEXT_PORT_HELP},
        {"--every", "MS", ARGUMENT_U32, &every_ms, 10, EVERY_MS_MAX,
         "milliseconds between two looks (default 1000)"},
        {"--sort", "WORD", ARGUMENT_CHOICE, &sort, 0, 0,
         "service (default), wait, tokens, kv, level, open, who, number"},
        {"--calls", "", ARGUMENT_FLAG, &calls, 0, 0, "calls alone, not below their programs"},
        {"--once", "", ARGUMENT_FLAG, &once, 0, 0, "one picture with all rows, as plain text"},
        {"--width", "N", ARGUMENT_U32, &width, 40, FRAME_COLUMNS_MAX,
         "columns of that picture (default 140)"},
    };
    const struct command_line line = {
        AGX_COMMAND("top"), .usage = "[OPTION]...",
        .purpose = "Programs and calls while they run, from the appliance's text port: whose they "
                   "are, what they\nhave had, why they wait. A key sorts by a column; q ends.",
        .rows = rows, .rows_count = sizeof rows / sizeof rows[0]};
    (void)to;                           /* this command does not use the binary protocol */
    int code = command_line_parse(&line, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    struct top top = {.order = {calls ? VIEW_CALLS : VIEW_PROGRAMS, keys[sort.chosen]},
                      .every_ms = every_ms};
    return run(&top, text, once, width);
}
