/* SPDX-License-Identifier: MIT */
/*
 * What: a round: a forward pass of its token slots, sample, advance. A round that was queued before
 * it was known that the step has ended finds no slots.
 */
#include <math.h>

#include "kernels/cuda/engine_state.h"

/* ---- a forward pass ---- */

/* Device addresses of a norm's operands, as in struct gpu_rms_norm. */
struct norm {
    uint64_t weight, add, places;
};

/* Adds to the residual, and normalizes it into `to`. */
static void queue_norm(struct gpu_engine *e, struct norm norm, struct gpu_buffer to, uint32_t rows)
{
    const struct gpu_rms_norm args = {
        .x = e->x.at, .add = norm.add, .weight = norm.weight, .places = norm.places, .y = to.at,
        .x_stride = e->x.width, .add_stride = e->delta.width, .y_stride = to.width,
        .rows = rows, .dim = e->weights.shape.dim, .y_type = to.type,
        .epsilon = e->weights.shape.norm_epsilon,
    };
    GPU_LAUNCH(e->queue, rms_norm, &args);
}

static void queue_rope(struct gpu_engine *e, const struct gpu_layer *layer, const struct gpu_kv *kv,
                       uint32_t slots)
{
    const struct model_shape *s = &e->weights.shape;
    const struct gpu_rope args = {
        .kv = *kv, .slots = e->at + e->record.slots,
        .q = e->q.at, .k = e->k.at, .v = e->v.at,
        .q_bias = layer->attn_q_bias, .k_bias = layer->attn_k_bias, .v_bias = layer->attn_v_bias,
        .q_norm = layer->attn_q_norm, .k_norm = layer->attn_k_norm,
        .table = e->rope,
        .q_stride = e->q.width, .k_stride = e->k.width, .v_stride = e->v.width,
        .slots_count = slots, .heads = s->heads, .rope_dim = s->rope_dim,
        .pairs_are_halves = s->family->rope_pairs == ROPE_HALVES,
        .epsilon = s->norm_epsilon,
    };
    GPU_LAUNCH(e->queue, rope, &args);
}

/* The first `singles` slots attend one by one, the others in tiles. */
static void queue_attention(struct gpu_engine *e, const struct gpu_kv *kv, struct gpu_buffer to,
                            uint32_t singles, uint32_t tiles)
{
    const struct gpu_attention attention = {
        .kv = *kv, .slots = e->at + e->record.slots, .q = e->q.at, .out = to.at,
        .q_stride = e->q.width, .out_stride = to.width,
        .slots_count = singles, .heads = e->weights.shape.heads, .out_type = to.type,
        .scale = 1.0f / sqrtf((float)e->weights.shape.head_dim),
    };
    if (singles > 0) {
        const struct gpu_attend_split split = {attention, e->partials, gpu_splits(&e->settings),
                                               e->splits_most};
        const struct gpu_attend_merge merge = {attention, e->partials, gpu_splits(&e->settings)};
        GPU_LAUNCH(e->queue, attend_split, &split);
        GPU_LAUNCH(e->queue, attend_merge, &merge);
    }
    if (tiles > 0) {
        const struct gpu_attend_tile tile = {attention, e->at + e->record.tiles, tiles};
        GPU_LAUNCH(e->queue, attend_tile, &tile);
    }
}

static void queue_swiglu(struct gpu_engine *e, struct gpu_buffer to, uint32_t rows)
{
    const struct gpu_swiglu args = {
        .gate = e->gate.at, .up = e->up.at, .y = to.at,
        .gate_stride = e->gate.width, .up_stride = e->up.width, .y_stride = to.width,
        .rows = rows, .columns = to.width, .y_type = to.type,
    };
    GPU_LAUNCH(e->queue, swiglu, &args);
}

static void queue_layer(struct gpu_engine *e, uint32_t index, uint32_t slots, uint32_t singles,
                        uint32_t tiles)
{
    const struct gpu_layer *layer = &e->weights.layers[index];
    struct gpu_buffer normed = gpu_input_of(&layer->attn_q, e->normed);
    struct gpu_buffer attended = gpu_input_of(&layer->attn_output, e->attended);
    struct gpu_buffer inner = gpu_input_of(&layer->ffn_down, e->inner);
    struct gpu_kv kv = e->kv;
    kv.layer = index;
    queue_norm(e, (struct norm){layer->attn_norm, index > 0 ? e->delta.at : 0, 0}, normed, slots);
    gpu_product_queue(e, &layer->attn_q, normed, e->q, slots);
    gpu_product_queue(e, &layer->attn_k, normed, e->k, slots);
    gpu_product_queue(e, &layer->attn_v, normed, e->v, slots);
    queue_rope(e, layer, &kv, slots);
    queue_attention(e, &kv, attended, singles, tiles);
    gpu_product_queue(e, &layer->attn_output, attended, e->delta, slots);
    normed = gpu_input_of(&layer->ffn_gate, e->normed);
    queue_norm(e, (struct norm){layer->ffn_norm, e->delta.at, 0}, normed, slots);
    gpu_product_queue(e, &layer->ffn_gate, normed, e->gate, slots);
    gpu_product_queue(e, &layer->ffn_up, normed, e->up, slots);
    queue_swiglu(e, inner, slots);
    gpu_product_queue(e, &layer->ffn_down, inner, e->delta, slots);
}

static void queue_forward(struct gpu_engine *e, uint32_t slots, uint32_t singles, uint32_t tiles)
{
    const struct gpu_embed embed = {
        .table = e->weights.token_embd.at, .slots = e->at + e->record.slots, .x = e->x.at,
        .x_stride = e->x.width, .slots_count = slots, .dim = e->x.width,
        .table_type = e->weights.token_embd.type,
    };
    GPU_LAUNCH(e->queue, embed, &embed);
    for (uint32_t layer = 0; layer < e->weights.shape.layers; layer++) {
        queue_layer(e, layer, slots, singles, tiles);
    }
    struct gpu_buffer gathered = gpu_input_of(&e->weights.output, e->gathered);
    const struct norm norm = {e->weights.output_norm, e->delta.at, e->at + e->record.places};
    queue_norm(e, norm, gathered, e->places_count);
    gpu_product_queue(e, &e->weights.output, gathered, e->logits, e->places_count);
}

/* ---- rounds ---- */

static void queue_sample(struct gpu_engine *e)
{
    const struct gpu_sample args = {
        .logits = e->logits.at, .weights = e->sample_weights, .memory = e->sample_memory,
        .memory_bytes = gpu_sample_memory_bytes(e->weights.shape.vocab_tokens),
        .places = e->at + e->record.places, .rows = e->at + e->record.rows,
        .outs = e->at + e->record.outs, .out_tokens = e->at + e->record.out_tokens,
        .generated = e->at + e->record.generated, .biases = e->at + e->record.biases,
        .logits_stride = e->logits.width,
        .weights_stride = gpu_sample_stride(e->weights.shape.vocab_tokens),
        .generated_max = e->settings.context_tokens,
        .places_count = e->places_count, .vocab_tokens = e->weights.shape.vocab_tokens,
        .steps_max = e->settings.steps_per_plan,
    };
    const struct gpu_sample_scan scan = {args};
    const struct gpu_sample_weigh weigh = {args};
    const struct gpu_sample_gather gather = {args};
    GPU_LAUNCH(e->queue, sample_scan, &scan);
    if (e->draws) {
        GPU_LAUNCH(e->queue, sample_weigh, &weigh);
    }
    if (e->ranks) {
        GPU_LAUNCH(e->queue, sample_gather, &gather);
    }
    GPU_LAUNCH(e->queue, sample, &args);
}

static void queue_logprobs(struct gpu_engine *e)
{
    const struct gpu_logprob args = {
        .logits = e->logits.at,
        .places = e->at + e->record.places, .rows = e->at + e->record.rows,
        .outs = e->at + e->record.outs, .out_tokens = e->at + e->record.out_tokens,
        .entries = e->at + e->record.entries, .logits_stride = e->logits.width,
        .places_count = e->places_count, .vocab_tokens = e->weights.shape.vocab_tokens,
        .steps_max = e->settings.steps_per_plan,
    };
    GPU_LAUNCH(e->queue, logprob, &args);
}

static void queue_advance(struct gpu_engine *e)
{
    const struct gpu_advance args = {
        .round = e->at + e->record.round, .early_stop = (uint64_t)(uintptr_t)e->early_stop,
        .rows = e->at + e->record.rows, .outs = e->at + e->record.outs,
        .out_tokens = e->at + e->record.out_tokens, .places = e->at + e->record.places,
        .slots = e->at + e->record.slots,
        .places_count = e->places_count, .rows_count = step_header(e->step)->rows_count,
        .steps_max = e->settings.steps_per_plan, .rounds_max = e->settings.steps_per_plan,
    };
    GPU_LAUNCH(e->queue, advance, &args);
}

/* As many as the tokens that a row needs at most; with standby rows, as many as a step may have. */
uint32_t gpu_rounds_of(const struct gpu_engine *engine)
{
    const struct gpu_engine *e = engine;
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

void gpu_round_queue(struct gpu_engine *engine, uint32_t round)
{
    struct gpu_engine *e = engine;
    if (round == 0) {
        queue_forward(e, e->slots_count, e->slots_single, e->tiles_count);
    } else {
        queue_forward(e, e->places_count, e->places_count, 0);
    }
    queue_sample(e);
    if (e->wants_logprobs) {
        queue_logprobs(e);
    }
    queue_advance(e);
    gpu_record_receive(e);
    gpu_mark(e->queue, e->events[round]);
}
