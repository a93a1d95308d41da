/* SPDX-License-Identifier: MIT */
/* What: the table of the forms, how each is recognised, and the way from text to trace. */
#include "tools/trace/forms/forms.h"

#include <stdio.h>
#include <string.h>

struct form {
    const char *name;
    const char *marks[4];           /* fields of which a record of this form has one */
    void (*read)(struct recording *recording, struct document *document);
};
static const struct form forms[] = {
    {"otlp", {"resourceSpans"}, otlp_read},
    {"agentx", {"requests"}, agentx_read},
    {"sglang", {"conversations"}, sglang_read},
    {"aiperf", {"input_length", "text_input", "messages", "turns"}, aiperf_read},
};
#define FORMS_COUNT (sizeof forms / sizeof forms[0])

static const struct form *find(const char *name)
{
    for (uint32_t i = 0; i < FORMS_COUNT; i++) {
        if (strcmp(forms[i].name, name) == 0) {
            return &forms[i];
        }
    }
    return NULL;
}

bool forms_have(const char *name)
{
    return find(name) != NULL;
}

static bool has_mark(const struct form *form, const json_t *record)
{
    for (uint32_t i = 0; i < sizeof form->marks / sizeof form->marks[0]; i++) {
        if (form->marks[i] != NULL && document_has(record, form->marks[i])) {
            return true;
        }
    }
    return false;
}

/* By the fields of the first record; NULL after a fault. */
static const struct form *recognise(struct document *document)
{
    json_t *record = document_next(document);
    const struct form *found = NULL;
    for (uint32_t i = 0; i < FORMS_COUNT && found == NULL; i++) {
        found = has_mark(&forms[i], record) ? &forms[i] : NULL;
    }
    if (found == NULL && document->fault[0] == '\0') {
        snprintf(document->fault, sizeof document->fault, "record 1: no field of a known form: "
                 "resourceSpans, requests, conversations, input_length, text_input, messages or "
                 "turns");
    }
    json_decref(record);
    return found;
}

/* Into the recording. */
static void read_records(struct recording *recording, struct document *document,
                         const struct trace_source *source)
{
    const struct form *form = source->options.form != NULL ? find(source->options.form)
                                                          : recognise(document);
    if (form != NULL) {
        document_init(document, source->text, source->bytes);
        form->read(recording, document);
    }
}

bool forms_read(struct build *build, const struct trace_source *source, uint32_t *line,
                char fault[TRACE_PROBLEM_BYTES])
{
    struct recording recording = {0};
    struct document document;
    document_init(&document, source->text, source->bytes);
    read_records(&recording, &document, source);
    *line = document.line;
    snprintf(fault, TRACE_PROBLEM_BYTES, "%s", document.fault);
    bool is_read = document.fault[0] == '\0';
    if (is_read) {
        *line = weave(&recording, build);
        is_read = build_end(build);
        snprintf(fault, TRACE_PROBLEM_BYTES, "%s", is_read ? "" : build->fault);
    }
    recording_free(&recording);
    return is_read;
}
