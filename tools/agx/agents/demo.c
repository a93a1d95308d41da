/* SPDX-License-Identifier: MIT */
/*
 * What: `agx demo`: the programs of a file on two appliances at the same time, side by side; then
 * how long they took on each, and whether both computed the same tokens. The file is demo.tasks,
 * embedded in the binary.
 *
 * Both sides get the same programs with the same seeds at the same times, from one loop. What
 * differs is how the two appliances were started: tools/demo does that. The next program arrives
 * when both sides together have generated so many more tokens: so the load is the same on a fast
 * machine, on a slow one, and on one that becomes slow for a while.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/agx/agents/chart.h"
#include "tools/agx/agents/team.h"
#include "tools/agx/agents/verdict.h"
#include "tools/agx/printable.h"

#define EVERY_TOKENS 120            /* of both sides; then the next program arrives */
#define TOOL_US     100000
#define READER_US   300000
#define WAIT_US     2000            /* for one side, while the other may have events */
#define FRAME_US    40000
#define MODEL_BYTES 21              /* of its name, with the terminator */
#define ABOVE_LINES 3               /* what tools/demo and the head print */

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
    struct task_book book;
    struct side { struct team team; struct demo *demo; uint32_t number; const char *address; }
        sides[CHART_SIDES];
    struct chart chart;
    struct screen screen;
    struct verdict verdict;
    bool is_drawn;                  /* on a terminal that is large enough; else lines */
    uint32_t every_tokens;
    uint64_t begun_us, drawn_us;
};

static struct chart_row *row_of(const struct side *side, const struct team_seat *seat)
{
    return &side->demo->chart.sides[side->number].rows[seat->number];
}

/* ---- what happens ---------------------------------------------------------------------------- */

/* Each line of what an agent reads or says. */
static void say(const struct side *side, const struct team_seat *seat, const char *label,
                const char *text)
{
    char line[CHART_TEXT_BYTES];
    while (*text != '\0') {
        size_t count = strcspn(text, "\n");
        const char *from = text + strspn(text, " ");
        if (from < text + count) {
            snprintf(line, sizeof line, "%s%.*s", label, (int)(text + count - from), from);
            chart_say(&side->demo->chart, side->number, seat->number, line);
        }
        text += count + (text[count] == '\n');
    }
}

/* The last line of a question: what is asked. */
static void on_opened(void *context, const struct team_seat *seat, uint32_t call)
{
    const char *news = seat->agent.calls[call].news, *last = news;
    for (const char *end = strchr(news, '\n'); end != NULL && end[1] != '\0';) {
        last = end + 1;
        end = strchr(last, '\n');
    }
    say(context, seat, "> ", last);
}

static void on_said(void *context, const struct team_seat *seat, uint32_t call, const char *text,
                    uint32_t bytes)
{
    struct side *side = context;
    uint64_t now_us = dial_now_us() - side->demo->begun_us;
    (void)call, (void)text, (void)bytes;
    timeline_mark(&row_of(side, seat)->timeline, now_us, TIMELINE_SERVED);
}

static void on_ended(void *context, const struct team_seat *seat, uint32_t call)
{
    say(context, seat, "", seat->agent.calls[call].said);
}

static void on_used_tool(void *context, const struct team_seat *seat)
{
    say(context, seat, "Obs: ", seat->agent.observed);
}

static void on_over(void *context, const struct team_seat *seat)
{
    struct side *side = context;
    struct chart_row *row = row_of(side, seat);
    if (!seat->is_over) {
        return;                     /* the program has one more task */
    }
    row->is_over = true;
    row->is_right = seat->tasks_right == seat->tasks_done;
    row->took_us = seat->end_us - seat->start_us;
    if (!side->demo->is_drawn) {
        printf("%-10s %-24s done after %6.2f s%s\n",
               side->demo->chart.sides[side->number].title, row->name,
               (double)row->took_us / 1e6, row->is_right ? "" : "  WRONG");
        fflush(stdout);
    }
}

/* ---- what is shown --------------------------------------------------------------------------- */

/* Programs with open calls wait, unless tokens come. */
static void mark_waits(struct side *side, uint64_t now_us)
{
    for (uint32_t i = 0; i < side->team.seats_count; i++) {
        const struct team_seat *seat = &side->team.seats[i];
        if (seat->in_turn) {
            timeline_mark(&row_of(side, seat)->timeline, now_us, TIMELINE_WAITS);
        }
    }
}

static void draw(struct demo *demo)
{
    static struct screen_text text;         /* too large for a stack */
    uint64_t now_us = dial_now_us() - demo->begun_us;
    for (uint32_t i = 0; i < CHART_SIDES; i++) {
        mark_waits(&demo->sides[i], now_us);
    }
    demo->drawn_us = demo->chart.now_us = now_us;
    if (demo->is_drawn) {
        chart_write(&demo->chart, &text);
        screen_draw(&demo->screen, &text, chart_lines(&demo->chart));
    }
}

static void draw_if_due(struct demo *demo)
{
    if (dial_now_us() - demo->begun_us - demo->drawn_us >= FRAME_US) {
        draw(demo);
    }
}

static void prepare_rows(struct demo *demo)
{
    uint32_t count = 0;
    for (uint32_t task = 0; task < demo->book.count; count++) {
        uint32_t next = task_book_next(&demo->book, task);
        struct verdict_program *program = &demo->verdict.programs[count];
        for (uint32_t i = 0; i < CHART_SIDES; i++) {
            struct chart_row *row = &demo->chart.sides[i].rows[count];
            chart_name(row->name, demo->book.tasks[task].name);
            row->is_long = next > task + 1;
        }
        program->name = demo->chart.sides[0].rows[count].name;
        program->tasks = next - task;
        program->is_long = program->tasks > 1;
        task = next;
    }
    demo->chart.rows_count = demo->verdict.count = count;
}

static void print_head(const struct demo *demo)
{
    const struct agx_welcome *welcome = &demo->sides[0].team.welcome;
    char model[MODEL_BYTES];
    uint32_t longs = 0;
    for (uint32_t i = 0; i < demo->verdict.count; i++) {
        longs += demo->verdict.programs[i].is_long;
    }
    printable_line(welcome->model, model, sizeof model);
    printf("%s: %" PRIu32 " long agents and %" PRIu32 " short ones", model, longs,
           demo->verdict.count - longs);
    if (demo->is_drawn) {
        printf(demo->chart.is_utf8 ? "   \xe2\x96\x88 tokens come   \xe2\x96\x91 waits"
                                   : "   # tokens come   . waits");
    }
    printf("\n");
}

/* ---- the run --------------------------------------------------------------------------------- */

/* Lets the next program begin on both sides, when it is time or there is nothing else to do. */
static void admit(struct demo *demo)
{
    struct team *left = &demo->sides[0].team, *right = &demo->sides[1].team;
    uint32_t admitted = left->admitted;
    bool is_idle = left->programs_over == admitted && right->programs_over == admitted;
    bool is_due = left->tokens + right->tokens >= admitted * demo->every_tokens;
    if (admitted < demo->verdict.count && (is_due || is_idle)) {
        uint64_t now_us = dial_now_us();
        team_admit(left, now_us);
        team_admit(right, now_us);
    }
}

/* Serves both sides until they are over, or one has failed. Returns that one's exit code. */
static int serve(struct demo *demo)
{
    bool is_going = true;
    demo->begun_us = dial_now_us();
    for (uint32_t i = 0; i < CHART_SIDES; i++) {
        team_begin(&demo->sides[i].team);
    }
    while (is_going) {
        is_going = false;
        admit(demo);
        for (uint32_t i = 0; i < CHART_SIDES; i++) {
            struct team *team = &demo->sides[i].team;
            is_going = team_pass(team, WAIT_US) || is_going;
            if (team_code(team) != EXIT_COMPLETE) {
                fprintf(stderr, "agx: %s failed\n", demo->chart.sides[i].title);
                return team_code(team);
            }
        }
        draw_if_due(demo);
    }
    return EXIT_COMPLETE;
}

static void close_sides(struct demo *demo)
{
    for (uint32_t i = 0; i < CHART_SIDES; i++) {
        team_close(&demo->sides[i].team);
    }
}

static int open_sides(struct demo *demo)
{
    for (uint32_t i = 0; i < CHART_SIDES; i++) {
        struct side *side = &demo->sides[i];
        side->team = (struct team){
            .book = &demo->book, .seats_count = demo->verdict.count, .seed = 1,
            .retry = {.tries_max = RETRY_OF_MANY}, .tool_us = TOOL_US, .reader_us = READER_US,
            .is_gated = true,
            .view = {.context = side, .opened = on_opened, .said = on_said, .ended = on_ended,
                     .used_tool = on_used_tool, .over = on_over}};
        int code = team_open(&side->team, side->address);
        if (code != EXIT_COMPLETE) {
            return code;
        }
    }
    return EXIT_COMPLETE;
}

static int race(struct demo *demo)
{
    int code = open_sides(demo);
    if (code != EXIT_COMPLETE) {
        return code;
    }
    screen_open(&demo->screen);
    demo->is_drawn = chart_fit(&demo->chart, &demo->screen, ABOVE_LINES, VERDICT_LINES + 1);
    print_head(demo);
    code = serve(demo);
    draw(demo);                     /* the last picture shows the end */
    return code;
}

static int judge(struct demo *demo)
{
    struct verdict *verdict = &demo->verdict;
    for (uint32_t side = 0; side < CHART_SIDES; side++) {
        const struct team *team = &demo->sides[side].team;
        for (uint32_t i = 0; i < verdict->count; i++) {
            const struct team_seat *seat = &team->seats[i];
            uint64_t end_us = seat->end_us - demo->begun_us;
            verdict->programs[i].parts[side] = (struct verdict_part){
                .calls = seat->calls_done, .tokens = seat->tokens, .right = seat->tasks_right,
                .digest = seat->digest, .took_us = seat->end_us - seat->start_us};
            verdict->all_us[side] = end_us > verdict->all_us[side] ? end_us
                                                                   : verdict->all_us[side];
        }
    }
    if (!demo->is_drawn) {
        printf("\n");
        verdict_print_programs(verdict, stdout);
        printf("\n");
    }
    verdict_print(verdict, stdout);
    if (verdict_is_same(verdict)) {
        return EXIT_COMPLETE;
    }
    fprintf(stderr, "agx: the two appliances did not compute the same\n");
    return EXIT_PROTOCOL;
}

static int run(struct demo *demo)
{
    prepare_rows(demo);
    int code = race(demo);
    code = code == EXIT_COMPLETE ? judge(demo) : code;
    close_sides(demo);
    return code;
}

/* ---- command --------------------------------------------------------------------------------- */

static bool read_tasks(struct task_book *book, const char *path)
{
    char fault[TASK_FAULT_BYTES] = "";
    bool is_good = path != NULL
                       ? task_book_read(book, path, fault)
                       : task_book_parse(book, "demo.tasks", demo_tasks,
                                         (size_t)(demo_tasks_end - demo_tasks), fault);
    uint32_t programs = 0;
    for (uint32_t task = 0; is_good && task < book->count; programs++) {
        task = task_book_next(book, task);
    }
    if (!is_good || programs == 0 || programs > CHART_ROWS_MAX) {
        printable_line(fault, fault, sizeof fault);
        fprintf(stderr, "agx: %s\n", !is_good ? fault : programs == 0
                                     ? "no task in this file" : "more than 40 programs");
        return false;
    }
    return true;
}

int demo_main(const char *to, int argc, char **argv)
{
    static struct demo demo = {.every_tokens = EVERY_TOKENS};   /* too large for a stack */
    const char *path = NULL, *against = NULL;
    const char *titles[CHART_SIDES] = {"baseline", "agentix"};
    const struct argument rows[] = {
        {"--against", "ADDRESS", ARGUMENT_TEXT, &against, 0, 0,
         "the appliance on the left (required)"},
        {"--against-title", "TEXT", ARGUMENT_TEXT, &titles[0], 0, 0, "its name (baseline)"},
        {"--title", "TEXT", ARGUMENT_TEXT, &titles[1], 0, 0, "of the other one (agentix)"},
        {"--tasks", "FILE", ARGUMENT_TEXT, &path, 0, 0,
         "at most 40 programs, those of several tasks are the long ones (built in)"},
        {"--every", "TOKENS", ARGUMENT_U32, &demo.every_tokens, 0, 1000000,
         "the next one arrives after so many tokens of both sides (120)"},
    };
    const struct command_line line = {
        AGX_COMMAND("demo"), .usage = "--against ADDRESS [OPTION]...",
        .purpose = "The same agents on two appliances at once, side by side on a terminal of\n"
                   "80x24 or more: how long each took. `make demo` starts two that differ in\n"
                   "sched.policy. Exit code 6: they did not compute the same tokens.",
        .rows = rows, .rows_count = sizeof rows / sizeof rows[0]};
    int code = command_line_parse(&line, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    if (against == NULL) {
        return command_line_refuse(&line, "--against", "", "an address");
    }
    for (uint32_t i = 0; i < CHART_SIDES; i++) {
        demo.sides[i].demo = &demo;
        demo.sides[i].number = i;
        demo.sides[i].address = i == 0 ? against : to;
        chart_name(demo.chart.sides[i].title, titles[i]);
        demo.verdict.titles[i] = demo.chart.sides[i].title;
    }
    code = read_tasks(&demo.book, path) ? run(&demo) : EXIT_USAGE;
    task_book_free(&demo.book);
    return code;
}
