/* SPDX-License-Identifier: MIT */
/*
 * What: `agx demo`: the first four tasks of a file, side by side: each agent's question, words and
 * tools' answers, and whether it was right. The file is demo.tasks, embedded in the binary.
 *
 * The appliance answers faster than a person reads. So on a terminal an agent's next turn waits
 * until the words of the last one are shown, tools take TOOL_US and a person READER_US. The figures
 * are the appliance's own.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/agx/agents/team.h"
#include "tools/agx/agents/screen.h"

#define TOOL_US    300000
#define READER_US  600000
#define FRAME_US   40000

/* tools/agx/agents/demo.tasks, as it is. */
extern const char demo_tasks[], demo_tasks_end[];
__asm__(".section .rodata\n"
        ".global demo_tasks\n"
        ".global demo_tasks_end\n"
        "demo_tasks:\n"
        ".incbin \"tools/agx/agents/demo.tasks\"\n"
        "demo_tasks_end:\n"
        ".byte 0\n"
        ".text\n");

struct demo {
    struct team team;
    struct task_book book;
    struct screen screen;
    uint64_t start_us;
};

/* ---- what happens ---------------------------------------------------------------------------- */

/* Calls of one turn have letters, which join each question to its answer. */
static const char *label_of(const struct agent *agent, uint32_t call, char label[SCREEN_LABEL_MAX])
{
    label[0] = '\0';
    if (agent->task->kind == TASK_CHAT) {
        return "bot  ";
    }
    if (agent->calls_count > 1) {
        snprintf(label, SCREEN_LABEL_MAX, call < 26 ? "%c " : "%c+", 'a' + (int)(call % 26));
    }
    return label;
}

static void on_opened(void *context, const struct team_seat *seat, uint32_t call)
{
    struct demo *demo = context;
    const struct agent *agent = &seat->agent;
    bool is_fan = agent->calls_count > 1, is_sample = agent->task->samples > 0;
    const char *news = agent->calls[call].news;
    char label[SCREEN_LABEL_MAX];
    const char *name = label_of(agent, call, label);
    if (call == 0) {
        screen_step(&demo->screen, seat->number);
    }
    if (news[0] != '\0') {
        struct screen_head head = {SCREEN_PROMPT, is_sample ? "" : name, is_fan && !is_sample};
        head.label = agent->task->kind == TASK_CHAT ? "you  " : head.label;
        screen_say(&demo->screen, seat->number, head, news);
    }
    screen_open(&demo->screen, seat->number, call + 1, is_fan && !is_sample ? "  " : name,
                is_fan ? 1 : 0);
}

static void on_said(void *context, const struct team_seat *seat, uint32_t call, const char *text,
                    uint32_t bytes)
{
    struct demo *demo = context;
    screen_add(&demo->screen, seat->number, call + 1, text, bytes);
}

static void on_ended(void *context, const struct team_seat *seat, uint32_t call)
{
    struct demo *demo = context;
    screen_close(&demo->screen, seat->number, call + 1);
}

static void on_used_tool(void *context, const struct team_seat *seat)
{
    struct demo *demo = context;
    screen_step(&demo->screen, seat->number);
    screen_say(&demo->screen, seat->number, (struct screen_head){SCREEN_TOOL, "Obs: ", 0},
               seat->agent.observed);
}

static void on_over(void *context, const struct team_seat *seat)
{
    struct demo *demo = context;
    const struct agent *agent = &seat->agent;
    char text[AGENT_GOT_BYTES + TASK_ANSWER_BYTES_MAX + 32];
    if (agent->is_right) {
        snprintf(text, sizeof text, "%s", agent->got);
    } else {
        snprintf(text, sizeof text, "expected %s; got %s", agent->expected, agent->got);
    }
    screen_verdict(&demo->screen, seat->number, agent->is_right, text);
}

static bool has_seen(void *context, const struct team_seat *seat)
{
    struct demo *demo = context;
    return screen_is_shown(&demo->screen, seat->number);
}

/* ---- what is shown --------------------------------------------------------------------------- */

static const char *state_of(const struct demo *demo, const struct team_seat *seat)
{
    uint32_t queued = 0, running = 0;
    for (uint32_t i = 0; seat->in_turn && i < seat->agent.calls_count; i++) {
        queued += seat->calls[i].state == TEAM_QUEUED || seat->calls[i].state == TEAM_DUE;
        running += seat->calls[i].state == TEAM_RUNNING;
    }
    if (running > 0 || !screen_is_shown(&demo->screen, seat->number)) {
        return "running";
    }
    if (queued > 0) {
        return "queued";
    }
    return seat->is_over                  ? "done"
           : seat->next == AGENT_TOOL     ? "tool"
           : seat->next == AGENT_READER   ? "reading" : "running";
}

static void show_status(struct demo *demo, const struct team_seat *seat, uint64_t now_us)
{
    char number[24], figures[SCREEN_WIDTH_MAX + 1];
    uint32_t count = seat->agent.calls_count, ended = 0;
    for (uint32_t i = 0; i < count; i++) {
        ended += seat->calls[i].state == TEAM_DONE;
    }
    uint32_t first = seat->calls_done >= ended ? seat->calls_done - ended + 1 : 1;
    if (count > 1) {
        snprintf(number, sizeof number, "call %" PRIu32 "-%" PRIu32, first, first + count - 1);
    } else {
        snprintf(number, sizeof number, "call %" PRIu32, first);
    }
    snprintf(figures, sizeof figures, "%s  queue %" PRIu32 "  wait %.2fs  %" PRIu32 " tok", number,
             seat->queue, (double)team_waited_us(seat, now_us) / 1e6, seat->tokens);
    screen_status(&demo->screen, seat->number, state_of(demo, seat), figures);
}

static void look(void *context)
{
    struct demo *demo = context;
    uint64_t now_us = dial_now_us();
    for (uint32_t i = 0; i < demo->team.seats_count; i++) {
        show_status(demo, &demo->team.seats[i], now_us);
    }
    screen_draw(&demo->screen, now_us);
}

/* The screen still shows the words of the last turns; it lags by a second or two at most. */
static void show_the_rest(struct demo *demo)
{
    for (uint32_t i = 0; i < demo->team.seats_count; i++) {
        while (!screen_is_shown(&demo->screen, i)) {
            usleep(FRAME_US);
            look(demo);
        }
    }
    usleep(demo->screen.is_terminal ? FRAME_US : 0);
    look(demo);
}

static void print_summary(const struct demo *demo)
{
    double seconds = (double)(dial_now_us() - demo->start_us) / 1e6;
    uint32_t tokens = 0, right = 0;
    printf("\n%-24s %6s %7s %10s %11s\n", "program", "calls", "tokens", "wait ms", "service ms");
    for (uint32_t i = 0; i < demo->team.seats_count; i++) {
        const struct team_seat *seat = &demo->team.seats[i];
        const struct screen_panel *panel = &demo->screen.panels[i];
        int room = 23 - (int)strlen(panel->kind);
        printf("%s %-*.*s %6" PRIu32 " %7" PRIu32 " %10.1f %11.1f  %s\n", panel->kind, room, room,
               panel->name, seat->calls_done, seat->tokens, (double)seat->wait_us / 1e3,
               (double)seat->service_us / 1e3, seat->agent.is_right ? "right" : "WRONG");
        tokens += seat->tokens;
        right += seat->agent.is_right;
    }
    printf("%" PRIu32 " of %" PRIu32 " agents right; %" PRIu32 " tokens, all verified, in %.1f s "
           "with readers and tools\n", right, demo->team.seats_count, tokens, seconds);
}

/* ---- command --------------------------------------------------------------------------------- */

static bool read_tasks(struct task_book *book, const char *path)
{
    char fault[TASK_FAULT_BYTES] = "";
    bool is_good = path != NULL
                       ? task_book_read(book, path, fault)
                       : task_book_parse(book, "demo.tasks", demo_tasks,
                                         (size_t)(demo_tasks_end - demo_tasks), fault);
    if (!is_good || book->count == 0) {
        fprintf(stderr, "agx: %s\n", is_good ? "no task in this file" : fault);
        return false;
    }
    book->count = book->count < SCREEN_PANELS ? book->count : SCREEN_PANELS;
    return true;
}

static int run(struct demo *demo, const char *to)
{
    struct team *team = &demo->team;
    team->book = &demo->book;
    team->seats_count = demo->book.count;
    team->view = (struct team_view){demo, on_opened, on_said, on_ended, on_used_tool, on_over, look,
                                    has_seen};
    int code = team_open(team, to);
    if (code == EXIT_COMPLETE) {
        screen_init(&demo->screen, team->seats_count);
        for (uint32_t i = 0; i < team->seats_count; i++) {
            const struct task *task = &demo->book.tasks[i];
            screen_title(&demo->screen, i, task_kind_name(task->kind), task->name);
        }
        printf("%s, context of %" PRIu32 " tokens; each of these agents is a program\n",
               team->welcome.model[0] != '\0' ? team->welcome.model : "a model",
               team->welcome.context_tokens_max);
        demo->start_us = dial_now_us();
        code = team_run(team);
        show_the_rest(demo);
        print_summary(demo);
    }
    team_close(team);
    return code;
}

int demo_main(const char *to, int argc, char **argv)
{
    static struct demo demo = {         /* too large for a stack */
        .team = {.seed = 1, .retry = {.tries_max = RETRY_OF_MANY}, .tool_us = TOOL_US,
                 .reader_us = READER_US}};
    const char *path = NULL;
    const struct argument rows[] = {
        {"--tasks", "FILE", ARGUMENT_TEXT, &path, 0, 0, "its first four tasks (default: built in)"},
    };
    const struct command_line line = {
        AGX_COMMAND("demo"), .usage = "[--tasks FILE]",
        .purpose =
        "Four agents at once, side by side: a chat, a loop with tools, a fan-out with a merge, a\n"
        "vote. On a terminal of 80x24 or more, words appear so that a person can follow.",
        .rows = rows, .rows_count = 1};
    int code = command_line_parse(&line, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    code = read_tasks(&demo.book, path) ? run(&demo, to) : EXIT_USAGE;
    task_book_free(&demo.book);
    return code;
}
