/* SPDX-License-Identifier: MIT */
/*
 * What: `agx flow`: runs the workflow of a file over rows of inputs, or explains its plan.
 */
#include <stdio.h>
#include <string.h>

#include "tools/agx/command.h"
#include "tools/agx/flow/plan.h"

struct flow_command {
    const char *path;
    bool explain, dot, svg;
    uint32_t kv_tokens, share_min;
    uint64_t seed;
    struct argument_choice order;
};

static const char *const order_words[] = {"auto", "helium", "lspf", "arrival", "opwise",
                                          "querywise", "random", NULL};

static int parse(struct flow_command *c, int argc, char **argv)
{
    const struct argument rows[] = {
        {"--explain", "", ARGUMENT_FLAG, &c->explain, 0, 0,
         "print the plan, without an appliance; a literal byte counts as a token"},
        {"--dot", "", ARGUMENT_FLAG, &c->dot, 0, 0, "the plan as a picture for Graphviz"},
        {"--svg", "", ARGUMENT_FLAG, &c->svg, 0, 0, "the plan as a picture"},
        {"--kv-tokens", "M", ARGUMENT_U32, &c->kv_tokens, 1, UINT32_MAX,
         "tokens that an engine's KV holds (default 4096)"},
        {"--share-min", "S", ARGUMENT_U32, &c->share_min, 1, UINT32_MAX,
         "static tokens that operators share to run together (default 16)"},
        {"--order", "ORDER", ARGUMENT_CHOICE, &c->order, 0, 0,
         "auto, helium (default), lspf, arrival, opwise, querywise or random"},
        {"--seed", "S", ARGUMENT_U64, &c->seed, 0, 0, "of a random order"},
    };
    const struct command_line line = {
        AGX_COMMAND("flow"),
        .usage = "(--explain | --dot | --svg) [OPTION]... FILE",
        .purpose = "Explains the plan of a workflow: docs/workflows.md.",
        .operand = &c->path, .rows = rows, .rows_count = sizeof rows / sizeof rows[0]};
    int code = command_line_parse(&line, argc, argv);
    if (code == ARGUMENT_GO_ON && c->explain + c->dot + c->svg != 1) {
        fprintf(stderr, "agx flow: one of --explain, --dot and --svg is expected\n");
        return EXIT_USAGE;
    }
    return code;
}

static int explain(const struct flow_command *c)
{
    const struct flow_file_settings settings = {.synthetic = FLOW_SYNTHETIC_MARKER};
    const struct workflow_optimise_params params = {
        .kv_tokens = c->kv_tokens, .share_min = c->share_min,
        .input_tokens = WORKFLOW_OPTIMISE_INPUT_TOKENS,
        .order = (enum workflow_order_kind)c->order.chosen, .seed = c->seed};
    char fault[FLOW_FAULT_BYTES];
    struct flow_file file;
    struct plan plan;
    if (!flow_file_read(&file, c->path, &settings, fault)) {
        fprintf(stderr, "agx flow: %s\n", fault);
        return EXIT_USAGE;
    }
    bool made = flow_plan_make(&plan, &file, &params);
    if (made) {
        (c->dot ? plan_print_dot : c->svg ? plan_print_svg : plan_print)(&plan, stdout);
        plan_free(&plan);
    }
    flow_file_free(&file);
    return !made ? EXIT_USAGE : fflush(stdout) == 0 ? EXIT_COMPLETE : EXIT_SYSTEM;
}

int flow_main(const char *to, int argc, char **argv)
{
    (void)to;
    struct flow_command c = {.kv_tokens = 4096, .share_min = 16,
                             .order = {order_words, WORKFLOW_ORDER_HELIUM}};
    int code = parse(&c, argc, argv);
    return code == ARGUMENT_GO_ON ? explain(&c) : code;
}
