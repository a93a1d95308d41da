/* SPDX-License-Identifier: MIT */
#include "config/base/say.h"

#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* Why not O_NONBLOCK: it belongs to the open file, which a terminal's other programs share. */
uint32_t say_bytes(const char *bytes, uint32_t count)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    bool takes = poll(&out, 1, 0) > 0 && (out.revents & POLLOUT) != 0;
    ssize_t written = takes ? write(STDERR_FILENO, bytes, count) : 0;
    return written > 0 ? (uint32_t)written : 0;
}

void say(const char *text)
{
    (void)say_bytes(text, (uint32_t)strlen(text));
}
