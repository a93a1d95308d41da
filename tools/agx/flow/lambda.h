/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: lambdas as commands: NAME=PATH WORD ..., the argument on its standard input, the answer
 * from its standard output. The words are split at blanks and given to execv() as they are: there
 * is no shell, and no search in PATH.
 *
 * Bounds: LAMBDA_ANSWER_BYTES_MAX of an answer; several commands run at once, each in a process of
 * its own, and the caller waits for them with poll().
 */
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/command_line.h"

#define LAMBDA_RUNNING_MAX      8
#define LAMBDA_WORDS_MAX        32
#define LAMBDA_ANSWER_BYTES_MAX (1u << 20)
#define LAMBDA_FAULT_BYTES      64

struct lambda_call {                        /* one that runs */
    uint32_t row, node;
    pid_t process;                          /* 0: the place is free */
    int in, out;                            /* -1: closed */
    char *argument, *answer;
    size_t argument_bytes, argument_sent, answer_bytes;
};
struct lambdas {
    const struct argument_texts *commands;
    struct lambda_call calls[LAMBDA_RUNNING_MAX];
};

/* NULL, or which of the commands is none, or names a file that cannot be run: errno says why, 0:
 * it has not the form. */
const char *lambdas_check(const struct lambdas *lambdas);
/* True when there is a command of this name. */
bool lambdas_has(const struct lambdas *lambdas, const char *name);
bool lambdas_is_full(const struct lambdas *lambdas);
/* Starts one; `argument` is copied. False: it cannot be started, as errno says. */
bool lambdas_start(struct lambdas *lambdas, const char *name, const struct lambda_call *what);
/* What to poll for; returns how many. `polls` has 2 * LAMBDA_RUNNING_MAX places. */
uint32_t lambdas_polls(const struct lambdas *lambdas, struct pollfd *polls);
/* Moves what can be moved without waiting. A call that has ended, whose place the caller gives
 * back with lambdas_free(); NULL: none. `fault`: why it has no answer; empty: it has one. */
struct lambda_call *lambdas_next(struct lambdas *lambdas, char fault[LAMBDA_FAULT_BYTES]);
void lambdas_free(struct lambda_call *call);
/* Ends all that run. */
void lambdas_end(struct lambdas *lambdas);
