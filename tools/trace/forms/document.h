/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the JSON values of a file, one after the other: one value, or one on each line (JSON
 * Lines). Each is a record, numbered from 1. The fields of its objects are read with their bounds;
 * the first problem stays, and names record, object and field.
 *
 * A fault shows no bytes of the file, so a terminal can print it.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/trace/trace.h"

#define DOCUMENT_WHERE_BYTES 96
#define DOCUMENT_SECOND      1e6    /* microseconds of a unit */
#define DOCUMENT_MILLISECOND 1e3
#define DOCUMENT_US_MAX      1e16   /* three centuries: files have times since 1970, too */

struct document {
    const char *text, *at, *end;    /* `at`: behind the record */
    uint32_t line, record;          /* where the record begins; its number */
    char where[DOCUMENT_WHERE_BYTES];       /* the object in the record; "": the record itself */
    char fault[TRACE_PROBLEM_BYTES];        /* "": none */
};

void document_init(struct document *document, const char *text, size_t bytes);
/* The next record, for json_decref(); NULL: the end, or a fault. */
json_t *document_next(struct document *document);
/* Names the object whose fields are read next. */
__attribute__((format(printf, 2, 3)))
void document_at(struct document *document, const char *where, ...);
void document_blame(struct document *document, const char *field, const char *problem);

/* True when the field is there, and not null. */
bool document_has(const json_t *object, const char *field);
/* A whole number up to `max`; 0 with a fault. */
uint64_t document_count(struct document *document, const json_t *object, const char *field,
                        uint64_t max);
/* A time in microseconds, at most DOCUMENT_US_MAX; the file counts in `unit`. */
uint64_t document_us(struct document *document, const json_t *object, const char *field,
                     double unit);
/* A text; "" with a fault. */
const char *document_text(struct document *document, const json_t *object, const char *field);
/* A list; NULL with a fault. */
const json_t *document_list(struct document *document, const json_t *object, const char *field);
