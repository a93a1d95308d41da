/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a trace of programs, read whole and checked: programs in order of arrival; calls numbered
 * from 0; each call knows which calls come before it, which may follow it, and of which parts its
 * prompt is made. Our own form is `agentix-trace 1`; forms/ reads those of others (docs/traces.md).
 *
 *     agentix-trace 1
 *     # comment
 *     program <id> <arrival_us> <class>
 *     call <n> after=<n,n,...|-> gap=<us> in=<part+part+...> out=<tokens>
 *
 *     part: s:<name>:<n> shared text · r:<name>:<n> text of this run of the program · u:<n> the
 *           call's own · p:<call>[:<n>] of an earlier prompt · o:<call>[:<n>] of an earlier output
 *
 * All lists lie in a few arrays that are taken while loading; records hold first and count.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_CALLS_OF_PROGRAM_MAX 4096
#define TRACE_TOKENS_MAX           (64u << 20)      /* of one prompt, and of one output */
#define TRACE_CLASSES_MAX          4096
#define TRACE_CLASS_BYTES_MAX      63               /* of its name */
#define TRACE_FAULT_BYTES          256
#define TRACE_PROBLEM_BYTES        240              /* of a fault, without the line */

enum trace_part_kind { TRACE_SHARED, TRACE_RUN, TRACE_UNIQUE, TRACE_PROMPT, TRACE_OUTPUT };
struct trace_part {
    enum trace_part_kind kind;
    uint32_t call;          /* PROMPT, OUTPUT: of which call of the program */
    uint32_t tokens;        /* 0: all (PROMPT, OUTPUT) */
    uint64_t key;           /* SHARED, RUN: of the name */
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
    /* private: only build.c */
    uint32_t programs_room, classes_room, calls_room, parts_room, links_room;
};

struct trace_options {      /* zeroed: all of a file, in the form that it has */
    const char *program;    /* begins messages; NULL: "agx" */
    const char *form;       /* NULL: the one that the text has; or one of TRACE_FORMS */
    uint32_t context_max;   /* programs with a longer prompt and output are left out; 0: none is */
};
struct trace_source {       /* a file in memory */
    struct trace_options options;
    const char *text;
    size_t bytes;
};

/* False after a fault, `line: problem`; the trace is empty then. */
bool trace_read(struct trace *trace, const struct trace_source *source,
                char fault[TRACE_FAULT_BYTES]);
/* 0, or an exit code after `path:line: problem` on stderr. */
int trace_load(struct trace *trace, const char *path, const struct trace_options *options);
void trace_free(struct trace *trace);
/* For help texts. */
#define TRACE_FORMS "agentix, agentx, aiperf, otlp or sglang"
