/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the spans of an OTLP file (`resourceSpans`, OTLP/JSON), as far as they tell of programs:
 * times, parents, and the attributes `gen_ai.*` of the semantic conventions. otlp.c makes programs
 * of them.
 */
#include "tools/trace/forms/document.h"
#include "tools/trace/pairs.h"

#define SPANS_NONE PAIRS_NONE

enum span_kind {
    SPAN_OTHER,                     /* a tool, a workflow, a request of HTTP, ... */
    SPAN_AGENT,                     /* invoke_agent */
    SPAN_CALL,                      /* of a model: chat, text_completion, generate_content */
};
struct span {
    enum span_kind kind;
    uint64_t start_us, end_us;
    struct pair id, parent;         /* of the trace and the span */
    uint32_t trace;                 /* number of the trace */
    uint32_t in_tokens, out_tokens;
    bool has_conversation, has_parent;
    struct pair conversation;
    char agent[TRACE_CLASS_BYTES_MAX + 1];  /* "": no name */
    uint32_t line;
};
struct spans {
    struct span *spans;             /* [count] */
    uint32_t count, room;
    struct pairs ids, traces;       /* a span has the number of its id */
    bool failed;                    /* there was no memory */
};

void spans_free(struct spans *spans);
/* All records of the document. */
void spans_read(struct spans *spans, struct document *document);
/* The parent, or SPANS_NONE: it has none, or is not in the file. */
uint32_t spans_parent(const struct spans *spans, uint32_t span);
