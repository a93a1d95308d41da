/* SPDX-License-Identifier: MIT */
/*
 * What: `agx flow`: runs the workflow of a file over rows of inputs, or explains its plan.
 */
#include <stdio.h>
#include <string.h>

#include "tools/agx/command.h"
#include "tools/agx/flow/plan.h"
#include "tools/agx/flow/run.h"
#include "tools/agx/retry.h"

struct flow_command {
    const char *path;
    bool explain, dot, svg;
    uint32_t kv_tokens, share_min;
    uint64_t seed;
    struct argument_choice order;
    const char *est;
    struct argument_texts lambdas;
    struct retry retry;
    struct run_settings run;
    struct lengths known;
};

static const char *const order_words[] = {"auto", "helium", "lspf", "arrival", "opwise",
                                          "querywise", "random", NULL};

/* The options of a plan, then those of a run. */
#define PLAN_ROWS(c) \
    {"--explain", "", ARGUMENT_FLAG, &(c)->explain, 0, 0, \
     "print the plan, without an appliance; a literal byte counts as a token"}, \
    {"--dot", "", ARGUMENT_FLAG, &(c)->dot, 0, 0, "the plan as a picture for Graphviz"}, \
    {"--svg", "", ARGUMENT_FLAG, &(c)->svg, 0, 0, "the plan as a picture"}, \
    {"--kv-tokens", "M", ARGUMENT_U32, &(c)->kv_tokens, 1, OP_TOKENS_MAX, \
     "of a plan: tokens that an engine's KV holds (default 4096)"}, \
    {"--share-min", "S", ARGUMENT_U32, &(c)->share_min, 1, UINT32_MAX, \
     "static tokens that operators share to run together (default 16)"}, \
    {"--order", "ORDER", ARGUMENT_CHOICE, &(c)->order, 0, 0, \
     "auto, helium (default), lspf, arrival, opwise, querywise or random"}, \
    {"--seed", "S", ARGUMENT_U64, &(c)->seed, 0, 0, "of a random order"}
#define RUN_ROWS(c) \
    {"--inputs", "ROWS.tsv", ARGUMENT_TEXT, &(c)->run.inputs, 0, 0, \
     "rows, tab-separated; the first line names the inputs"}, \
    {"--json", "", ARGUMENT_FLAG, &(c)->run.json, 0, 0, "print each value as a line of JSON"}, \
    {"--lambda", "NAME=PATH ...", ARGUMENT_TEXTS, &(c)->lambdas, 0, ARGUMENT_TEXTS_MAX, \
     "a command that answers for a lambda: argument on stdin, answer on\n" \
     "stdout; words are split at blanks, there is no shell"}, \
    {"--program", "ID", ARGUMENT_TEXT, &(c)->run.program, 0, 0, \
     "the program of the calls (default: one of its own)"}, \
    {"--keep", "", ARGUMENT_FLAG, &(c)->run.keep, 0, 0, \
     "goes on there when this command ends; the same command resumes it"}, \
    {"--progress", "", ARGUMENT_FLAG, &(c)->run.progress, 0, 0, \
     "tell of each row, also where stderr is no terminal"}, \
    {"--profile", "FILE", ARGUMENT_TEXT, &(c)->run.profile, 0, 0, \
     "write how long the values of each operator were"}, \
    {"--est", "FILE", ARGUMENT_TEXT, &(c)->est, 0, 0, "lengths of values, from such a file"}, \
    RETRY_ROW((c)->retry, RETRY_OF_MANY)

static int parse(struct flow_command *c, int argc, char **argv)
{
    const struct argument rows[] = {RUN_ROWS(c), PLAN_ROWS(c)};
    const struct command_line line = {
        AGX_COMMAND("flow"),
        .usage = "[--explain | --dot | --svg] [OPTION]... FILE",
        .purpose = "Runs the workflow of a file over rows of inputs, or shows its plan:\n"
                   "docs/workflows.md.",
        .operand = &c->path, .rows = rows, .rows_count = sizeof rows / sizeof rows[0]};
    int code = command_line_parse(&line, argc, argv);
    if (code == ARGUMENT_GO_ON && c->explain + c->dot + c->svg > 1) {
        fprintf(stderr, "agx flow: only one of --explain, --dot and --svg is expected\n");
        return EXIT_USAGE;
    }
    if (code == ARGUMENT_GO_ON && c->run.keep && c->run.program == NULL) {
        fprintf(stderr, "agx flow: --keep needs --program, by which it is found again\n");
        return EXIT_USAGE;
    }
    return code;
}

/* EXIT_COMPLETE, or an exit code after a message. */
static int read_file(struct flow_command *c, enum flow_synthetic synthetic, struct flow_file *file)
{
    const struct flow_file_settings settings = {.synthetic = synthetic,
                                                .est = c->est != NULL ? lengths_est : NULL,
                                                .self = &c->known};
    char fault[FLOW_FAULT_BYTES];
    bool good = (c->est == NULL || lengths_read(&c->known, c->est, fault)) &&
                flow_file_read(file, c->path, &settings, fault);
    if (!good) {
        fprintf(stderr, "agx flow: %s\n", fault);
    }
    return good ? EXIT_COMPLETE : EXIT_USAGE;
}

static int explain(struct flow_command *c)
{
    const struct workflow_optimise_params params = {
        .kv_tokens = c->kv_tokens, .share_min = c->share_min,
        .input_tokens = WORKFLOW_OPTIMISE_INPUT_TOKENS,
        .order = (enum workflow_order_kind)c->order.chosen, .seed = c->seed};
    struct flow_file file;
    struct plan plan;
    int code = read_file(c, FLOW_SYNTHETIC_MARKER, &file);
    if (code != EXIT_COMPLETE) {
        return code;
    }
    bool made = flow_plan_make(&plan, &file, &params);
    if (made) {
        (c->dot ? plan_print_dot : c->svg ? plan_print_svg : plan_print)(&plan, stdout);
        plan_free(&plan);
    }
    flow_file_free(&file);
    return !made ? EXIT_USAGE : fflush(stdout) == 0 ? EXIT_COMPLETE : EXIT_SYSTEM;
}

static int run(struct flow_command *c, const char *to)
{
    struct flow_file file;
    int code = read_file(c, FLOW_SYNTHETIC_WORDS, &file);
    if (code == EXIT_COMPLETE) {
        c->run.to = to;
        c->run.lambdas = &c->lambdas;
        c->run.tries_max = c->retry.tries_max;
        code = run_flow(&c->run, &file);
        flow_file_free(&file);
    }
    return code;
}

int flow_main(const char *to, int argc, char **argv)
{
    static struct flow_command c = {.kv_tokens = 4096, .share_min = 16,
                                    .order = {order_words, WORKFLOW_ORDER_HELIUM},
                                    .retry = {.tries_max = RETRY_OF_MANY}};
    int code = parse(&c, argc, argv);
    return code != ARGUMENT_GO_ON ? code : c.explain || c.dot || c.svg ? explain(&c) : run(&c, to);
}
