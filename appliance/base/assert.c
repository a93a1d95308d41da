/* SPDX-License-Identifier: MIT */
#include "appliance/base/assert.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Only async-signal-safe calls: the state of the process is not to be trusted any more. */
static void write_text(const char *text)
{
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

_Noreturn void assert_failed(const char *condition, const char *file, int line)
{
    char digits[12];
    int at = (int)sizeof digits - 1;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + line % 10);
        line /= 10;
    } while (line > 0 && at > 0);
    write_text(file);
    write_text(":");
    write_text(digits + at);
    write_text(": assertion failed: ");
    write_text(condition);
    write_text("\n");
    abort();
}
