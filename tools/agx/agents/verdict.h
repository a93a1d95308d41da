/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the same programs on two sides, compared: how long each took, whether both sides computed
 * the same tokens, and one sentence. A program of several tasks is a long one.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define VERDICT_SIDES        2
#define VERDICT_PROGRAMS_MAX 40

struct verdict_program {
    const char *name;
    bool is_long;
    uint32_t tasks;
    struct verdict_part { uint32_t calls, tokens, right; uint64_t digest, took_us; }
        parts[VERDICT_SIDES];
};
struct verdict {
    const char *titles[VERDICT_SIDES];
    struct verdict_program programs[VERDICT_PROGRAMS_MAX];
    uint32_t count;
    uint64_t all_us[VERDICT_SIDES];     /* until the last program was done */
};

/* True when every program computed the same calls and tokens on both sides. */
bool verdict_is_same(const struct verdict *verdict);
/* Microseconds: of the long programs, or of the short ones; 0 if there are none. */
uint64_t verdict_mean(const struct verdict *verdict, uint32_t side, bool is_long);
/* A line for each program. */
void verdict_print_programs(const struct verdict *verdict, FILE *out);
/* VERDICT_LINES lines: means, tokens, and the sentence as the last one. A verdict that is not the
 * same names the programs that differ instead, and has no sentence. */
#define VERDICT_LINES 6
void verdict_print(const struct verdict *verdict, FILE *out);
