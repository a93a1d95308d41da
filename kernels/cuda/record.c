/* SPDX-License-Identifier: MIT */
/*
 * What: what the host knows of a step, uploaded in one piece: rows, block tables, and the token
 * slots, tiles and places of round 1. What only few rows have, such as biases, is uploaded for
 * these rows alone. The end of the piece comes back after each round: tokens, then outs and rounds.
 *
 * Slots of round 1: first those of rows with one token and of drafts, which attend as in later
 * rounds, then those of rows with more, which attend in tiles. Both ways give the same bits
 * (device/attention.h). The drafts of round 1 are found here, by the CPU engine's search.
 */
#include <string.h>

#include "config/base/assert.h"
#include "kernels/cuda/engine_state.h"
#include "kernels/round/draft.h"

STATIC_ASSERT(GPU_HISTORY_TOKENS == CALL_REPEAT_TOKENS, "penalty looks back as far");
STATIC_ASSERT(GPU_STOP_IDS_MAX == CALL_STOP_IDS_MAX, "room for all stop ids");
STATIC_ASSERT(GPU_BIASES_MAX == CALL_BIASES_MAX, "room for all biases");
STATIC_ASSERT(GPU_ENTRIES_MAX == 1 + CALL_TOP_LOGPROBS_MAX, "room for all alternatives");
STATIC_ASSERT(sizeof(struct gpu_entry) == sizeof(struct call_logprob), "copied as they are");
STATIC_ASSERT(sizeof(struct gpu_bias) == sizeof(struct call_bias), "copied as they are");
STATIC_ASSERT(GPU_ROW_OK == STEP_ROW_OK && GPU_ROW_NOT_FINITE == STEP_ROW_NOT_FINITE, "results");

static void *host_part(const struct gpu_engine *e, uint64_t offset)
{
    return e->host + offset;
}

static struct gpu_row row_of(const struct step_row *row, uint32_t token)
{
    const struct call_sampling *s = &row->sampling;
    struct gpu_row out = {
        .seed = s->seed,
        .temperature = s->temperature,
        .top_p = s->top_p,
        .min_p = s->min_p,
        .repeat_penalty = s->repeat_penalty,
        .presence_penalty = s->presence_penalty,
        .frequency_penalty = s->frequency_penalty,
        .top_k = s->top_k,
        .first_position = row->first_position,
        .tokens_count = row->tokens_count,
        .decode_steps = row->decode_steps,
        .token = token,
        .wants_digest = row->wants_digest,
        .history_count = row->history_count,
        .stop_ids_count = s->stop_ids_count,
        .past_count = row->past_count,
        .generated_count = row->generated_count,
        .biases_count = s->biases_count,
        .entries = call_logprob_entries(s),
    };
    memcpy(out.history, row->history, sizeof out.history);
    memcpy(out.stop_ids, s->stop_ids, sizeof out.stop_ids);
    return out;
}

/* A slot for each token of a row; the last one is sampled if the row needs tokens. */
static void row_add_slots(struct gpu_engine *e, uint32_t r)
{
    const struct step_row *row = step_row(e->step, r);
    const uint32_t *tokens = step_tokens(e->step) + row->tokens_first;
    struct gpu_slot *slots = host_part(e, e->record.slots);
    struct gpu_place *place = (struct gpu_place *)host_part(e, e->record.places) + r;
    ASSERT(row->tokens_count <= e->settings.step_tokens - e->slots_count);
    for (uint32_t i = 0; i < row->tokens_count; i++) {
        slots[e->slots_count + i] = (struct gpu_slot){tokens[i], row->first_position + i, r};
    }
    e->slots_count += row->tokens_count;
    *place = (struct gpu_place){.row = r, .slot = row->decode_steps > 0 ? e->slots_count - 1
                                                                          : GPU_NONE};
}

/* Places for a row's drafts; and the first draft: a slot for each of its tokens, which stand in the
 * row's out tokens. */
static void row_add_draft(struct gpu_engine *e, uint32_t r)
{
    const struct step_row *row = step_row(e->step, r);
    struct gpu_row *to = (struct gpu_row *)host_part(e, e->record.rows) + r;
    uint32_t *draft = (uint32_t *)host_part(e, e->record.out_tokens) +
                      (uint64_t)r * e->settings.steps_per_plan;
    struct gpu_place *places = (struct gpu_place *)host_part(e, e->record.places) + e->places_count;
    struct gpu_slot *slots = host_part(e, e->record.slots);
    const struct draft_text text = {.past = step_past(e->step, r), .past_count = row->past_count};
    const uint32_t room = row->decode_steps > 0 ? row->decode_steps - 1 : 0;
    const uint32_t count = draft_find(&text, draft, gpu_smaller(row->drafts, room));
    ASSERT(row->drafts <= e->settings.batch_calls - e->places_count);
    ASSERT(count <= e->settings.step_tokens - e->slots_count);
    to->drafts = row->drafts;
    to->draft_place = e->places_count;
    for (uint32_t i = 0; i < row->drafts; i++) {
        uint32_t position = row->first_position + row->tokens_count + i;
        places[i] = (struct gpu_place){.row = GPU_NONE, .slot = GPU_NONE};
        if (i < count) {
            places[i] = (struct gpu_place){.row = r, .slot = e->slots_count, .ahead = i + 1};
            slots[e->slots_count++] = (struct gpu_slot){draft[i], position, r};
        }
    }
    e->places_count += row->drafts;
}

static void tile_row(struct gpu_engine *e, uint32_t first_slot)
{
    const struct model_shape *s = &e->weights.shape;
    uint32_t most = gpu_tile_slots(s->heads, s->kv_heads);
    struct gpu_tile *tiles = host_part(e, e->record.tiles);
    for (uint32_t slot = first_slot; slot < e->slots_count; slot += most) {
        tiles[e->tiles_count++] =
            (struct gpu_tile){slot, gpu_smaller(most, e->slots_count - slot)};
    }
}

/* Round 1: rows with one token and drafts, then the others. */
static void write_slots(struct gpu_engine *e)
{
    uint32_t active = step_header(e->step)->rows_active;
    e->slots_count = e->tiles_count = 0;
    e->places_count = active;
    for (uint32_t r = 0; r < active; r++) {
        if (step_row(e->step, r)->tokens_count == 1) {
            row_add_slots(e, r);
        }
    }
    for (uint32_t r = 0; r < active; r++) {
        row_add_draft(e, r);
    }
    e->slots_single = e->slots_count;
    for (uint32_t r = 0; r < active; r++) {
        uint32_t first_slot = e->slots_count;
        if (step_row(e->step, r)->tokens_count > 1) {
            row_add_slots(e, r);
            tile_row(e, first_slot);
        }
    }
}

/* Where the row's log probabilities begin. */
static uint64_t entries_offset(const struct gpu_engine *e, uint32_t r)
{
    return e->record.entries +
           (uint64_t)r * e->settings.steps_per_plan * GPU_ENTRIES_MAX * sizeof(struct gpu_entry);
}

/* Bytes of a row's log probabilities, of so many tokens. */
static uint64_t entries_bytes(const struct gpu_engine *e, uint32_t r, uint32_t tokens)
{
    uint32_t entries = call_logprob_entries(&step_row(e->step, r)->sampling);
    return (uint64_t)tokens * entries * sizeof(struct gpu_entry);
}

/* What the kernels of sampling are queued for. */
static void find_wants(struct gpu_engine *e, const struct gpu_row *rows)
{
    e->draws = e->ranks = e->wants_logprobs = false;
    for (uint32_t r = 0; r < step_header(e->step)->rows_count; r++) {
        e->draws = e->draws || rows[r].temperature > 0;
        e->ranks = e->ranks || gpu_row_is_ranked(&rows[r]);
        e->wants_logprobs = e->wants_logprobs || rows[r].entries > 0;
    }
}

/* Splits of the longest row, by the end of the step. */
static uint32_t most_splits(const struct gpu_engine *e)
{
    uint32_t most = 1;
    for (uint32_t r = 0; r < step_header(e->step)->rows_count; r++) {
        const struct step_row *row = step_row(e->step, r);
        uint32_t tokens = row->first_position + row->tokens_count + row->decode_steps;
        uint32_t splits = gpu_ceil(gpu_smaller(tokens, e->settings.context_tokens),
                                   GPU_SPLIT_TOKENS);
        most = splits > most ? splits : most;
    }
    return most;
}

/* By way of the record, whose memory is pinned. */
static void send_part(struct gpu_engine *e, uint64_t offset, const void *from, uint64_t bytes)
{
    if (bytes > 0) {
        memcpy(e->host + offset, from, bytes);
        gpu_upload(e->queue, e->at + offset, e->host + offset, bytes);
    }
}

/* Of a row's past, what drafts or penalties look back on. */
static void send_past(struct gpu_engine *e, uint32_t r)
{
    const struct step_row *row = step_row(e->step, r);
    uint64_t most = e->settings.past_tokens;
    ASSERT(row->generated_count <= row->past_count && row->past_count <= most);
    uint32_t first = row->drafts > 0 ? 0 : row->past_count - row->generated_count;
    send_part(e, e->record.past + (r * most + first) * sizeof(uint32_t),
              step_past(e->step, r) + first, (row->past_count - first) * sizeof(uint32_t));
}

/* What few rows have. */
static void send_few(struct gpu_engine *e, uint32_t r)
{
    const struct step_row *row = step_row(e->step, r);
    uint64_t biases = (uint64_t)r * sizeof row->biases;
    send_past(e, r);
    send_part(e, e->record.biases + biases, row->biases,
              row->sampling.biases_count * sizeof row->biases[0]);
}

void gpu_record_send(struct gpu_engine *engine)
{
    struct gpu_engine *e = engine;
    const struct step_header *header = step_header(e->step);
    struct gpu_row *rows = host_part(e, e->record.rows);
    uint32_t *tables = host_part(e, e->record.tables);
    struct gpu_round *round = host_part(e, e->record.round);
    for (uint32_t r = 0; r < header->rows_count; r++) {
        const struct step_row *row = step_row(e->step, r);
        rows[r] = row_of(row, step_tokens(e->step)[row->tokens_first]);
        memcpy(tables + r * e->kv.tables_stride, step_blocks(e->step, r),
               row->blocks_count * sizeof(uint32_t));
        send_few(e, r);
    }
    find_wants(e, rows);
    e->splits_most = most_splits(e);
    write_slots(e);
    *round = (struct gpu_round){.standby_next = header->rows_active};
    memset(host_part(e, e->record.outs), 0, header->rows_count * sizeof(struct gpu_out));
    *e->early_stop = step_early_stop(e->step);
    gpu_upload(e->queue, e->at, e->host, e->record.end);
}

static void receive_entries(struct gpu_engine *e, uint32_t r)
{
    uint64_t offset = entries_offset(e, r), bytes = entries_bytes(e, r, e->settings.steps_per_plan);
    if (bytes > 0) {
        gpu_download(e->queue, e->host + offset, e->at + offset, bytes);
    }
}

/* The counts come after the tokens that they count, so the host may read while the next round's
 * arrive: tokens that are counted stay as they are. */
void gpu_record_receive(struct gpu_engine *engine)
{
    const struct gpu_record *record = &engine->record;
    for (uint32_t r = 0; engine->wants_logprobs && r < step_header(engine->step)->rows_count; r++) {
        receive_entries(engine, r);
    }
    gpu_download(engine->queue, engine->host + record->out_tokens,
                 engine->at + record->out_tokens, record->end - record->out_tokens);
    gpu_download(engine->queue, engine->host + record->round, engine->at + record->round,
                 record->out_tokens - record->round);
}

static enum status take_out(const struct gpu_engine *e, uint32_t r)
{
    const volatile struct gpu_out *out = (struct gpu_out *)host_part(e, e->record.outs) + r;
    uint32_t steps = e->settings.steps_per_plan, produced = out->produced;
    const uint32_t *tokens = (uint32_t *)host_part(e, e->record.out_tokens) + (uint64_t)r * steps;
    struct step_out *to = step_out(e->step, r);
    if (produced > steps) {
        return STATUS_DEVICE_FAILED;
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    memcpy(step_out_tokens(e->step, r), tokens, produced * sizeof *tokens);
    memcpy(step_logprobs(e->step, r, 0), e->host + entries_offset(e, r),
           entries_bytes(e, r, produced));
    to->result = out->result;
    to->digest = out->digest;
    to->drafted = out->drafted;
    to->agreed = out->agreed;
    to->refused = out->refused;
    step_out_publish(to, produced);
    return STATUS_OK;
}

bool gpu_record_has_ended(const struct gpu_engine *engine)
{
    const volatile struct gpu_round *round = host_part(engine, engine->record.round);
    return round->has_ended != 0;
}

enum status gpu_record_take(const struct gpu_engine *engine)
{
    const volatile struct gpu_round *round = host_part(engine, engine->record.round);
    for (uint32_t r = 0; r < step_header(engine->step)->rows_count; r++) {
        TRY(take_out(engine, r));
    }
    step_progress_round(engine->step, round->round);
    return STATUS_OK;
}
