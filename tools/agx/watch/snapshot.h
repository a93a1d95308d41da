/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: an appliance at one moment, as its text port tells it: its health and statistics, and a row
 * for each program and each open call, with who it belongs to. Each page is true at its own moment;
 * a few milliseconds lie between them.
 */
#include <stdbool.h>
#include <stdint.h>

#include "tools/agx/watch/text_port.h"

#define SNAPSHOT_WORD  12           /* of the appliance: a state, a reason */
#define SNAPSHOT_NAME  64           /* of strangers */

/* SNAPSHOT_STAT(name): the statistics that are read. */
#define SNAPSHOT_STATS(SNAPSHOT_STAT) \
    SNAPSHOT_STAT(calls_accepted) SNAPSHOT_STAT(calls_refused) SNAPSHOT_STAT(calls_completed) \
    SNAPSHOT_STAT(calls_cancelled) SNAPSHOT_STAT(calls_expired) SNAPSHOT_STAT(calls_failed) \
    SNAPSHOT_STAT(calls_running) SNAPSHOT_STAT(auth_refused) SNAPSHOT_STAT(connections_open) \
    SNAPSHOT_STAT(programs_open) SNAPSHOT_STAT(programs_active) SNAPSHOT_STAT(programs_waiting) \
    SNAPSHOT_STAT(tokens_generated) SNAPSHOT_STAT(tokens_prompt) SNAPSHOT_STAT(tokens_computed) \
    SNAPSHOT_STAT(prefix_hit_tokens) SNAPSHOT_STAT(steps) SNAPSHOT_STAT(engine_busy_us) \
    SNAPSHOT_STAT(kv_blocks_used) SNAPSHOT_STAT(kv_blocks_cached) SNAPSHOT_STAT(kv_blocks_total) \
    SNAPSHOT_STAT(first_token_us_p50) SNAPSHOT_STAT(first_token_us_p90) \
    SNAPSHOT_STAT(first_token_us_p99) SNAPSHOT_STAT(token_gap_us_p50) \
    SNAPSHOT_STAT(token_gap_us_p90) SNAPSHOT_STAT(token_gap_us_p99)

/* A program, or one of its calls. */
struct snapshot_row {
    bool is_call;
    uint32_t slot;                  /* of the program or of the call */
    uint32_t program;               /* of a call: slot of its program */
    char id[SNAPSHOT_WORD];         /* of a program: how its id begins */
    char who[SNAPSHOT_NAME];        /* its key, user or domain */
    char client[SNAPSHOT_NAME];     /* what the client calls itself */
    char class_name[SNAPSHOT_NAME];
    char address[SNAPSHOT_NAME];
    char state[SNAPSHOT_WORD];      /* `running`, or why it waits */
    uint64_t level, open, running, prompt, output, service_ms, wait_ms, blocks;
    uint64_t output_per_s;          /* since the snapshot before; snapshot_compare() fills it */
};

struct snapshot {
    uint64_t taken_us;
    char health[256];
    struct {
#define SNAPSHOT_STAT(name) uint64_t name;
        SNAPSHOT_STATS(SNAPSHOT_STAT)
#undef SNAPSHOT_STAT
    } stats;
    struct snapshot_row *rows;      /* from the heap; programs, then calls */
    uint32_t rows_count, rows_max, programs_count;
};

/* Asks for all pages. EXIT_COMPLETE, or an exit code after a message. */
int snapshot_take(struct snapshot *snapshot, struct text_port *port);
/* Fills rates of `now`: what its calls have got since `before`. */
void snapshot_compare(struct snapshot *now, const struct snapshot *before);
void snapshot_free(struct snapshot *snapshot);
