/* SPDX-License-Identifier: MIT */
/*
 * What: standard input, line by line, with poll(), so that Ctrl-C is noticed in between.
 * Bounds: a line is at most LINE_BYTES_MAX long; a terminal in cooked mode gives 4095 bytes.
 */
#include "tools/agx/chat/line.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES_MAX (16u << 20)
#define EXIT_BY_SIGINT 130

/* What a signal handler can reach. */
static int signal_out = -1;
static volatile sig_atomic_t is_pending;

static void interrupt(int signal_number)
{
    int error = errno;
    if (is_pending) {
        _exit(EXIT_BY_SIGINT);
    }
    is_pending = 1;
    (void)!write(signal_out, "", 1);
    errno = error;
    (void)signal_number;
}

bool line_init(struct line *line)
{
    int ends[2];
    struct sigaction action = {.sa_handler = interrupt};
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        return false;
    }
    line->signals = ends[0];
    signal_out = ends[1];
    return sigaction(SIGINT, &action, NULL) == 0;
}

bool line_interrupted(struct line *line)
{
    char byte;
    if (read(line->signals, &byte, 1) != 1) {
        return false;
    }
    is_pending = 0;
    return true;
}

/* Length of the line at the beginning of the buffer, without its line end; -1: it is not whole. */
static int64_t find_end(struct line *line)
{
    for (; line->scanned < line->count; line->scanned++) {
        uint32_t at = line->scanned;
        if (line->bytes[at] != '\n') {
            continue;
        }
        if (at == 0 || line->bytes[at - 1] != '\\') {
            return at;
        }
        /* The backslash goes; the line end is part of the text. */
        memmove(line->bytes + at - 1, line->bytes + at, line->count - at);
        line->count--;
        line->scanned--;
    }
    return line->at_end && line->count > 0 ? (int64_t)line->count : -1;
}

static bool make_room(struct line *line)
{
    if (line->room - line->count >= 4096) {
        return true;
    }
    uint32_t room = line->room > 0 ? 2 * line->room : 8192;
    char *bytes = room <= LINE_BYTES_MAX ? realloc(line->bytes, room) : NULL;
    if (bytes == NULL) {
        return false;
    }
    line->bytes = bytes;
    line->room = room;
    return true;
}

/* LINE_TEXT: something came, or the end. */
static enum line_kind fill(struct line *line)
{
    struct pollfd wait[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                             {.fd = line->signals, .events = POLLIN}};
    if (!make_room(line)) {
        return LINE_FAILED;
    }
    if (poll(wait, 2, -1) < 0 && errno != EINTR) {
        return LINE_FAILED;
    }
    if (line_interrupted(line)) {
        line->count = line->used = line->scanned = 0;
        return LINE_INTERRUPTED;
    }
    if (wait[0].revents == 0) {
        return LINE_TEXT;
    }
    ssize_t count = read(STDIN_FILENO, line->bytes + line->count, line->room - line->count - 1);
    if (count < 0) {
        return errno == EINTR || errno == EAGAIN ? LINE_TEXT : LINE_FAILED;
    }
    line->count += (uint32_t)count;
    line->at_end = count == 0;
    return LINE_TEXT;
}

enum line_kind line_read(struct line *line, char **text)
{
    enum line_kind kind = LINE_TEXT;
    int64_t end;
    line->count -= line->used;
    if (line->used > 0) {
        memmove(line->bytes, line->bytes + line->used, line->count);
        line->used = 0;
    }
    while ((end = find_end(line)) < 0) {
        if (line->at_end) {
            return LINE_END;
        }
        kind = fill(line);
        if (kind != LINE_TEXT) {
            return kind;
        }
    }
    line->used = (uint32_t)end + ((uint32_t)end < line->count);
    line->bytes[end] = '\0';
    line->scanned = 0;
    *text = line->bytes;
    return LINE_TEXT;
}
