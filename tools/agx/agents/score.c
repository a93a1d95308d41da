/* SPDX-License-Identifier: MIT */
/*
 * What: `agx agent FILE...`: agents work on the tasks of files. The output names the wrong ones,
 * and the number of right ones of each kind.
 */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "tools/agx/agents/team.h"
#include "tools/agx/printable.h"

#define PROGRESS_US 500000

struct score {
    struct team team;
    struct task_book book;
    bool is_verbose;
    uint64_t progress_us;
    bool has_progress;          /* a line on stderr that the next one overwrites */
};

static void clear_progress(struct score *score)
{
    if (score->has_progress) {
        fprintf(stderr, "\r\033[K");
        score->has_progress = false;
    }
}

static void print_over(void *context, const struct team_seat *seat)
{
    struct score *score = context;
    const struct agent *agent = &seat->agent;
    char name[AGENT_GOT_BYTES], expected[2 * AGENT_GOT_BYTES], got[2 * AGENT_GOT_BYTES];
    clear_progress(score);
    printable_line(agent->task->name, name, sizeof name);
    if (score->is_verbose) {
        printf("---- %s %s\n", task_kind_name(agent->task->kind), name);
        printable_write(agent->record.bytes, stdout);
        printf("%s---- %s\n\n", agent->record.is_full ? "\n(cut here)\n" : "\n",
               agent->is_right ? "right" : "wrong");
    }
    if (!agent->is_right) {
        printable_line(agent->expected, expected, sizeof expected);
        printable_line(agent->got, got, sizeof got);
        printf("%s: expected '%s', got '%s'\n", name, expected, got);
    }
    fflush(stdout);
}

static void show_progress(void *context)
{
    struct score *score = context;
    uint64_t now_us = dial_now_us();
    if (now_us - score->progress_us >= PROGRESS_US && isatty(STDERR_FILENO)) {
        score->progress_us = now_us;
        score->has_progress = true;
        fprintf(stderr, "\r%" PRIu32 " of %" PRIu32 " agents ", score->team.tasks_over,
                score->book.count);
    }
}

static double percent(uint32_t right, uint32_t of)
{
    return of > 0 ? 100.0 * right / of : 0;
}

/* Prints the table by kind; returns the share of right ones. A task never asked counts as wrong. */
static double print_score(const struct team *team)
{
    uint32_t of[TASK_KINDS] = {0}, right = 0, count = team->book->count;
    for (uint32_t i = 0; i < count; i++) {
        of[team->book->tasks[i].kind]++;
    }
    printf("%-8s %7s %7s\n", "kind", "right", "of");
    for (uint32_t kind = 0; kind < TASK_KINDS; kind++) {
        if (of[kind] > 0) {
            printf("%-8s %7" PRIu32 " %7" PRIu32 " %6.1f %%\n",
                   task_kind_name((enum task_kind)kind), team->right[kind], of[kind],
                   percent(team->right[kind], of[kind]));
        }
        right += team->right[kind];
    }
    printf("agents: %" PRIu32 " of %" PRIu32 " right (%.1f %%)\n", right, count,
           percent(right, count));
    return percent(right, count);
}

static int run(struct score *score, const char *to, double least)
{
    struct team *team = &score->team;
    team->book = &score->book;
    team->view = (struct team_view){.context = score, .over = print_over, .look = show_progress};
    int code = team_open(team, to);
    if (code == EXIT_COMPLETE) {
        score->progress_us = dial_now_us();
        code = team_run(team);
        clear_progress(score);
        retry_report(&team->retry);
        double share = print_score(team);
        if (code == EXIT_COMPLETE && share < least) {
            fprintf(stderr, "agx: fewer than %g %% are right\n", least);
            code = EXIT_WRONG;
        }
    }
    team_close(team);
    return code;
}

static int read_files(struct task_book *book, char **paths, uint32_t count)
{
    char fault[TASK_FAULT_BYTES];
    for (uint32_t i = 0; i < count; i++) {
        if (!task_book_read(book, paths[i], fault)) {
            printable_line(fault, fault, sizeof fault);
            fprintf(stderr, "agx: %s\n", fault);
            return EXIT_USAGE;
        }
    }
    if (book->count == 0) {
        fprintf(stderr, "agx: no task in these files\n");
        return EXIT_USAGE;
    }
    return EXIT_COMPLETE;
}

int agent_main(const char *to, int argc, char **argv)
{
    struct score score = {
        .team = {.seats_count = 8, .seed = 1, .retry = {.tries_max = RETRY_OF_MANY}}};
    uint32_t files = 0;
    double least = 0;
    const struct argument rows[] = {
        {"--parallel", "N", ARGUMENT_U32, &score.team.seats_count, 1, TEAM_SEATS_MAX,
         "agents at once (default 8)"},
        {"--seed", "S", ARGUMENT_U64, &score.team.seed, 0, 0,
         "of the first sample of a vote (default 1)"},
        RETRY_ROW(score.team.retry, RETRY_OF_MANY),
        CLASS_ROW(score.team.class_name),
        {"--least", "PERCENT", ARGUMENT_F64, &least, 0, 100,
         "exit code 7 when fewer are right"},
        {"--verbose", "", ARGUMENT_FLAG, &score.is_verbose, 0, 0,
         "print all that was said, agent by agent as they end"},
    };
    const struct command_line line = {
        AGX_COMMAND("agent"), .usage = "[OPTION]... FILE...",
        .purpose = "Agents work on the tasks of files (- is what comes in): loops with tools,\n"
                   "fan-outs, votes, chats; each is a program of its own. The format is described\n"
                   "in tools/agx/agents/README.md.",
        .rows = rows, .rows_count = sizeof rows / sizeof rows[0], .operands_count = &files};
    int code = command_line_parse(&line, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    score.team.retry.lot = score.team.seed;
    code = read_files(&score.book, argv + 1, files);
    code = code == EXIT_COMPLETE ? run(&score, to, least) : code;
    task_book_free(&score.book);
    return code;
}
