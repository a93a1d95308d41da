/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: values of the rows that are open, as they come, until their row is done and they are
 * printed. Memory: from the heap, as long as the values are.
 */
#include <stdbool.h>
#include <stdio.h>

#include "tools/sdk/flow.h"

struct value {
    uint32_t *tokens;
    char *text;
    uint32_t tokens_count, tokens_room;
    size_t text_bytes, text_room;
};
struct values {
    uint32_t outputs_count;
    uint32_t numbers[AGX_FLOW_ROWS_MAX];    /* of rows; VALUES_NONE: the place is free */
    struct value *values;                   /* [AGX_FLOW_ROWS_MAX * outputs_count] */
};
#define VALUES_NONE UINT32_MAX

bool values_init(struct values *values, uint32_t outputs_count);
void values_destroy(struct values *values);
/* Takes part of a value. False: there is no memory. */
bool values_add(struct values *values, const struct agx_flow_event *event);
/* [outputs_count] of the row; NULL: none has come. */
const struct value *values_of(const struct values *values, uint32_t row);
/* Forgets what has come of the row. */
void values_drop(struct values *values, uint32_t row);

struct value_name { uint32_t row; const char *output; bool json; };
/* Prints a value: as a line of JSON, or as a person reads it. */
void value_print(const struct value *value, const struct value_name *name, FILE *out);
