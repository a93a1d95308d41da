/* SPDX-License-Identifier: MIT */
/*
 * What: `agentix-lab`: the command line. docs/lab.md tells what the figures mean.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config/base/assert.h"
#include "tools/command_line.h"
#include "tools/lab/compare.h"
#include "tools/lab/lab.h"
#include "tools/lab/report.h"

#define RATE_MIN 1e-9       /* programs a second; for --slo, seconds */
#define RATE_MAX 1e9
#define COST_ERROR_MAX 1e6
#define DEATH_S_MAX 1e9     /* DEATHS_WANTED says both */
#define DEATH_S_MIN 1e-6

#define DEATHS_WANTED "I@T+D: engine I below --engines, T from 0 to 1e9 seconds, D from 1e-6 to 1e9"

#define AS_PRESET (-1.0)

static struct words {
    struct lab_settings settings;
    struct cost_model machine;      /* the preset, with what the command line changes in it */
    struct drafts drafts;           /* of --speculate */
    struct argument_choice prefix_reads, copies, predict;
    double overlap;
    struct argument_texts sets, flows, rows, kills;
    const char *system, *policy, *cost, *json, *compare, *speculate;
    double slo;
    bool timing;
} words = {
    .settings = {.order = "auto", .flow = {.clients = 1}},
    .system = "agentix", .cost = "a100-llama-3.1-8b", .overlap = AS_PRESET,
    .prefix_reads = {.words = (const char *const[]){"preset", "once", "each", NULL}},
    .copies = {.words = (const char *const[]){"preset", "serial", "streams", "needed", NULL}},
    .predict = {.words = (const char *const[]){"oracle", "class", "name", "file", "none", NULL}},
};

/* Every word comes after a comma. */
static const char policy_help[] =
#define POLICY(name, word, ...) ", " word
#include "config/policies.def"
    "; the rest as\nin the system";

static const struct argument rows[] = {
    {"--flow", "FILE", ARGUMENT_TEXTS, &words.flows, 0, LAB_BATCHES_MAX,
     "instead of a trace: a workflow, in the format agentix-flow 1"},
    {"--rows", "FILE", ARGUMENT_TEXTS, &words.rows, 0, LAB_BATCHES_MAX,
     "of --flow: its rows, TSV with cells NAME:TOKENS; repeated: the\n"
     "next batch, when the one before has ended; of the next --flow,\n"
     "or of the same, where there is one"},
    {"--mix", "", ARGUMENT_FLAG, &words.settings.flow.mix, 0, 0,
     "of --flow: the clients of all batches together, in a drawn order"},
    {"--order", "NAME", ARGUMENT_TEXT, &words.settings.order, 0, 0,
     "of --flow: auto (default), helium, lspf, arrival, opwise,\nquerywise or random"},
    {"--clients", "N", ARGUMENT_U32, &words.settings.flow.clients, 1, 256,
     "of --flow: a batch's rows are dealt to N clients (1), which\n"
     "arrive at --rate, or all at once"},
    {"--trace", "FILE", ARGUMENT_TEXT, &words.settings.trace_path, 0, 0,
     "programs, in the format agentix-trace 1 or one of others"},
    {"--form", "NAME", ARGUMENT_TEXT, &words.settings.trace_options.form, 0, 0,
     "of --trace: " TRACE_FORMS "\n(default: the one that the file has; docs/traces.md)"},
    {"--context-max", "TOKENS", ARGUMENT_U32, &words.settings.trace_options.context_max, 1,
     UINT32_MAX, "leave out programs with a longer prompt and output"},
    {"--system", "NAME", ARGUMENT_TEXT, &words.system, 0, 0,
     "vllm, vllm-opt, mlfq or agentix (default)"},
    {"--policy", "NAME", ARGUMENT_TEXT, &words.policy, 0, 0, &policy_help[sizeof ", " - 1]},
    {"--compare", "NAME,NAME...", ARGUMENT_TEXT, &words.compare, 0, 0,
     "systems and policies side by side"},
    {"--slo", "SECONDS", ARGUMENT_F64, &words.slo, RATE_MIN, RATE_MAX,
     "with --compare: the highest rate at this mean token latency"},
    {"--rate", "R", ARGUMENT_F64, &words.settings.rate, RATE_MIN, RATE_MAX,
     "programs a second (default: the trace's)"},
    {"--sessions", "N", ARGUMENT_U32, &words.settings.sessions, 1, 1 << 20,
     "a closed load: N programs are open, and a new one starts\nwhen one ends"},
    {"--gap-max", "SECONDS", ARGUMENT_F64, &words.settings.gap_s_max, RATE_MIN, RATE_MAX,
     "a gap of the trace is no longer than this"},
    {"--offline", "", ARGUMENT_FLAG, &words.settings.offline, 0, 0, "all programs at time 0"},
    {"--programs", "N", ARGUMENT_U32, &words.settings.programs, 1, 1 << 24,
     "the first N (default: all); more than the trace has: it repeats"},
    {"--seed", "S", ARGUMENT_U64, &words.settings.seed, 0, 0,
     "deals the programs anew over the arrival times (0: as traced)"},
    {"--engines", "E", ARGUMENT_U32, &words.settings.engines, 1, WORLD_ENGINES_MAX,
     "so many engines, each a machine of its own (1); rates and loads\n"
     "are of all together"},
    {"--kill-engine", "I@T+D", ARGUMENT_TEXTS, &words.kills, 0, LAB_DEATHS_MAX,
     "engine I, from 0, dies T seconds after the start and is back\n"
     "after D seconds; may be repeated, for an engine that is back"},
    {"--cost", "PRESET", ARGUMENT_TEXT, &words.cost, 0, 0,
     "unit, a100-llama-3.1-8b (default), a100-llama-2-7b,\n"
     "h200-llama-3.1-8b, h200-llama-3.1-70b-fp8, cpu"},
    {"--overlap", "X", ARGUMENT_F64, &words.overlap, 0, 1,
     "of reading memory and computing, instead of the preset's:\n"
     "1 beside each other, 0 in turns"},
    {"--prefix-reads", "HOW", ARGUMENT_CHOICE, &words.prefix_reads, 0, 0,
     "what rows share is read once a round, or for each row:\npreset (default), once, each"},
    {"--copies", "HOW", ARGUMENT_CHOICE, &words.copies, 0, 0,
     "which copies between the tiers run beside what: preset\n"
     "(default), serial, streams, needed"},
    {"--speculate", "FILE", ARGUMENT_TEXT, &words.speculate, 0, 0,
     "the engine makes drafts, which bring what the table in the file\n"
     "says of classes (docs/lab.md); sched.speculate is 7"},
    {"--predict", "HOW", ARGUMENT_CHOICE, &words.predict, 0, 0,
     "what is told of a program that begins: oracle (default), its\n"
     "cost as the trace knows it; class, its class, which has a past;\n"
     "name, its class, which has none; file, the same, and\n"
     "sched.predictor knows classes; none"},
    {"--cost-error", "L", ARGUMENT_F64, &words.settings.cost_error, 1, COST_ERROR_MAX,
     "with oracle: the cost times a factor drawn between 1/L and L"},
    {"--equal-host", "", ARGUMENT_FLAG, &words.settings.equal_host, 0, 0,
     "the host of every system takes as long as ours"},
    {"--set", "section.key=value", ARGUMENT_TEXTS, &words.sets, 0, LAB_SETS_MAX,
     "an option of the appliance; may be repeated"},
    {"--no-prefix-sharing", "", ARGUMENT_FLAG, &words.settings.no_sharing, 0, 0,
     "each call computes its whole prompt"},
    {"--block-copies", "", ARGUMENT_FLAG, &words.settings.block_copies, 0, 0,
     "each KV block moves between the tiers by itself, as in\n"
     "vLLM 0.6.1, not in bulk with the others of its step"},
    {"--demoted-to-head", "", ARGUMENT_FLAG, &words.settings.demoted_to_head, 0, 0,
     "a demoted call goes before those that wait in its new queue"},
    {"--tenants", "", ARGUMENT_FLAG, &words.settings.tenants, 0, 0,
     "each class of the trace is a trust domain of its own: a user of\n"
     "the socket, numbered from 1 in the order in which they first come"},
    {"--json", "FILE", ARGUMENT_TEXT, &words.json, 0, 0, "the result as one JSON object"},
    {"--trace-out", "FILE", ARGUMENT_TEXT, &words.settings.timeline_path, 0, 0,
     "waits, runs and gaps of each program, and the engine's slots,\nfor Perfetto"},
    {"--calls-out", "FILE", ARGUMENT_TEXT, &words.settings.calls_path, 0, 0,
     "a line for each call, as CSV: waiting, service, tokens, swaps"},
    {"--programs-out", "FILE", ARGUMENT_TEXT, &words.settings.programs_path, 0, 0,
     "a line for each program, as CSV: arrival, finish, cost"},
    {"--samples-out", "FILE", ARGUMENT_TEXT, &words.settings.samples_path, 0, 0,
     "a line for each program, for tools/predict: class, first prompt,\ncost"},
    {"--timing", "", ARGUMENT_FLAG, &words.timing, 0, 0,
     "with --json: what the scheduler took on this machine, too"},
};
static const struct command_line line = {
    .program = "agentix-lab", .usage = "--trace FILE [OPTION]...",
    .purpose =
        "Runs the programs of a trace through the appliance's own scheduler in virtual time.",
    .rows = rows, .rows_count = sizeof rows / sizeof rows[0]};

STATIC_ASSERT(LAB_SETS_MAX <= ARGUMENT_TEXTS_MAX, "all of --set fit");

static int check_words(void)
{
    const struct lab_settings *settings = &words.settings;
    const char *problem = NULL;
    if ((settings->trace_path == NULL) == (words.flows.count == 0)) {
        problem = "--trace FILE or --flow FILE is needed; see --help";
    } else if (words.flows.count == 1 ? words.rows.count == 0
                                      : words.rows.count != words.flows.count) {
        problem = "every --flow goes with --rows";
    } else if (words.flows.count > 0 && (words.compare != NULL || settings->tenants)) {
        problem = "--compare and --tenants go with --trace";
    } else if (settings->sessions > 0 &&
               (settings->rate > 0 || settings->offline || words.slo > 0)) {
        problem = "--sessions is another load than --rate, --offline and --slo";
    } else if (settings->offline && settings->rate > 0) {
        problem = "--offline is another load than --rate";
    } else if (words.slo > 0 && words.compare == NULL) {
        problem = "--slo goes with --compare";
    } else if (words.compare != NULL && (words.json != NULL || settings->timeline_path != NULL ||
                                         settings->calls_path != NULL ||
                                         settings->programs_path != NULL ||
                                         settings->samples_path != NULL)) {
        problem = "--json, --trace-out, --calls-out, --programs-out and --samples-out are of one "
                  "run, not of --compare";
    } else if (words.speculate != NULL && words.flows.count > 0) {
        problem = "--speculate goes with --trace";
    } else if (settings->cost_error > 0 && settings->predict != LAB_PREDICT_ORACLE) {
        problem = "--cost-error goes with --predict oracle";
    }
    if (problem != NULL) {
        fprintf(stderr, "agentix-lab: %s\n", problem);
    }
    return problem != NULL ? LAB_EXIT_USAGE : ARGUMENT_GO_ON;
}

/* "I@T+D", in seconds. */
static bool read_death(struct lab_death *death, const char *text)
{
    double at_s, for_s;
    int end = 0;
    uint64_t engine, engines = words.settings.engines > 0 ? words.settings.engines : 1;
    bool is_read = sscanf(text, "%" SCNu64 "@%lf+%lf%n", &engine, &at_s, &for_s, &end) == 3;
    if (!is_read || text[end] != '\0' || engine >= engines ||
        !(at_s >= 0 && at_s <= DEATH_S_MAX) || !(for_s >= DEATH_S_MIN && for_s <= DEATH_S_MAX)) {
        return false;
    }
    death->engine = (uint32_t)engine;
    death->at_us = (uint64_t)(at_s * 1e6 + 0.5);
    death->for_us = (uint64_t)(for_s * 1e6 + 0.5);
    return true;
}

/* An engine cannot die while it is dead, nor in the moment in which it is back. */
static bool overlap(const struct lab_death *one, const struct lab_death *other)
{
    return one->engine == other->engine && one->at_us <= other->at_us + other->for_us &&
           other->at_us <= one->at_us + one->for_us;
}

static int check_deaths(const struct lab_settings *settings)
{
    for (uint32_t i = 0; i < settings->deaths_count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (overlap(&settings->deaths[i], &settings->deaths[j])) {
                fprintf(stderr, "agentix-lab: --kill-engine: %s and %s: the engine must be back "
                        "before it dies again\n", words.kills.texts[j], words.kills.texts[i]);
                return LAB_EXIT_USAGE;
            }
        }
    }
    return ARGUMENT_GO_ON;
}

static int read_deaths(struct lab_settings *settings)
{
    settings->deaths_count = words.kills.count;
    for (uint32_t i = 0; i < words.kills.count; i++) {
        if (!read_death(&settings->deaths[i], words.kills.texts[i])) {
            return command_line_refuse(&line, "--kill-engine", words.kills.texts[i],
                                       DEATHS_WANTED);
        }
    }
    return check_deaths(settings);
}

/* The preset as the command line changes it. */
static int choose_machine(void)
{
    const struct cost_model *preset = cost_find(words.cost);
    if (preset == NULL) {
        return command_line_refuse(&line, "--cost", words.cost, cost_names());
    }
    words.machine = *preset;
    if (words.overlap != AS_PRESET) {
        words.machine.overlap = words.overlap;
    }
    if (words.prefix_reads.chosen > 0) {
        words.machine.prefix_reads = (enum cost_reads)(words.prefix_reads.chosen - 1);
    }
    if (words.copies.chosen > 0) {
        words.machine.copies = (enum cost_copies)(words.copies.chosen - 1);
    }
    words.settings.cost = &words.machine;
    return ARGUMENT_GO_ON;
}

static int read_drafts(void)
{
    if (words.speculate == NULL) {
        return ARGUMENT_GO_ON;
    }
    int code = drafts_load(&words.drafts, words.speculate);
    words.settings.drafts = &words.drafts;
    return code == EXIT_COMPLETE ? ARGUMENT_GO_ON : code;
}

/* ARGUMENT_GO_ON, or an exit code. */
static int parse(int argc, char **argv)
{
    struct lab_settings *settings = &words.settings;
    int code = command_line_parse(&line, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    if (compare_choose(settings, words.system, COMPARE_SYSTEM) != LAB_EXIT_OK ||
        (words.policy != NULL &&
         compare_choose(settings, words.policy, COMPARE_POLICY) != LAB_EXIT_OK)) {
        return LAB_EXIT_USAGE;
    }
    code = choose_machine();
    code = code != ARGUMENT_GO_ON ? code : read_deaths(settings);
    code = code != ARGUMENT_GO_ON ? code : read_drafts();
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    settings->predict = (enum lab_predict)words.predict.chosen;
    settings->sets_count = words.sets.count;
    memcpy(settings->sets, words.sets.texts, sizeof settings->sets);
    settings->flow.batches = words.rows.count;
    for (uint32_t i = 0; i < words.rows.count && words.flows.count > 0; i++) {
        settings->flow.flow_paths[i] = words.flows.texts[words.flows.count > 1 ? i : 0];
    }
    settings->flow.rate = settings->rate;
    settings->flow_json_path = words.json;
    memcpy(settings->flow.rows_paths, words.rows.texts, sizeof settings->flow.rows_paths);
    return check_words();
}

static int run_one(const struct trace *trace)
{
    struct lab_result result;
    int code = lab_run(&words.settings, trace, &result);
    if (code != LAB_EXIT_OK && code != LAB_EXIT_REFUSED) {
        return code;
    }
    if (words.settings.trace_path == NULL) {
        return code;
    }
    report_print(&result, stdout);
    if (words.json != NULL) {
        int written = report_write_json(&result, words.timing, words.json);
        code = written != LAB_EXIT_OK ? written : code;
    }
    return code;
}

static int play(void)
{
    struct trace trace = {0};
    words.settings.trace_options.program = "agentix-lab";
    int code = words.settings.trace_path == NULL ? LAB_EXIT_OK
               : trace_load(&trace, words.settings.trace_path, &words.settings.trace_options);
    if (code != LAB_EXIT_OK) {
        return code;
    }
    if (words.compare != NULL) {
        code = compare_run(&words.settings, &trace, words.compare, words.slo);
    } else {
        code = run_one(&trace);
    }
    trace_free(&trace);
    return code;
}

/* A report that is lost in part is no success. */
static int end_output(int code)
{
    if (command_line_is_written() || (code != LAB_EXIT_OK && code != LAB_EXIT_REFUSED)) {
        return code;
    }
    fprintf(stderr, "agentix-lab: standard output: not all could be written\n");
    return LAB_EXIT_SYSTEM;
}

int main(int argc, char **argv)
{
    int code = parse(argc, argv);
    return end_output(code == ARGUMENT_GO_ON ? play() : code);
}
