/* SPDX-License-Identifier: MIT */
/*
 * What: the arrays of a recording as they grow.
 * Invariants: the agents above an agent have smaller numbers. The calls of a program are in the
 * order in which they were added.
 * Bounds: O(1) for each element, O(depth) for a call.
 */
#include "tools/trace/forms/recording.h"

#include <stdlib.h>
#include <string.h>

#include "tools/trace/array.h"

/* The new last element of the array `name`, zeroed; NULL when memory has failed. */
#define DEFINE_ADD(name, type)                                                                   \
    static type *add_##name(struct recording *recording)                                         \
    {                                                                                            \
        type *moved = NULL;                                                                      \
        if (!recording->failed) {                                                                \
            moved = array_grown(recording->name, recording->name##_count,                        \
                                &recording->name##_room, sizeof *recording->name);               \
        }                                                                                        \
        if (moved == NULL) {                                                                     \
            recording->failed = true;                                                            \
            return NULL;                                                                         \
        }                                                                                        \
        recording->name = moved;                                                                 \
        memset(&moved[recording->name##_count], 0, sizeof *moved);                               \
        return &moved[recording->name##_count++];                                                \
    }
DEFINE_ADD(programs, struct recording_program)
DEFINE_ADD(agents, struct recording_agent)
DEFINE_ADD(calls, struct recording_call)
DEFINE_ADD(texts, struct trace_part)

void recording_free(struct recording *recording)
{
    free(recording->programs);
    free(recording->agents);
    free(recording->calls);
    free(recording->texts);
    free(recording->named);
    pairs_free(&recording->names);
    *recording = (struct recording){0};
}

/* What has no place in a name becomes a mark; what is too long is left out. */
static void write_class(char *class, const char *name)
{
    size_t length = strnlen(name, TRACE_CLASS_BYTES_MAX);
    while (length > 0 && ((unsigned char)name[length] & 0xc0) == 0x80) {
        length--;                   /* not in the middle of a character */
    }
    for (size_t i = 0; i < length; i++) {
        class[i] = (unsigned char)name[i] <= ' ' || name[i] == 0x7f ? '_' : name[i];
    }
    class[length] = '\0';
}

uint32_t recording_program(struct recording *recording, const char *class, uint32_t line)
{
    uint32_t agent = recording_agent(recording, RECORDING_NONE);
    struct recording_program *program = add_programs(recording);
    if (program == NULL) {
        return 0;
    }
    *program = (struct recording_program){.line = line, .agent = agent, .start_us = UINT64_MAX,
                                          .first = RECORDING_NONE, .last = RECORDING_NONE};
    write_class(program->class, class);
    return recording->programs_count - 1;
}

uint32_t recording_find(struct recording *recording, struct pair name, const char *class,
                        uint32_t line)
{
    uint32_t number = pairs_number(&recording->names, name);
    uint32_t *moved = NULL;
    if (number != PAIRS_NONE) {
        moved = array_grown(recording->named, number, &recording->named_room,
                            sizeof *recording->named);
    }
    if (moved == NULL) {
        recording->failed = true;
        return 0;
    }
    bool is_new = number >= recording->named_count;
    recording->named = moved;
    if (is_new) {
        recording->named[number] = recording_program(recording, class, line);
        recording->named_count = number + 1;
    }
    return recording->named[number];
}

uint32_t recording_agent(struct recording *recording, uint32_t parent)
{
    uint32_t depth = parent == RECORDING_NONE || recording->failed
                         ? 0 : recording->agents[parent].depth + 1;
    if (depth > RECORDING_AGENTS_DEPTH) {
        return parent;
    }
    struct recording_agent *agent = add_agents(recording);
    if (agent == NULL) {
        return 0;
    }
    *agent = (struct recording_agent){.parent = parent, .depth = depth};
    return recording->agents_count - 1;
}

void recording_text(struct recording *recording, struct trace_part text)
{
    struct trace_part *copy = add_texts(recording);
    if (copy != NULL) {
        *copy = text;
    }
}

void recording_call(struct recording *recording, uint32_t program,
                    const struct recording_call *call)
{
    struct recording_call *copy = add_calls(recording);
    if (copy == NULL) {
        return;
    }
    struct recording_program *owner = &recording->programs[program];
    uint32_t index = recording->calls_count - 1;
    *copy = *call;
    copy->next = RECORDING_NONE;
    if (owner->first == RECORDING_NONE) {
        owner->first = index;
    } else {
        recording->calls[owner->last].next = index;
    }
    owner->last = index;
    owner->start_us = call->start_us < owner->start_us ? call->start_us : owner->start_us;
    owner->end_us = call->end_us;
    for (uint32_t at = call->agent; at != RECORDING_NONE; at = recording->agents[at].parent) {
        struct recording_agent *agent = &recording->agents[at];
        agent->end_us = call->end_us > agent->end_us ? call->end_us : agent->end_us;
    }
}
