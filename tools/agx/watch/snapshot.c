/* SPDX-License-Identifier: MIT */
/*
 * What: pages of the text port, joined: a call has its program by slot and its client by
 * connection; a program has the state, the level and the waiting of its open calls.
 * Bounds: O(programs + calls * connections) for each snapshot.
 */
#include "tools/agx/watch/snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/agx/command.h"
#include "tools/agx/dial.h"
#include "tools/agx/printable.h"
#include "tools/agx/watch/page.h"

static void copy(char *to, size_t bytes, const char *word)
{
    snprintf(to, bytes, "%s", word);
}

/* A number of a page, 0 for a dash. */
static uint64_t number(const struct page *page, const char *title)
{
    uint64_t value = page_number(page, title);
    return value != UINT64_MAX ? value : 0;
}

/* A row more, empty; NULL: there is no memory. */
static struct snapshot_row *add_row(struct snapshot *snapshot)
{
    if (snapshot->rows_count == snapshot->rows_max) {
        uint32_t max = snapshot->rows_max > 0 ? 2 * snapshot->rows_max : 256;
        struct snapshot_row *rows = realloc(snapshot->rows, max * sizeof *rows);
        if (rows == NULL) {
            return NULL;
        }
        snapshot->rows = rows;
        snapshot->rows_max = max;
    }
    struct snapshot_row *row = &snapshot->rows[snapshot->rows_count++];
    memset(row, 0, sizeof *row);
    return row;
}

/* ---- pages ----------------------------------------------------------------------------------- */

static bool read_stats(struct snapshot *snapshot, char *text)
{
#define SNAPSHOT_STAT(name) snapshot->stats.name = page_value(text, #name);
    SNAPSHOT_STATS(SNAPSHOT_STAT)
#undef SNAPSHOT_STAT
    snapshot->taken_us = dial_now_us();
    return true;
}

static bool read_health(struct snapshot *snapshot, char *text)
{
    text[strcspn(text, "\n")] = '\0';
    printable_line(text, snapshot->health, sizeof snapshot->health);
    return true;
}

static bool read_programs(struct snapshot *snapshot, char *text)
{
    struct page page;
    page_begin(&page, text);
    while (page_next(&page)) {
        struct snapshot_row *row = add_row(snapshot);
        if (row == NULL) {
            return false;
        }
        row->slot = (uint32_t)number(&page, "slot");
        row->level = UINT64_MAX;
        row->open = number(&page, "open");
        row->service_ms = number(&page, "service_ms");
        row->wait_ms = number(&page, "wait_ms");
        row->blocks = number(&page, "blocks");
        copy(row->id, sizeof row->id, page_word(&page, "id"));
        copy(row->who, sizeof row->who, page_word(&page, "tenant"));
        copy(row->client, sizeof row->client, page_word(&page, "client"));
        copy(row->class_name, sizeof row->class_name, page_word(&page, "class_name"));
        copy(row->address, sizeof row->address, "-");
        copy(row->state, sizeof row->state, "idle");
    }
    snapshot->programs_count = snapshot->rows_count;
    return true;
}

/* `running`, why it waits, or what else the call is. */
static const char *state_of(const struct page *page)
{
    const char *why = page_word(page, "why");
    return strcmp(why, "-") == 0 ? page_word(page, "state") : why;
}

static bool read_calls(struct snapshot *snapshot, char *text)
{
    struct page page;
    page_begin(&page, text);
    while (page_next(&page)) {
        struct snapshot_row *row = add_row(snapshot);
        if (row == NULL) {
            return false;
        }
        row->is_call = true;
        row->slot = (uint32_t)number(&page, "slot");
        row->program = (uint32_t)page_number(&page, "program");
        row->level = number(&page, "queue");
        row->prompt = number(&page, "prompt");
        row->output = number(&page, "output");
        row->service_ms = number(&page, "service_ms");
        row->wait_ms = number(&page, "wait_ms");
        row->blocks = number(&page, "blocks");
        row->open = 1;
        copy(row->state, sizeof row->state, state_of(&page));
        row->running = strcmp(row->state, "running") == 0;
        copy(row->address, sizeof row->address, page_word(&page, "conn"));     /* until joined */
    }
    return true;
}

/* ---- who ------------------------------------------------------------------------------------- */

static struct snapshot_row *program_of(const struct snapshot *snapshot,
                                       const struct snapshot_row *call)
{
    for (uint32_t i = 0; i < snapshot->programs_count; i++) {
        if (snapshot->rows[i].slot == call->program) {
            return &snapshot->rows[i];
        }
    }
    return NULL;
}

/* The calls of a connection get its names. */
static bool read_connections(struct snapshot *snapshot, char *text)
{
    struct page page;
    page_begin(&page, text);
    while (page_next(&page)) {
        const char *slot = page_word(&page, "slot"), *client = page_word(&page, "client");
        for (uint32_t i = snapshot->programs_count; i < snapshot->rows_count; i++) {
            struct snapshot_row *row = &snapshot->rows[i];
            if (row->client[0] == '\0' && strcmp(row->address, slot) == 0) {
                copy(row->who, sizeof row->who, client);
                copy(row->client, sizeof row->client, page_word(&page, "affinity"));
                copy(row->address, sizeof row->address, page_word(&page, "address"));
            }
        }
    }
    return true;
}

/* What the page of calls knows better than that of programs. */
static void give_to_program(struct snapshot_row *program, const struct snapshot_row *call)
{
    bool was_idle = strcmp(program->state, "idle") == 0;
    program->level = call->level < program->level ? call->level : program->level;
    program->running += call->running;
    program->wait_ms += call->wait_ms;
    if (was_idle || call->running) {
        copy(program->state, sizeof program->state, call->state);
    }
    copy(program->address, sizeof program->address, call->address);
    if (call->client[0] != '\0') {
        copy(program->client, sizeof program->client, call->client);
    }
}

static void join(struct snapshot *snapshot)
{
    for (uint32_t i = snapshot->programs_count; i < snapshot->rows_count; i++) {
        struct snapshot_row *call = &snapshot->rows[i];
        struct snapshot_row *program = program_of(snapshot, call);
        if (call->client[0] == '\0') {
            copy(call->address, sizeof call->address, "-");     /* its client has gone */
            copy(call->client, sizeof call->client, "-");
        }
        if (program != NULL) {
            if (call->who[0] == '\0' || strcmp(call->who, "-") == 0) {
                copy(call->who, sizeof call->who, program->who);
            }
            copy(call->class_name, sizeof call->class_name, program->class_name);
            give_to_program(program, call);
        }
    }
}

/* ---- snapshots ------------------------------------------------------------------------------- */

int snapshot_take(struct snapshot *snapshot, struct text_port *port)
{
    static const struct {
        const char *question;
        bool (*read)(struct snapshot *snapshot, char *text);
    } pages[] = {{"health\n", read_health}, {"stats\n", read_stats}, {"programs\n", read_programs},
                 {"calls\n", read_calls}, {"connections\n", read_connections}};
    snapshot->rows_count = snapshot->programs_count = 0;
    for (uint32_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        int code = text_port_ask(port, pages[i].question);
        if (code == EXIT_COMPLETE && !pages[i].read(snapshot, port->page)) {
            fprintf(stderr, "agx: out of memory\n");
            code = EXIT_SYSTEM;
        }
        if (code != EXIT_COMPLETE) {
            return code;
        }
    }
    join(snapshot);
    return EXIT_COMPLETE;
}

/* Tokens of the call when `before` was taken; all that it has now if it is new. */
static uint64_t output_before(const struct snapshot *before, const struct snapshot_row *call)
{
    for (uint32_t i = before->programs_count; i < before->rows_count; i++) {
        const struct snapshot_row *row = &before->rows[i];
        bool is_it = row->slot == call->slot && row->program == call->program &&
                     row->prompt == call->prompt && row->output <= call->output;
        if (is_it) {
            return row->output;
        }
    }
    return 0;
}

void snapshot_compare(struct snapshot *now, const struct snapshot *before)
{
    uint64_t elapsed_us = now->taken_us - before->taken_us;
    for (uint32_t i = now->programs_count; i < now->rows_count; i++) {
        struct snapshot_row *call = &now->rows[i], *program = program_of(now, call);
        uint64_t tokens = call->output - output_before(before, call);
        call->output_per_s = elapsed_us > 0 ? tokens * 1000000 / elapsed_us : 0;
        if (program != NULL) {
            program->output_per_s += call->output_per_s;
        }
    }
}

void snapshot_free(struct snapshot *snapshot)
{
    free(snapshot->rows);
    *snapshot = (struct snapshot){0};
}
