/* SPDX-License-Identifier: MIT */
/* What: the writer of replies as the keeper's child (child.h). */
#include "appliance/keeper/replies/child.h"

#include <sys/wait.h>
#include <unistd.h>

#include "appliance/clock.h"
#include "appliance/keeper/replies/writer.h"
#include "appliance/log.h"

#define PAUSE_TICKS  10
#define END_TRIES    100             /* a disk that takes longer is not waited for */
#define END_PAUSE_US 100000u        /* between two of them */

static void start(struct replies_child *child)
{
    child->pid = fork();
    if (child->pid == 0) {
        child->begin(child->context);
        replies_writer_run(child->boot, &child->header);
    }
}

void replies_child_tick(struct replies_child *child)
{
    if (!replies_child_is_due(child)) {
        return;
    }
    if (child->pause_ticks > 0) {
        child->pause_ticks--;
        return;
    }
    child->pause_ticks = PAUSE_TICKS;
    start(child);
}

bool replies_child_reap(struct replies_child *child, pid_t pid)
{
    if (pid != child->pid) {
        return false;
    }
    child->pid = -1;
    log_event(LOG_WARN, "the writer of limits.replies_file has ended: another one follows");
    return true;
}

/* True when it has written all and has ended. One that was killed has not, and is missing then. */
static bool has_written_all(struct replies_child *child)
{
    int wait_status = 0;
    if (child->pid < 0 || waitpid(child->pid, &wait_status, WNOHANG) == 0) {
        return false;
    }
    bool was_killed = WIFSIGNALED(wait_status);
    if (was_killed) {
        replies_child_reap(child, child->pid);
    }
    return !was_killed;
}

void replies_child_end(struct replies_child *child)
{
    if (child->pid == 0) {
        return;
    }
    close(child->boot->shared.replies_bell[1]);
    child->boot->shared.replies_bell[1] = -1;    /* of those that are started here, too */
    for (uint32_t i = 0; i < END_TRIES && !has_written_all(child); i++) {
        if (child->pid < 0) {
            start(child);           /* for what that one has left */
        }
        if (i == END_TRIES - 1) {
            log_event(LOG_WARN, "the disk of limits.replies_file is slow: its writer goes on");
        }
        clock_rest(END_PAUSE_US);
    }
    child->pid = 0;
}
