/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the forms of others in which a trace can be; docs/traces.md says what is taken from each.
 * All are JSON. A reader takes every record of the document into the recording; weave() makes the
 * trace of it.
 */
#include "tools/trace/forms/document.h"
#include "tools/trace/forms/recording.h"

void agentx_read(struct recording *recording, struct document *document);
void aiperf_read(struct recording *recording, struct document *document);
void otlp_read(struct recording *recording, struct document *document);
void sglang_read(struct recording *recording, struct document *document);

/* Adds the programs of the text, in the form of this name, or, where it is NULL, in the form that
 * the first record has. False after a fault, with its line and its text. */
bool forms_read(struct build *build, const struct trace_source *source, uint32_t *line,
                char fault[TRACE_PROBLEM_BYTES]);
/* True when there is such a form. */
bool forms_have(const char *name);
