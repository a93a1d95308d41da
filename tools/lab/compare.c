/* SPDX-License-Identifier: MIT */
/*
 * What: comparisons. Every run starts anew from the same settings; the runs share the trace.
 *
 * The search for the highest rate doubles the first rate until the mean token latency is above the
 * bound, or halves it until it is not; then it bisects on a logarithmic scale to 1 %. A run with a
 * refused call counts as above. Latency need not grow with the rate everywhere: the search finds
 * one crossing, the same one for the same seed.
 * Bounds: at most DOUBLINGS_MAX + BISECTIONS runs for each system.
 */
#include "tools/lab/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/lab/report.h"

#define COMPARE_MAX    8
#define NAME_BYTES     32
#define DOUBLINGS_MAX  12
#define RATE_PRECISION 1.01

int compare_choose(struct lab_settings *settings, const char *name, enum compare_kind kind)
{
    /* `mlfq` names both a system and a policy: the system is vllm-opt with that policy. */
    if (kind != COMPARE_POLICY && lab_system_exists(name)) {
        settings->system = name;
        return LAB_EXIT_OK;
    }
    if (kind != COMPARE_SYSTEM && lab_policy_exists(name)) {
        settings->policy = name;
        return LAB_EXIT_OK;
    }
    fprintf(stderr, "agentix-lab: '%s' is none of %s%s%s\n", name,
            kind != COMPARE_POLICY ? lab_systems() : "", kind == COMPARE_ANY ? ", " : "",
            kind != COMPARE_SYSTEM ? lab_policies() : "");
    return LAB_EXIT_USAGE;
}

struct contestant {
    char name[NAME_BYTES];
    struct lab_settings settings;
};

static int split(struct contestant *contestants, uint32_t *count,
                 const struct lab_settings *settings, const char *names)
{
    const char *at = names;
    *count = 0;
    do {
        size_t length = strcspn(at, ",");
        if (*count == COMPARE_MAX || length == 0 || length >= NAME_BYTES) {
            fprintf(stderr, "agentix-lab: --compare: '%s' is not 1 to %d names\n", names,
                    COMPARE_MAX);
            return LAB_EXIT_USAGE;
        }
        struct contestant *contestant = &contestants[(*count)++];
        *contestant = (struct contestant){.settings = *settings};
        memcpy(contestant->name, at, length);
        int code = compare_choose(&contestant->settings, contestant->name, COMPARE_ANY);
        if (code != LAB_EXIT_OK) {
            return code;
        }
        at += length + (at[length] == ',');
    } while (*at != '\0');
    return LAB_EXIT_OK;
}

struct search {
    const struct contestant *contestant;
    const struct trace *trace;
    double slo;
    int code;
};

static bool sustains(struct search *search, double rate)
{
    struct lab_settings settings = search->contestant->settings;
    struct lab_result result;
    settings.rate = rate;
    settings.offline = false;
    int code = lab_run(&settings, search->trace, &result);
    if (code != LAB_EXIT_OK && code != LAB_EXIT_REFUSED) {
        search->code = code;
        return false;
    }
    return code == LAB_EXIT_OK && result.all.token.mean <= search->slo;
}

/* 0: the system does not sustain even the slowest rate that was tried. */
static double highest_rate(struct search *search, double rate)
{
    double low = 0, high = 0;
    for (uint32_t i = 0; i < DOUBLINGS_MAX && search->code == LAB_EXIT_OK; i++) {
        if (sustains(search, rate)) {
            low = rate;
            rate *= 2;
        } else {
            high = rate;
            rate /= 2;
        }
        if (low > 0 && high > 0) {
            break;
        }
    }
    while (low > 0 && high > low * RATE_PRECISION && search->code == LAB_EXIT_OK) {
        double middle = sqrt(low * high);
        if (sustains(search, middle)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static int print_rates(const struct contestant *contestants, uint32_t count,
                       const struct trace *trace, double slo, double first_rate)
{
    printf("\nhighest rate at a mean token latency of %.4f s (programs a second)\n", slo);
    for (uint32_t i = 0; i < count; i++) {
        struct search search = {.contestant = &contestants[i], .trace = trace, .slo = slo};
        double rate = highest_rate(&search, first_rate);
        if (search.code != LAB_EXIT_OK) {
            return search.code;
        }
        printf("  %-26s %12.4f\n", contestants[i].name, rate);
        fflush(stdout);
    }
    return LAB_EXIT_OK;
}

int compare_run(const struct lab_settings *settings, const struct trace *trace, const char *names,
                double slo)
{
    struct contestant contestants[COMPARE_MAX];
    struct lab_result results[COMPARE_MAX];
    uint32_t count;
    int worst = LAB_EXIT_OK, code = split(contestants, &count, settings, names);
    for (uint32_t i = 0; i < count && code == LAB_EXIT_OK; i++) {
        code = lab_run(&contestants[i].settings, trace, &results[i]);
        worst = code == LAB_EXIT_REFUSED ? code : worst;
        code = code == LAB_EXIT_REFUSED ? LAB_EXIT_OK : code;
    }
    if (code != LAB_EXIT_OK) {
        return code;
    }
    printf("%s on %s, %u programs, %.4f a second\n\n", settings->trace_path, results[0].cost,
           (unsigned)results[0].programs, results[0].rate);
    report_compare(results, count, stdout);
    if (slo > 0) {
        code = print_rates(contestants, count, trace, slo,
                           results[0].rate > 0 ? results[0].rate : 1);
    }
    return code != LAB_EXIT_OK ? code : worst;
}
