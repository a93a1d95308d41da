/* SPDX-License-Identifier: MIT */
/* What: the parent of an upgrade (upgrade/launcher.h). It only waits: for a byte that says that the
 * child serves, or for its end. A signal that is to end it ends the child, which has a session of
 * its own: what is sent to the command's group later, or read from its output, is not the child's.
 */
#include "appliance/keeper/upgrade/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "appliance/boot/exit.h"

static int to_parent = -1;
static pid_t parent = -1;
static volatile pid_t waited_for = 0;

static void pass_on(int number)
{
    kill(waited_for, number);
}

/* `mask`: of signals that may come again. */
static _Noreturn void wait_for(pid_t child, int from_child, const sigset_t *mask)
{
    uint8_t byte;
    int wait_status = 0;
    ssize_t count;
    const struct sigaction passed_on = {.sa_handler = pass_on};
    waited_for = child;
    sigaction(SIGINT, &passed_on, NULL);
    sigaction(SIGTERM, &passed_on, NULL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    do {
        count = recv(from_child, &byte, 1, 0);
    } while (count < 0 && errno == EINTR);
    if (count == 1) {
        _exit(BOOT_EXIT_OK);
    }
    while (waitpid(child, &wait_status, 0) < 0 && errno == EINTR) {
    }
    _exit(WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : BOOT_EXIT_SYSTEM);
}

/* Standard error stays: it is the log. */
static void become_daemon(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)setsid();
    if (null >= 0) {
        (void)dup2(null, STDIN_FILENO);
        (void)dup2(null, STDOUT_FILENO);
        close(null);
    }
}

void launcher_stops(sigset_t *stops)
{
    sigemptyset(stops);
    sigaddset(stops, SIGINT);
    sigaddset(stops, SIGTERM);
}

/* A signal that is to end the command waits until it can be passed on: else it would end the
 * command, and not the upgrade. */
void launcher_fork(void)
{
    int pair[2];
    sigset_t stops, before;
    pid_t child = -1;
    parent = getpid();
    launcher_stops(&stops);
    sigprocmask(SIG_BLOCK, &stops, &before);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0) {
        child = fork();
    }
    if (child < 0) {
        fprintf(stderr, "agentix: cannot fork: %s\n", strerror(errno));
        _exit(BOOT_EXIT_SYSTEM);
    }
    close(child > 0 ? pair[1] : pair[0]);
    if (child > 0) {
        wait_for(child, pair[0], &before);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    to_parent = pair[1];
    become_daemon();
}

void launcher_tell(void)
{
    uint8_t byte = 0;
    if (to_parent >= 0) {
        (void)send(to_parent, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        launcher_close();
    }
}

bool launcher_has_ended(void)
{
    return getppid() != parent;
}

bool launcher_is(pid_t pid)
{
    return parent > 0 && pid == parent;
}

void launcher_forget(void)
{
    parent = -1;
}

void launcher_close(void)
{
    if (to_parent >= 0) {
        close(to_parent);
        to_parent = -1;
    }
}
