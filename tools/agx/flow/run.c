/* SPDX-License-Identifier: MIT */
/*
 * What: the loop of a run. Each turn sends rows as far as there is room for them, waits for the
 * connection and for the commands of lambdas, and takes what has come.
 *
 * After a break the workflow is opened again with the same bytes; rows that were done are not sent
 * again. Ctrl-C cancels, or with --keep leaves the workflow running: the same command goes on with
 * it, because its id is a digest of the program and of what FLOW_OPEN says.
 */
#include "tools/agx/flow/run.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/fnv.h"
#include "tools/agx/flow/plan.h"
#include "tools/agx/flow/runner.h"

#define FRAME_BYTES_MIN (1u << 20)          /* of what the appliance sends, too */

static volatile sig_atomic_t interrupts;

static void interrupt(int number)
{
    (void)number;
    if (interrupts++ > 0) {
        _exit(128 + SIGINT);
    }
}

/* ---- before the run -------------------------------------------------------------------------- */

/* The first command of --lambda that answers for no lambda of the workflow, or NULL. */
static const char *unknown_lambda(const struct runner *r)
{
    const struct agx_flow *flow = &r->file->flow;
    for (uint32_t i = 0; i < r->settings->lambdas->count; i++) {
        const char *command = r->settings->lambdas->texts[i];
        size_t length = strcspn(command, "=");
        bool is_known = false;
        for (uint32_t n = 0; n < flow->nodes_count && !is_known; n++) {
            const char *name = r->file->names[n].base;
            is_known = flow->kinds[n] == AGX_NODE_LAMBDA && strlen(name) == length &&
                       memcmp(name, command, length) == 0;
        }
        if (!is_known) {
            return command;
        }
    }
    return NULL;
}

static int read_rows(struct runner *r)
{
    const struct agx_flow *flow = &r->file->flow;
    const char *names[AGX_FLOW_NODES_MAX];
    struct rows_names inputs = {names, 0};
    char fault[ROWS_FAULT_BYTES];
    for (uint32_t i = 0; i < flow->nodes_count; i++) {
        if (flow->kinds[i] == AGX_NODE_INPUT) {
            names[inputs.count++] = r->file->names[i].name;
        }
        if (flow->kinds[i] == AGX_NODE_LAMBDA && !lambdas_has(&r->lambdas,
                                                              r->file->names[i].base)) {
            fprintf(stderr, "agx flow: --lambda %s=PATH is missing\n", r->file->names[i].base);
            return EXIT_USAGE;
        }
    }
    const char *unknown = unknown_lambda(r);
    if (unknown != NULL) {
        fprintf(stderr, "agx flow: --lambda %s: the workflow has no lambda of that name\n",
                unknown);
        return EXIT_USAGE;
    }
    if (r->settings->inputs == NULL && inputs.count > 0) {
        fprintf(stderr, "agx flow: --inputs is missing: the workflow has inputs\n");
        return EXIT_USAGE;
    }
    if (r->settings->inputs != NULL && inputs.count == 0) {
        fprintf(stderr, "agx flow: --inputs %s is not read: the workflow has no inputs\n",
                r->settings->inputs);
    }
    char *nothing = inputs.count == 0 ? malloc(1) : NULL;
    bool good = nothing != NULL ? rows_parse(&r->rows, &inputs, nothing, 0, fault)
                                : rows_read(&r->rows, r->settings->inputs, &inputs, fault);
    if (!good) {
        fprintf(stderr, "agx flow: %s: %s\n", r->settings->inputs, fault);
        return EXIT_USAGE;
    }
    r->states = calloc(r->rows.count + 1, 1);
    return r->states != NULL ? EXIT_COMPLETE : EXIT_SYSTEM;
}

/* With --profile the value of every operator that is run is an output, behind those of the file. */
static int add_measured(struct runner *r)
{
    struct agx_flow *flow = &r->file->flow;
    const struct workflow_optimise_params params = {
        .kv_tokens = 1, .share_min = 1, .input_tokens = WORKFLOW_OPTIMISE_INPUT_TOKENS,
        .order = WORKFLOW_ORDER_ARRIVAL};
    struct plan plan;
    r->outputs_shown = flow->outputs_count;
    if (r->settings->profile == NULL) {
        return EXIT_COMPLETE;
    }
    if (!flow_plan_make(&plan, r->file, &params)) {
        return EXIT_USAGE;
    }
    for (uint32_t i = 0; i < flow->nodes_count; i++) {
        const struct workflow_node *node = &plan.workflow->nodes[i];
        bool is_measured = node->kind == WORKFLOW_LLM || node->kind == WORKFLOW_LAMBDA;
        if (is_measured && node->is_needed && !node->is_output) {
            agx_flow_output(flow, i);
        }
    }
    plan_free(&plan);
    return flow->result == AGX_OK ? EXIT_COMPLETE : EXIT_USAGE;
}

/* The longest frame that is sent: FLOW_OPEN, or a row. */
static size_t frame_bytes(const struct runner *r)
{
    const struct agx_flow *flow = &r->file->flow;
    size_t longest = (size_t)flow->texts_bytes + flow->nodes_bytes + sizeof flow->outputs;
    for (uint32_t i = 0; i < r->rows.count; i++) {
        size_t bytes = 0;
        for (uint32_t k = 0; k < r->rows.columns; k++) {
            bytes += rows_cells(&r->rows, i)[k].bytes + sizeof(uint32_t);
        }
        longest = bytes > longest ? bytes : longest;
    }
    longest += 256;                         /* fixed parts */
    return longest > FRAME_BYTES_MIN ? longest : FRAME_BYTES_MIN;
}

/* The same workflow of the same program has the same id. */
static int choose_ids(struct runner *r, size_t bytes)
{
    uint8_t *frame = malloc(bytes);
    r->run = (struct agx_flow_run){.flow = &r->file->flow, .want_text = 1,
                                   .keep = r->settings->keep};
    if (r->settings->program != NULL) {
        agx_program_id(r->settings->program, r->run.program_id);
    } else {
        dial_unique_id("flow", r->run.program_id);
    }
    size_t used = frame != NULL ? agx_flow_write(&r->run, frame, bytes) : 0;
    r->run.flow_id = fnv_add(FNV_START, frame, used);
    free(frame);
    return used > 0 ? EXIT_COMPLETE : EXIT_SYSTEM;
}

static int prepare(struct runner *r)
{
    const char *wrong = lambdas_check(&r->lambdas);
    struct sigaction on_interrupt = {.sa_handler = interrupt};
    if (wrong != NULL) {
        fprintf(stderr, "agx flow: --lambda %s: %s\n", wrong,
                errno == 0 ? "NAME=PATH with a / in PATH is expected" : strerror(errno));
        return EXIT_USAGE;
    }
    int code = read_rows(r);
    code = code == EXIT_COMPLETE ? add_measured(r) : code;
    code = code == EXIT_COMPLETE ? choose_ids(r, frame_bytes(r)) : code;
    if (code != EXIT_COMPLETE || !values_init(&r->values, r->file->flow.outputs_count)) {
        return code != EXIT_COMPLETE ? code : EXIT_SYSTEM;
    }
    r->dial.retry = &r->retry;
    r->has_bar = isatty(STDERR_FILENO);
    signal(SIGPIPE, SIG_IGN);               /* of commands that do not read */
    sigaction(SIGINT, &on_interrupt, NULL);
    return dial_open(&r->dial, r->settings->to, frame_bytes(r));
}

/* ---- the run --------------------------------------------------------------------------------- */

static int fail(struct runner *r, enum agx_result result, const char *what)
{
    return dial_fail(&r->dial.agx, result, what);
}

enum agx_result runner_open_again(struct runner *r, bool other_id)
{
    runner_forget(r);
    for (uint32_t i = 0; i < r->rows.count; i++) {
        values_drop(&r->values, i);
        r->states[i] = r->states[i] == ROW_SENT ? ROW_TO_SEND : r->states[i];
    }
    r->rows_open = r->next = 0;
    r->is_open = r->is_ending = r->is_full = r->is_stale = false;
    r->run.flow_id += other_id;
    return agx_flow_open(&r->dial.agx, &r->run);
}

/* After a break. Without --keep the appliance has cancelled what it had: another id, then. */
static int go_on(struct runner *r)
{
    fprintf(stderr, "agx flow: the connection broke; waiting for the appliance\n");
    enum agx_result result = dial_resume(&r->dial, DIAL_PATIENCE_MS);
    if (result == AGX_OK) {
        result = runner_open_again(r, !r->settings->keep);
    }
    return result == AGX_OK ? EXIT_COMPLETE : fail(r, result, "workflow");
}

static enum agx_result send_row(struct runner *r, uint32_t row)
{
    struct agx_text columns[AGX_FLOW_NODES_MAX];
    for (uint32_t i = 0; i < r->rows.columns; i++) {
        const struct rows_cell *cell = &rows_cells(&r->rows, row)[i];
        columns[i] = (struct agx_text){cell->text, cell->bytes};
    }
    return agx_flow_row(&r->dial.agx, &r->run, row, columns, r->rows.columns);
}

/* The next row that is to be sent, round and round; rows.count: there is none. */
static uint32_t row_to_send(struct runner *r)
{
    for (uint32_t i = 0; i < r->rows.count; i++) {
        uint32_t row = (r->next + i) % r->rows.count;
        if (r->states[row] == ROW_TO_SEND) {
            r->next = row + 1;
            return row;
        }
    }
    return r->rows.count;
}

/* Milliseconds until a refused row is tried again; -1: an event will tell. */
static int pause_ms(const struct runner *r)
{
    uint64_t now_us = dial_now_us();
    if (!r->is_full || r->rows_open > 0) {
        return -1;
    }
    return r->full_until_us <= now_us ? 0 : (int)((r->full_until_us - now_us) / 1000 + 1);
}

/* As many rows as may be open; when all are done, the end. */
static enum agx_result send_rows(struct runner *r)
{
    enum agx_result result = AGX_OK;
    r->is_full = r->is_full && pause_ms(r) != 0;
    while (r->is_open && !r->is_ending && !r->is_full && r->rows_open < r->rows_max &&
           result == AGX_OK) {
        uint32_t row = row_to_send(r);
        if (row == r->rows.count) {
            break;
        }
        result = send_row(r, row);
        if (result == AGX_OK) {
            r->states[row] = ROW_SENT;
            r->rows_open++;
        }
    }
    if (result == AGX_OK && r->is_open && !r->is_ending && r->rows_done == r->rows.count) {
        result = agx_flow_end(&r->dial.agx, &r->run, 0);
        r->is_ending = result == AGX_OK;
    }
    return result == AGX_AGAIN ? AGX_OK : result;       /* when earlier frames are sent */
}

static void wait_for_news(struct runner *r)
{
    struct pollfd polls[2 * LAMBDA_RUNNING_MAX + 1];
    uint32_t count = lambdas_polls(&r->lambdas, polls);
    int pause = pause_ms(r), wait = agx_wait_ms(&r->dial.agx);
    polls[count++] = (struct pollfd){
        .fd = agx_descriptor(&r->dial.agx),
        .events = (short)(POLLIN | (agx_wants_write(&r->dial.agx) ? POLLOUT : 0))};
    if (interrupts == 0 || (r->is_ending && !r->is_stale)) {
        poll(polls, count, wait < 0 || (pause >= 0 && pause < wait) ? pause : wait);
    }
}

/* Everything that has come. */
static int take_events(struct runner *r)
{
    struct agx_event event;
    enum agx_result result = AGX_OK;
    int code = EXIT_COMPLETE;
    while (code == EXIT_COMPLETE && !r->is_done &&
           (result = agx_next(&r->dial.agx, &event, 0)) == AGX_OK) {
        r->dial.breaks = 0;
        code = runner_take(r, &event);
        code = code == EXIT_COMPLETE ? runner_answer(r) : code;
    }
    if (code == EXIT_COMPLETE && result == AGX_ERROR_CLOSED) {
        return go_on(r);
    }
    return result == AGX_OK || result == AGX_AGAIN ? code : fail(r, result, "workflow");
}

/* Ctrl-C: leaves the workflow there, or cancels it. True: the run is over. */
static bool leave(struct runner *r)
{
    r->code = EXIT_INCOMPLETE;
    fputs(r->has_bar ? "\n" : "", stderr);
    if (r->settings->keep) {
        fprintf(stderr, "agx flow: left while %" PRIu32 " of %" PRIu32 " rows are done; the same "
                "command with --program %s goes on\n", r->rows_done, r->rows.count,
                r->settings->program);
        return true;
    }
    fprintf(stderr, "agx flow: cancelled; Ctrl-C again ends at once\n");
    r->is_ending = true;
    return !r->is_open || agx_flow_end(&r->dial.agx, &r->run, 1) != AGX_OK;
}

static int loop(struct runner *r)
{
    enum agx_result result = agx_flow_open(&r->dial.agx, &r->run);
    int code = result == AGX_OK ? EXIT_COMPLETE : fail(r, result, "workflow");
    while (code == EXIT_COMPLETE && !r->is_done) {
        result = send_rows(r);
        if (result != AGX_OK && result != AGX_ERROR_CLOSED) {
            return fail(r, result, "row");
        }
        wait_for_news(r);
        if (interrupts > 0 && (!r->is_ending || r->is_stale) && leave(r)) {
            return r->code;
        }
        code = runner_answer(r);
        code = code == EXIT_COMPLETE ? take_events(r) : code;
    }
    return code != EXIT_COMPLETE ? code : r->code;
}

int run_flow(const struct run_settings *settings, struct flow_file *file)
{
    static struct runner runner;
    struct runner *r = &runner;
    *r = (struct runner){.settings = settings, .file = file,
                         .retry = {.tries_max = settings->tries_max},
                         .lambdas = {.commands = settings->lambdas}};
    int code = prepare(r);
    if (code == EXIT_COMPLETE) {
        code = loop(r);
        agx_close(&r->dial.agx);
    }
    if (code == EXIT_COMPLETE && settings->profile != NULL &&
        !lengths_write(&r->lengths, settings->profile)) {
        fprintf(stderr, "agx flow: %s: cannot be written: %s\n", settings->profile,
                strerror(errno));
        code = EXIT_SYSTEM;
    }
    retry_report(&r->retry);
    runner_forget(r);
    values_destroy(&r->values);
    rows_free(&r->rows);
    free(r->asks.calls);
    free(r->states);
    free(r->dial.buffer);
    return code;
}
