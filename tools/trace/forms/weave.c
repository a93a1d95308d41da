/* SPDX-License-Identifier: MIT */
/*
 * What: a recording into a trace. What the forms do not say is taken from times and counts:
 *
 * A call waits for what was over when it began: the calls of its own agent, and the agents below
 * that had ended. The first call of an agent waits for the same of the agent above. So calls that
 * overlapped run in parallel, and a call after an agent's end waits for the whole agent.
 * The gap is the time from the last of these ends to the start.
 * A prompt is made of the named texts that the form gives, or else of the last call's of its agent:
 * that prompt and output, where the new one is longer by as much; that prompt, where it is longer;
 * nothing of it, where it is shorter. The rest is the call's own text.
 *
 * Bounds: quadratic in the calls of a program, times RECORDING_AGENTS_DEPTH.
 */
#include <string.h>

#include "tools/trace/forms/recording.h"
#include "tools/trace/timer.h"

struct loom {
    const struct recording *recording;
    struct build *build;
    struct timer programs, calls;   /* sorted by their starts */
    uint64_t start_us;              /* of the program */
    uint32_t order[TRACE_CALLS_OF_PROGRAM_MAX];     /* calls of the program, by start */
    uint32_t base;                  /* the last call of the agent, a number; NONE: the first */
};

static const struct recording_call *call_at(const struct loom *loom, uint32_t number)
{
    return &loom->recording->calls[loom->order[number]];
}

/* ---- who waits for whom ---------------------------------------------------------------------- */

/* True when the call, or all of the agent below `agent` that it belongs to, was over by then. */
static bool is_over(const struct loom *loom, const struct recording_call *call, uint32_t agent,
                    uint64_t by_us)
{
    const struct recording_agent *agents = loom->recording->agents;
    uint32_t at = call->agent;
    if (at == agent) {
        return call->end_us <= by_us;
    }
    while (agents[at].parent != RECORDING_NONE && agents[at].parent != agent) {
        at = agents[at].parent;
    }
    return agents[at].parent == agent && agents[at].end_us <= by_us;
}

/* The call waits for the earlier ones that are not over before another of them; how many. Those
 * that began last come first: what is before one of them began before it. */
static uint32_t wait_for(const struct loom *loom, uint32_t number, uint32_t agent,
                         uint64_t *over_us)
{
    const struct recording_call *call = call_at(loom, number);
    struct build_set covered = {0};
    uint32_t count = 0;
    for (uint32_t earlier = number; earlier-- > 0;) {
        const struct recording_call *other = call_at(loom, earlier);
        if (build_has(&covered, earlier) || !is_over(loom, other, agent, call->start_us)) {
            continue;
        }
        build_after(loom->build, earlier);
        build_join(loom->build, &covered, earlier);
        *over_us = other->end_us > *over_us ? other->end_us : *over_us;
        count++;
    }
    return count;
}

/* The gap before the call. */
static uint64_t weave_after(const struct loom *loom, uint32_t number)
{
    const struct recording_call *call = call_at(loom, number);
    uint64_t over_us = loom->start_us;
    uint32_t agent = call->agent, count = 0;
    while (agent != RECORDING_NONE && count == 0) {
        count = wait_for(loom, number, agent, &over_us);
        agent = loom->recording->agents[agent].parent;
    }
    return call->start_us - over_us;
}

/* Of the agent's calls that were over, the one that ended last. */
static uint32_t find_base(const struct loom *loom, uint32_t number)
{
    const struct recording_call *call = call_at(loom, number);
    uint32_t base = RECORDING_NONE;
    for (uint32_t earlier = 0; earlier < number; earlier++) {
        const struct recording_call *other = call_at(loom, earlier);
        if (other->agent == call->agent && other->end_us <= call->start_us &&
            (base == RECORDING_NONE || other->end_us >= call_at(loom, base)->end_us)) {
            base = earlier;
        }
    }
    return base;
}

/* ---- prompts --------------------------------------------------------------------------------- */

static const struct trace_call *built(const struct loom *loom, uint32_t number)
{
    return &loom->build->trace->calls[build_last_program(loom->build)->calls_first + number];
}

static void add_base(const struct loom *loom, enum trace_part_kind kind)
{
    build_part(loom->build, &(struct trace_part){.kind = kind, .call = loom->base});
}

/* Fills the prompt up to so many tokens. */
static void add_own(const struct loom *loom, uint64_t tokens)
{
    uint32_t there = build_last_call(loom->build)->prompt_tokens;
    if (tokens > there) {
        build_part(loom->build, &(struct trace_part){.kind = TRACE_UNIQUE,
                                                     .tokens = (uint32_t)(tokens - there)});
    }
}

static void add_texts(const struct loom *loom, const struct recording_call *call)
{
    for (uint32_t i = 0; i < call->texts_count; i++) {
        build_part(loom->build, &loom->recording->texts[call->texts_first + i]);
    }
}

static void weave_prompt(const struct loom *loom, const struct recording_call *call)
{
    bool has_base = loom->base != RECORDING_NONE;
    uint64_t tokens = call->in_tokens > 0 ? call->in_tokens : 1;
    uint64_t prompt = has_base ? built(loom, loom->base)->prompt_tokens : 0;
    uint64_t whole = has_base ? prompt + built(loom, loom->base)->out_tokens : 0;
    if (call->grows && has_base) {
        tokens = whole + call->in_tokens;
    }
    if (has_base && (call->grows || (call->texts_count == 0 && tokens >= prompt))) {
        add_base(loom, TRACE_PROMPT);
    }
    if (has_base && (call->grows || (call->texts_count == 0 && tokens >= whole))) {
        add_base(loom, TRACE_OUTPUT);
    }
    add_texts(loom, call);
    add_own(loom, tokens);
}

/* ---- programs -------------------------------------------------------------------------------- */

static void weave_call(struct loom *loom, uint32_t number)
{
    const struct recording_call *call = call_at(loom, number);
    build_call(loom->build);
    if (loom->build->fault != NULL) {
        return;
    }
    uint64_t gap_us = weave_after(loom, number);
    loom->base = find_base(loom, number);
    weave_prompt(loom, call);
    build_timing(loom->build, gap_us, call->out_tokens);
}

static void weave_program(struct loom *loom, const struct recording_program *program,
                          uint64_t epoch_us)
{
    const struct recording *recording = loom->recording;
    uint32_t count = 0;
    for (uint32_t at = program->first; at != RECORDING_NONE; at = recording->calls[at].next) {
        timer_push(&loom->calls, recording->calls[at].start_us, at);
    }
    if (loom->calls.count > TRACE_CALLS_OF_PROGRAM_MAX) {
        build_blame(loom->build, "too many calls in one program");
        return;
    }
    while (timer_pop(&loom->calls, UINT64_MAX, &loom->order[count])) {
        count++;
    }
    if (program->start_us - epoch_us > BUILD_US_MAX) {
        build_blame(loom->build, "program: arrives more than a year after the first");
    }
    loom->start_us = program->start_us;
    build_program(loom->build, program->start_us - epoch_us,
                  build_class(loom->build, program->class, strlen(program->class)));
    for (uint32_t number = 0; number < count && loom->build->fault == NULL; number++) {
        weave_call(loom, number);
    }
}

static uint32_t weave_all(struct loom *loom)
{
    const struct recording *recording = loom->recording;
    uint64_t epoch_us = UINT64_MAX;
    uint32_t index, line = 1;
    for (uint32_t i = 0; i < recording->programs_count; i++) {
        if (recording->programs[i].first != RECORDING_NONE) {
            timer_push(&loom->programs, recording->programs[i].start_us, i);
        }
    }
    while (loom->build->fault == NULL && timer_pop(&loom->programs, UINT64_MAX, &index)) {
        const struct recording_program *program = &recording->programs[index];
        line = program->line;
        epoch_us = epoch_us == UINT64_MAX ? program->start_us : epoch_us;
        weave_program(loom, program, epoch_us);
    }
    return line;
}

uint32_t weave(const struct recording *recording, struct build *build)
{
    struct loom loom = {.recording = recording, .build = build};
    uint32_t line = 1;
    bool taken = timer_init(&loom.programs, recording->programs_count + 1) &&
                 timer_init(&loom.calls, recording->calls_count + 1);
    if (taken && !recording->failed) {
        line = weave_all(&loom);
    } else {
        build_blame(build, "out of memory");
    }
    timer_free(&loom.programs);
    timer_free(&loom.calls);
    return line;
}
