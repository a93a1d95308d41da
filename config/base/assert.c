/* SPDX-License-Identifier: MIT */
#include "config/base/assert.h"

#include "config/base/say.h"

/* Only async-signal-safe calls: the state of the process is not to be trusted any more. It ends by
 * an instruction that does not exist, which no filter of system calls can refuse: abort() makes
 * four, and would die of the first. */
_Noreturn void assert_failed(const char *condition, const char *file, int line)
{
    char digits[12];
    int at = (int)sizeof digits - 1;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + line % 10);
        line /= 10;
    } while (line > 0 && at > 0);
    say(file);
    say(":");
    say(digits + at);
    say(": assertion failed: ");
    say(condition);
    say("\n");
    __builtin_trap();
}
