/* SPDX-License-Identifier: MIT */
/*
 * What: the picture. Rates are of the time between two snapshots; percentiles and the hit rate are
 * of all time since the start.
 * Invariant: no line is longer than the terminal is wide, and no picture longer than it is high:
 * rows that do not fit are counted.
 */
#include "tools/agx/watch/frame.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BAR_COLUMNS 40

/* ---- lines ----------------------------------------------------------------------------------- */

static void put_line(const struct frame *frame, const char *line, FILE *out)
{
    fprintf(out, "%.*s%s", (int)frame->columns, line, frame->is_terminal ? "\033[K\r\n" : "\n");
}

static void put_title(const struct frame *frame, const char *line, FILE *out)
{
    if (!frame->is_terminal) {
        put_line(frame, line, out);
    } else {
        fprintf(out, "\033[7m%-*.*s\033[0m\033[K\r\n", (int)frame->columns, (int)frame->columns,
                line);
    }
}

static uint64_t per_second(uint64_t now, uint64_t before, uint64_t elapsed_us)
{
    return elapsed_us > 0 && now > before ? (now - before) * 1000000 / elapsed_us : 0;
}

static uint64_t percent(uint64_t part, uint64_t whole)
{
    return whole > 0 ? part * 100 / whole : 0;
}

/* ---- the box --------------------------------------------------------------------------------- */

/* How many calls are in each state, the most first. */
static void count_states(const struct snapshot *now, char *text, size_t bytes)
{
    static const char *const states[] = {"batch", "kv", "budget", "inactive", "client", "engine",
                                         "moves", "next", "standby"};
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        uint32_t count = 0;
        for (uint32_t j = now->programs_count; j < now->rows_count; j++) {
            count += strcmp(now->rows[j].state, states[i]) == 0;
        }
        if (count > 0 && used < bytes) {
            used += (size_t)snprintf(text + used, bytes - used, "  %s %" PRIu32, states[i], count);
        }
    }
}

static uint64_t ended(const struct snapshot *at)
{
    return at->stats.calls_completed + at->stats.calls_cancelled + at->stats.calls_expired +
           at->stats.calls_failed;
}

static void put_calls(const struct frame *frame, const struct snapshot *now,
                      const struct snapshot *before, FILE *out)
{
    char states[200], line[FRAME_COLUMNS_MAX + 1];
    uint64_t elapsed_us = now->taken_us - before->taken_us;
    count_states(now, states, sizeof states);
    snprintf(line, sizeof line, "calls     %" PRIu64 " run, %" PRIu64 "/s end, %" PRIu64
             "/s refused   waiting:%s", now->stats.calls_running,
             per_second(ended(now), ended(before), elapsed_us),
             per_second(now->stats.calls_refused, before->stats.calls_refused, elapsed_us),
             states[0] != '\0' ? states : " none");
    put_line(frame, line, out);
}

static void put_tokens(const struct frame *frame, const struct snapshot *now,
                       const struct snapshot *before, FILE *out)
{
    char line[FRAME_COLUMNS_MAX + 1];
    uint64_t elapsed_us = now->taken_us - before->taken_us;
    snprintf(line, sizeof line, "tokens    %" PRIu64 "/s out, %" PRIu64 "/s computed, %"
             PRIu64 " %% of prompts cached, engine %" PRIu64 " %% busy",
             per_second(now->stats.tokens_generated, before->stats.tokens_generated, elapsed_us),
             per_second(now->stats.tokens_computed, before->stats.tokens_computed, elapsed_us),
             percent(now->stats.prefix_hit_tokens, now->stats.tokens_prompt),
             percent(now->stats.engine_busy_us - before->stats.engine_busy_us, elapsed_us));
    put_line(frame, line, out);
}

static void put_times(const struct frame *frame, const struct snapshot *now, FILE *out)
{
    char line[FRAME_COLUMNS_MAX + 1];
    snprintf(line, sizeof line, "p50/90/99 %.1f, %.1f, %.1f ms to a first token; %.1f, %.1f, %.1f "
             "between", (double)now->stats.first_token_us_p50 / 1000,
             (double)now->stats.first_token_us_p90 / 1000,
             (double)now->stats.first_token_us_p99 / 1000,
             (double)now->stats.token_gap_us_p50 / 1000, (double)now->stats.token_gap_us_p90 / 1000,
             (double)now->stats.token_gap_us_p99 / 1000);
    put_line(frame, line, out);
}

/* `#` calls own it, `=` cached, `.` free. */
static void put_kv(const struct frame *frame, const struct snapshot *now, FILE *out)
{
    char line[FRAME_COLUMNS_MAX + 1], bar[BAR_COLUMNS + 1];
    uint64_t used = now->stats.kv_blocks_used, cached = now->stats.kv_blocks_cached;
    uint64_t total = now->stats.kv_blocks_total > 0 ? now->stats.kv_blocks_total : 1;
    for (uint64_t i = 0; i < BAR_COLUMNS; i++) {
        bool is_used = i * total < used * BAR_COLUMNS;
        bar[i] = is_used ? '#' : i * total < (used + cached) * BAR_COLUMNS ? '=' : '.';
    }
    bar[BAR_COLUMNS] = '\0';
    snprintf(line, sizeof line, "KV        [%s] %" PRIu64 "+%" PRIu64 " of %" PRIu64, bar, used,
             cached, now->stats.kv_blocks_total);
    put_line(frame, line, out);
}

static void put_programs(const struct frame *frame, const struct columns_order *order,
                         const struct snapshot *now, FILE *out)
{
    char line[FRAME_COLUMNS_MAX + 1];
    snprintf(line, sizeof line, "programs  %" PRIu64 ", %" PRIu64 " active, %" PRIu64
             " wait for room; %" PRIu64 " clients; by %s", now->stats.programs_open,
             now->stats.programs_active, now->stats.programs_waiting,
             now->stats.connections_open, columns_title(order->key));
    put_line(frame, line, out);
}

static void put_health(const struct frame *frame, const struct snapshot *now, FILE *out)
{
    char line[FRAME_COLUMNS_MAX + 1];
    const char *uptime = strstr(now->health, "uptime_s=");
    uint64_t seconds = uptime != NULL ? strtoull(uptime + strlen("uptime_s="), NULL, 10) : 0;
    const char *end = strstr(now->health, " last_step_ms=");
    int bytes = end != NULL ? (int)(end - now->health) : (int)strcspn(now->health, " ");
    snprintf(line, sizeof line, "agentix   %s  %.*s  up %" PRIu64 ":%02" PRIu64 ":%02" PRIu64,
             frame->address, bytes, now->health, seconds / 3600, seconds / 60 % 60, seconds % 60);
    put_line(frame, line, out);
}

/* ---- the picture ----------------------------------------------------------------------------- */

/* How many rows fit. */
static uint32_t rows_that_fit(const struct frame *frame, uint32_t count)
{
    uint32_t taken = FRAME_HEAD_LINES + (frame->has_help ? 1 : 0);
    uint32_t room = frame->lines > taken ? frame->lines - taken : 0;
    return frame->lines == 0 || count < room ? count : room;
}

static void put_rows(const struct frame *frame, const struct columns_order *order,
                     const struct snapshot *now, FILE *out)
{
    char line[FRAME_COLUMNS_MAX + 64];
    uint32_t count, *places = columns_sort(now, order, &count);
    uint32_t shown = rows_that_fit(frame, count);
    bool is_cut = shown < count && shown > 0;
    for (uint32_t i = 0; i < shown - (is_cut ? 1 : 0); i++) {
        columns_line(order, &now->rows[places[i]], line, frame->columns);
        put_line(frame, line, out);
    }
    if (is_cut) {
        snprintf(line, sizeof line, "... %" PRIu32 " more", count - shown + 1);
        put_line(frame, line, out);
    }
    free(places);
}

void frame_draw(const struct frame *frame, const struct columns_order *order,
                const struct snapshot *now, const struct snapshot *before, FILE *out)
{
    static const char help[] = "p programs c calls | s service w wait t tok/s k KV l level o open "
                               "u who n | q";
    char line[FRAME_COLUMNS_MAX + 1];
    put_health(frame, now, out);
    put_programs(frame, order, now, out);
    put_calls(frame, now, before, out);
    put_tokens(frame, now, before, out);
    put_times(frame, now, out);
    put_kv(frame, now, out);
    columns_head(order, line, frame->columns);
    put_title(frame, line, out);
    put_rows(frame, order, now, out);
    if (frame->has_help) {
        fprintf(out, "\033[J\033[%" PRIu32 ";1H%.*s\033[K", frame->lines, (int)frame->columns,
                help);
    }
}
