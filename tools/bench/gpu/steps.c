/* SPDX-License-Identifier: MIT */
/*
 * What: whole steps as the worker runs them, with the host in their time: decode, a step that ends
 * in its first round, one whose drafts are right, prefill, swaps alone and beside decode. Of decode
 * a time is that of a round.
 *
 * Floors: of a round, its weights and KV by the bandwidth of reads; of prefill, also its operations
 * by those of a large product; of swaps, their bytes by the bandwidth of copies; beside decode, the
 * larger of both.
 */
#include "tools/bench/gpu/parts.h"

#include <stdio.h>

#define DECODED 8u                      /* rounds of a step of decode */

static void queue_step(struct machine *m, const void *unused)
{
    (void)unused;
    machine_run_step(m);
}

static double measure_step(struct machine *m, const struct row *row, uint32_t count)
{
    return table_measure(m, row, &(struct work){.queue = queue_step, .waits = true,
                                                .count = count});
}

static struct batch decode_of(const struct machine *m, uint32_t rows)
{
    return (struct batch){.rows = rows, .tokens = 1, .position = m->short_tokens - 1,
                          .decode_steps = DECODED};
}

/* ---- decode ---- */

static struct row decode_row(const struct machine *m, uint32_t rows, const char *with)
{
    struct row row = {.name = "decode, a round of 8", .with = with, .rows = rows,
                      .tokens = m->short_tokens};
    uint64_t tokens = (uint64_t)rows * (m->short_tokens + DECODED / 2);
    row.bytes = (double)(machine_weights_bytes(m) + machine_kv_bytes(m, tokens));
    row.operations = (double)machine_weights_bytes(m) * rows;   /* two for each weight of a half */
    row.floor_us = table_floor_us(m, row.bytes, row.operations);
    return row;
}

/* A step in which every row stops at its first token, beside one that goes on: what it takes in
 * full rounds is in the column of its floor. */
static void measure_early(struct machine *m, uint32_t rows, const char *with, double round_us)
{
    static uint32_t stop_ids[MACHINE_ROWS_MAX];
    const struct row row = {.name = "step that ends in round 1", .with = with, .rows = rows,
                            .tokens = m->short_tokens, .floor_us = round_us};
    if (!table_may_run(m, &row)) {
        return;
    }
    for (uint32_t r = 0; r < rows; r++) {
        stop_ids[r] = step_out_tokens(&m->step, r)[0];
    }
    struct batch batch = decode_of(m, rows);
    batch.stop_ids = stop_ids;
    machine_fill_step(m, &batch);
    measure_step(m, &row, 1);
}

/* As many tokens in one round, because all of a draft is right: what the slots of drafts cost. Of
 * so many rows that the batch has room for them. */
static void measure_drafts(struct machine *m, uint32_t rows, const char *with)
{
    struct row row = decode_row(m, rows, with);
    struct batch batch = decode_of(m, rows);
    batch.drafts = DECODED - 1;
    row.name = "8 tokens by a draft of 7";
    if (rows * DECODED > m->settings.batch_calls) {
        return;
    }
    machine_fill_step(m, &batch);
    measure_step(m, &row, 1);
    if (*step_rounds(&m->step) > 1) {
        fprintf(stderr, "bench-gpu: a draft was not right\n");
    }
}

static void measure_decode(struct machine *m, uint32_t rows, const char *with)
{
    const struct row row = decode_row(m, rows, with);
    struct batch batch = decode_of(m, rows);
    machine_fill_step(m, &batch);
    double us = measure_step(m, &row, DECODED);
    const struct row full = {.name = "step of 8 rounds", .with = with, .rows = rows,
                             .tokens = m->short_tokens, .floor_us = DECODED * row.floor_us};
    if (us > 0) {
        table_print(&full, (struct timed){DECODED * us, 1});
    } else {
        table_skip(&full, "no time is left");
    }
    measure_early(m, rows, with, us);
    measure_drafts(m, rows, with);
}

/* ---- prefill ---- */

static void measure_prefill(struct machine *m, uint32_t tokens, const char *with)
{
    const struct model_shape *s = &m->model.gguf.shape;
    double pairs = (double)tokens * (tokens + 1) / 2;
    double output = 2.0 * s->vocab_tokens * s->dim;
    struct row row = {.name = "prefill", .with = with, .rows = 1, .tokens = tokens,
                      .bytes = (double)machine_weights_bytes(m)};
    row.operations = ((double)machine_weights_bytes(m) - output) * tokens + output +
                     4 * pairs * s->heads * s->head_dim * s->layers;
    row.floor_us = table_floor_us(m, row.bytes, row.operations);
    if (!table_may_run(m, &row)) {
        return;
    }
    machine_fill_step(m, &(struct batch){.rows = 1, .tokens = tokens, .decode_steps = 1});
    measure_step(m, &row, 1);
}

/* ---- swaps ---- */

enum { SWAP_OUT = 1, SWAP_IN = 2 };

/* Runs on the host, against their order on the device: each block is a copy. */
static void add_swaps(struct machine *m, uint32_t directions)
{
    struct step_header *header = step_header(&m->step);
    struct step_move *moves = step_moves(&m->step);
    uint32_t count = m->swap_blocks, host = m->settings.kv_blocks;
    for (uint32_t i = 0; i < count && (directions & SWAP_OUT) != 0; i++) {
        moves[header->moves_count++] = (struct step_move){count - 1 - i, host + i};
    }
    for (uint32_t i = 0; i < count && (directions & SWAP_IN) != 0; i++) {
        moves[header->moves_count++] = (struct step_move){host + count + i, 2 * count - 1 - i};
    }
}

/* Beside decode of `rows` rows that takes `decode_us` for its step; 0 rows: alone. */
static void measure_swap(struct machine *m, uint32_t directions, uint32_t rows, double decode_us)
{
    static const char *const names[] = {NULL, "swap out", "swap in", "swap both ways"};
    static const char *const beside[] = {NULL, "decode step, swap out", "decode step, swap in",
                                         "decode step, swap both ways"};
    double by_us = directions == SWAP_OUT  ? m->out_bytes
                   : directions == SWAP_IN ? m->in_bytes
                                           : m->both_bytes;
    double blocks = (directions == (SWAP_OUT | SWAP_IN) ? 2.0 : 1.0) * m->swap_blocks;
    struct row row = {.name = rows > 0 ? beside[directions] : names[directions], .with = "",
                      .rows = rows, .bytes = blocks * (double)m->engine->kv.block_bytes};
    row.floor_us = by_us > 0 ? row.bytes / by_us : 0;
    row.floor_us = row.floor_us > decode_us ? row.floor_us : decode_us;
    if (m->swap_blocks == 0) {
        table_skip(&row, "this machine has no memory for it");
        return;
    }
    struct batch batch = decode_of(m, rows);
    batch.block_first = 2 * m->swap_blocks;
    machine_fill_step(m, &batch);
    add_swaps(m, directions);
    measure_step(m, &row, 1);
}

static void measure_swaps(struct machine *m, uint32_t rows)
{
    struct batch batch = decode_of(m, rows);
    const struct row row = {.name = "decode step, no swap", .with = "", .rows = rows};
    batch.block_first = 2 * m->swap_blocks;
    machine_fill_step(m, &batch);
    double decode_us = measure_step(m, &row, 1);
    for (uint32_t directions = SWAP_OUT; directions <= (SWAP_OUT | SWAP_IN); directions++) {
        measure_swap(m, directions, 0, 0);
        measure_swap(m, directions, rows, decode_us);
    }
}

static void run_with(struct machine *m, const struct rows_list *list, const char *with)
{
    for (uint32_t i = 0; i < list->count; i++) {
        measure_decode(m, list->rows[i], with);
    }
    measure_prefill(m, m->long_tokens / 4, with);
    measure_prefill(m, m->long_tokens, with);
}

void steps_run(struct machine *machine, const struct rows_list *list)
{
    if (machine->blas.library != NULL) {
        run_with(machine, list, "library");
    }
    machine_use_library(machine, false);
    run_with(machine, list, "own");
    machine_use_library(machine, true);
    measure_swaps(machine, list->rows[list->count / 2]);
}
