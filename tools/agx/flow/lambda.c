/* SPDX-License-Identifier: MIT */
#include "tools/agx/flow/lambda.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CANNOT_RUN 127                      /* exit status of a command that is not there */

/* ---- commands -------------------------------------------------------------------------------- */

/* What stands after NAME=; NULL: this is another command. */
static const char *words_of(const char *command, const char *name)
{
    size_t bytes = strlen(name);
    bool is_it = strncmp(command, name, bytes) == 0 && command[bytes] == '=';
    return is_it ? command + bytes + 1 : NULL;
}

static const char *find(const struct lambdas *lambdas, const char *name)
{
    const char *words = NULL;
    for (uint32_t i = 0; words == NULL && i < lambdas->commands->count; i++) {
        words = words_of(lambdas->commands->texts[i], name);
    }
    return words;
}

bool lambdas_has(const struct lambdas *lambdas, const char *name)
{
    return find(lambdas, name) != NULL;
}

static bool has_form(const char *command, const char *equals)
{
    return equals != NULL && equals != command && equals[1] != '\0' && equals[1] != ' ' &&
           memchr(equals, '/', strcspn(equals, " ")) != NULL;
}

/* False: errno says why not. */
static bool may_run(const char *words)
{
    char path[PATH_MAX];
    int bytes = snprintf(path, sizeof path, "%.*s", (int)strcspn(words, " "), words);
    errno = bytes < (int)sizeof path ? 0 : ENAMETOOLONG;
    return errno == 0 && access(path, X_OK) == 0;
}

const char *lambdas_check(const struct lambdas *lambdas)
{
    for (uint32_t i = 0; i < lambdas->commands->count; i++) {
        const char *command = lambdas->commands->texts[i], *equals = strchr(command, '=');
        errno = 0;
        if (!has_form(command, equals) || !may_run(equals + 1)) {
            return command;
        }
    }
    return NULL;
}

/* The child: never returns. */
static _Noreturn void run_command(const char *command, int in, int out)
{
    char *words[LAMBDA_WORDS_MAX + 1] = {NULL}, *copy = strdup(command), *rest = NULL;
    uint32_t count = 0;
    for (char *word = copy != NULL ? strtok_r(copy, " ", &rest) : NULL;
         word != NULL && count < LAMBDA_WORDS_MAX; word = strtok_r(NULL, " ", &rest)) {
        words[count++] = word;
    }
    signal(SIGPIPE, SIG_DFL);
    if (count > 0 && dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0) {
        execv(words[0], words);
    }
    _exit(CANNOT_RUN);
}

/* ---- running --------------------------------------------------------------------------------- */

static struct lambda_call *free_place(struct lambdas *lambdas)
{
    for (uint32_t i = 0; i < LAMBDA_RUNNING_MAX; i++) {
        if (lambdas->calls[i].process == 0) {
            return &lambdas->calls[i];
        }
    }
    return NULL;
}

bool lambdas_is_full(const struct lambdas *lambdas)
{
    for (uint32_t i = 0; i < LAMBDA_RUNNING_MAX; i++) {
        if (lambdas->calls[i].process == 0) {
            return false;
        }
    }
    return true;
}

static void shut(int *descriptor)
{
    if (*descriptor >= 0) {
        close(*descriptor);
        *descriptor = -1;
    }
}

/* Forks with a pipe in each direction; our ends do not wait. */
static bool fork_command(struct lambda_call *call, const char *command)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    if (pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 &&
        fcntl(in[1], F_SETFL, O_NONBLOCK) == 0 && fcntl(out[0], F_SETFL, O_NONBLOCK) == 0) {
        call->process = fork();
        if (call->process == 0) {
            run_command(command, in[0], out[1]);
        }
    }
    shut(&in[0]);
    shut(&out[1]);
    call->in = in[1];
    call->out = out[0];
    return call->process > 0;
}

bool lambdas_start(struct lambdas *lambdas, const char *name, const struct lambda_call *what)
{
    struct lambda_call *call = free_place(lambdas);
    const char *command = find(lambdas, name);
    if (call == NULL || command == NULL) {
        errno = ENOENT;
        return false;
    }
    *call = (struct lambda_call){.row = what->row, .node = what->node, .in = -1, .out = -1,
                                 .argument_bytes = what->argument_bytes};
    call->argument = malloc(what->argument_bytes + 1);
    call->answer = malloc(LAMBDA_ANSWER_BYTES_MAX);
    if (call->argument == NULL || call->answer == NULL || !fork_command(call, command)) {
        lambdas_free(call);
        return false;
    }
    memcpy(call->argument, what->argument, what->argument_bytes);
    return true;
}

uint32_t lambdas_polls(const struct lambdas *lambdas, struct pollfd *polls)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < LAMBDA_RUNNING_MAX; i++) {
        const struct lambda_call *call = &lambdas->calls[i];
        if (call->process != 0 && call->in >= 0) {
            polls[count++] = (struct pollfd){.fd = call->in, .events = POLLOUT};
        }
        if (call->process != 0 && call->out >= 0) {
            polls[count++] = (struct pollfd){.fd = call->out, .events = POLLIN};
        }
    }
    return count;
}

/* A command need not read all of its argument. */
static void send_argument(struct lambda_call *call)
{
    ssize_t sent = 1;
    while (call->in >= 0 && sent > 0 && call->argument_sent < call->argument_bytes) {
        sent = write(call->in, call->argument + call->argument_sent,
                     call->argument_bytes - call->argument_sent);
        call->argument_sent += sent > 0 ? (size_t)sent : 0;
        if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            shut(&call->in);
        }
    }
    if (call->argument_sent == call->argument_bytes) {
        shut(&call->in);
    }
}

/* True when it has said all. */
static bool take_answer(struct lambda_call *call)
{
    ssize_t got = 1;
    while (got > 0 && call->answer_bytes < LAMBDA_ANSWER_BYTES_MAX) {
        got = read(call->out, call->answer + call->answer_bytes,
                   LAMBDA_ANSWER_BYTES_MAX - call->answer_bytes);
        call->answer_bytes += got > 0 ? (size_t)got : 0;
    }
    return got >= 0 || (errno != EAGAIN && errno != EINTR);
}

/* Why its answer is none; empty: it is one. */
static void judge(bool too_much, int status, char fault[LAMBDA_FAULT_BYTES])
{
    fault[0] = '\0';
    if (too_much) {
        snprintf(fault, LAMBDA_FAULT_BYTES, "its answer has %u bytes or more",
                 LAMBDA_ANSWER_BYTES_MAX);
    } else if (WIFSIGNALED(status)) {
        snprintf(fault, LAMBDA_FAULT_BYTES, "signal %d", WTERMSIG(status));
    } else if (WEXITSTATUS(status) == CANNOT_RUN) {
        snprintf(fault, LAMBDA_FAULT_BYTES, "exit status %d, as of a command that cannot be run",
                 CANNOT_RUN);
    } else if (WEXITSTATUS(status) != 0) {
        snprintf(fault, LAMBDA_FAULT_BYTES, "exit status %d", WEXITSTATUS(status));
    }
}

/* It has said all, or too much; its status says whether it is to be believed. */
static void end(struct lambda_call *call, char fault[LAMBDA_FAULT_BYTES])
{
    bool too_much = call->answer_bytes == LAMBDA_ANSWER_BYTES_MAX;
    int status = 0;
    shut(&call->in);
    shut(&call->out);
    if (too_much) {
        kill(call->process, SIGKILL);
    }
    while (waitpid(call->process, &status, 0) < 0 && errno == EINTR) {
    }
    judge(too_much, status, fault);
}

struct lambda_call *lambdas_next(struct lambdas *lambdas, char fault[LAMBDA_FAULT_BYTES])
{
    for (uint32_t i = 0; i < LAMBDA_RUNNING_MAX; i++) {
        struct lambda_call *call = &lambdas->calls[i];
        if (call->process == 0) {
            continue;
        }
        send_argument(call);
        if (take_answer(call)) {
            end(call, fault);
            return call;
        }
    }
    return NULL;
}

void lambdas_free(struct lambda_call *call)
{
    shut(&call->in);
    shut(&call->out);
    free(call->argument);
    free(call->answer);
    *call = (struct lambda_call){.in = -1, .out = -1};
}

void lambdas_end(struct lambdas *lambdas)
{
    for (uint32_t i = 0; i < LAMBDA_RUNNING_MAX; i++) {
        struct lambda_call *call = &lambdas->calls[i];
        if (call->process > 0) {
            kill(call->process, SIGKILL);
            while (waitpid(call->process, NULL, 0) < 0 && errno == EINTR) {
            }
            lambdas_free(call);
        }
    }
}
