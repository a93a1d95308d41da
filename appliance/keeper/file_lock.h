/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a lock of a whole file, against all others who write to it. `how`:
 *
 *   F_SETLKW       waits; it is this process's, and goes with it, or with any close() of the file
 *   F_OFD_SETLKW   waits; it is that of all who have inherited the handle, and goes with the last
 *   F_OFD_SETLK    the same, and does not wait
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

/* False: another has it, or errno says why not. */
static inline bool file_lock(int handle, int how)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int rc;
    do {
        rc = fcntl(handle, how, &all);
    } while (rc != 0 && errno == EINTR);
    return rc == 0;
}
