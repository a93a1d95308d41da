/* SPDX-License-Identifier: MIT */
#include "tools/agx/agents/verdict.h"

#include <inttypes.h>
#include <string.h>

/*
 * What: means and their ratios. Every figure is of this run. A side that is slower is said to be
 * slower: the words follow from the figures. Means, because a median would hide the one long
 * program that pays for the others.
 */

#define EVEN    1.005           /* ratios below are "just as long" */
#define PHRASE  48              /* bytes */

/* ---- figures --------------------------------------------------------------------------------- */

static uint32_t count_of(const struct verdict *verdict, bool is_long)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < verdict->count; i++) {
        count += verdict->programs[i].is_long == is_long;
    }
    return count;
}

uint64_t verdict_mean(const struct verdict *verdict, uint32_t side, bool is_long)
{
    uint64_t sum_us = 0;
    for (uint32_t i = 0; i < verdict->count; i++) {
        const struct verdict_program *program = &verdict->programs[i];
        sum_us += program->is_long == is_long ? program->parts[side].took_us : 0;
    }
    uint32_t count = count_of(verdict, is_long);
    return count > 0 ? sum_us / count : 0;
}

static bool is_same(const struct verdict_program *program)
{
    const struct verdict_part *a = &program->parts[0], *b = &program->parts[1];
    return a->calls == b->calls && a->tokens == b->tokens && a->digest == b->digest;
}

bool verdict_is_same(const struct verdict *verdict)
{
    for (uint32_t i = 0; i < verdict->count; i++) {
        if (!is_same(&verdict->programs[i])) {
            return false;
        }
    }
    return true;
}

/* ---- words ----------------------------------------------------------------------------------- */

/* "done 3.1 times as soon": the second side's time, compared with that of the first. True when it
 * is sooner; `done` is the verb for that. */
static bool phrase(const uint64_t us[VERDICT_SIDES], const char *done, char text[PHRASE])
{
    double first = (double)(us[0] > 0 ? us[0] : 1), second = (double)(us[1] > 0 ? us[1] : 1);
    double ratio = first > second ? first / second : second / first;
    int digits = ratio < 2 ? 2 : ratio < 10 ? 1 : 0;
    bool is_sooner = first > second && ratio >= EVEN;
    if (ratio < EVEN) {
        snprintf(text, PHRASE, "took just as long");
    } else if (is_sooner) {
        snprintf(text, PHRASE, "%s%.*f times as soon", done, digits, ratio);
    } else {
        snprintf(text, PHRASE, "took %.*f times as long", digits, ratio);
    }
    return is_sooner;
}

static void print_mean(const struct verdict *verdict, bool is_long, FILE *out)
{
    char text[PHRASE], what[40];
    uint64_t us[VERDICT_SIDES];
    if (count_of(verdict, is_long) == 0) {
        return;
    }
    for (uint32_t side = 0; side < VERDICT_SIDES; side++) {
        us[side] = verdict_mean(verdict, side, is_long);
    }
    snprintf(what, sizeof what, "%" PRIu32 " %s agents, mean", count_of(verdict, is_long),
             is_long ? "long" : "short");
    (void)phrase(us, "done ", text);
    fprintf(out, "%-24s %8.2f s %8.2f s   %s\n", what, (double)us[0] / 1e6, (double)us[1] / 1e6,
            text);
}

static void print_tokens(const struct verdict *verdict, FILE *out)
{
    uint32_t tokens = 0, right = 0, tasks = 0;
    for (uint32_t i = 0; i < verdict->count; i++) {
        const struct verdict_program *program = &verdict->programs[i];
        tokens += program->parts[0].tokens;
        right += program->parts[0].right;
        tasks += program->tasks;
        if (!is_same(program)) {
            fprintf(out, "%s: DIFFERENT TOKENS on the two sides (%" PRIu32 " and %" PRIu32 ")\n",
                    program->name, program->parts[0].tokens, program->parts[1].tokens);
        }
    }
    if (verdict_is_same(verdict)) {
        fprintf(out, "the same %" PRIu32 " tokens on both sides, all verified; %" PRIu32 " of %"
                PRIu32 " answers right\n", tokens, right, tasks);
    }
}

/* One of two groups may be missing. */
static void print_sentence(const struct verdict *verdict, FILE *out)
{
    const char *separator = "", *done = "were done ";
    for (uint32_t is_long = 0; is_long < 2; is_long++) {
        char text[PHRASE];
        uint64_t us[VERDICT_SIDES];
        for (uint32_t side = 0; side < VERDICT_SIDES; side++) {
            us[side] = verdict_mean(verdict, side, is_long != 0);
        }
        if (count_of(verdict, is_long != 0) > 0) {
            done = phrase(us, done, text) ? "" : done;      /* the verb is said once */
            fprintf(out, "%s%s %s", separator,
                    !is_long ? "Short agents" : *separator != '\0' ? "long ones" : "Long agents",
                    text);
            separator = "; ";
        }
    }
    fprintf(out, ".\n");
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void print_head(const struct verdict *verdict, const char *first, FILE *out)
{
    fprintf(out, "%-24s", first);
    for (uint32_t side = 0; side < VERDICT_SIDES; side++) {
        fprintf(out, " %10.10s", verdict->titles[side]);
    }
}

void verdict_print_programs(const struct verdict *verdict, FILE *out)
{
    print_head(verdict, "agent", out);
    fprintf(out, "   kind  calls tokens answers\n");
    for (uint32_t i = 0; i < verdict->count; i++) {
        const struct verdict_program *program = &verdict->programs[i];
        const struct verdict_part *part = program->parts;
        fprintf(out, "%-24.24s %8.2f s %8.2f s   %-5s %5" PRIu32 " %6" PRIu32 " %" PRIu32 "/%"
                PRIu32 "%s\n", program->name, (double)part[0].took_us / 1e6,
                (double)part[1].took_us / 1e6, program->is_long ? "long" : "short", part[0].calls,
                part[0].tokens, part[0].right, program->tasks,
                part[0].right == program->tasks ? "" : " WRONG");
    }
}

void verdict_print(const struct verdict *verdict, FILE *out)
{
    print_head(verdict, "", out);
    fprintf(out, "\n");
    print_mean(verdict, false, out);
    print_mean(verdict, true, out);
    fprintf(out, "%-24s %8.2f s %8.2f s\n", "all done after", (double)verdict->all_us[0] / 1e6,
            (double)verdict->all_us[1] / 1e6);
    print_tokens(verdict, out);
    if (verdict_is_same(verdict)) {
        print_sentence(verdict, out);
    }
}
