/* SPDX-License-Identifier: MIT */
/*
 * What: columns and their order. The first columns fit 80; the others come as the terminal is
 * wider, and names get more room.
 * Invariant: a line has ASCII only, and never more columns than asked for.
 */
#include "tools/agx/watch/columns.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDE 120                    /* columns from which on names have more room */
#define CELL 72                     /* bytes of a cell, at most */

enum column_id {
    NAME, WHO, CLIENT, LEVEL, OPEN, RUNNING, RATE, SERVICE, WAIT, BLOCKS, STATE, TOKENS, CLASS,
    ADDRESS,
};

static const struct column {
    enum column_id id;
    const char *title;
    int width, wide;                /* negative: on the left */
    uint32_t needs;                 /* columns of the terminal, to be shown */
    char key;                       /* sorts by it; 0: none does */
    bool ascends;
} columns[] = {
    {NAME, "PROGRAM", -9, -9, 0, 'n', true},
    {WHO, "WHO", -9, -16, 0, 'u', true},
    {CLIENT, "CLIENT", -10, -23, 0, 0, false},
    {LEVEL, "LVL", 3, 3, 0, 'l', true},
    {OPEN, "OPEN", 4, 4, 0, 'o', false},
    {RUNNING, "RUN", 3, 3, 0, 0, false},
    {RATE, "TOK/S", 5, 6, 0, 't', false},
    {SERVICE, "SERVICE", 7, 8, 0, 's', false},
    {WAIT, "WAIT", 6, 8, 0, 'w', false},
    {BLOCKS, "KV", 4, 6, 0, 'k', false},
    {STATE, "STATE", -8, -8, 0, 0, false},
    {TOKENS, "TOKENS", 11, 11, WIDE, 0, false},
    {CLASS, "CLASS", -9, -12, WIDE, 0, false},
    {ADDRESS, "ADDRESS", -15, -15, WIDE, 0, false},
};
#define COLUMNS_COUNT (sizeof columns / sizeof columns[0])

/* ---- order ----------------------------------------------------------------------------------- */

static const struct column *column_of(char key)
{
    for (uint32_t i = 0; key != '\0' && i < COLUMNS_COUNT; i++) {
        if (columns[i].key == key) {
            return &columns[i];
        }
    }
    return NULL;
}

bool columns_has_key(char key)
{
    return column_of(key) != NULL;
}

const char *columns_title(char key)
{
    const struct column *column = column_of(key);
    return column != NULL ? column->title : "";
}

static uint64_t value_of(const struct snapshot_row *row, enum column_id id)
{
    switch (id) {
    case LEVEL:
        return row->level;
    case OPEN:
        return row->open;
    case RUNNING:
        return row->running;
    case RATE:
        return row->output_per_s;
    case SERVICE:
        return row->service_ms;
    case WAIT:
        return row->wait_ms;
    case BLOCKS:
        return row->blocks;
    default:
        return row->slot;
    }
}

/* What is sorted, and by what. */
struct sorting {
    const struct snapshot_row *rows;
    const struct column *by;
};

/* Programs that have nothing open are what is left of earlier work. Calls are all open. */
static bool is_at_rest(const struct snapshot_row *row)
{
    return !row->is_call && row->open == 0;
}

/* True when row x is shown before row y; equal ones keep the order of their places. */
static bool is_before(const struct sorting *sorting, uint32_t x, uint32_t y)
{
    const struct snapshot_row *one = &sorting->rows[x], *other = &sorting->rows[y];
    const struct column *by = sorting->by;
    bool is_of_work = by->id != NAME && by->id != WHO;
    if (is_of_work && is_at_rest(one) != is_at_rest(other)) {
        return is_at_rest(other);
    }
    if (by->id == WHO && strcmp(one->who, other->who) != 0) {
        return strcmp(one->who, other->who) < 0;
    }
    uint64_t left = value_of(one, by->id), right = value_of(other, by->id);
    if (left != right) {
        return by->ascends ? left < right : left > right;
    }
    return x < y;
}

/* Shell's: qsort() may allocate. */
static void sort(const struct sorting *sorting, uint32_t *places, uint32_t count)
{
    for (uint32_t gap = count / 2; gap > 0; gap /= 2) {
        for (uint32_t i = gap; i < count; i++) {
            uint32_t place = places[i], at = i;
            for (; at >= gap && is_before(sorting, place, places[at - gap]); at -= gap) {
                places[at] = places[at - gap];
            }
            places[at] = place;
        }
    }
}

/* The calls of this program, behind `places`; returns how many. */
static uint32_t take_calls(const struct snapshot *snapshot, const struct sorting *sorting,
                           uint32_t program, uint32_t *places)
{
    uint32_t count = 0;
    for (uint32_t i = snapshot->programs_count; i < snapshot->rows_count; i++) {
        if (snapshot->rows[i].program == program) {
            places[count++] = i;
        }
    }
    sort(sorting, places, count);
    return count;
}

static uint32_t take_programs(const struct snapshot *snapshot, const struct sorting *sorting,
                              uint32_t *places)
{
    uint32_t count = 0, programs = snapshot->programs_count;
    uint32_t *heads = calloc(programs + 1, sizeof *heads);
    for (uint32_t i = 0; heads != NULL && i < programs; i++) {
        heads[i] = i;
    }
    if (heads != NULL) {
        sort(sorting, heads, programs);
    }
    for (uint32_t i = 0; heads != NULL && i < programs; i++) {
        places[count++] = heads[i];
        count += take_calls(snapshot, sorting, snapshot->rows[heads[i]].slot, places + count);
    }
    free(heads);
    return count;
}

uint32_t *columns_sort(const struct snapshot *snapshot, const struct columns_order *order,
                       uint32_t *count)
{
    uint32_t *places = calloc(snapshot->rows_count + 1, sizeof *places);
    *count = 0;
    if (places == NULL) {
        return NULL;
    }
    const struct sorting sorting = {snapshot->rows, column_of(order->key)};
    if (order->view == VIEW_PROGRAMS) {
        *count = take_programs(snapshot, &sorting, places);
        return places;
    }
    for (uint32_t i = snapshot->programs_count; i < snapshot->rows_count; i++) {
        places[(*count)++] = i;
    }
    sort(&sorting, places, *count);
    return places;
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* Four to six characters: 950ms, 12.3s, 12m34, 5h07. */
static void put_time(char *cell, uint64_t ms)
{
    if (ms < 1000) {
        snprintf(cell, CELL, "%" PRIu64 "ms", ms);
    } else if (ms < 100000) {
        snprintf(cell, CELL, "%" PRIu64 ".%" PRIu64 "s", ms / 1000, ms % 1000 / 100);
    } else if (ms < 6000000) {
        snprintf(cell, CELL, "%" PRIu64 "m%02" PRIu64, ms / 60000, ms / 1000 % 60);
    } else {
        snprintf(cell, CELL, "%" PRIu64 "h%02" PRIu64, ms / 3600000, ms / 60000 % 60);
    }
}

/* 9999, 123k, 12M. */
static void put_count(char *cell, uint64_t count)
{
    if (count < 10000) {
        snprintf(cell, CELL, "%" PRIu64, count);
    } else if (count < 1000000) {
        snprintf(cell, CELL, "%" PRIu64 "k", count / 1000);
    } else {
        snprintf(cell, CELL, "%" PRIu64 "M", count / 1000000);
    }
}

/* A program by how its id begins; a call by its slot, indented where it stands below a program. */
static void put_name(const struct columns_order *order, const struct snapshot_row *row, char *cell)
{
    if (!row->is_call) {
        snprintf(cell, CELL, "%s", row->id);
    } else {
        snprintf(cell, CELL, "%s%" PRIu32, order->view == VIEW_PROGRAMS ? "  call " : "call ",
                 row->slot);
    }
}

static void put_number(enum column_id id, const struct snapshot_row *row, char *cell)
{
    uint64_t value = value_of(row, id);
    bool is_of_programs = id == OPEN || id == RUNNING;
    if ((id == LEVEL && value == UINT64_MAX) || (is_of_programs && row->is_call)) {
        cell[0] = '\0';
    } else if (id == SERVICE || id == WAIT) {
        put_time(cell, value);
    } else {
        put_count(cell, value);
    }
}

static void put_cell(const struct columns_order *order, const struct column *column,
                     const struct snapshot_row *row, char *cell)
{
    bool is_below = row->is_call && order->view == VIEW_PROGRAMS;
    switch (column->id) {
    case NAME:
        put_name(order, row, cell);
        break;
    case WHO:
        snprintf(cell, CELL, "%s", row->who);
        break;
    case CLIENT:
        snprintf(cell, CELL, "%s", is_below ? "" : row->client);
        break;
    case CLASS:
        snprintf(cell, CELL, "%s", is_below ? "" : row->class_name);
        break;
    case ADDRESS:
        snprintf(cell, CELL, "%s", is_below ? "" : row->address);
        break;
    case STATE:
        snprintf(cell, CELL, "%s", row->state);
        break;
    case TOKENS:
        cell[0] = '\0';
        if (row->is_call) {
            snprintf(cell, CELL, "%" PRIu64 "+%" PRIu64, row->prompt, row->output);
        }
        break;
    default:
        put_number(column->id, row, cell);
    }
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Appends a cell in its column, cut where it is too long. `used`: columns of the line so far. */
static uint32_t add_cell(const struct column *column, const char *cell, char *line, uint32_t used,
                         uint32_t width)
{
    int asked = width >= WIDE ? column->wide : column->width;
    uint32_t room = (uint32_t)abs(asked);
    if (width < column->needs || used + 1 >= width) {
        return used;
    }
    int bytes = snprintf(line + used, width - used + 1, asked < 0 ? "%-*.*s " : "%*.*s ",
                         (int)room, (int)room, cell);
    return used + (uint32_t)bytes < width ? used + (uint32_t)bytes : width;
}

void columns_head(const struct columns_order *order, char *line, uint32_t width)
{
    uint32_t used = 0;
    line[0] = '\0';
    for (uint32_t i = 0; i < COLUMNS_COUNT; i++) {
        bool is_call = columns[i].id == NAME && order->view == VIEW_CALLS;
        used = add_cell(&columns[i], is_call ? "CALL" : columns[i].title, line, used, width);
    }
}

void columns_line(const struct columns_order *order, const struct snapshot_row *row, char *line,
                  uint32_t width)
{
    uint32_t used = 0;
    char cell[CELL];
    line[0] = '\0';
    for (uint32_t i = 0; i < COLUMNS_COUNT; i++) {
        put_cell(order, &columns[i], row, cell);
        used = add_cell(&columns[i], cell, line, used, width);
    }
}
