/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what the forms of others have in common: programs whose calls were recorded with a start,
 * an end and their tokens. weave() makes a trace of them: which call waits for which, how long, and
 * of what its prompt is made.
 *
 * An agent is a line of calls in a program; every program has one, and agents can have agents.
 */
#include "tools/trace/build.h"
#include "tools/trace/pairs.h"

#define RECORDING_NONE       UINT32_MAX
#define RECORDING_AGENTS_DEPTH 16       /* an agent deeper than that counts as the one above it */

struct recording_program {
    char class[TRACE_CLASS_BYTES_MAX + 1];
    uint32_t line;                  /* where it begins */
    uint32_t agent;                 /* the one that every program has */
    uint32_t first, last;           /* of its calls, linked by `next`; NONE: no calls */
    uint64_t start_us, end_us;      /* of the earliest call; of the one that was added last */
};
struct recording_agent {
    uint32_t parent, depth;         /* NONE: the program's first */
    uint64_t end_us;                /* of the last call in it and in the agents below */
};
struct recording_call {
    uint64_t start_us, end_us;      /* on a clock of the whole file */
    uint32_t agent;
    uint32_t in_tokens, out_tokens;
    uint32_t texts_first, texts_count;      /* named texts with which the prompt begins */
    bool grows;                     /* in_tokens are what follows the agent's last call */
    uint32_t next;
};
struct recording {
    struct recording_program *programs;
    struct recording_agent *agents;
    struct recording_call *calls;
    struct trace_part *texts;
    uint32_t programs_count, agents_count, calls_count, texts_count, named_count;
    struct pairs names;             /* of programs that have one ... */
    uint32_t *named;                /* [named_count] ... and which one that is */
    bool failed;                    /* there was no memory */
    /* private: only recording.c */
    uint32_t programs_room, agents_room, calls_room, texts_room, named_room;
};

/* Zeroed is empty. What is added after memory has failed goes nowhere. */
void recording_free(struct recording *recording);
/* A new program; 0 when memory has failed, too. */
uint32_t recording_program(struct recording *recording, const char *class, uint32_t line);
/* The program of this name; a new one when there is none. */
uint32_t recording_find(struct recording *recording, struct pair name, const char *class,
                        uint32_t line);
uint32_t recording_agent(struct recording *recording, uint32_t parent);
/* Adds a copy of `call`. */
void recording_call(struct recording *recording, uint32_t program,
                    const struct recording_call *call);
void recording_text(struct recording *recording, struct trace_part text);

/* Adds all programs to the trace, in order of arrival. With a fault, the line of the program. */
uint32_t weave(const struct recording *recording, struct build *build);
