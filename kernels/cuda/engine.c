/* SPDX-License-Identifier: MIT */
/*
 * What: the GPU engine; see engine.h. A step is
 *
 *   record    what the host knows of it: rows, block tables, the feeds and places of round 1, in one
 *             piece that is uploaded at once (struct record)
 *   moves     KV blocks, before any row runs; blocks side by side on both sides are one copy
 *   rounds    forward pass, sample, advance: queued one behind the other, as many as there can be;
 *             those that nobody needs any more find no feeds
 *   outs      how it ended, downloaded at once
 *
 * While it waits the host counts rounds that are done, which is what the heartbeat tells, and hands
 * the core's haste on to where the device reads it.
 *
 * Feeds of round 1: rows of one token first, which attend as in later rounds, then rows of more,
 * which attend in tiles. Both ways have the same bits (kernels/cuda/attention.h).
 */
#include "kernels/cuda/engine.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "appliance/base/assert.h"
#include "kernels/rope.h"

#define STAGING_BYTES (UINT64_C(8) << 20)   /* weights on their way to the device */
#define RUN_BYTES_MAX (UINT64_C(64) << 20)  /* one copy */
#define NAP_NS        20000

/* Of a step, on the host and on the device alike: bytes from the start. What comes back begins at
 * `round`. */
struct record {
    uint64_t rows, tables, feeds, tiles, places;
    uint64_t round, outs, out_tokens;
    uint64_t end;
};

/* Activations, of as many feeds as a step can have; float (feeds, width). */
struct buffer {
    uint64_t at;
    uint32_t width;
};

struct gpu_engine {
    struct kernels_settings settings;
    struct gpu_weights weights;
    struct gpu_queue *queue;
    volatile uint64_t *heartbeat;
    struct CUevent_st **events;         /* [steps_per_plan]: behind each round */
    uint32_t rows_max;                  /* of a step */
    struct gpu_kv kv;                   /* of layer 0, with the tables of the record */
    uint8_t *kv_host;
    struct record record;
    uint8_t *host;                      /* the record, pinned */
    uint64_t at;                        /* the record on the device */
    uint32_t *haste;                    /* pinned; the device reads it between two rounds */
    uint8_t *staging;                   /* pinned, for boot */
    uint64_t rope, partials, sample_weights;
    struct buffer x, normed, q, k, v, attended, gate, up, delta, gathered, logits;
    /* The step. */
    const struct step *step;
    uint32_t single_feeds;              /* of rows of one token */
    uint32_t feeds_count, tiles_count, places_count;
};

/* ---- memory ---- */

static uint64_t part(uint64_t *end, uint64_t count, uint64_t bytes)
{
    uint64_t at = *end;
    *end += gpu_taken_bytes(count, bytes);
    return at;
}

static struct record record_of(const struct kernels_settings *s)
{
    struct record r = {0};
    uint64_t rows = (uint64_t)s->batch_calls + s->standby_calls, end = 0;
    r.rows = part(&end, rows, sizeof(struct gpu_row));
    r.tables = part(&end, rows, s->blocks_per_call * sizeof(uint32_t));
    r.feeds = part(&end, s->step_tokens, sizeof(struct gpu_feed));
    r.tiles = part(&end, s->step_tokens, sizeof(struct gpu_tile));
    r.places = part(&end, s->batch_calls, sizeof(struct gpu_place));
    r.round = part(&end, 1, sizeof(struct gpu_round));
    r.outs = part(&end, rows, sizeof(struct gpu_out));
    r.out_tokens = part(&end, rows, s->steps_per_plan * sizeof(uint32_t));
    r.end = end;
    return r;
}

static uint32_t kv_type(const struct kernels_settings *settings)
{
    return settings->kv_halves ? GPU_F16 : GPU_F32;
}

static uint64_t kv_block_bytes(const struct kernels_settings *settings,
                               const struct model_shape *s)
{
    uint64_t number = settings->kv_halves ? 2 : 4;
    uint64_t bytes = number * s->layers * 2 * s->kv_heads * s->head_dim * settings->kv_block_tokens;
    return gpu_taken_bytes(1, bytes);
}

static uint32_t splits_of(const struct kernels_settings *settings)
{
    return gpu_ceil(settings->context_tokens, GPU_SPLIT_TOKENS);
}

/* Walked with a device to take, and without to count. */
struct taking {
    struct gpu_queue *queue;
    uint64_t bytes;
};

static uint64_t take(struct taking *taking, uint64_t count, uint64_t bytes)
{
    taking->bytes += gpu_taken_bytes(count, bytes);
    return taking->queue != NULL ? gpu_take(taking->queue, count, bytes) : 0;
}

static struct buffer take_buffer(struct taking *taking, uint64_t rows, uint32_t width)
{
    return (struct buffer){take(taking, rows, (uint64_t)width * sizeof(float)), width};
}

static void take_all(struct gpu_engine *e, const struct model_shape *s, struct taking *taking)
{
    const struct kernels_settings *t = &e->settings;
    uint64_t feeds = t->step_tokens, calls = t->batch_calls;
    e->record = record_of(t);
    e->at = take(taking, 1, e->record.end);
    e->kv.blocks = take(taking, t->kv_blocks, kv_block_bytes(t, s));
    e->rope = take(taking, t->context_tokens, (uint64_t)s->rope_dim * sizeof(float));
    e->partials = take(taking, calls * s->heads * splits_of(t), (s->head_dim + 2) * sizeof(float));
    e->sample_weights = take(taking, calls, (uint64_t)s->vocab_tokens * sizeof(float));
    e->x = take_buffer(taking, feeds, s->dim);
    e->normed = take_buffer(taking, feeds, s->dim);
    e->q = take_buffer(taking, feeds, s->heads * s->head_dim);
    e->k = take_buffer(taking, feeds, s->kv_heads * s->head_dim);
    e->v = take_buffer(taking, feeds, s->kv_heads * s->head_dim);
    e->attended = take_buffer(taking, feeds, s->heads * s->head_dim);
    e->gate = take_buffer(taking, feeds, s->ffn_dim);
    e->up = take_buffer(taking, feeds, s->ffn_dim);
    e->delta = take_buffer(taking, feeds, s->dim);
    e->gathered = take_buffer(taking, calls, s->dim);
    e->logits = take_buffer(taking, calls, s->vocab_tokens);
}

uint64_t gpu_engine_bytes(const struct kernels_settings *settings, const struct model_shape *shape)
{
    struct gpu_engine engine = {.settings = *settings};
    struct taking taking = {0};
    take_all(&engine, shape, &taking);
    return taking.bytes;
}

void gpu_engine_plan(struct plan *plan, const struct kernels_settings *settings,
                     const struct model_shape *shape)
{
    plan_add(plan, TIER_ENGINE, "gpu engine", 1, sizeof(struct gpu_engine));
    plan_add(plan, TIER_ENGINE, "gpu events", settings->steps_per_plan, sizeof(void *));
    plan_add(plan, TIER_ENGINE, "gpu step", 1, record_of(settings).end);
    plan_add(plan, TIER_ENGINE, "gpu haste", 1, sizeof(uint32_t));
    plan_add(plan, TIER_ENGINE, "gpu staging", 1, STAGING_BYTES);
    plan_add(plan, TIER_ENGINE, "gpu rope table", settings->context_tokens,
             (uint64_t)shape->rope_dim * sizeof(float));
    plan_add(plan, TIER_ENGINE, "gpu host kv blocks", settings->kv_host_blocks,
             kv_block_bytes(settings, shape));
}

/* ---- boot ---- */

static void take_host(struct gpu_engine *e, struct arena *arena, float **rope)
{
    const struct kernels_settings *t = &e->settings;
    const struct model_shape *s = &e->weights.shape;
    e->events = arena_take(arena, t->steps_per_plan, sizeof *e->events);
    e->host = arena_take(arena, 1, e->record.end);
    e->haste = arena_take(arena, 1, sizeof *e->haste);
    e->staging = arena_take(arena, 1, STAGING_BYTES);
    *rope = arena_take(arena, t->context_tokens, (uint64_t)s->rope_dim * sizeof(float));
    e->kv_host = arena_take(arena, t->kv_host_blocks, e->kv.block_bytes);
}

static void set_kv(struct gpu_engine *e)
{
    const struct model_shape *s = &e->weights.shape;
    e->kv.block_bytes = kv_block_bytes(&e->settings, s);
    e->kv.tables = e->at + e->record.tables;
    e->kv.tables_stride = e->settings.blocks_per_call;
    e->kv.type = kv_type(&e->settings);
    e->kv.kv_heads = s->kv_heads;
    e->kv.head_dim = s->head_dim;
    e->kv.block_tokens = e->settings.kv_block_tokens;
}

static enum status fill_device(struct gpu_engine *e, const struct gguf *gguf,
                               const struct gguf_source *source, float *rope,
                               struct config_error *error)
{
    const struct model_shape *s = &e->weights.shape;
    uint32_t context = e->settings.context_tokens;
    TRY(gpu_weights_load(&e->weights, e->queue, gguf, source, e->staging, STAGING_BYTES, error));
    kernels_rope_fill(rope, s, e->weights.rope_factors, context);
    gpu_upload(e->queue, e->rope, rope, (uint64_t)context * s->rope_dim * sizeof(float));
    for (uint32_t i = 0; i < e->settings.steps_per_plan; i++) {
        gpu_create_event(e->queue, &e->events[i]);
    }
    return gpu_check(e->queue, error);
}

enum status gpu_engine_init(struct gpu_engine **engine, const struct kernels_settings *settings,
                            const struct gguf *gguf, const struct gguf_source *source,
                            struct gpu_queue *queue, struct arena *arena,
                            volatile uint64_t *heartbeat, struct config_error *error)
{
    ASSERT(settings->step_tokens >= settings->batch_calls);
    struct taking taking = {.queue = queue};
    float *rope = NULL;
    gpu_pin(queue, arena->base, arena->size_bytes);
    struct gpu_engine *e = arena_take(arena, 1, sizeof *e);
    e->settings = *settings;
    e->queue = queue;
    e->heartbeat = heartbeat;
    e->rows_max = settings->batch_calls + settings->standby_calls;
    e->weights.shape = gguf->shape;
    take_all(e, &gguf->shape, &taking);
    set_kv(e);
    take_host(e, arena, &rope);
    *engine = e;
    return fill_device(e, gguf, source, rope, error);
}

void gpu_engine_stop(struct gpu_engine *engine)
{
    for (uint32_t i = 0; i < engine->settings.steps_per_plan; i++) {
        gpu_destroy_event(engine->queue, engine->events[i]);
    }
}

/* ---- the record ---- */

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
        .top_k = s->top_k,
        .first_position = row->first_position,
        .tokens_count = row->tokens_count,
        .decode_steps = row->decode_steps,
        .token = token,
        .wants_digest = row->wants_digest,
        .history_count = row->history_count,
        .stop_ids_count = s->stop_ids_count,
    };
    memcpy(out.history, row->history, sizeof out.history);
    memcpy(out.stop_ids, s->stop_ids, sizeof out.stop_ids);
    return out;
}

/* Every token of a row, at its place among the feeds; the last one is sampled if it wants tokens. */
static void feed_row(struct gpu_engine *e, uint32_t r)
{
    const struct step_row *row = step_row(e->step, r);
    const uint32_t *tokens = step_tokens(e->step) + row->tokens_first;
    struct gpu_feed *feeds = host_part(e, e->record.feeds);
    struct gpu_place *place = (struct gpu_place *)host_part(e, e->record.places) + r;
    ASSERT(row->tokens_count <= e->settings.step_tokens - e->feeds_count);
    for (uint32_t i = 0; i < row->tokens_count; i++) {
        feeds[e->feeds_count + i] = (struct gpu_feed){tokens[i], row->first_position + i, r};
    }
    e->feeds_count += row->tokens_count;
    *place = (struct gpu_place){r, row->decode_steps > 0 ? e->feeds_count - 1 : GPU_NONE};
}

static void tile_row(struct gpu_engine *e, uint32_t first_feed)
{
    const struct model_shape *s = &e->weights.shape;
    uint32_t most = gpu_tile_feeds(s->heads, s->kv_heads);
    struct gpu_tile *tiles = host_part(e, e->record.tiles);
    for (uint32_t feed = first_feed; feed < e->feeds_count; feed += most) {
        tiles[e->tiles_count++] =
            (struct gpu_tile){feed, gpu_smaller(most, e->feeds_count - feed)};
    }
}

/* Round 1: rows of one token, then the others. */
static void write_feeds(struct gpu_engine *e)
{
    uint32_t active = step_header(e->step)->rows_active;
    e->feeds_count = e->tiles_count = 0;
    for (uint32_t r = 0; r < active; r++) {
        if (step_row(e->step, r)->tokens_count == 1) {
            feed_row(e, r);
        }
    }
    e->single_feeds = e->feeds_count;
    for (uint32_t r = 0; r < active; r++) {
        uint32_t first_feed = e->feeds_count;
        if (step_row(e->step, r)->tokens_count > 1) {
            feed_row(e, r);
            tile_row(e, first_feed);
        }
    }
}

static void write_record(struct gpu_engine *e)
{
    const struct step_header *header = step_header(e->step);
    struct gpu_row *rows = host_part(e, e->record.rows);
    uint32_t *tables = host_part(e, e->record.tables);
    struct gpu_round *round = host_part(e, e->record.round);
    for (uint32_t r = 0; r < header->rows_count; r++) {
        const struct step_row *row = step_row(e->step, r);
        rows[r] = row_of(row, step_tokens(e->step)[row->tokens_first]);
        memcpy(tables + r * e->kv.tables_stride, step_blocks(e->step, r),
               row->blocks_count * sizeof(uint32_t));
    }
    e->places_count = header->rows_active;
    write_feeds(e);
    *round = (struct gpu_round){.standby_next = header->rows_active};
    memset(host_part(e, e->record.outs), 0, e->rows_max * sizeof(struct gpu_out));
    *e->haste = step_haste(e->step);
    gpu_upload(e->queue, e->at, e->host, e->record.end);
}

static void read_outs(const struct gpu_engine *e)
{
    const struct gpu_out *outs = host_part(e, e->record.outs);
    const uint32_t *tokens = host_part(e, e->record.out_tokens);
    const struct gpu_round *round = host_part(e, e->record.round);
    uint32_t steps = e->settings.steps_per_plan;
    for (uint32_t r = 0; r < step_header(e->step)->rows_count; r++) {
        *step_out(e->step, r) = (struct step_out){outs[r].result, outs[r].produced,
                                                  outs[r].digest};
        memcpy(step_out_tokens(e->step, r), tokens + (uint64_t)r * steps,
               outs[r].produced * sizeof *tokens);
    }
    *step_rounds(e->step) = round->round;
}

/* ---- moves ---- */

static uint8_t *host_block(const struct gpu_engine *e, uint32_t block)
{
    return e->kv_host + (block - e->settings.kv_blocks) * e->kv.block_bytes;
}

static uint64_t device_block(const struct gpu_engine *e, uint32_t block)
{
    return e->kv.blocks + block * e->kv.block_bytes;
}

static bool is_of_pass(const struct gpu_engine *e, const struct step_move *move,
                       enum step_pass pass)
{
    return step_move_pass(move, e->settings.kv_blocks) == pass;
}

/* How many moves from `first` on are one copy. */
static uint32_t run_length(const struct gpu_engine *e, uint32_t first, enum step_pass pass)
{
    const struct step_move *moves = step_moves(e->step);
    uint32_t end = step_header(e->step)->moves_count, count = 1;
    while (first + count < end && (count + 1) * e->kv.block_bytes <= RUN_BYTES_MAX &&
           moves[first + count].from == moves[first].from + count &&
           moves[first + count].to == moves[first].to + count &&
           is_of_pass(e, &moves[first + count], pass)) {
        count++;
    }
    return count;
}

static void copy_run(struct gpu_engine *e, struct step_move first, uint32_t count,
                     enum step_pass pass)
{
    uint64_t bytes = count * e->kv.block_bytes;
    switch (pass) {
    case STEP_PASS_OUT:
        gpu_download(e->queue, host_block(e, first.to), device_block(e, first.from), bytes);
        break;
    case STEP_PASS_IN:
        gpu_upload(e->queue, device_block(e, first.to), host_block(e, first.from), bytes);
        break;
    case STEP_PASS_WITHIN:
    case STEP_PASSES:
        gpu_copy(e->queue, device_block(e, first.to), device_block(e, first.from), bytes);
        break;
    }
}

/* Within the device one by one: what one reads a later one may fill, and copies may not overlap. */
static void queue_moves(struct gpu_engine *e, enum step_pass pass)
{
    const struct step_move *moves = step_moves(e->step);
    uint32_t end = step_header(e->step)->moves_count, count;
    for (uint32_t i = 0; i < end; i += count) {
        count = 1;
        if (!is_of_pass(e, &moves[i], pass)) {
            continue;
        }
        count = pass == STEP_PASS_WITHIN ? 1 : run_length(e, i, pass);
        copy_run(e, moves[i], count, pass);
    }
}

/* ---- a forward pass ---- */

static void queue_product(struct gpu_engine *e, const struct gpu_matrix *matrix,
                          struct buffer from, struct buffer to, uint32_t rows)
{
    const struct gpu_product args = {
        .x = from.at, .w = matrix->at, .y = to.at,
        .x_stride = from.width, .y_stride = to.width,
        .rows = rows, .outputs = matrix->outputs, .columns = matrix->columns,
        .x_type = GPU_F32, .w_type = matrix->type,
    };
    GPU_LAUNCH(e->queue, product, &args);
}

/* The residual, with what is added to it, normalized; `places`: of the feeds that they sample. */
static void queue_norm(struct gpu_engine *e, uint64_t weight, uint64_t add, uint64_t places,
                       struct buffer to, uint32_t rows)
{
    const struct gpu_rms_norm args = {
        .x = e->x.at, .add = add, .weight = weight, .places = places, .y = to.at,
        .x_stride = e->x.width, .add_stride = e->delta.width, .y_stride = to.width,
        .rows = rows, .dim = e->weights.shape.dim, .y_type = GPU_F32,
        .epsilon = e->weights.shape.norm_epsilon,
    };
    GPU_LAUNCH(e->queue, rms_norm, &args);
}

static void queue_rope(struct gpu_engine *e, const struct gpu_layer *layer, const struct gpu_kv *kv,
                       uint32_t feeds)
{
    const struct model_shape *s = &e->weights.shape;
    const struct gpu_rope args = {
        .kv = *kv, .feeds = e->at + e->record.feeds,
        .q = e->q.at, .k = e->k.at, .v = e->v.at,
        .q_bias = layer->attn_q_bias, .k_bias = layer->attn_k_bias, .v_bias = layer->attn_v_bias,
        .q_norm = layer->attn_q_norm, .k_norm = layer->attn_k_norm,
        .table = e->rope,
        .q_stride = e->q.width, .k_stride = e->k.width, .v_stride = e->v.width,
        .feeds_count = feeds, .heads = s->heads, .rope_dim = s->rope_dim,
        .pairs_are_halves = s->family->rope_pairs == ROPE_HALVES,
        .epsilon = s->norm_epsilon,
    };
    GPU_LAUNCH(e->queue, rope, &args);
}

/* `singles` feeds each for itself, then tiles. */
static void queue_attention(struct gpu_engine *e, const struct gpu_kv *kv, uint32_t singles,
                            uint32_t tiles)
{
    const struct gpu_attention attention = {
        .kv = *kv, .feeds = e->at + e->record.feeds, .q = e->q.at, .out = e->attended.at,
        .q_stride = e->q.width, .out_stride = e->attended.width,
        .feeds_count = singles, .heads = e->weights.shape.heads, .out_type = GPU_F32,
        .scale = 1.0f / sqrtf((float)e->weights.shape.head_dim),
    };
    if (singles > 0) {
        const struct gpu_attend_split split = {attention, e->partials, splits_of(&e->settings)};
        const struct gpu_attend_merge merge = {attention, e->partials, splits_of(&e->settings)};
        GPU_LAUNCH(e->queue, attend_split, &split);
        GPU_LAUNCH(e->queue, attend_merge, &merge);
    }
    if (tiles > 0) {
        const struct gpu_attend_tile tile = {attention, e->at + e->record.tiles, tiles};
        GPU_LAUNCH(e->queue, attend_tile, &tile);
    }
}

static void queue_layer(struct gpu_engine *e, uint32_t index, uint32_t feeds, uint32_t singles,
                        uint32_t tiles)
{
    const struct gpu_layer *layer = &e->weights.layers[index];
    struct gpu_kv kv = e->kv;
    kv.layer = index;
    queue_norm(e, layer->attn_norm, index > 0 ? e->delta.at : 0, 0, e->normed, feeds);
    queue_product(e, &layer->attn_q, e->normed, e->q, feeds);
    queue_product(e, &layer->attn_k, e->normed, e->k, feeds);
    queue_product(e, &layer->attn_v, e->normed, e->v, feeds);
    queue_rope(e, layer, &kv, feeds);
    queue_attention(e, &kv, singles, tiles);
    queue_product(e, &layer->attn_output, e->attended, e->delta, feeds);
    queue_norm(e, layer->ffn_norm, e->delta.at, 0, e->normed, feeds);
    queue_product(e, &layer->ffn_gate, e->normed, e->gate, feeds);
    queue_product(e, &layer->ffn_up, e->normed, e->up, feeds);
    const struct gpu_swiglu swiglu = {
        .gate = e->gate.at, .up = e->up.at, .y = e->gate.at,
        .gate_stride = e->gate.width, .up_stride = e->up.width, .y_stride = e->gate.width,
        .rows = feeds, .columns = e->gate.width, .y_type = GPU_F32,
    };
    GPU_LAUNCH(e->queue, swiglu, &swiglu);
    queue_product(e, &layer->ffn_down, e->gate, e->delta, feeds);
}

static void queue_forward(struct gpu_engine *e, uint32_t feeds, uint32_t singles, uint32_t tiles)
{
    const struct gpu_embed embed = {
        .table = e->weights.token_embd.at, .feeds = e->at + e->record.feeds, .x = e->x.at,
        .x_stride = e->x.width, .feeds_count = feeds, .dim = e->x.width,
        .table_type = e->weights.token_embd.type,
    };
    GPU_LAUNCH(e->queue, embed, &embed);
    for (uint32_t layer = 0; layer < e->weights.shape.layers; layer++) {
        queue_layer(e, layer, feeds, singles, tiles);
    }
    queue_norm(e, e->weights.output_norm, e->delta.at, e->at + e->record.places, e->gathered,
               e->places_count);
    queue_product(e, &e->weights.output, e->gathered, e->logits, e->places_count);
}

/* ---- rounds ---- */

static void queue_sample(struct gpu_engine *e)
{
    const struct gpu_sample args = {
        .logits = e->logits.at, .weights = e->sample_weights,
        .places = e->at + e->record.places, .rows = e->at + e->record.rows,
        .outs = e->at + e->record.outs, .out_tokens = e->at + e->record.out_tokens,
        .logits_stride = e->logits.width, .weights_stride = e->logits.width,
        .places_count = e->places_count, .vocab_tokens = e->weights.shape.vocab_tokens,
        .steps_max = e->settings.steps_per_plan,
    };
    GPU_LAUNCH(e->queue, sample, &args);
}

static void queue_advance(struct gpu_engine *e)
{
    const struct gpu_advance args = {
        .round = e->at + e->record.round, .haste = (uint64_t)(uintptr_t)e->haste,
        .rows = e->at + e->record.rows, .outs = e->at + e->record.outs,
        .out_tokens = e->at + e->record.out_tokens, .places = e->at + e->record.places,
        .feeds = e->at + e->record.feeds,
        .places_count = e->places_count, .rows_count = step_header(e->step)->rows_count,
        .steps_max = e->settings.steps_per_plan, .rounds_max = e->settings.steps_per_plan,
    };
    GPU_LAUNCH(e->queue, advance, &args);
}

/* That there can be: as many as a row wants tokens, and with standbys as many as there may be. */
static uint32_t rounds_of(const struct gpu_engine *e)
{
    const struct step_header *header = step_header(e->step);
    uint32_t most = 1;
    if (header->rows_count > header->rows_active) {
        return e->settings.steps_per_plan;
    }
    for (uint32_t r = 0; r < header->rows_active; r++) {
        uint32_t wanted = step_row(e->step, r)->decode_steps;
        most = wanted > most ? wanted : most;
    }
    return most;
}

static void queue_round(struct gpu_engine *e, uint32_t round)
{
    if (round == 0) {
        queue_forward(e, e->feeds_count, e->single_feeds, e->tiles_count);
    } else {
        queue_forward(e, e->places_count, e->places_count, 0);
    }
    queue_sample(e);
    queue_advance(e);
    gpu_mark(e->queue, e->events[round]);
}

/* A round that is done is a sign of life; none is given while the device owes one. */
static void watch_rounds(struct gpu_engine *e, uint32_t rounds)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    for (uint32_t round = 0; round < rounds; round++) {
        while (e->queue->result == 0 && !gpu_is_past(e->queue, e->events[round])) {
            __atomic_store_n(e->haste, step_haste(e->step), __ATOMIC_RELAXED);
            nanosleep(&nap, NULL);
        }
        *e->heartbeat += 1;
    }
}

enum status gpu_engine_run(struct gpu_engine *engine, const struct step *step)
{
    struct gpu_engine *e = engine;
    const struct record *record = &e->record;
    e->step = step;
    write_record(e);
    for (enum step_pass pass = STEP_PASS_OUT; pass < STEP_PASSES; pass++) {
        queue_moves(e, pass);
    }
    uint32_t rounds = e->places_count > 0 ? rounds_of(e) : 0;
    for (uint32_t round = 0; round < rounds; round++) {
        queue_round(e, round);
    }
    gpu_download(e->queue, e->host + record->round, e->at + record->round,
                 record->end - record->round);
    watch_rounds(e, rounds);
    TRY(gpu_wait(e->queue));
    read_outs(e);
    return STATUS_OK;
}
