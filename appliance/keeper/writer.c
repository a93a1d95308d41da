/* SPDX-License-Identifier: MIT */
/* What: the writer of replies as the keeper's child (writer.h). */
#include "appliance/keeper/writer.h"

#include <sys/wait.h>
#include <unistd.h>

#include "appliance/clock.h"
#include "appliance/log.h"
#include "appliance/keeper/replies/writer.h"

#define PAUSE_TICKS  10
#define END_TRIES    100             /* a disk that takes longer is not waited for */
#define END_PAUSE_US 100000u        /* between two of them */

static void start(struct writer_seat *seat)
{
    seat->pid = fork();
    if (seat->pid == 0) {
        seat->begin(seat->context);
        replies_writer_run(seat->boot, &seat->header);
    }
}

void writer_tick(struct writer_seat *seat)
{
    if (!writer_is_due(seat)) {
        return;
    }
    if (seat->pause_ticks > 0) {
        seat->pause_ticks--;
        return;
    }
    seat->pause_ticks = PAUSE_TICKS;
    start(seat);
}

bool writer_reap(struct writer_seat *seat, pid_t pid)
{
    if (pid != seat->pid) {
        return false;
    }
    seat->pid = -1;
    log_event(LOG_WARN, "the writer of limits.replies_file has ended: another one follows");
    return true;
}

/* True when it has written all and has ended. One that was killed has not: another one follows. */
static bool has_written_all(struct writer_seat *seat)
{
    int wait_status = 0;
    if (seat->pid > 0 && waitpid(seat->pid, &wait_status, WNOHANG) != 0) {
        if (!WIFSIGNALED(wait_status)) {
            return true;
        }
        writer_reap(seat, seat->pid);
    }
    if (seat->pid < 0) {
        start(seat);
    }
    return false;
}

void writer_end(struct writer_seat *seat)
{
    if (seat->pid == 0) {
        return;
    }
    close(seat->boot->shared.replies_bell[1]);
    seat->boot->shared.replies_bell[1] = -1;    /* of those that are started here, too */
    for (uint32_t i = 0; i < END_TRIES && !has_written_all(seat); i++) {
        if (i == END_TRIES - 1) {
            log_event(LOG_WARN, "the disk of limits.replies_file is slow: its writer goes on");
        }
        clock_rest(END_PAUSE_US);
    }
    seat->pid = 0;
}
