/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the appliance as the first process of a machine of its own (tools/image, docs/image.md). It
 * brings the machine up, has it tested, runs the keeper as a child, and powers the machine off.
 */
#include <stdbool.h>

/* True when the kernel has started this program as its first process, by the name "init". In a
 * container it may have number 1, too, but another name. */
bool init_is_wanted(char **argv);
/* The words after the first are options of the appliance. */
_Noreturn void init_run(char **argv);
