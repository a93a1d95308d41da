/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: task files: what agents are asked, and the right answers. Lines of text:
 *
 *     # comment                              also between the lines of a task; as empty lines
 *     task react cost_of_two-17              kind and name; the lines up to the next "task" are its
 *     > Table:                               a line of a prompt
 *     > rice: price 12, stock 40, weight 5
 *     >                                      an empty line of a prompt: ">" alone
 *     > Task: What do 3 bags of rice cost?
 *     = 36                                   the right answer, the task's last line
 *     then react cost_of_two-18              the same program's next task; its agent begins afresh
 *     ...
 *
 * kind     prompts                                           the answer
 * react    one                                               what follows "Answer: " at the end
 * map      one or more, with a line "-" between two          the same, after the merge
 * vote     one or more, with "-"; or one, and a line         the one that most of them give
 *          "samples N": it is asked N times
 * chat     each "> " line is one, and has its own "= "       what the reply contains; capitals or
 *          line after it                                     not is the same (ASCII)
 *
 * Limits: see below; only memory limits the number of tasks.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TASK_PROMPTS_MAX       64
#define TASK_PROMPT_BYTES_MAX  8192
#define TASK_NAME_BYTES_MAX    48
#define TASK_ANSWER_BYTES_MAX  120
#define TASK_FAULT_BYTES       256

enum task_kind { TASK_REACT, TASK_MAP, TASK_VOTE, TASK_CHAT, TASK_KINDS };
struct task {
    enum task_kind kind;
    bool follows;                               /* `then`: in the program of the task before */
    const char *name;
    uint32_t prompts_count, answers_count;
    uint32_t samples;                           /* 0: none, each prompt is asked once */
    const char *prompts[TASK_PROMPTS_MAX];      /* each ends with a line end, a chat's do not */
    const char *answers[TASK_PROMPTS_MAX];      /* a chat's: one for each prompt; else one */
};
struct task_book {
    struct task *tasks;
    uint32_t count;
    /* private: only task.c */
    uint32_t room;
    char **texts;                               /* the tasks point into these, one for each file */
    uint32_t texts_count;
};

const char *task_kind_name(enum task_kind kind);
/* Adds the tasks of a text. False: `fault` names the line, what it holds and what was expected;
 * then only task_book_free() may follow. `path` is for the message alone. */
bool task_book_parse(struct task_book *book, const char *path, const char *text, size_t bytes,
                     char fault[TASK_FAULT_BYTES]);
/* The same for a file, or for standard input if the path is "-". */
bool task_book_read(struct task_book *book, const char *path, char fault[TASK_FAULT_BYTES]);
void task_book_free(struct task_book *book);
/* The task after the last one of the program that begins with task `first`. */
uint32_t task_book_next(const struct task_book *book, uint32_t first);
