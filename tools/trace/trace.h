/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a trace of programs (`agentix-trace 1`), read whole and checked: programs in order of
 * arrival; calls numbered from 0; each call knows which calls come before it, which may follow it,
 * and of which parts its prompt is made.
 *
 *     agentix-trace 1
 *     # comment
 *     program <id> <arrival_us> <class>
 *     call <n> after=<n,n,...|-> gap=<us> in=<part+part+...> out=<tokens>
 *
 *     part: s:<name>:<n> shared text · u:<n> the call's own · p:<call>[:<n>] of an earlier prompt
 *           · o:<call>[:<n>] of an earlier output
 *
 * All lists lie in a few arrays that are taken while loading; records hold first and count.
 */
#include <stdint.h>

#define TRACE_CALLS_OF_PROGRAM_MAX 4096
#define TRACE_TOKENS_MAX           (64u << 20)      /* of one prompt, and of one output */
#define TRACE_CLASSES_MAX          4096
#define TRACE_CLASS_BYTES_MAX      63               /* of its name */

enum trace_part_kind { TRACE_SHARED, TRACE_UNIQUE, TRACE_PROMPT, TRACE_OUTPUT };
struct trace_part {
    enum trace_part_kind kind;
    uint32_t call;          /* PROMPT, OUTPUT: of which call of the program */
    uint32_t tokens;        /* 0: all (PROMPT, OUTPUT) */
    uint64_t key;           /* SHARED: of the name */
};
struct trace_call {
    uint64_t gap_us;
    uint32_t parts_first, parts_count;
    uint32_t after_first, after_count;      /* in `links`: calls of the program, all earlier */
    uint32_t next_first, next_count;        /* in `links`: the calls that wait for this one */
    uint32_t out_tokens, prompt_tokens;
};
struct trace_class {
    char name[TRACE_CLASS_BYTES_MAX + 1];
};
struct trace_program {
    uint64_t arrival_us;
    uint32_t calls_first, calls_count;
    uint32_t class;         /* in `classes` */
};
struct trace {
    struct trace_program *programs;
    struct trace_class *classes;    /* in the order in which they first come */
    struct trace_call *calls;
    struct trace_part *parts;
    uint32_t *links;
    uint32_t programs_count, classes_count, calls_count, parts_count, links_count;
    uint32_t calls_of_program_max;
    /* private: only trace.c */
    uint32_t programs_room, classes_room, calls_room, parts_room, links_room;
};

/* 0, or an exit code after `file:line: problem` on stderr. */
int trace_load(struct trace *trace, const char *path);
void trace_free(struct trace *trace);
