/* SPDX-License-Identifier: MIT */
/*
 * What: OTLP/JSON into spans. Whole numbers of 64 bits are texts there; plain numbers are taken,
 * too. Older names of an attribute stand beside the present one.
 * Bounds: linear in the file; a span with hundreds of attributes is searched once for each of ours.
 */
#include "tools/trace/forms/spans.h"

#include <stdlib.h>
#include <string.h>

#include "config/base/fnv.h"
#include "tools/trace/array.h"

#define STATUS_ERROR 2              /* Status.code of OTLP */

void spans_free(struct spans *spans)
{
    free(spans->spans);
    pairs_free(&spans->ids);
    pairs_free(&spans->traces);
    *spans = (struct spans){0};
}

/* ---- values ---------------------------------------------------------------------------------- */

/* A number, or a text of decimal digits. False: it is none, or more than `max`. */
static bool read_whole(const json_t *value, uint64_t max, uint64_t *whole)
{
    const char *digits = json_string_value(value);
    if (json_is_integer(value)) {
        *whole = (uint64_t)json_integer_value(value);
        return json_integer_value(value) >= 0 && *whole <= max;
    }
    if (digits == NULL || *digits == '\0') {
        return false;
    }
    for (*whole = 0; *digits >= '0' && *digits <= '9' && *whole <= max / 10; digits++) {
        *whole = *whole * 10 + (uint64_t)(*digits - '0');
    }
    return *digits == '\0' && *whole <= max;
}

/* The value of the attribute, such as {"stringValue": "chat"}; NULL: there is none. */
static const json_t *attribute(const json_t *span, const char *key)
{
    const json_t *list = json_object_get(span, "attributes");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(entry, "key"));
        if (name != NULL && strcmp(name, key) == 0) {
            return json_object_get(entry, "value");
        }
    }
    return NULL;
}

static const char *text_attribute(const json_t *span, const char *key)
{
    return json_string_value(json_object_get(attribute(span, key), "stringValue"));
}

/* False when the span has neither attribute. */
static bool read_tokens(struct document *document, const json_t *span,
                        const char *const names[2], uint32_t *tokens)
{
    uint64_t whole = 0;
    const json_t *value = attribute(span, names[0]);
    value = value != NULL ? value : attribute(span, names[1]);
    if (value == NULL) {
        return false;
    }
    if (!read_whole(json_object_get(value, "intValue"), TRACE_TOKENS_MAX, &whole)) {
        document_blame(document, names[0], "an intValue from 0 to 67108864 is needed");
    }
    *tokens = (uint32_t)whole;
    return true;
}

static uint64_t read_us(struct document *document, const json_t *span, const char *field)
{
    uint64_t ns;
    if (!read_whole(json_object_get(span, field), INT64_MAX, &ns)) {
        document_blame(document, field, "a time in nanoseconds is needed");
        return 0;
    }
    return ns / 1000;
}

/* ---- a span ---------------------------------------------------------------------------------- */

static enum span_kind kind_of(const json_t *span, bool has_usage)
{
    const char *operation = text_attribute(span, "gen_ai.operation.name");
    if (operation == NULL) {
        return has_usage ? SPAN_CALL : SPAN_OTHER;
    }
    if (strcmp(operation, "invoke_agent") == 0) {
        return SPAN_AGENT;
    }
    return strcmp(operation, "chat") == 0 || strcmp(operation, "text_completion") == 0 ||
           strcmp(operation, "generate_content") == 0 ? SPAN_CALL : SPAN_OTHER;
}

static void read_usage(struct document *document, const json_t *json, struct span *span)
{
    static const char *const in[2] = {"gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"};
    static const char *const out[2] = {"gen_ai.usage.output_tokens",
                                       "gen_ai.usage.completion_tokens"};
    bool has_in = read_tokens(document, json, in, &span->in_tokens);
    bool has_out = read_tokens(document, json, out, &span->out_tokens);
    span->kind = kind_of(json, has_in && has_out);
    if (span->kind != SPAN_CALL || (has_in && has_out)) {
        return;
    }
    uint64_t code = 0;
    const json_t *status = json_object_get(json_object_get(json, "status"), "code");
    if ((read_whole(status, UINT32_MAX, &code) && code == STATUS_ERROR) ||
        text_attribute(json, "error.type") != NULL) {
        span->kind = SPAN_OTHER;    /* a call that failed has put out nothing */
    } else {
        document_blame(document, has_in ? out[0] : in[0], "it is needed");
    }
}

static void read_names(const json_t *json, struct span *span)
{
    const char *conversation = text_attribute(json, "gen_ai.conversation.id");
    const char *agent = text_attribute(json, "gen_ai.agent.name");
    if (conversation != NULL) {
        span->has_conversation = true;
        span->conversation = pair_of_text(conversation);
    }
    if (agent != NULL) {
        memcpy(span->agent, agent, strnlen(agent, TRACE_CLASS_BYTES_MAX));
    }
}

/* A span's id means something within its trace only. */
static struct pair id_in(struct pair trace, const char *id)
{
    struct pair pair = pair_of_text(id);
    return (struct pair){fnv_add(trace.a, &pair.a, sizeof pair.a),
                         fnv_add(trace.b, &pair.b, sizeof pair.b)};
}

static void read_ids(struct spans *spans, struct document *document, const json_t *json,
                     struct span *span)
{
    struct pair trace = pair_of_text(document_text(document, json, "traceId"));
    const char *parent = json_string_value(json_object_get(json, "parentSpanId"));
    span->id = id_in(trace, document_text(document, json, "spanId"));
    span->has_parent = parent != NULL && *parent != '\0';
    if (span->has_parent) {
        span->parent = id_in(trace, parent);
    }
    span->trace = pairs_number(&spans->traces, trace);
    spans->failed |= span->trace == PAIRS_NONE;
}

/* A span that has been there before is the same one. */
static void add_span(struct spans *spans, const struct span *span)
{
    uint32_t known = spans->ids.count, number = pairs_number(&spans->ids, span->id);
    if (number < known) {
        return;
    }
    struct span *moved = array_grown(spans->spans, spans->count, &spans->room, sizeof *span);
    spans->failed |= number == PAIRS_NONE || moved == NULL;
    if (!spans->failed) {
        spans->spans = moved;
        spans->spans[spans->count++] = *span;
    }
}

static void read_span(struct spans *spans, struct document *document, const json_t *json)
{
    struct span span = {.line = document->line};
    read_ids(spans, document, json, &span);
    span.start_us = read_us(document, json, "startTimeUnixNano");
    span.end_us = read_us(document, json, "endTimeUnixNano");
    if (span.end_us < span.start_us) {
        document_blame(document, "endTimeUnixNano", "it is before the start");
    }
    read_usage(document, json, &span);
    read_names(json, &span);
    add_span(spans, &span);
}

/* ---- the file -------------------------------------------------------------------------------- */

static void read_resource(struct spans *spans, struct document *document, const json_t *resource,
                          size_t index)
{
    const json_t *scopes = document_list(document, resource, "scopeSpans");
    for (size_t i = 0; i < json_array_size(scopes); i++) {
        document_at(document, "resourceSpans[%zu].scopeSpans[%zu]", index, i);
        const json_t *list = document_list(document, json_array_get(scopes, i), "spans");
        for (size_t s = 0; s < json_array_size(list) && !spans->failed; s++) {
            document_at(document, "resourceSpans[%zu].scopeSpans[%zu].spans[%zu]", index, i, s);
            read_span(spans, document, json_array_get(list, s));
        }
    }
}

void spans_read(struct spans *spans, struct document *document)
{
    json_t *record;
    while ((record = document_next(document)) != NULL) {
        const json_t *resources = document_list(document, record, "resourceSpans");
        for (size_t i = 0; i < json_array_size(resources); i++) {
            document_at(document, "resourceSpans[%zu]", i);
            read_resource(spans, document, json_array_get(resources, i), i);
        }
        json_decref(record);
    }
}

uint32_t spans_parent(const struct spans *spans, uint32_t span)
{
    const struct span *child = &spans->spans[span];
    return child->has_parent ? pairs_find(&spans->ids, child->parent) : SPANS_NONE;
}
