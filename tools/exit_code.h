/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the exit codes that all our tools share. `agx` has more: tools/agx/command.h. */

enum exit_code {
    EXIT_COMPLETE = 0,
    EXIT_SYSTEM = 1,        /* this machine: memory, files, output */
    EXIT_USAGE = 2,         /* the command line */
};
