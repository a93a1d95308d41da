/* SPDX-License-Identifier: MIT */
#pragma once
/* What: several systems or policies on the same trace, and the highest rate that each sustains. */
#include "tools/lab/lab.h"

enum compare_kind { COMPARE_SYSTEM, COMPARE_POLICY, COMPARE_ANY };
/* Sets system or policy by name; LAB_EXIT_USAGE after a message that lists the names. */
int compare_choose(struct lab_settings *settings, const char *name, enum compare_kind kind);
/* Runs each of `names` ("plas,mlfq,vllm") and prints them side by side; with `slo` > 0 also the
 * highest rate at which each one's mean token latency is at most `slo`. An exit code. */
int compare_run(const struct lab_settings *settings, const struct trace *trace, const char *names,
                double slo);
