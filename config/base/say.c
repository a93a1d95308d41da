/* SPDX-License-Identifier: MIT */
#include "config/base/say.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

/* Why not O_NONBLOCK: it belongs to the open file, which a terminal's other programs share. */
void say_bytes(const char *bytes, uint32_t count)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&out, 1, 0) > 0 && (out.revents & POLLOUT) != 0) {
        ssize_t ignored = write(STDERR_FILENO, bytes, count);
        (void)ignored;
    }
}

void say(const char *text)
{
    say_bytes(text, (uint32_t)strlen(text));
}
