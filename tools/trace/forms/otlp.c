/* SPDX-License-Identifier: MIT */
/*
 * What: spans of OpenTelemetry as programs. Spans of one conversation (`gen_ai.conversation.id`)
 * are a program, and so is a trace without one. A call's agent is the agent span that it lies
 * below. Agents at the top are told apart by their names, so that an agent which is asked again in
 * the same conversation goes on with its prompt; agents below an agent, by their spans.
 * Spans of tools are what lies between calls: gaps.
 * Bounds: CLIMB_MAX spans above a call; what is higher is not seen.
 */
#include <stdlib.h>

#include "tools/trace/array.h"
#include "tools/trace/forms/forms.h"
#include "tools/trace/forms/spans.h"

#define CLIMB_MAX 64

struct telemetry {
    struct spans spans;
    struct recording *recording;
    struct pair *conversations;     /* [traces] of a trace that has one */
    bool *has_conversation;
    struct pairs agents;            /* agents that have been found ... */
    uint32_t *agent, agent_count, agent_room;   /* ... and their numbers in the recording */
};
struct climb {                      /* from a call to the top */
    uint32_t agents[CLIMB_MAX], count;
};

static struct climb climb_from(const struct telemetry *telemetry, uint32_t span)
{
    struct climb climb = {0};
    for (uint32_t i = 0; i < CLIMB_MAX; i++) {
        span = spans_parent(&telemetry->spans, span);
        if (span == SPANS_NONE) {
            break;
        }
        if (telemetry->spans.spans[span].kind == SPAN_AGENT) {
            climb.agents[climb.count++] = span;
        }
    }
    return climb;
}

/* The agent of this name, a new one below `parent` when there is none. */
static uint32_t find_agent(struct telemetry *telemetry, struct pair name, uint32_t parent)
{
    uint32_t number = pairs_number(&telemetry->agents, name);
    uint32_t *moved = NULL;
    if (number != PAIRS_NONE) {
        moved = array_grown(telemetry->agent, number, &telemetry->agent_room, sizeof *moved);
    }
    if (moved == NULL) {
        telemetry->recording->failed = true;
        return 0;
    }
    telemetry->agent = moved;
    if (number == telemetry->agent_count) {
        moved[telemetry->agent_count++] = recording_agent(telemetry->recording, parent);
    }
    return moved[number];
}

static uint32_t agent_of(struct telemetry *telemetry, const struct climb *climb, uint32_t program)
{
    uint32_t agent = telemetry->recording->programs[program].agent;
    for (uint32_t i = climb->count; i-- > 0;) {
        const struct span *span = &telemetry->spans.spans[climb->agents[i]];
        struct pair name = span->id;
        if (i + 1 == climb->count) {
            name = pair_of_text(span->agent);
            name.a ^= (uint64_t)program << 32;
        }
        agent = find_agent(telemetry, name, agent);
    }
    return agent;
}

static uint32_t program_of(struct telemetry *telemetry, uint32_t index, const struct climb *climb)
{
    const struct span *span = &telemetry->spans.spans[index];
    const char *class = span->agent;
    struct pair name = telemetry->spans.traces.pairs[span->trace];
    if (span->has_conversation) {
        name = span->conversation;
    } else if (telemetry->has_conversation[span->trace]) {
        name = telemetry->conversations[span->trace];
    }
    if (climb->count > 0) {
        class = telemetry->spans.spans[climb->agents[climb->count - 1]].agent;
    }
    return recording_find(telemetry->recording, name, *class != '\0' ? class : "otlp", span->line);
}

static void add_call(struct telemetry *telemetry, uint32_t index)
{
    const struct span *span = &telemetry->spans.spans[index];
    struct recording_call call = {.start_us = span->start_us, .end_us = span->end_us,
                                  .in_tokens = span->in_tokens, .out_tokens = span->out_tokens};
    struct climb climb = climb_from(telemetry, index);
    uint32_t program = program_of(telemetry, index, &climb);
    if (telemetry->recording->failed) {
        return;
    }
    call.agent = agent_of(telemetry, &climb, program);
    recording_call(telemetry->recording, program, &call);
}

/* Any span of a trace can tell its conversation. */
static bool find_conversations(struct telemetry *telemetry)
{
    const struct spans *spans = &telemetry->spans;
    size_t traces = (size_t)spans->traces.count + 1;
    telemetry->conversations = calloc(traces, sizeof *telemetry->conversations);
    telemetry->has_conversation = calloc(traces, sizeof *telemetry->has_conversation);
    if (telemetry->conversations == NULL || telemetry->has_conversation == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < spans->count; i++) {
        const struct span *span = &spans->spans[i];
        if (span->has_conversation && !telemetry->has_conversation[span->trace]) {
            telemetry->has_conversation[span->trace] = true;
            telemetry->conversations[span->trace] = span->conversation;
        }
    }
    return true;
}

void otlp_read(struct recording *recording, struct document *document)
{
    struct telemetry telemetry = {.recording = recording};
    spans_read(&telemetry.spans, document);
    recording->failed |= telemetry.spans.failed || !find_conversations(&telemetry);
    for (uint32_t i = 0; i < telemetry.spans.count && !recording->failed; i++) {
        if (telemetry.spans.spans[i].kind == SPAN_CALL) {
            add_call(&telemetry, i);
        }
    }
    spans_free(&telemetry.spans);
    pairs_free(&telemetry.agents);
    free(telemetry.conversations);
    free(telemetry.has_conversation);
    free(telemetry.agent);
}
