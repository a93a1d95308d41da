/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a run as a table (--calls-out): CSV, a line for each call, in the order of their ends. */
#include <stdio.h>

struct lab;
struct wire_done;

/* NULL after a message. */
FILE *calls_open(const char *path);
/* 0, or an exit code after a message: not all could be written. */
int calls_close(FILE *file);
/* The call's DONE has come. */
void calls_write(const struct lab *lab, const struct wire_done *done);
