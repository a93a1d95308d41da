/* SPDX-License-Identifier: MIT */
/*
 * What: what a trace knows of its programs before they run, and how much of it the appliance is
 * told (--predict).
 *
 *   work   for srpt: the output tokens of all calls that are not over, and their prompt tokens at a
 *          sixteenth each. Most of a prompt is cached; a token that is not cached takes a share of
 *          a chunk, not a decoding round
 *   cost   for policies with predictions: the KV token-rounds of all calls (paper 001, eq. 1, as a
 *          sum). The formula is written anew here, so that a table of programs can be compared with
 *          what the appliance says
 *
 * --cost-error L: what is told is the cost times a factor, uniform in [1/L, L], drawn from the seed
 * and the program's number: one program is told the same whatever the policy.
 */
#include <math.h>
#include <stdlib.h>

#include "config/base/hash.h"
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

/* Uniform in [1/L, L]. */
static double error_of(const struct lab_settings *settings, uint32_t run)
{
    double share = (double)(hash_fold(settings->seed ^ HASH_START_A, run ^ HASH_START_B) >> 11) /
                   (double)(UINT64_C(1) << 53);
    double least = 1 / settings->cost_error;
    return least + share * (settings->cost_error - least);
}

static struct lab_foretold foretell(const struct lab *lab, uint32_t run)
{
    const struct trace_program *program = lab->clients.player.runs[run].program;
    struct lab_foretold foretold = {0};
    for (uint32_t n = 0; n < program->calls_count; n++) {
        foretold.work_left += work_of(lab, program->calls_first + n);
        foretold.cost += cost_of(lab, program->calls_first + n);
    }
    if (lab->settings->predict == LAB_PREDICT_ORACLE) {
        foretold.told = foretold.cost;
    }
    if (foretold.told > 0 && lab->settings->cost_error > 1) {
        foretold.told = (uint64_t)fmax(1, round((double)foretold.cost *
                                                error_of(lab->settings, run)));
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

void lab_foretold_fill(const struct lab *lab, uint32_t run, uint32_t traced,
                       struct call_foretold *foretold)
{
    const struct lab_foretold *program = &lab->clients.foretold[run];
    foretold->work_left = program->work_left;
    foretold->program_cost = program->told;
    foretold->output_tokens =
        lab->settings->predict == LAB_PREDICT_ORACLE ? lab->prompts.book.out[traced] : 0;
}

void lab_foretold_over(struct lab *lab, uint32_t run, uint32_t traced)
{
    lab->clients.foretold[run].work_left -= work_of(lab, traced);
}
