/* SPDX-License-Identifier: MIT */
/*
 * What: the arrays of a trace as they grow, and the rules that every trace obeys.
 * Invariants: every `call` of a part and of a link is smaller than the number of the call that
 * names it; a prompt uses only calls that are certainly over when it is built; no prompt and no
 * output is longer than TRACE_TOKENS_MAX.
 * Bounds: O(1) for each element, except for a set of the calls that are over before each call of
 * the program that is being built, and for the search of a class among all.
 */
#include "tools/trace/build.h"

#include <stdlib.h>
#include <string.h>

#include "config/base/assert.h"
#include "tools/trace/array.h"

STATIC_ASSERT(TRACE_TOKENS_MAX == 67108864, "messages say how many");

/* ---- memory ---------------------------------------------------------------------------------- */

/* The new last element of the trace's array `name`, zeroed, or NULL with a fault. */
#define ADD(build, name)                                                                         \
    ((build)->fault == NULL ? add_##name(build) : NULL)
#define DEFINE_ADD(name, type)                                                                   \
    static type *add_##name(struct build *build)                                                 \
    {                                                                                            \
        struct trace *trace = build->trace;                                                      \
        type *moved = array_grown(trace->name, trace->name##_count, &trace->name##_room,         \
                                  sizeof *trace->name);                                          \
        if (moved == NULL) {                                                                     \
            build->fault = "out of memory";                                                      \
            return NULL;                                                                         \
        }                                                                                        \
        trace->name = moved;                                                                     \
        memset(&moved[trace->name##_count], 0, sizeof *moved);                                   \
        return &moved[trace->name##_count++];                                                    \
    }
DEFINE_ADD(programs, struct trace_program)
DEFINE_ADD(classes, struct trace_class)
DEFINE_ADD(calls, struct trace_call)
DEFINE_ADD(parts, struct trace_part)
DEFINE_ADD(links, uint32_t)

bool build_init(struct build *build, struct trace *trace, uint32_t context_max)
{
    *build = (struct build){.trace = trace, .context_max = context_max};
    memset(trace, 0, sizeof *trace);
    build->before = calloc(TRACE_CALLS_OF_PROGRAM_MAX, sizeof *build->before);
    if (build->before == NULL) {
        build_blame(build, "out of memory");
    }
    return build->before != NULL;
}

void build_free(struct build *build)
{
    free(build->before);
    build->before = NULL;
}

void build_blame(struct build *build, const char *fault)
{
    build->fault = build->fault != NULL ? build->fault : fault;
}

/* ---- programs and calls ---------------------------------------------------------------------- */

struct trace_program *build_last_program(const struct build *build)
{
    return &build->trace->programs[build->trace->programs_count - 1];
}

struct trace_call *build_last_call(const struct build *build)
{
    return &build->trace->calls[build->trace->calls_count - 1];
}

static uint32_t last_number(const struct build *build)
{
    return build_last_program(build)->calls_count - 1;
}

uint32_t build_class(struct build *build, const char *name, size_t bytes)
{
    struct trace *trace = build->trace;
    for (uint32_t i = 0; i < trace->classes_count; i++) {
        const char *known = trace->classes[i].name;
        if (strlen(known) == bytes && memcmp(known, name, bytes) == 0) {
            return i;
        }
    }
    if (bytes > TRACE_CLASS_BYTES_MAX || trace->classes_count == TRACE_CLASSES_MAX) {
        build_blame(build, "program: the class is longer than 63 bytes, or there are more than "
                           "4,096");
    }
    struct trace_class *class = ADD(build, classes);
    if (class == NULL) {
        return 0;
    }
    memcpy(class->name, name, bytes);
    return trace->classes_count - 1;
}

static bool fits(const struct build *build, const struct trace_program *program)
{
    for (uint32_t n = 0; n < program->calls_count && build->context_max > 0; n++) {
        const struct trace_call *call = &build->trace->calls[program->calls_first + n];
        if (call->prompt_tokens + call->out_tokens > build->context_max) {
            return false;
        }
    }
    return true;
}

/* The last program is whole: it goes again, if one of its calls is too long. */
static void end_program(struct build *build)
{
    struct trace *trace = build->trace;
    if (trace->programs_count == 0 || fits(build, build_last_program(build))) {
        return;
    }
    trace->calls_count = build_last_program(build)->calls_first;
    trace->parts_count = build->parts_first;
    trace->links_count = build->links_first;
    trace->programs_count--;
    build->dropped++;
}

void build_program(struct build *build, uint64_t arrival_us, uint32_t class)
{
    struct trace *trace = build->trace;
    end_program(build);
    build->parts_first = trace->parts_count;
    build->links_first = trace->links_count;
    if (trace->programs_count > 0) {
        const struct trace_program *last = build_last_program(build);
        if (last->calls_count == 0) {
            build_blame(build, "the program before this one has no calls");
        }
        if (arrival_us < last->arrival_us) {
            build_blame(build, "program: arrives before the one above it");
        }
    }
    struct trace_program *program = ADD(build, programs);
    if (program != NULL) {
        *program = (struct trace_program){.arrival_us = arrival_us, .class = class,
                                          .calls_first = trace->calls_count};
    }
}

uint32_t build_call(struct build *build)
{
    struct trace *trace = build->trace;
    if (trace->programs_count == 0) {
        build_blame(build, "a call before the first program");
        return 0;
    }
    struct trace_program *program = build_last_program(build);
    if (program->calls_count == TRACE_CALLS_OF_PROGRAM_MAX) {
        build_blame(build, "too many calls in one program");
    }
    struct trace_call *call = ADD(build, calls);
    if (call == NULL) {
        return 0;
    }
    uint32_t number = program->calls_count++;
    call->after_first = trace->links_count;
    call->parts_first = trace->parts_count;
    call->out_tokens = 1;
    memset(&build->before[number], 0, sizeof build->before[number]);
    if (program->calls_count > trace->calls_of_program_max) {
        trace->calls_of_program_max = program->calls_count;
    }
    return number;
}

void build_join(const struct build *build, struct build_set *set, uint32_t call)
{
    for (uint32_t i = 0; i < BUILD_SET_WORDS; i++) {
        set->words[i] |= build->before[call].words[i];
    }
    set->words[call / 64] |= UINT64_C(1) << call % 64;
}

void build_after(struct build *build, uint32_t earlier)
{
    if (build->fault != NULL) {
        return;
    }
    struct trace *trace = build->trace;
    struct trace_call *call = build_last_call(build);
    uint32_t number = last_number(build);
    if (earlier >= number) {
        build_blame(build, "after: no earlier call");
        return;
    }
    for (uint32_t i = 0; i < call->after_count; i++) {
        if (trace->links[call->after_first + i] == earlier) {
            build_blame(build, "after: a call is named twice");
        }
    }
    uint32_t *link = ADD(build, links);
    if (link == NULL) {
        return;
    }
    *link = earlier;
    call->after_count++;
    build_join(build, &build->before[number], earlier);
}

/* ---- prompts --------------------------------------------------------------------------------- */

/* The tokens that a part of the last call adds, 0 with a fault. */
static uint64_t tokens_of(struct build *build, const struct trace_part *part)
{
    if (part->kind != TRACE_PROMPT && part->kind != TRACE_OUTPUT) {
        return part->tokens;
    }
    uint32_t number = last_number(build);
    if (part->call >= number || !build_has(&build->before[number], part->call)) {
        build_blame(build, "in: p: and o: name a call that is over before this one starts");
        return 0;
    }
    const struct trace_call *named =
        &build->trace->calls[build_last_program(build)->calls_first + part->call];
    uint32_t whole = part->kind == TRACE_PROMPT ? named->prompt_tokens : named->out_tokens;
    if (part->tokens > whole) {
        build_blame(build, "in: more tokens than that call has");
    }
    return part->tokens == 0 ? whole : part->tokens;
}

void build_part(struct build *build, const struct trace_part *part)
{
    struct trace_part *copy = ADD(build, parts);
    if (copy == NULL) {
        return;
    }
    struct trace_call *call = build_last_call(build);
    uint64_t tokens = call->prompt_tokens + tokens_of(build, part);
    if (tokens > TRACE_TOKENS_MAX) {
        build_blame(build, "in: the prompt is longer than 67108864 tokens");
        return;
    }
    *copy = *part;
    call->parts_count++;
    call->prompt_tokens = (uint32_t)tokens;
}

void build_timing(struct build *build, uint64_t gap_us, uint32_t out_tokens)
{
    if (gap_us > BUILD_US_MAX) {
        build_blame(build, "gap: longer than a year");
    }
    if (out_tokens > TRACE_TOKENS_MAX) {
        build_blame(build, "out: more than 67108864 tokens");
    }
    if (build->fault == NULL) {
        build_last_call(build)->gap_us = gap_us;
        build_last_call(build)->out_tokens = out_tokens > 0 ? out_tokens : 1;
    }
}

/* ---- the whole trace ------------------------------------------------------------------------- */

/* Inverts "after": the calls that wait for each call. */
static void link_next(struct build *build, const struct trace_program *program)
{
    struct trace *trace = build->trace;
    for (uint32_t n = 0; n < program->calls_count; n++) {
        const struct trace_call *call = &trace->calls[program->calls_first + n];
        for (uint32_t i = 0; i < call->after_count; i++) {
            uint32_t earlier = trace->links[call->after_first + i];
            trace->calls[program->calls_first + earlier].next_count++;
        }
    }
    for (uint32_t n = 0; n < program->calls_count; n++) {
        struct trace_call *call = &trace->calls[program->calls_first + n];
        call->next_first = trace->links_count;
        for (uint32_t i = 0; i < call->next_count; i++) {
            if (ADD(build, links) == NULL) {
                return;
            }
        }
        call->next_count = 0;       /* counted again below */
    }
    for (uint32_t n = 0; n < program->calls_count; n++) {
        const struct trace_call *call = &trace->calls[program->calls_first + n];
        for (uint32_t i = 0; i < call->after_count; i++) {
            uint32_t earlier = trace->links[call->after_first + i];
            struct trace_call *other = &trace->calls[program->calls_first + earlier];
            trace->links[other->next_first + other->next_count++] = n;
        }
    }
}

bool build_end(struct build *build)
{
    const struct trace *trace = build->trace;
    if (build->fault == NULL) {
        end_program(build);
    }
    if (build->dropped > 0 && trace->programs_count == 0) {
        build_blame(build, "every program has a call that is too long");
    }
    if (build->fault == NULL &&
        (trace->programs_count == 0 || build_last_program(build)->calls_count == 0)) {
        build_blame(build, "no programs, or the last one has no calls");
    }
    for (uint32_t i = 0; i < trace->programs_count && build->fault == NULL; i++) {
        link_next(build, &trace->programs[i]);
    }
    return build->fault == NULL;
}
