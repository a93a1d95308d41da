/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a run as tables, CSV with a header: a line for each call in the order of their ends
 * (--calls-out), a line for each program in the order of arrival (--programs-out). docs/lab.md
 * names the columns. And its programs as samples for tools/predict, a line of JSON each
 * (--samples-out): docs/predictor.md.
 */
#include <stdio.h>

struct lab;
struct lab_settings;
struct wire_done;

struct tables {
    FILE *calls, *programs, *samples;   /* NULL: not written */
};

/* 0, or an exit code after a message. */
int tables_open(struct tables *tables, const struct lab_settings *settings);
/* 0, or an exit code after a message: not all could be written. */
int tables_close(struct tables *tables);
/* The call's DONE has come. */
void tables_call(const struct lab *lab, const struct wire_done *done);
/* The run is over. 0, or an exit code after a message. */
int tables_programs(struct lab *lab);
