/* SPDX-License-Identifier: MIT */
/*
 * What: a round: a forward pass of its token slots, sample, settle, advance, draft. One that was
 * queued before it was known that the step has ended finds no slots.
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

/* What products give to be used apart: each its own buffer, or a part of one. */
struct outs {
    struct gpu_buffer q, k, v, gate, up;
};

/* The part of a joined buffer behind another one's `before` numbers. */
static struct gpu_buffer part_of(struct gpu_buffer whole, uint32_t before)
{
    whole.at += before * sizeof(float);
    return whole;
}

static void queue_heads(struct gpu_engine *e, const struct gpu_layer *layer,
                        struct gpu_buffer normed, struct outs *outs, uint32_t slots)
{
    const struct gpu_matrix *all = &layer->attn_qkv;
    if (all->outputs == 0) {
        gpu_product_queue(e, &layer->attn_q, normed, outs->q, slots);
        gpu_product_queue(e, &layer->attn_k, normed, outs->k, slots);
        gpu_product_queue(e, &layer->attn_v, normed, outs->v, slots);
        return;
    }
    outs->q = gpu_joined(e->q, all);
    outs->k = part_of(outs->q, layer->attn_q.outputs);
    outs->v = part_of(outs->k, layer->attn_k.outputs);
    gpu_product_queue(e, all, normed, outs->q, slots);
}

static void queue_gate_up(struct gpu_engine *e, const struct gpu_layer *layer,
                          struct gpu_buffer normed, struct outs *outs, uint32_t slots)
{
    const struct gpu_matrix *both = &layer->ffn_gate_up;
    if (both->outputs == 0) {
        gpu_product_queue(e, &layer->ffn_gate, normed, outs->gate, slots);
        gpu_product_queue(e, &layer->ffn_up, normed, outs->up, slots);
        return;
    }
    outs->gate = gpu_joined(e->gate, both);
    outs->up = part_of(outs->gate, layer->ffn_gate.outputs);
    gpu_product_queue(e, both, normed, outs->gate, slots);
}

static void queue_rope(struct gpu_engine *e, const struct gpu_layer *layer, const struct gpu_kv *kv,
                       const struct outs *outs, uint32_t slots)
{
    const struct model_shape *s = &e->weights.shape;
    const struct gpu_rope args = {
        .kv = *kv, .slots = e->at + e->record.slots,
        .q = outs->q.at, .k = outs->k.at, .v = outs->v.at,
        .q_bias = layer->attn_q_bias, .k_bias = layer->attn_k_bias, .v_bias = layer->attn_v_bias,
        .q_norm = layer->attn_q_norm, .k_norm = layer->attn_k_norm,
        .table = e->rope,
        .q_stride = outs->q.width, .k_stride = outs->k.width, .v_stride = outs->v.width,
        .slots_count = slots, .heads = s->heads, .rope_dim = s->rope_dim,
        .pairs_are_halves = s->family->rope_pairs == ROPE_HALVES,
        .epsilon = s->norm_epsilon,
    };
    GPU_LAUNCH(e->queue, rope, &args);
}

struct slots {
    uint32_t all, singles, tiles;   /* the first `singles` attend one by one, the others in tiles */
};

static void queue_attention(struct gpu_engine *e, const struct gpu_kv *kv, struct gpu_buffer q,
                            struct gpu_buffer to, const struct slots *slots)
{
    const struct gpu_attention attention = {
        .kv = *kv, .slots = e->at + e->record.slots, .q = q.at, .out = to.at,
        .q_stride = q.width, .out_stride = to.width,
        .slots_count = slots->singles, .heads = e->weights.shape.heads, .out_type = to.type,
        .scale = 1.0f / sqrtf((float)e->weights.shape.head_dim),
    };
    if (slots->singles > 0) {
        const struct gpu_attend_split split = {attention, e->partials, gpu_splits(&e->settings),
                                               e->splits_most};
        const struct gpu_attend_merge merge = {attention, e->partials, gpu_splits(&e->settings)};
        GPU_LAUNCH(e->queue, attend_split, &split);
        GPU_LAUNCH(e->queue, attend_merge, &merge);
    }
    if (slots->tiles > 0) {
        const struct gpu_attend_tile tile = {attention, e->at + e->record.tiles, slots->tiles};
        GPU_LAUNCH(e->queue, attend_tile, &tile);
    }
}

static void queue_swiglu(struct gpu_engine *e, const struct outs *outs, struct gpu_buffer to,
                         uint32_t rows)
{
    const struct gpu_swiglu args = {
        .gate = outs->gate.at, .up = outs->up.at, .y = to.at,
        .gate_stride = outs->gate.width, .up_stride = outs->up.width, .y_stride = to.width,
        .rows = rows, .columns = to.width, .y_type = to.type,
    };
    GPU_LAUNCH(e->queue, swiglu, &args);
}

static void queue_layer(struct gpu_engine *e, uint32_t index, const struct slots *slots)
{
    struct outs outs = {e->q, e->k, e->v, e->gate, e->up};
    const struct gpu_layer *layer = &e->weights.layers[index];
    struct gpu_buffer normed = gpu_input_of(&layer->attn_q, e->normed);
    struct gpu_buffer attended = gpu_input_of(&layer->attn_output, e->attended);
    struct gpu_buffer inner = gpu_input_of(&layer->ffn_down, e->inner);
    struct gpu_kv kv = e->kv;
    kv.layer = index;
    queue_norm(e, (struct norm){layer->attn_norm, index > 0 ? e->delta.at : 0, 0}, normed,
               slots->all);
    queue_heads(e, layer, normed, &outs, slots->all);
    queue_rope(e, layer, &kv, &outs, slots->all);
    queue_attention(e, &kv, outs.q, attended, slots);
    gpu_product_queue(e, &layer->attn_output, attended, e->delta, slots->all);
    normed = gpu_input_of(&layer->ffn_gate, e->normed);
    queue_norm(e, (struct norm){layer->ffn_norm, e->delta.at, 0}, normed, slots->all);
    queue_gate_up(e, layer, normed, &outs, slots->all);
    queue_swiglu(e, &outs, inner, slots->all);
    gpu_product_queue(e, &layer->ffn_down, inner, e->delta, slots->all);
}

static void queue_forward(struct gpu_engine *e, const struct slots *slots)
{
    const struct gpu_embed embed = {
        .table = e->weights.token_embd.at, .slots = e->at + e->record.slots, .x = e->x.at,
        .x_stride = e->x.width, .slots_count = slots->all, .dim = e->x.width,
        .table_type = e->weights.token_embd.type,
    };
    GPU_LAUNCH(e->queue, embed, &embed);
    for (uint32_t layer = 0; layer < e->weights.shape.layers; layer++) {
        queue_layer(e, layer, slots);
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
        .past = e->at + e->record.past, .biases = e->at + e->record.biases,
        .logits_stride = e->logits.width,
        .weights_stride = gpu_sample_stride(e->weights.shape.vocab_tokens),
        .past_max = e->settings.past_tokens,
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
        .outs = e->at + e->record.outs,
        .entries = e->at + e->record.entries, .logits_stride = e->logits.width,
        .places_count = e->places_count, .vocab_tokens = e->weights.shape.vocab_tokens,
        .steps_max = e->settings.steps_per_plan,
    };
    GPU_LAUNCH(e->queue, logprob, &args);
}

static void queue_settle(struct gpu_engine *e)
{
    const struct gpu_settle args = {
        .logits = e->logits.at,
        .places = e->at + e->record.places, .rows = e->at + e->record.rows,
        .outs = e->at + e->record.outs, .out_tokens = e->at + e->record.out_tokens,
        .logits_stride = e->logits.width, .own_count = step_header(e->step)->rows_active,
        .vocab_tokens = e->weights.shape.vocab_tokens, .steps_max = e->settings.steps_per_plan,
    };
    GPU_LAUNCH(e->queue, settle, &args);
}

static void queue_draft(struct gpu_engine *e)
{
    const struct gpu_draft args = {
        .rows = e->at + e->record.rows, .outs = e->at + e->record.outs,
        .out_tokens = e->at + e->record.out_tokens, .past = e->at + e->record.past,
        .places = e->at + e->record.places, .slots = e->at + e->record.slots,
        .past_max = e->settings.past_tokens, .own_count = step_header(e->step)->rows_active,
        .steps_max = e->settings.steps_per_plan,
    };
    GPU_LAUNCH(e->queue, draft, &args);
}

static void queue_advance(struct gpu_engine *e)
{
    const struct gpu_advance args = {
        .round = e->at + e->record.round, .early_stop = (uint64_t)(uintptr_t)e->early_stop,
        .rows = e->at + e->record.rows, .outs = e->at + e->record.outs,
        .out_tokens = e->at + e->record.out_tokens, .places = e->at + e->record.places,
        .slots = e->at + e->record.slots,
        .own_count = step_header(e->step)->rows_active,
        .rows_count = step_header(e->step)->rows_count,
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
        queue_forward(e, &(struct slots){e->slots_count, e->slots_single, e->tiles_count});
    } else {
        queue_forward(e, &(struct slots){e->places_count, e->places_count, 0});
    }
    queue_sample(e);
    if (e->wants_logprobs) {
        queue_logprobs(e);
    }
    queue_settle(e);
    queue_advance(e);
    if (e->places_count > step_header(e->step)->rows_active) {
        queue_draft(e);
    }
    gpu_record_receive(e);
    gpu_mark(e->queue, e->events[round]);
}
