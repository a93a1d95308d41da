/* SPDX-License-Identifier: MIT */
/*
 * What: what comes back in a run: values are kept until their row is done, questions become
 * commands, and the answers of commands go to the appliance.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/status.h"
#include "tools/agx/flow/runner.h"

#define BAR_CELLS 30

static int out_of_memory(void)
{
    fprintf(stderr, "agx flow: out of memory\n");
    return EXIT_SYSTEM;
}

/* ---- progress -------------------------------------------------------------------------------- */

static void print_counts(const struct runner *r)
{
    fprintf(stderr, " %" PRIu32 " of %" PRIu32 " rows, %" PRIu64 " calls, %" PRIu64 " shared, %"
            PRIu64 " fetched", r->rows_done, r->rows.count, r->calls, r->shared, r->fetched);
}

void runner_show_progress(const struct runner *r)
{
    if (r->has_bar) {
        uint32_t full = (uint32_t)((uint64_t)BAR_CELLS * r->rows_done /
                                   (r->rows.count > 0 ? r->rows.count : 1));
        fprintf(stderr, "\r\033[K[");
        for (uint32_t i = 0; i < BAR_CELLS; i++) {
            fputs(i < full ? "█" : "░", stderr);
        }
        fputs("]", stderr);
        print_counts(r);
        fputs(r->rows_done == r->rows.count ? "\n" : "", stderr);
    } else if (r->settings->progress) {
        fputs("agx flow:", stderr);
        print_counts(r);
        fputs("\n", stderr);
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

static void print_row(struct runner *r, uint32_t row, uint16_t code)
{
    static const struct value none;
    const struct value *values = values_of(&r->values, row);
    if (r->has_bar) {
        fputs("\r\033[K", stderr);
    }
    if (code != 0) {
        fprintf(stderr, "agx flow: row %" PRIu32 ": %s\n", row,
                status_text(status_from_wire(code)));
        r->code = EXIT_INCOMPLETE;
    }
    for (uint32_t i = 0; i < r->file->flow.outputs_count && (code == 0 || values != NULL); i++) {
        const char *name = r->file->names[r->file->flow.outputs[i]].name;
        const struct value *value = values != NULL ? &values[i] : &none;
        bool is_there = code == 0 || value->tokens != NULL;
        if (is_there && i < r->outputs_shown) {
            value_print(value, &(struct value_name){row, name, r->settings->json}, stdout);
        }
        if (is_there) {
            lengths_add(&r->lengths, name, value->tokens_count);
        }
    }
    fflush(stdout);
}

static int end_row(struct runner *r, const struct agx_flow_event *event)
{
    if (event->row >= r->rows.count || r->states[event->row] != ROW_SENT) {
        return EXIT_PROTOCOL;
    }
    if (status_from_wire(event->code) == STATUS_GONE_SHUTDOWN && !r->is_ending) {
        return EXIT_COMPLETE;               /* a break like others: it is sent after that */
    }
    print_row(r, event->row, event->code);
    values_drop(&r->values, event->row);
    r->states[event->row] = ROW_DONE;
    r->rows_open--;
    r->rows_done++;
    r->is_full = false;
    r->tries = 0;
    r->calls += event->calls;
    r->shared += event->shared;
    r->fetched += event->fetched;
    runner_show_progress(r);
    return EXIT_COMPLETE;
}

/* ---- lambdas --------------------------------------------------------------------------------- */

void runner_forget(struct runner *r)
{
    lambdas_end(&r->lambdas);
    for (uint32_t i = 0; i < r->asks.count; i++) {
        free(r->asks.calls[i].argument);
    }
    free(r->asks.part);
    r->asks.part = NULL;
    r->asks.part_bytes = 0;
    r->asks.count = 0;
}

/* The argument is complete: it waits for a command. */
static bool push_ask(struct asks *asks, const struct agx_flow_event *event)
{
    if (asks->count == asks->room) {
        uint32_t room = 2 * asks->room + 8;
        struct lambda_call *larger = realloc(asks->calls, room * sizeof *larger);
        if (larger == NULL) {
            return false;
        }
        asks->calls = larger;
        asks->room = room;
    }
    asks->calls[asks->count++] = (struct lambda_call){
        .row = event->row, .node = event->node, .argument = asks->part,
        .argument_bytes = asks->part_bytes};
    asks->part = NULL;
    asks->part_bytes = 0;
    return true;
}

static int take_ask(struct asks *asks, const struct agx_flow_event *event)
{
    char *larger = realloc(asks->part, asks->part_bytes + event->text.count + 1);
    if (larger == NULL) {
        return out_of_memory();
    }
    memcpy(larger + asks->part_bytes, event->text.bytes, event->text.count);
    asks->part = larger;
    asks->part_bytes += event->text.count;
    return !event->is_last || push_ask(asks, event) ? EXIT_COMPLETE : out_of_memory();
}

/* `fault`: why there is none; empty: there is one. */
static enum agx_result send_answer(struct runner *r, const struct lambda_call *call,
                                   const char *fault)
{
    bool failed = fault[0] != '\0';
    const struct agx_flow_answer answer = {.row = call->row, .node = call->node, .failed = failed,
                                           .text = {call->answer, call->answer_bytes}};
    const struct agx_flow_answer none = {.row = call->row, .node = call->node, .failed = 1};
    enum agx_result result = agx_flow_answer(&r->dial.agx, &r->run, failed ? &none : &answer);
    if (failed || result == AGX_ERROR_ARGUMENT) {
        fprintf(stderr, "agx flow: row %" PRIu32 ": %s has failed: %s\n", call->row,
                r->file->names[call->node].name, failed ? fault : "its answer is not UTF-8");
        r->code = EXIT_INCOMPLETE;
    }
    return result == AGX_ERROR_ARGUMENT ? agx_flow_answer(&r->dial.agx, &r->run, &none) : result;
}

static void start_commands(struct runner *r)
{
    uint32_t started = 0;
    while (started < r->asks.count && !lambdas_is_full(&r->lambdas)) {
        struct lambda_call *call = &r->asks.calls[started++];
        const char *name = r->file->names[call->node].base;
        if (!lambdas_start(&r->lambdas, name, call)) {
            send_answer(r, call, strerror(errno));
        }
        free(call->argument);
    }
    r->asks.count -= started;
    memmove(r->asks.calls, r->asks.calls + started, r->asks.count * sizeof *r->asks.calls);
}

int runner_answer(struct runner *r)
{
    struct lambda_call *call;
    char fault[LAMBDA_FAULT_BYTES];
    start_commands(r);
    while ((call = lambdas_next(&r->lambdas, fault)) != NULL) {
        enum agx_result result = send_answer(r, call, fault);
        while (result == AGX_AGAIN) {       /* earlier frames are still unsent */
            struct pollfd room = {.fd = agx_descriptor(&r->dial.agx), .events = POLLOUT};
            poll(&room, 1, -1);
            result = send_answer(r, call, fault);
        }
        lambdas_free(call);
        if (result != AGX_OK && result != AGX_ERROR_CLOSED) {
            return dial_fail(&r->dial.agx, result, "answer");
        }
        start_commands(r);
    }
    return EXIT_COMPLETE;
}

/* ---- events ---------------------------------------------------------------------------------- */

static int open_flow(struct runner *r, const struct agx_flow_event *event)
{
    r->is_open = true;
    r->is_resumed = event->is_resumed != 0;
    r->tries = 0;
    r->rows_max = event->rows < AGX_FLOW_ROWS_MAX ? event->rows : AGX_FLOW_ROWS_MAX;
    if (event->is_resumed) {
        fprintf(stderr, "agx flow: the workflow was there: it goes on\n");
    }
    return EXIT_COMPLETE;
}

/* A row found no place. Rows of a kept workflow that are open there and that we have not sent again
 * take places, too, and give them up when it is their turn here: so the next row is tried. */
static int wait_for_place(struct runner *r, const struct agx_fault *fault)
{
    uint64_t pause_us = 0;
    r->is_full = true;
    if (r->rows_open == 0 && !retry_again(&r->retry, fault, &r->tries, &pause_us)) {
        return dial_refused(fault);
    }
    r->full_until_us = dial_now_us() + pause_us;
    return EXIT_COMPLETE;
}

/* A kept workflow that has ended takes no rows but those that it has on record. */
static int begin_anew(struct runner *r)
{
    if (!r->is_stale) {
        fprintf(stderr, "agx flow: it had ended; it begins again\n");
        r->is_stale = r->is_ending = true;
        return agx_flow_end(&r->dial.agx, &r->run, 0) == AGX_OK ? EXIT_COMPLETE : EXIT_REFUSED;
    }
    return EXIT_COMPLETE;
}

/* Its operator has failed, or was cancelled. */
static int take_refused_answer(struct runner *r, const struct agx_fault *fault)
{
    r->code = EXIT_INCOMPLETE;
    if (status_from_wire(fault->code) == STATUS_BAD_FIELD) {
        fprintf(stderr, "agx flow: a lambda has failed: its answer has more than max=%" PRIu64
                        " tokens\n", fault->max);
    } else {
        (void)dial_refused(fault);
    }
    return EXIT_COMPLETE;
}

/* What the workflow's frames were refused for: a row waits, the rest is final. */
static int take_refusal(struct runner *r)
{
    const struct agx_fault *fault = agx_fault(&r->dial.agx);
    if (!r->is_open && strcmp(fault->frame, "FLOW_OPEN") != 0) {
        return EXIT_COMPLETE;               /* its workflow has ended: it goes to the next one */
    }
    if (strcmp(fault->frame, "ROW") == 0 && fault->is_busy && fault->found < r->rows.count &&
        r->states[fault->found] == ROW_SENT) {
        r->states[fault->found] = ROW_TO_SEND;
        r->rows_open--;
        return wait_for_place(r, fault);
    }
    if (strcmp(fault->frame, "ROW") == 0 && r->is_resumed &&
        status_from_wire(fault->code) == STATUS_BAD_FLOW_UNKNOWN) {
        return begin_anew(r);
    }
    if (strcmp(fault->frame, "FLOW_OPEN") == 0 && fault->is_busy &&
        retry_wait(&r->retry, fault, &r->tries)) {
        return agx_flow_open(&r->dial.agx, &r->run) == AGX_OK ? EXIT_COMPLETE : EXIT_REFUSED;
    }
    return strcmp(fault->frame, "ANSWER") == 0 ? take_refused_answer(r, fault)
                                               : dial_refused(fault);
}

/* An appliance that ends leaves the rest to the one that comes after the break. */
static int end_flow(struct runner *r, const struct agx_flow_event *event)
{
    bool is_left = r->rows_done < r->rows.count && !r->is_ending;
    enum status status = status_from_wire(event->code);
    if (r->is_stale) {
        return runner_open_again(r, true) == AGX_OK ? EXIT_COMPLETE : EXIT_REFUSED;
    }
    r->is_open = false;
    r->is_done = !is_left || status != STATUS_GONE_SHUTDOWN;
    if (is_left && r->is_done) {
        fprintf(stderr, "agx flow: the workflow has ended, %" PRIu32 " of %" PRIu32 " rows are "
                "done: %s\n", r->rows_done, r->rows.count, status_text(status));
        r->code = EXIT_INCOMPLETE;
    }
    return EXIT_COMPLETE;
}

int runner_take(struct runner *r, const struct agx_event *event)
{
    if (event->kind == AGX_REFUSED) {
        return take_refusal(r);
    }
    if (event->kind != AGX_FLOW) {
        return EXIT_COMPLETE;
    }
    switch (event->flow->kind) {
    case AGX_FLOW_OPENED:
        return open_flow(r, event->flow);
    case AGX_FLOW_VALUE:
        return values_add(&r->values, event->flow) ? EXIT_COMPLETE : out_of_memory();
    case AGX_FLOW_ASK:
        return take_ask(&r->asks, event->flow);
    case AGX_FLOW_ROW_DONE:
        return end_row(r, event->flow);
    default:
        return end_flow(r, event->flow);
    }
}
