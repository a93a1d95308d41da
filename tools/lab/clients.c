/* SPDX-License-Identifier: MIT */
/*
 * What: the virtual clients: programs arrive, calls follow each other as the trace says.
 *
 *     blocked --earlier calls over--> timer --due--> submitted --last token--> over
 *
 * Arrivals: the trace's, stretched to the wanted rate; a trace that repeats begins again one mean
 * gap after its last arrival. A seed other than 0 deals the programs of each repetition anew over
 * the same arrival times. Offline, or where all of a trace arrives at once: a rate of 0.
 * Work of a call, for srpt: its output tokens, and its prompt tokens at a sixteenth each. Most of a
 * prompt is cached, and a token that is not takes a share of a chunk and no decoding round.
 * Invariants: a call's index is its call id; its response time counts from when it was due.
 * Bounds: O(log calls) for each call, and its prompt.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/assert.h"
#include "tools/lab/lab.h"

#define CALLS_MAX        (1u << 27)
#define WORK_OF_OUTPUT   16     /* prompt tokens that count as much as one that is generated */

void lab_program_id(const struct lab *lab, uint32_t run, uint8_t *id)
{
    uint64_t number = run, seed = lab->settings->seed;
    memcpy(id, &number, sizeof number);
    memcpy(id + sizeof number, &seed, sizeof seed);
}

/* ---- before the first arrival ---------------------------------------------------------------- */

static double natural_rate(const struct trace *trace, uint32_t count)
{
    uint64_t span_us = trace->programs[count - 1].arrival_us - trace->programs[0].arrival_us;
    return span_us > 0 ? (double)(count - 1) * 1e6 / (double)span_us : 0;
}

static uint64_t arrival_us(const struct lab *lab, uint32_t run, uint32_t cycle)
{
    const struct trace *trace = lab->trace;
    double natural = natural_rate(trace, cycle), rate = lab->result.rate;
    if (rate == 0) {
        return LAB_EPOCH_US;
    }
    if (natural == 0) {
        return LAB_EPOCH_US + (uint64_t)(run * 1e6 / rate);
    }
    uint64_t offset = trace->programs[run % cycle].arrival_us - trace->programs[0].arrival_us;
    return LAB_EPOCH_US + (uint64_t)((double)offset * natural / rate +
                                     (double)(run / cycle) * cycle * 1e6 / rate);
}

static uint64_t draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return *state >> 33;
}

/* Which program of the trace each run is. */
static void deal(struct lab *lab, uint32_t cycle)
{
    struct lab_clients *clients = &lab->clients;
    uint64_t state = lab->settings->seed;
    uint32_t programs = lab->result.programs;
    for (uint32_t first = 0; first < programs; first += cycle) {
        uint32_t count = programs - first < cycle ? programs - first : cycle;
        for (uint32_t i = 0; i < count; i++) {
            clients->runs[first + i].program = &lab->trace->programs[i];
        }
        for (uint32_t i = count; lab->settings->seed != 0 && i-- > 1;) {
            uint32_t other = (uint32_t)(draw(&state) % (i + 1));
            const struct trace_program *program = clients->runs[first + i].program;
            clients->runs[first + i].program = clients->runs[first + other].program;
            clients->runs[first + other].program = program;
        }
    }
}

static uint64_t work_of(const struct lab *lab, uint32_t of_trace)
{
    return (uint64_t)WORK_OF_OUTPUT * lab->prompts.book.out[of_trace] +
           prompt_tokens(&lab->prompts.book, of_trace);
}

static void prepare_run(struct lab *lab, uint32_t index, uint32_t calls_first)
{
    struct lab_clients *clients = &lab->clients;
    struct lab_run *run = &clients->runs[index];
    run->calls_first = calls_first;
    run->calls_left = run->program->calls_count;
    for (uint32_t n = 0; n < run->calls_left; n++) {
        const struct trace_call *traced = &lab->trace->calls[run->program->calls_first + n];
        struct lab_call *call = &clients->calls[calls_first + n];
        *call = (struct lab_call){.run = index, .number = n, .blocked_by = traced->after_count};
        run->work_left += work_of(lab, run->program->calls_first + n);
        if (traced->after_count == 0) {
            call->due_us = clients->outcomes[index].arrival_us + traced->gap_us;
            timer_push(&clients->timer, call->due_us, calls_first + n);
        }
    }
}

static int out_of_memory(void)
{
    fprintf(stderr, "agentix-lab: out of memory\n");
    return LAB_EXIT_SYSTEM;
}

static int take_memory(struct lab *lab)
{
    struct lab_clients *clients = &lab->clients;
    uint64_t calls = 0;
    for (uint32_t i = 0; i < lab->result.programs; i++) {
        calls += clients->runs[i].program->calls_count;
    }
    if (calls > CALLS_MAX) {
        fprintf(stderr, "agentix-lab: --programs: %llu calls are too many\n",
                (unsigned long long)calls);
        return LAB_EXIT_USAGE;
    }
    clients->calls_count = lab->result.calls = (uint32_t)calls;
    clients->calls = calloc(calls, sizeof *clients->calls);
    if (clients->calls == NULL || timer_init(&clients->timer, clients->calls_count) != 0) {
        return out_of_memory();
    }
    return LAB_EXIT_OK;
}

int lab_clients_init(struct lab *lab)
{
    struct lab_clients *clients = &lab->clients;
    const struct lab_settings *settings = lab->settings;
    uint32_t programs = settings->programs != 0 ? settings->programs : lab->trace->programs_count;
    uint32_t cycle = programs < lab->trace->programs_count ? programs : lab->trace->programs_count;
    double natural = natural_rate(lab->trace, cycle);
    uint32_t calls_first = 0;
    lab->result.programs = clients->runs_left = programs;
    lab->result.rate = settings->offline ? 0 : settings->rate != 0 ? settings->rate : natural;
    clients->runs = calloc(programs, sizeof *clients->runs);
    clients->outcomes = calloc(programs, sizeof *clients->outcomes);
    if (clients->runs == NULL || clients->outcomes == NULL) {
        return out_of_memory();
    }
    deal(lab, cycle);
    int code = take_memory(lab);
    for (uint32_t i = 0; code == LAB_EXIT_OK && i < programs; i++) {
        clients->outcomes[i].arrival_us = arrival_us(lab, i, cycle);
        prepare_run(lab, i, calls_first);
        calls_first += clients->runs[i].program->calls_count;
    }
    return code;
}

void lab_clients_free(struct lab *lab)
{
    free(lab->clients.runs);
    free(lab->clients.outcomes);
    free(lab->clients.calls);
    timer_free(&lab->clients.timer);
}

/* ---- a call's way ---------------------------------------------------------------------------- */

static void fail_run(struct lab *lab, uint32_t index)
{
    struct lab_run *run = &lab->clients.runs[index];
    lab->result.refused_calls++;
    if (!run->failed) {
        run->failed = true;
        lab->clients.runs_left--;
        lab->result.failed_programs++;
    }
}

void lab_clients_submit_due(struct lab *lab)
{
    uint32_t index;
    while (timer_pop(&lab->clients.timer, lab->now_us, &index)) {
        uint32_t run = lab->clients.calls[index].run;
        timeline_due(&lab->timeline, run, index, lab->now_us);
        if (!lab->clients.runs[run].failed && !lab_submit(lab, index)) {
            fail_run(lab, run);
        }
    }
}

static void release_next(struct lab *lab, const struct lab_call *done, uint64_t path_us)
{
    const struct lab_run *run = &lab->clients.runs[done->run];
    const struct trace_call *calls = &lab->trace->calls[run->program->calls_first];
    const uint32_t *links = &lab->trace->links[calls[done->number].next_first];
    for (uint32_t i = 0; i < calls[done->number].next_count; i++) {
        struct lab_call *next = &lab->clients.calls[run->calls_first + links[i]];
        ASSERT(next->blocked_by > 0);
        next->path_us = path_us > next->path_us ? path_us : next->path_us;
        if (--next->blocked_by == 0) {
            next->due_us = lab->now_us + calls[links[i]].gap_us;
            timer_push(&lab->clients.timer, next->due_us, run->calls_first + links[i]);
            timeline_gap(&lab->timeline, done->run, run->calls_first + links[i], lab->now_us,
                         calls[links[i]].gap_us);
        }
    }
}

void lab_clients_generated(struct lab *lab, uint32_t index)
{
    struct lab_call *call = &lab->clients.calls[index];
    struct lab_run *run = &lab->clients.runs[call->run];
    struct figures_program *outcome = &lab->clients.outcomes[call->run];
    uint32_t of_trace = run->program->calls_first + call->number;
    uint64_t path_us = call->path_us + (lab->now_us - call->due_us);
    ASSERT(!call->is_over && run->calls_left > 0);
    call->is_over = true;
    lab->clients.generated++;
    run->calls_left--;
    run->work_left -= work_of(lab, of_trace);
    timeline_over(&lab->timeline, call->run, index, lab->now_us);
    if (run->failed) {
        return;
    }
    outcome->tokens += lab->prompts.book.out[of_trace];
    outcome->path_us = path_us > outcome->path_us ? path_us : outcome->path_us;
    release_next(lab, call, path_us);
    if (run->calls_left == 0) {
        outcome->whole_us = lab->now_us - outcome->arrival_us;
        outcome->completed = true;
        lab->clients.runs_left--;
        lab_frames_program_end(lab, call->run);
    }
}

void lab_clients_done(struct lab *lab, const struct wire_done *done)
{
    const struct lab_call *call = &lab->clients.calls[done->call_id];
    const struct lab_run *run = &lab->clients.runs[call->run];
    uint32_t of_trace = run->program->calls_first + call->number;
    ASSERT(call->is_over && done->finish == CALL_FINISH_LENGTH);
    ASSERT(done->generated_tokens == lab->prompts.book.out[of_trace]);
    lab->clients.done++;
    calls_write(lab, done);
    lab->result.wait_s_total += (double)done->wait_us / 1e6;
    lab->result.prompt_tokens += done->prompt_tokens;
    lab->result.cached_tokens += done->cached_tokens;
    lab->result.cut_prompts += done->prompt_tokens < lab->prompts.book.whole[of_trace];
}

void lab_clients_refused(struct lab *lab, uint32_t index)
{
    ASSERT(index < lab->clients.calls_count);
    fail_run(lab, lab->clients.calls[index].run);
}
