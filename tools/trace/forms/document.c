/* SPDX-License-Identifier: MIT */
/*
 * What: jansson, one record at a time, so that a long file of short lines needs little memory.
 * Bounds: linear in the text. The depth of a value is jansson's limit, 2,048.
 */
#include "tools/trace/forms/document.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void document_init(struct document *document, const char *text, size_t bytes)
{
    *document = (struct document){.text = text, .at = text, .end = text + bytes, .line = 1};
}

static uint32_t count_lines(const char *from, const char *to)
{
    uint32_t lines = 0;
    for (; from < to; from++) {
        lines += *from == '\n';
    }
    return lines;
}

static void skip_blanks(struct document *document)
{
    while (document->at < document->end && strchr(" \t\r\n", *document->at) != NULL &&
           *document->at != '\0') {
        document->line += *document->at == '\n';
        document->at++;
    }
}

json_t *document_next(struct document *document)
{
    json_error_t error;
    if (document->fault[0] != '\0') {
        return NULL;
    }
    if (document->record > 0) {     /* the record before began at `text`, in `line` */
        document->line += count_lines(document->text, document->at);
    }
    skip_blanks(document);
    document->text = document->at;
    if (document->at == document->end) {
        return NULL;
    }
    document->record++;
    document_at(document, "%s", "");
    size_t bytes = (size_t)(document->end - document->at);
    json_t *value = json_loadb(document->at, bytes, JSON_DISABLE_EOF_CHECK, &error);
    if (value == NULL) {
        document->line += error.line > 0 ? (uint32_t)error.line - 1 : 0;
        snprintf(document->fault, sizeof document->fault, "record %u: no JSON, or too deep, at "
                 "column %d", (unsigned)document->record, error.column);
        return NULL;
    }
    document->at += error.position;
    return value;
}

void document_at(struct document *document, const char *where, ...)
{
    va_list list;
    va_start(list, where);
    vsnprintf(document->where, sizeof document->where, where, list);
    va_end(list);
}

void document_blame(struct document *document, const char *field, const char *problem)
{
    if (document->fault[0] == '\0') {
        snprintf(document->fault, sizeof document->fault, "record %u%s%s: %s: %s",
                 (unsigned)document->record, document->where[0] != '\0' ? ", " : "",
                 document->where, field, problem);
    }
}

bool document_has(const json_t *object, const char *field)
{
    const json_t *value = json_object_get(object, field);
    return value != NULL && !json_is_null(value);
}

uint64_t document_count(struct document *document, const json_t *object, const char *field,
                        uint64_t max)
{
    const json_t *value = json_object_get(object, field);
    json_int_t count = json_integer_value(value);
    if (!json_is_integer(value) || count < 0 || (uint64_t)count > max) {
        char problem[64];
        snprintf(problem, sizeof problem, "a whole number from 0 to %llu is needed",
                 (unsigned long long)max);
        document_blame(document, field, problem);
        return 0;
    }
    return (uint64_t)count;
}

uint64_t document_us(struct document *document, const json_t *object, const char *field,
                     double unit)
{
    const json_t *value = json_object_get(object, field);
    double us = json_number_value(value) * unit;
    if (!json_is_number(value) || !(us >= 0 && us <= DOCUMENT_US_MAX)) {
        document_blame(document, field, "a time from 0 on is needed");
        return 0;
    }
    return (uint64_t)(us + 0.5);
}

const char *document_text(struct document *document, const json_t *object, const char *field)
{
    const char *text = json_string_value(json_object_get(object, field));
    if (text == NULL) {
        document_blame(document, field, "a text is needed");
    }
    return text != NULL ? text : "";
}

const json_t *document_list(struct document *document, const json_t *object, const char *field)
{
    const json_t *value = json_object_get(object, field);
    if (!json_is_array(value)) {
        document_blame(document, field, "a list is needed");
        return NULL;
    }
    return value;
}
