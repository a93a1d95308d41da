/* SPDX-License-Identifier: MIT */
/*
 * What: what a trace knows of its programs before they run, and how much of it the appliance is
 * told (--predict).
 *
 *   work   for srpt: the output tokens of all calls that are not over, and their prompt tokens at a
 *          sixteenth each. Most of a prompt is cached; a token that is not cached takes a share of
 *          a chunk, not a decoding round
 *   cost   for policies with predictions: the KV token-rounds of all calls (paper 001, eq. 1, as a
 *          sum), and their tokens as VTC counts them. The formulas are written anew here, so that a
 *          table of programs can be compared with what the appliance says
 *
 *   class  as the trace names it. With --predict class it has a past: each program of the trace has
 *          been served once when the run begins, as in an appliance that has long been at work
 *
 * --cost-error L: what is told of cost is multiplied by a factor, uniform in [1/L, L], drawn from
 * the seed and the program's number: one program is told the same whatever the policy.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/assert.h"
#include "config/base/hash.h"
#include "sched/class/prediction.h"
#include "tools/lab/lab.h"

#define WORK_OF_OUTPUT 16       /* prompt tokens that count as much as one that is generated */

static uint64_t work_of(const struct lab *lab, uint32_t traced)
{
    return (uint64_t)WORK_OF_OUTPUT * lab->prompts.book.out[traced] +
           prompt_tokens(&lab->prompts.book, traced);
}

static uint64_t cost_of(const struct lab *lab, uint32_t traced)
{
    uint64_t prompt = prompt_tokens(&lab->prompts.book, traced);
    uint64_t output = lab->prompts.book.out[traced];
    return prompt * output + output * (output + 1) / 2;
}

static uint64_t tokens_of(const struct lab *lab, uint32_t traced)
{
    return prompt_tokens(&lab->prompts.book, traced) + 2 * (uint64_t)lab->prompts.book.out[traced];
}

/* Uniform in [1/L, L]. */
static double error_of(const struct lab_settings *settings, uint32_t run)
{
    if (settings->cost_error <= 1) {
        return 1;
    }
    double share = (double)(hash_fold(settings->seed ^ HASH_START_A, run ^ HASH_START_B) >> 11) /
                   (double)(UINT64_C(1) << 53);
    double least = 1 / settings->cost_error;
    return least + share * (settings->cost_error - least);
}

static struct lab_foretold foretell(const struct lab *lab, uint32_t run)
{
    const struct trace_program *program = lab->clients.player.runs[run].program;
    struct lab_foretold foretold = {.error = error_of(lab->settings, run)};
    for (uint32_t n = 0; n < program->calls_count; n++) {
        foretold.work_left += work_of(lab, program->calls_first + n);
        foretold.cost += cost_of(lab, program->calls_first + n);
        foretold.tokens += tokens_of(lab, program->calls_first + n);
        foretold.output_tokens += lab->prompts.book.out[program->calls_first + n];
    }
    return foretold;
}

int lab_foretold_init(struct lab *lab)
{
    uint32_t runs = lab->clients.player.runs_count;
    lab->clients.foretold = calloc(runs, sizeof *lab->clients.foretold);
    if (lab->clients.foretold == NULL) {
        fprintf(stderr, "agentix-lab: out of memory\n");
        return LAB_EXIT_SYSTEM;
    }
    for (uint32_t i = 0; i < runs; i++) {
        lab->clients.foretold[i] = foretell(lab, i);
        lab->result.cost_mean += (double)lab->clients.foretold[i].cost / runs;
    }
    return LAB_EXIT_OK;
}

/* A name that is too long is cut. */
const char *lab_foretold_class(const struct lab *lab, uint32_t run)
{
    const struct trace_program *program = lab->clients.player.runs[run].program;
    return lab->settings->predict == LAB_PREDICT_NONE ? ""
                                                      : lab->trace->classes[program->class].name;
}

void lab_foretold_teach(struct lab *lab)
{
    uint32_t programs = lab->trace->programs_count, runs = lab->result.programs;
    if (lab->settings->predict != LAB_PREDICT_CLASS) {
        return;
    }
    for (uint32_t i = 0; i < (runs < programs ? runs : programs); i++) {
        const struct lab_foretold *foretold = &lab->clients.foretold[i];
        const struct program ended = {
            .domain = lab->loop.net.connections[lab_socket_of(lab, i)->slot].domain,
            .calls_ended = lab->clients.player.runs[i].program->calls_count,
            .spent = {foretold->cost, foretold->tokens, foretold->output_tokens}};
        sched_class_teach(&lab->loop.sched, &ended, lab_foretold_class(lab, i));
    }
}

static uint64_t wrong_by(double error, uint64_t cost)
{
    return error == 1 ? cost : (uint64_t)fmax(1, round((double)cost * error));
}

void lab_foretold_fill(const struct lab *lab, uint32_t run, uint32_t traced,
                       struct call_foretold *foretold)
{
    const struct lab_foretold *program = &lab->clients.foretold[run];
    foretold->work_left = program->work_left;
    if (lab->settings->predict == LAB_PREDICT_ORACLE) {
        foretold->program_cost = wrong_by(program->error, program->cost);
        foretold->program_tokens = wrong_by(program->error, program->tokens);
        foretold->output_tokens = lab->prompts.book.out[traced];
    }
}

void lab_foretold_over(struct lab *lab, uint32_t run, uint32_t traced)
{
    lab->clients.foretold[run].work_left -= work_of(lab, traced);
}

/* ---- what the appliance made of it ----------------------------------------------------------- */

/* The cost of a program changes at the end of a step at the earliest (sched.retag). */
void lab_foretold_note(struct lab *lab, const struct call *call)
{
    uint32_t run = lab->clients.player.calls[call->client_call_id].run;
    struct lab_foretold *foretold = &lab->clients.foretold[run];
    if (foretold->predicted == 0) {
        foretold->predicted = lab->loop.sched.programs[call->program].cost;
    }
}

static uint64_t run_of(const uint8_t *program_id)
{
    uint64_t run;
    memcpy(&run, program_id, sizeof run);
    return run;
}

/* A program whose tag was moved after it had left leaves twice; the last time counts. */
void lab_foretold_pass(struct lab *lab)
{
    if (lab->settings->flow.batches > 0) {
        return;
    }
    const struct sched_ideal *ideal = &lab->loop.sched.ideal;
    uint32_t at = ideal->entries != NULL ? ideal->left : SCHED_IDEAL_NONE;
    for (; at != SCHED_IDEAL_NONE; at = ideal->entries[at].next) {
        const struct sched_ideal_entry *entry = &ideal->entries[at];
        uint64_t run = run_of(entry->id);
        ASSERT(run < lab->result.programs);
        lab->clients.foretold[run].tag = entry->tag;
        lab->clients.foretold[run].ideal_us = entry->left_us;
    }
}
