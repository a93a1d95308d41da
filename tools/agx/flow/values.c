/* SPDX-License-Identifier: MIT */
#include "tools/agx/flow/values.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/agx/printable.h"

bool values_init(struct values *values, uint32_t outputs_count)
{
    *values = (struct values){.outputs_count = outputs_count};
    memset(values->numbers, 0xff, sizeof values->numbers);
    values->values = calloc((size_t)AGX_FLOW_ROWS_MAX * outputs_count + 1, sizeof(struct value));
    return values->values != NULL;
}

static uint32_t place_of(const struct values *values, uint32_t number)
{
    uint32_t i = 0;
    while (i < AGX_FLOW_ROWS_MAX && values->numbers[i] != number) {
        i++;
    }
    return i;
}

static void drop_place(struct values *values, uint32_t place)
{
    for (uint32_t i = 0; values->values != NULL && i < values->outputs_count; i++) {
        struct value *value = &values->values[(size_t)place * values->outputs_count + i];
        free(value->tokens);
        free(value->text);
        *value = (struct value){0};
    }
    values->numbers[place] = VALUES_NONE;
}

void values_destroy(struct values *values)
{
    for (uint32_t i = 0; i < AGX_FLOW_ROWS_MAX; i++) {
        drop_place(values, i);
    }
    free(values->values);
}

/* Room for `count` more of `size` bytes each. */
static bool grow(void **list, size_t size, size_t needed, size_t *room)
{
    if (needed <= *room && *list != NULL) {
        return true;
    }
    size_t larger = 2 * needed + 16;
    void *moved = realloc(*list, larger * size);
    if (moved != NULL) {
        *list = moved;
        *room = larger;
    }
    return moved != NULL;
}

bool values_add(struct values *values, const struct agx_flow_event *event)
{
    uint32_t place = place_of(values, event->row);
    place = place < AGX_FLOW_ROWS_MAX ? place : place_of(values, VALUES_NONE);
    if (place == AGX_FLOW_ROWS_MAX || event->output >= values->outputs_count) {
        return false;
    }
    values->numbers[place] = event->row;
    struct value *value = &values->values[(size_t)place * values->outputs_count + event->output];
    size_t room = value->tokens_room;
    if (!grow((void **)&value->tokens, sizeof *value->tokens,
              (size_t)value->tokens_count + event->tokens_count, &room) ||
        !grow((void **)&value->text, 1, value->text_bytes + event->text.count,
              &value->text_room)) {
        return false;
    }
    value->tokens_room = (uint32_t)room;
    memcpy(value->tokens + value->tokens_count, event->tokens,
           event->tokens_count * sizeof *value->tokens);
    memcpy(value->text + value->text_bytes, event->text.bytes, event->text.count);
    value->tokens_count += event->tokens_count;
    value->text_bytes += event->text.count;
    return true;
}

const struct value *values_of(const struct values *values, uint32_t row)
{
    uint32_t place = place_of(values, row);
    return place < AGX_FLOW_ROWS_MAX ? values->values + (size_t)place * values->outputs_count
                                     : NULL;
}

void values_drop(struct values *values, uint32_t row)
{
    uint32_t place = place_of(values, row);
    if (place < AGX_FLOW_ROWS_MAX) {
        drop_place(values, place);
    }
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_json(const struct value *value, const struct value_name *name, FILE *out)
{
    json_t *tokens = json_array();
    for (uint32_t i = 0; i < value->tokens_count; i++) {
        json_array_append_new(tokens, json_integer(value->tokens[i]));
    }
    json_t *line = json_pack("{s:i, s:s, s:o}", "row", (int)name->row, "output", name->output,
                             "tokens", tokens);
    json_object_set_new(line, "text", json_stringn(value->text != NULL ? value->text : "",
                                                   value->text_bytes));
    json_dumpf(line, out, JSON_COMPACT | JSON_ENSURE_ASCII);   /* safe on a terminal, too */
    fputc('\n', out);
    json_decref(line);
}

void value_print(const struct value *value, const struct value_name *name, FILE *out)
{
    if (name->json) {
        print_json(value, name, out);
        return;
    }
    struct printable stream;
    printable_begin(&stream, out);
    fprintf(out, "-- row %" PRIu32 ", %s\n", name->row, name->output);
    printable_add(&stream, value->text != NULL ? value->text : "", value->text_bytes);
    printable_end(&stream);
    fputc('\n', out);
}
