/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: builds a trace, program by program and call by call, for the readers of all forms. Every
 * rule of a trace is checked here; after the first fault nothing more is added.
 *
 *     build_init, { build_program, { build_call, build_after.., build_part.. }.. }.., build_end
 */
#include <stdbool.h>
#include <stddef.h>

#include "tools/trace/trace.h"

#define BUILD_SET_WORDS (TRACE_CALLS_OF_PROGRAM_MAX / 64)
#define BUILD_US_MAX    (UINT64_C(365) * 86400 * 1000000)   /* an arrival, a gap */

struct build_set { uint64_t words[BUILD_SET_WORDS]; };      /* of the calls of a program */
struct build {
    struct trace *trace;
    const char *fault;              /* the first problem, NULL: none */
    struct build_set *before;       /* [TRACE_CALLS_OF_PROGRAM_MAX]: calls over before call n */
    uint32_t context_max;           /* a program with a longer prompt and output goes; 0: none */
    uint32_t parts_first, links_first;      /* of the last program */
    uint32_t dropped;               /* programs that went */
};

/* Of an empty trace. False: no memory, which is a fault, too. build_free() is due in any case. */
bool build_init(struct build *build, struct trace *trace, uint32_t context_max);
void build_free(struct build *build);
void build_blame(struct build *build, const char *fault);

/* The class of this name, which needs no end; a new one comes last. */
uint32_t build_class(struct build *build, const char *name, size_t bytes);
void build_program(struct build *build, uint64_t arrival_us, uint32_t class);
/* Opens the next call of the last program; its number, or 0 with a fault. */
uint32_t build_call(struct build *build);
/* What follows is of the last call. It waits for the earlier call. */
void build_after(struct build *build, uint32_t earlier);
/* Its prompt goes on with a copy of `part`. */
void build_part(struct build *build, const struct trace_part *part);
/* 0: as one token, the least that a call can put out. */
void build_timing(struct build *build, uint64_t gap_us, uint32_t out_tokens);
/* All is there: links each call to those that wait for it. False with a fault. */
bool build_end(struct build *build);

/* The last program, the last call; there is one. */
struct trace_program *build_last_program(const struct build *build);
struct trace_call *build_last_call(const struct build *build);

static inline bool build_has(const struct build_set *set, uint32_t call)
{
    return (set->words[call / 64] >> call % 64 & 1) != 0;
}
/* Adds the call and all that is over before it. */
void build_join(const struct build *build, struct build_set *set, uint32_t call);
