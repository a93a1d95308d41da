/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what a replay reports.
 *
 * Program-level token latency is a program's response time divided by the tokens of all its calls.
 * Response time is the longest chain of calls that wait for each other, each from when it was due
 * to its last token. It excludes the gaps of tools and people between calls; "with gaps" includes
 * them, from arrival to the end. The mean is the mean of the programs' ratios.
 */
#include <stdint.h>
#include <stdio.h>

#include "tools/trace/serving.h"
#include "tools/trace/sessions.h"

struct measure {
    double *latency_us, *latency_gaps_us;       /* [programs] of completed programs, per token */
    struct distribution latency, latency_gaps;  /* of these; after measure_close() */
    struct serving serving;
    struct serving_figures serving_figures;     /* after measure_close() */
    uint32_t programs, completed, failed;
    uint64_t calls, prompt_tokens, cached_tokens, generated_tokens, preemptions;
    uint64_t wait_us, service_us;               /* sums over calls, as the appliance counted them */
    uint64_t busy, reconnects, cut_prompts, cut_outputs;
    uint64_t duration_us;
    struct sessions sessions;                   /* of a closed load */
    double rate, token_scale, gap_scale;
    const char *trace;
};

/* 0, or EXIT_SYSTEM after a message. */
int measure_init(struct measure *measure, uint32_t programs, uint32_t calls);
void measure_free(struct measure *measure);
void measure_program(struct measure *measure, uint64_t path_us, uint64_t whole_us, uint64_t tokens);
/* Works out the distributions. Printing comes after it, in either form, any number of times. */
void measure_close(struct measure *measure);
void measure_print(const struct measure *measure, FILE *out);
void measure_print_json(const struct measure *measure, FILE *out);
