/* SPDX-License-Identifier: MIT */
/*
 * What: termios and a few sequences that every terminal since the VT100 knows.
 * Why no ^Z: a stopped program would leave the terminal without echo.
 */
#include "tools/agx/watch/terminal.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define ENTER "\033[?1049h\033[?25l"    /* the alternate screen, no cursor */
#define LEAVE "\033[?25h\033[?1049l"

static struct termios before;
static volatile sig_atomic_t ends, resized;

static void take_signal(int number)
{
    if (number == SIGWINCH) {
        resized = 1;
    } else {
        ends = 1;
    }
}

bool terminal_open(void)
{
    struct sigaction action = {.sa_handler = take_signal};
    if (!isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before) != 0) {
        return false;
    }
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH};
    for (uint32_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        sigaction(numbers[i], &action, NULL);
    }
    struct termios raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    raw.c_cc[VSUSP] = _POSIX_VDISABLE;
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    fputs(ENTER, stdout);
    fflush(stdout);
    return true;
}

void terminal_close(void)
{
    fputs(LEAVE, stdout);
    fflush(stdout);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

void terminal_size(uint32_t *columns, uint32_t *lines)
{
    struct winsize size = {0};
    bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    *columns = is_known ? size.ws_col : 80;
    *lines = is_known && size.ws_row > 0 ? size.ws_row : 24;
    resized = 0;
}

char terminal_key(uint32_t milliseconds)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char key = 0;
    if (ends || resized || poll(&input, 1, (int)milliseconds) <= 0) {
        return 0;
    }
    if (read(STDIN_FILENO, &key, 1) != 1) {
        ends = 1;                       /* the terminal is gone */
    }
    return key;
}

bool terminal_ends(void)
{
    return ends;
}
