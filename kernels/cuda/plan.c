/* SPDX-License-Identifier: MIT */
/*
 * What: sizes and places of the GPU engine's memory; see plan.h.
 * Invariant: one walk counts and places, so the plan equals what is taken, to the byte.
 * Why a file of its own: the static binary links it, and nothing else that knows a driver.
 */
#include "kernels/cuda/plan.h"

#include <stdio.h>

#include "config/model/tensors.h"
#include "kernels/cuda/engine_state.h"
#include "kernels/weights/matrix.h"

#define GPU_SLOTS_MAX 65535u        /* the limit of a grid dimension */

/* ---- weights ---- */

enum gpu_type gpu_type_of(enum gguf_type type)
{
    switch (type) {
    case GGUF_F16: return GPU_F16;
    case GGUF_BF16: return GPU_BF16;
    case GGUF_Q8_0: return GPU_Q8_0;
    case GGUF_Q4_0: return GPU_Q4_0;
    case GGUF_Q4_K: return GPU_Q4_K;
    case GGUF_Q6_K: return GPU_Q6_K;
    case GGUF_F32: break;
    }
    return GPU_F32;
}

uint64_t gpu_matrix_bytes(const struct gpu_matrix *matrix)
{
    uint64_t weights = (uint64_t)matrix->outputs * matrix->columns;
    if (gpu_has_levels(matrix->type)) {
        const struct gpu_panel panel = gpu_panel_of(matrix->type);
        return weights / KERNELS_PANEL_LANES / KERNELS_QUANT_COLUMNS / panel.parts * panel.block;
    }
    return weights * (matrix->type == GPU_F32 ? sizeof(float) : sizeof(uint16_t));
}

uint64_t gpu_tensor_bytes(const struct model_tensor *tensor)
{
    enum gguf_type type = tensor->tensor->type;
    return gpu_has_levels(gpu_type_of(type))
               ? kernels_matrix_bytes(type, (uint32_t)tensor->outputs, (uint32_t)tensor->columns)
               : tensor->tensor->bytes;
}

uint64_t gpu_panel_staging(const struct model_tensor *tensor)
{
    enum gguf_type type = tensor->tensor->type;
    return 2 * kernels_columns_bytes(type, (uint32_t)tensor->columns) +
           KERNELS_PANEL_LANES * gguf_row_bytes(type, tensor->columns);
}

bool gpu_is_of_the_host(const struct model_tensor *tensor)
{
    return tensor->layer == MODEL_LAYER_NONE && tensor->kind == MODEL_rope_freqs;
}

uint64_t gpu_weights_bytes(const struct gguf *gguf)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < model_tensors_count(&gguf->shape); i++) {
        struct model_tensor tensor;
        if (model_tensor_find(&tensor, gguf, i) && !gpu_is_of_the_host(&tensor)) {
            bytes += gpu_taken_bytes(1, gpu_tensor_bytes(&tensor));
        }
    }
    return bytes;
}

/* ---- checks: can this GPU run the model? ---- */

static enum status check_rows(const struct gguf *gguf, const char *source,
                              struct config_error *error)
{
    for (uint32_t i = 0; i < model_tensors_count(&gguf->shape); i++) {
        struct model_tensor tensor;
        if (model_tensor_find(&tensor, gguf, i) && tensor.outputs > 0 &&
            gpu_has_levels(gpu_type_of(tensor.tensor->type)) &&
            gpu_panel_staging(&tensor) > GPU_STAGING_BYTES) {
            snprintf(error->text, sizeof error->text,
                     "%s: tensor %s: rows of %llu weights of type %s are too long for the GPU "
                     "engine; sixteen of them need room three times in %llu bytes", source,
                     tensor.name, (unsigned long long)tensor.columns,
                     gguf_type_name(tensor.tensor->type), (unsigned long long)GPU_STAGING_BYTES);
            return STATUS_CONFIG_MODEL;
        }
    }
    return STATUS_OK;
}

/* The kernel that attends in tiles takes the most shared memory of those that differ by the model;
 * every chip with code here has the 96 KiB of product_many. */
static enum status check_launches(const struct kernels_settings *settings,
                                  const struct model_shape *s, uint32_t shared_bytes_max,
                                  struct config_error *error)
{
    const struct gpu_kv kv = {
        .head_dim = s->head_dim,
        .type = settings->kv_type == KERNELS_KV_F16 ? GPU_F16 : GPU_F32};
    uint32_t bytes = gpu_attend_bytes(&kv, GPU_QUERIES, 2);
    if (bytes > shared_bytes_max) {
        snprintf(error->text, sizeof error->text,
                 "heads of %u channels need %u bytes of shared memory; this GPU has %u",
                 s->head_dim, bytes, shared_bytes_max);
        return STATUS_CONFIG_MODEL;
    }
    if (settings->step_tokens > GPU_SLOTS_MAX) {
        snprintf(error->text, sizeof error->text,
                 "steps of %u tokens; a GPU takes at most %u: sched.prefill_tokens is too large",
                 settings->step_tokens, GPU_SLOTS_MAX);
        return STATUS_CONFIG_OPTION;
    }
    return STATUS_OK;
}

/* A GPU multiplies F16 as it is, so rounding to BF16 saves nothing. */
static enum status check_weights(const struct kernels_settings *settings,
                                 struct config_error *error)
{
    if (settings->weights_as_bfloats) {
        snprintf(error->text, sizeof error->text,
                 "model.weights = bf16 is for the CPU engine; the GPU engine needs file");
        return STATUS_CONFIG_MODEL;
    }
    return STATUS_OK;
}

static enum status check_kv(const struct kernels_settings *settings, struct config_error *error)
{
    if (settings->kv_type == KERNELS_KV_Q8) {
        snprintf(error->text, sizeof error->text,
                 "kv.type = q8 is for the CPU engine; the GPU engine needs f16 or f32");
        return STATUS_CONFIG_OPTION;
    }
    return STATUS_OK;
}

enum status gpu_plan_check(const struct gguf *gguf, const struct kernels_settings *settings,
                           uint32_t shared_bytes_max, const char *source,
                           struct config_error *error)
{
    TRY(check_weights(settings, error));
    TRY(check_kv(settings, error));
    TRY(check_rows(gguf, source, error));
    return check_launches(settings, &gguf->shape, shared_bytes_max, error);
}

/* ---- the engine ---- */

/* Memory that is given out from its beginning. */
struct extent {
    uint64_t base, bytes;
};

static uint64_t take(struct extent *extent, uint64_t count, uint64_t bytes)
{
    uint64_t at = extent->base + extent->bytes;
    extent->bytes += gpu_taken_bytes(count, bytes);
    return at;
}

struct gpu_record gpu_record_of(const struct kernels_settings *settings)
{
    const struct kernels_settings *s = settings;
    struct gpu_record r = {0};
    struct extent extent = {0};
    uint64_t rows = (uint64_t)s->batch_calls + s->standby_calls;
    r.rows = take(&extent, rows, sizeof(struct gpu_row));
    r.tables = take(&extent, rows, s->blocks_per_call * sizeof(uint32_t));
    r.slots = take(&extent, s->step_tokens, sizeof(struct gpu_slot));
    r.tiles = take(&extent, s->step_tokens, sizeof(struct gpu_tile));
    r.places = take(&extent, s->batch_calls, sizeof(struct gpu_place));
    r.round = take(&extent, 1, sizeof(struct gpu_round));
    r.outs = take(&extent, rows, sizeof(struct gpu_out));
    r.out_tokens = take(&extent, rows, s->steps_per_plan * sizeof(uint32_t));
    r.end = extent.bytes;
    r.past = take(&extent, rows, s->past_tokens * sizeof(uint32_t));
    r.biases = take(&extent, rows, GPU_BIASES_MAX * sizeof(struct gpu_bias));
    r.entries = take(&extent, rows, (uint64_t)s->steps_per_plan * GPU_ENTRIES_MAX *
                                    sizeof(struct gpu_entry));
    r.bytes = extent.bytes;
    return r;
}

static struct gpu_buffer take_buffer(struct extent *extent, uint64_t rows, uint32_t width)
{
    uint64_t whole = (rows + GPU_PRODUCT_ROWS - 1) / GPU_PRODUCT_ROWS * GPU_PRODUCT_ROWS;
    return (struct gpu_buffer){take(extent, whole, (uint64_t)width * sizeof(float)), width,
                               GPU_F32};
}

static void take_swap_stream(struct extent *extent, struct gpu_swap_stream *stream,
                             uint32_t host_blocks)
{
    stream->device_list = take(extent, host_blocks, sizeof *stream->list);
    stream->staging = take(extent, 1, GPU_STAGING_BYTES);
}

uint64_t gpu_kv_block_bytes(const struct kernels_settings *settings, const struct model_shape *s)
{
    uint64_t number = kernels_kv_number_bytes(settings->kv_type);
    uint64_t bytes = number * s->layers * 2 * s->kv_heads * s->head_dim * settings->kv_block_tokens;
    return gpu_taken_bytes(1, bytes);
}

uint64_t gpu_engine_place(struct gpu_engine *engine, const struct model_shape *shape, uint64_t base)
{
    struct gpu_engine *e = engine;
    const struct model_shape *s = shape;
    const struct kernels_settings *t = &e->settings;
    struct extent at = {.base = base};
    uint64_t slots = t->step_tokens, calls = t->batch_calls;
    e->record = gpu_record_of(t);
    e->at = take(&at, 1, e->record.bytes);
    e->kv.blocks = take(&at, t->kv_blocks, gpu_kv_block_bytes(t, s));
    take_swap_stream(&at, &e->out, t->kv_host_blocks);
    take_swap_stream(&at, &e->in, t->kv_host_blocks);
    e->blas_workspace = take(&at, 1, BLAS_WORKSPACE_BYTES);
    e->rope = take(&at, t->context_tokens, (uint64_t)s->rope_dim * sizeof(float));
    e->partials = take(&at, calls * s->heads * gpu_splits(t), (s->head_dim + 2) * sizeof(float));
    e->sample_weights = take(&at, calls, gpu_sample_stride(s->vocab_tokens) * sizeof(float));
    e->sample_memory = take(&at, calls, gpu_sample_memory_bytes(s->vocab_tokens));
    e->x = take_buffer(&at, slots, s->dim);
    e->normed = take_buffer(&at, slots, s->dim);
    e->q = take_buffer(&at, slots, s->heads * s->head_dim);
    e->k = take_buffer(&at, slots, s->kv_heads * s->head_dim);
    e->v = take_buffer(&at, slots, s->kv_heads * s->head_dim);
    e->attended = take_buffer(&at, slots, s->heads * s->head_dim);
    e->gate = take_buffer(&at, slots, s->ffn_dim);
    e->up = take_buffer(&at, slots, s->ffn_dim);
    e->inner = take_buffer(&at, slots, s->ffn_dim);
    e->delta = take_buffer(&at, slots, s->dim);
    e->gathered = take_buffer(&at, calls, s->dim);
    e->logits = take_buffer(&at, calls, s->vocab_tokens);
    e->product_partials = take(&at, 1, GPU_PARTIALS_BYTES);
    e->product_tickets = take(&at, GPU_PRODUCT_BLOCKS, sizeof(uint32_t));
    return at.bytes;
}

uint64_t gpu_engine_bytes(const struct kernels_settings *settings, const struct model_shape *shape)
{
    struct gpu_engine engine = {.settings = *settings};
    return gpu_engine_place(&engine, shape, 0);
}

static void plan_device(struct memory_plan *plan, const struct kernels_settings *settings,
                        const struct model_shape *shape)
{
    uint64_t block_bytes = gpu_kv_block_bytes(settings, shape);
    memory_plan_add(plan, MEMORY_DEVICE, "gpu kv blocks", settings->kv_blocks, block_bytes);
    memory_plan_add(plan, MEMORY_DEVICE, "gpu workspace", 1,
             gpu_engine_bytes(settings, shape) - settings->kv_blocks * block_bytes);
}

void gpu_weights_plan_memory(struct memory_plan *plan, const struct gguf *gguf)
{
    memory_plan_add(plan, MEMORY_DEVICE, "gpu weights", 1, gpu_weights_bytes(gguf));
}

void gpu_plan_memory(struct memory_plan *plan, const struct kernels_settings *settings,
                     const struct model_shape *shape)
{
    plan_device(plan, settings, shape);
    memory_plan_add(plan, MEMORY_ENGINE, "gpu engine", 1, sizeof(struct gpu_engine));
    memory_plan_add(plan, MEMORY_ENGINE, "gpu events", settings->steps_per_plan, sizeof(void *));
    memory_plan_add(plan, MEMORY_ENGINE, "gpu step", 1, gpu_record_of(settings).bytes);
    memory_plan_add(plan, MEMORY_ENGINE, "gpu early stop", 1, sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_ENGINE, "gpu staging", 1, GPU_STAGING_BYTES);
    memory_plan_add(plan, MEMORY_ENGINE, "gpu swaps", 2 * (uint64_t)settings->kv_host_blocks,
             sizeof(uint64_t));
    memory_plan_add(plan, MEMORY_ENGINE, "gpu swap lists", 2 * (uint64_t)settings->kv_host_blocks,
             sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_ENGINE, "gpu blocks left", settings->kv_blocks, sizeof(uint8_t));
    memory_plan_add(plan, MEMORY_ENGINE, "gpu rope table", settings->context_tokens,
             (uint64_t)shape->rope_dim * sizeof(float));
    memory_plan_add(plan, MEMORY_ENGINE, "gpu host kv blocks", settings->kv_host_blocks,
             gpu_kv_block_bytes(settings, shape));
}
