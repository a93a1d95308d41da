/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a team that works for an appliance of team_rig.h, and what its watcher has seen.
 */
#include "selftest/unit/tools/team_rig.h"
#include "tools/agx/agents/team.h"

static struct seen {
    uint32_t opened, ended, tools, over, taken_most;
    char got[64];
    struct { uint32_t tasks_done, tasks_right; uint64_t digest; } last;     /* program */
} seen;
static struct team team;

static inline void on_opened(void *context, const struct team_seat *seat, uint32_t call)
{
    uint32_t taken = 0;
    (void)context, (void)seat, (void)call;
    for (uint32_t i = 0; i < team.seats_count; i++) {
        taken += team.seats[i].is_taken;
    }
    seen.taken_most = taken > seen.taken_most ? taken : seen.taken_most;
    seen.opened++;
}

static inline void on_ended(void *context, const struct team_seat *seat, uint32_t call)
{
    (void)context;
    assert_int_equal(seat->queue, 3);
    if (seat->agent.task->kind == TASK_CHAT) {      /* no word twice, after any break */
        assert_string_equal(seat->agent.calls[call].said, " Hello.");
    }
    seen.ended++;
}

static inline void on_tool(void *context, const struct team_seat *seat)
{
    (void)context;
    assert_string_equal(seat->agent.observed, "36");
    seen.tools++;
}

static inline void on_over(void *context, const struct team_seat *seat)
{
    (void)context;
    seen.over++;
    if (seat->is_over) {
        seen.last.tasks_done = seat->tasks_done;
        seen.last.tasks_right = seat->tasks_right;
        seen.last.digest = seat->digest;
    }
    if (!seat->agent.is_right) {
        snprintf(seen.got, sizeof seen.got, "%.63s", seat->agent.got);
    }
}

/* A team without seats for these tasks, at an appliance that has just started. */
static inline void prepare(struct task_book *book, const char *tasks, const enum fate *fates,
                    uint32_t fates_count)
{
    char fault[TASK_FAULT_BYTES];
    memset(book, 0, sizeof *book);
    memset(&seen, 0, sizeof seen);
    memset(&team, 0, sizeof team);
    assert_true(task_book_parse(book, "x", tasks, strlen(tasks), fault));
    team.book = book;
    team.retry.tries_max = 2;
    team.view = (struct team_view){.opened = on_opened, .ended = on_ended,
                                   .used_tool = on_tool, .over = on_over};
    start_fake(fates, fates_count);
}

/* The team's exit code. */
static inline int work(const char *tasks, uint32_t seats, const enum fate *fates,
                       uint32_t fates_count)
{
    struct task_book book;
    prepare(&book, tasks, fates, fates_count);
    team.seats_count = seats;
    assert_int_equal(team_open(&team, fake.address), EXIT_COMPLETE);
    int code = team_run(&team);
    assert_int_equal(team.tasks_over, book.count);
    assert_int_equal(seen.over, book.count);
    team_close(&team);
    stop_fake();
    task_book_free(&book);
    return code;
}

#define REACT "task react a\n> Task: What?\n= 36\n"
#define CHAT  "task chat b\n> Hi.\n= hello\n> Bye.\n= hello\n"
#define MAP   "task map c\n> Notes: 1\n-\n> Notes: 2\n-\n> Notes: 3\n= 36\n"
#define VOTE  "task vote d\nsamples 9\n> Sum: What?\n= 36\n"
#define THEN  "then react e\n> Task: What?\n= 36\nthen chat f\n> Hi.\n= hello\n"
