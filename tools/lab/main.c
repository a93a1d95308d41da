/* SPDX-License-Identifier: MIT */
/*
 * What: `agentix-lab`: the command line. docs/lab.md tells what the figures mean.
 */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/lab/compare.h"
#include "tools/lab/lab.h"
#include "tools/lab/report.h"

static const char help[] =
    "usage: agentix-lab --trace FILE [OPTION]...\n"
    "\n"
    "Runs the programs of a trace through the appliance's own scheduler in virtual time.\n"
    "\n"
    "  --trace FILE            programs, in the format agentix-trace 1\n"
    "  --system NAME           vllm, vllm-opt, mlfq or agentix (default)\n"
    "  --policy NAME           %s; the rest as\n"
    "                          in the system\n"
    "  --compare NAME,NAME...  systems and policies side by side\n"
    "  --slo SECONDS           with --compare: the highest rate at this mean token latency\n"
    "  --rate R                programs a second (default: the trace's)\n"
    "  --offline               all programs at time 0\n"
    "  --programs N            the first N; more than the trace has: it repeats\n"
    "  --seed S                deals the programs anew over the arrival times (0: as traced)\n"
    "  --cost PRESET           unit, a100-llama-3.1-8b (default), h200-llama-3.1-8b,\n"
    "                          h200-llama-3.1-70b-fp8, cpu\n"
    "  --set section.key=value an option of the appliance; may be repeated\n"
    "  --no-prefix-sharing     each call computes its whole prompt\n"
    "  --block-copies          each KV block moves between the tiers by itself, as in\n"
    "                          vLLM 0.6.1, not in bulk with the others of its step\n"
    "  --demoted-to-head       a demoted call goes before those that wait in its new queue\n"
    "  --json FILE             the result as one JSON object\n"
    "  --trace-out FILE        waits, runs and gaps of each program, and the engine's slots,\n"
    "                          for Perfetto\n"
    "  --calls-out FILE        a line for each call, as CSV: waiting, service, tokens, swaps\n"
    "  --timing                with --json: what the scheduler took on this machine, too\n";

enum { OPTION_TRACE = 1, OPTION_SYSTEM, OPTION_POLICY, OPTION_COMPARE, OPTION_SLO, OPTION_RATE,
       OPTION_OFFLINE, OPTION_PROGRAMS, OPTION_SEED, OPTION_COST, OPTION_SET, OPTION_NO_SHARING,
       OPTION_TO_HEAD, OPTION_BLOCK_COPIES, OPTION_JSON, OPTION_TIMING, OPTION_TRACE_OUT,
       OPTION_CALLS_OUT, OPTION_HELP };

static const struct option words[] = {
    {"trace", required_argument, NULL, OPTION_TRACE},
    {"system", required_argument, NULL, OPTION_SYSTEM},
    {"policy", required_argument, NULL, OPTION_POLICY},
    {"compare", required_argument, NULL, OPTION_COMPARE},
    {"slo", required_argument, NULL, OPTION_SLO},
    {"rate", required_argument, NULL, OPTION_RATE},
    {"offline", no_argument, NULL, OPTION_OFFLINE},
    {"programs", required_argument, NULL, OPTION_PROGRAMS},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"cost", required_argument, NULL, OPTION_COST},
    {"set", required_argument, NULL, OPTION_SET},
    {"no-prefix-sharing", no_argument, NULL, OPTION_NO_SHARING},
    {"demoted-to-head", no_argument, NULL, OPTION_TO_HEAD},
    {"block-copies", no_argument, NULL, OPTION_BLOCK_COPIES},
    {"json", required_argument, NULL, OPTION_JSON},
    {"timing", no_argument, NULL, OPTION_TIMING},
    {"trace-out", required_argument, NULL, OPTION_TRACE_OUT},
    {"calls-out", required_argument, NULL, OPTION_CALLS_OUT},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

struct words {
    struct lab_settings settings;
    const char *json, *compare;
    double slo;
    bool timing, helped;
};

static int refuse(const char *option, const char *text, const char *wanted)
{
    fprintf(stderr, "agentix-lab: %s: '%s' is not %s\n", option, text, wanted);
    return LAB_EXIT_USAGE;
}

static int read_positive(const char *option, const char *text, double *value)
{
    char *end = NULL;
    *value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(*value) || *value <= 0) {
        return refuse(option, text, "a number above 0");
    }
    return LAB_EXIT_OK;
}

static int read_whole(const char *option, const char *text, uint64_t max, uint64_t *value)
{
    char *end = NULL;
    *value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || *value > max) {
        return refuse(option, text, "a whole number in range");
    }
    return LAB_EXIT_OK;
}

static int set_cost(struct lab_settings *settings, const char *text)
{
    settings->cost = cost_find(text);
    return settings->cost != NULL ? LAB_EXIT_OK : refuse("--cost", text, cost_names());
}

static int add_set(struct lab_settings *settings, const char *text)
{
    if (settings->sets_count == LAB_SETS_MAX) {
        return refuse("--set", text, "possible: there are too many already");
    }
    settings->sets[settings->sets_count++] = text;
    return LAB_EXIT_OK;
}

static int take_number(struct words *read, int option, const char *text)
{
    uint64_t number = 0;
    int code = LAB_EXIT_OK;
    switch (option) {
    case OPTION_SLO:
        return read_positive("--slo", text, &read->slo);
    case OPTION_RATE:
        return read_positive("--rate", text, &read->settings.rate);
    case OPTION_PROGRAMS:
        code = read_whole("--programs", text, 1u << 24, &number);
        read->settings.programs = (uint32_t)number;
        return code;
    default:
        return read_whole("--seed", text, UINT64_MAX, &read->settings.seed);
    }
}

static int take_option(struct words *read, int option, const char *text)
{
    struct lab_settings *settings = &read->settings;
    switch (option) {
    case OPTION_TRACE:
        settings->trace_path = text;
        return LAB_EXIT_OK;
    case OPTION_SYSTEM:
        return compare_choose(settings, text, COMPARE_SYSTEM);
    case OPTION_POLICY:
        return compare_choose(settings, text, COMPARE_POLICY);
    case OPTION_COMPARE:
        read->compare = text;
        return LAB_EXIT_OK;
    case OPTION_OFFLINE:
        settings->offline = true;
        return LAB_EXIT_OK;
    case OPTION_COST:
        return set_cost(settings, text);
    case OPTION_SET:
        return add_set(settings, text);
    case OPTION_NO_SHARING:
        settings->no_sharing = true;
        return LAB_EXIT_OK;
    case OPTION_TO_HEAD:
        settings->demoted_to_head = true;
        return LAB_EXIT_OK;
    case OPTION_JSON:
        read->json = text;
        return LAB_EXIT_OK;
    case OPTION_TRACE_OUT:
        settings->timeline_path = text;
        return LAB_EXIT_OK;
    case OPTION_CALLS_OUT:
        settings->calls_path = text;
        return LAB_EXIT_OK;
    case OPTION_BLOCK_COPIES:
        settings->block_copies = true;
        return LAB_EXIT_OK;
    case OPTION_TIMING:
        read->timing = true;
        return LAB_EXIT_OK;
    case OPTION_HELP:
        read->helped = true;
        return LAB_EXIT_OK;
    default:
        return take_number(read, option, text);
    }
}

static int parse(struct words *read, int argc, char **argv)
{
    int option, code = LAB_EXIT_OK;
    read->settings = (struct lab_settings){.system = "agentix",
                                           .cost = cost_find("a100-llama-3.1-8b")};
    while (code == LAB_EXIT_OK && (option = getopt_long(argc, argv, "", words, NULL)) != -1) {
        code = option == '?' ? LAB_EXIT_USAGE : take_option(read, option, optarg);
    }
    if (code != LAB_EXIT_OK || read->helped) {
        return code;
    }
    if (optind < argc) {
        return refuse("agentix-lab", argv[optind], "an option; see --help");
    }
    if (read->settings.trace_path == NULL) {
        fprintf(stderr, "agentix-lab: --trace FILE is missing; see --help\n");
        return LAB_EXIT_USAGE;
    }
    if (read->slo > 0 && read->compare == NULL) {
        fprintf(stderr, "agentix-lab: --slo goes with --compare\n");
        return LAB_EXIT_USAGE;
    }
    if (read->compare != NULL && (read->json != NULL || read->settings.timeline_path != NULL ||
                                  read->settings.calls_path != NULL)) {
        fprintf(stderr, "agentix-lab: --json, --trace-out and --calls-out are of one run, not of "
                        "--compare\n");
        return LAB_EXIT_USAGE;
    }
    return LAB_EXIT_OK;
}

static int run_one(const struct words *read, const struct trace *trace)
{
    struct lab_result result;
    int code = lab_run(&read->settings, trace, &result);
    if (code != LAB_EXIT_OK && code != LAB_EXIT_REFUSED) {
        return code;
    }
    report_print(&result, stdout);
    if (read->json != NULL) {
        int written = report_write_json(&result, read->timing, read->json);
        code = written != LAB_EXIT_OK ? written : code;
    }
    return code;
}

int main(int argc, char **argv)
{
    static struct words read;
    struct trace trace;
    int code = parse(&read, argc, argv);
    if (code != LAB_EXIT_OK || read.helped) {
        if (read.helped) {
            printf(help, lab_policies());
        }
        return code;
    }
    code = trace_load(&trace, read.settings.trace_path);
    if (code != 0) {
        return code;
    }
    if (read.compare != NULL) {
        code = compare_run(&read.settings, &trace, read.compare, read.slo);
    } else {
        code = run_one(&read, &trace);
    }
    trace_free(&trace);
    return code;
}
