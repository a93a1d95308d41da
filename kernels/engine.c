/* SPDX-License-Identifier: MIT
 *
 * What: the CPU engine: memory, start, and the rounds of a step.
 *
 *   plan/init  one list (memory_needs) says what is taken, for the plan and for the arena
 *   run        the moves of the step, then its rounds: thread 0 writes the token slots, all threads
 *              run the forward pass, rows are sampled in parallel. The step ends when no row needs
 *              another token. While a round is left, standby rows take the places of rows that have
 *              ended. The core's early stop may end the step sooner, between two rounds
 *
 * Invariants: a row writes only its own out, out tokens and KV blocks. A row with a logit that is
 * not finite stops, which no other row notices. No round has more rows than rows_active.
 *
 * Bounds: at most steps_per_plan rounds; no memory but what kernels_init() took.
 */
#include "kernels/engine_state.h"

#include <math.h>

#include "config/base/fnv.h"
#include "kernels/logprob.h"
#include "kernels/rope.h"

/* Everything that the engine takes: walked once to plan and once to take. */
struct need {
    const char *owner;
    uint64_t count, size_bytes;
    void **memory;
};
#define NEEDS_MAX 23
struct needs {
    struct need list[NEEDS_MAX];
    uint32_t count;
};

static void need_add(struct needs *needs, struct need need)
{
    ASSERT(needs->count < NEEDS_MAX);
    needs->list[needs->count++] = need;
}

static void need_add_buffer(struct needs *needs, const char *owner, struct kernels_buffer *buffer,
                            uint64_t rows, uint32_t width)
{
    buffer->stride = kernels_stride_floats(width);
    need_add(needs, (struct need){owner, rows, buffer->stride * 4, (void **)&buffer->at});
}

static void need_add_rounded(struct needs *needs, struct kernels *k)
{
    uint64_t rows = k->tile_rows;
    rows = rows > k->settings.batch_calls ? rows : k->settings.batch_calls;
    uint64_t stride = kernels_rounded_stride(kernels_columns_max(&k->shape));
    k->rounded.stride = stride;
    need_add(needs, (struct need){"kernels levels", rows, stride, (void **)&k->rounded.levels});
    need_add(needs, (struct need){"kernels level blocks", rows, kernels_quant_blocks_bytes(stride),
                                  (void **)&k->rounded.blocks});
    need_add(needs, (struct need){"kernels bfloats", rows, stride * sizeof(float),
                                  (void **)&k->rounded.bfloats});
}

static void need_add_buffers(struct needs *needs, struct kernels *k)
{
    const struct model_shape *s = &k->shape;
    uint32_t q_width = s->heads * s->head_dim;
    uint32_t kv_width = s->kv_heads * s->head_dim;
    uint64_t rows = k->tile_rows, calls = k->settings.batch_calls;
    need_add_buffer(needs, "kernels residual", &k->x, rows, s->dim);
    need_add_buffer(needs, "kernels normed", &k->normed, rows, s->dim);
    need_add_buffer(needs, "kernels queries", &k->q, rows, q_width);
    need_add_buffer(needs, "kernels keys", &k->k, rows, kv_width);
    need_add_buffer(needs, "kernels values", &k->v, rows, kv_width);
    need_add_buffer(needs, "kernels attended", &k->attended, rows, q_width);
    need_add_buffer(needs, "kernels gate", &k->gate, rows, s->ffn_dim);
    need_add_buffer(needs, "kernels up", &k->up, rows, s->ffn_dim);
    need_add_buffer(needs, "kernels gathered", &k->gathered, calls, s->dim);
    need_add_buffer(needs, "kernels logits", &k->logits, calls, s->vocab_tokens);
    need_add_rounded(needs, k);
}

/* Bytes of one thread's scratch, laid out in this order. Places it unless `scratch` is NULL. */
static uint64_t scratch_place(struct kernels_scratch *scratch, const struct kernels *k, uint8_t *at)
{
    const struct model_shape *s = &k->shape;
    uint64_t queries = (uint64_t)kernels_bundle_rows(s) * kernels_group(s);
    uint64_t stride = k->rounded.stride;
    const uint64_t floats[] = {
        KERNELS_NORM_ROWS * k->normed.stride,
        k->scores_floats,
        queries * kernels_head_lanes(s->head_dim),
        queries,
        kernels_stride_floats(s->vocab_tokens),         /* weights */
        s->vocab_tokens,                                /* ranking */
        KERNELS_NORM_ROWS * stride / 4,                 /* levels */
        KERNELS_NORM_ROWS * kernels_quant_blocks_bytes(stride) / 4,
        KERNELS_NORM_ROWS * stride,                     /* bfloats */
        KERNELS_CHUNK_PANELS * KERNELS_CHUNK_MOST * KERNELS_PANEL_LANES,    /* widened */
    };
    float *parts[sizeof floats / sizeof *floats];
    uint64_t end = 0;
    for (uint32_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        parts[i] = (float *)(void *)(at + end);
        end += (floats[i] * 4 + ARENA_ALIGN_BYTES - 1) / ARENA_ALIGN_BYTES * ARENA_ALIGN_BYTES;
    }
    if (scratch != NULL) {
        *scratch = (struct kernels_scratch){
            .normed = parts[0],
            .scores = parts[1],
            .heads = parts[2],
            .sums = parts[3],
            .sampler = {k->ops, s->vocab_tokens, parts[4], (uint32_t *)(void *)parts[5]},
            .rounded = {(int8_t *)parts[6], (struct kernels_quant_block *)(void *)parts[7],
                        parts[8], stride},
            .tuning = kernels_tuning_find(parts[9]),
        };
    }
    return end;
}

/* A KV block is padded to a multiple of what one step of the copy takes. */
static void kv_sizes(struct kernels *k)
{
    const struct model_shape *s = &k->shape;
    uint64_t multiple = KERNELS_COPY_FLOATS * sizeof(float);
    k->kv_head_bytes = kernels_kv_head_bytes(k->settings.kv_type, s->head_dim,
                                             k->settings.kv_block_tokens);
    uint64_t block = k->kv_head_bytes * s->layers * 2 * s->kv_heads;
    k->kv_block_bytes = (block + multiple - 1) / multiple * multiple;
}

/* Room for the longest row in any case, and for the longest bundle up to KERNELS_SCORES_FLOATS. */
static uint64_t scores_floats(const struct kernels *k)
{
    uint64_t row = kernels_group(&k->shape) * kernels_scores_stride(k->settings.context_tokens);
    uint64_t bundle = kernels_bundle_rows(&k->shape) * row;
    uint64_t most = row > KERNELS_SCORES_FLOATS ? row : KERNELS_SCORES_FLOATS;
    return bundle < most ? bundle : most;
}

static struct needs memory_needs(struct kernels *k, uint8_t **scratch)
{
    const struct kernels_settings *t = &k->settings;
    struct needs needs = {.count = 0};
    kv_sizes(k);
    k->scores_floats = scores_floats(k);
    k->tile_rows = kernels_smaller(t->step_tokens, KERNELS_TILE_ROWS);
    need_add(&needs, (struct need){"kernels kv blocks", t->kv_blocks, k->kv_block_bytes,
                                   (void **)&k->kv});
    need_add(&needs, (struct need){"kernels host kv blocks", t->kv_host_blocks, k->kv_block_bytes,
                                   (void **)&k->kv_host});
    need_add(&needs, (struct need){"kernels rope table", t->context_tokens,
                                   (uint64_t)k->shape.rope_dim * 4, (void **)&k->rope});
    need_add(&needs, (struct need){"kernels feeds", t->step_tokens, sizeof *k->slots,
                                   (void **)&k->slots});
    need_add(&needs, (struct need){"kernels gathers", t->batch_calls, sizeof *k->gather_rows,
                                   (void **)&k->gather_rows});
    need_add(&needs, (struct need){"kernels attend order", k->tile_rows, sizeof *k->attend_order,
                                   (void **)&k->attend_order});
    need_add(&needs, (struct need){"kernels bundles", k->tile_rows, sizeof *k->bundles,
                                   (void **)&k->bundles});
    need_add_buffers(&needs, k);
    need_add(&needs, (struct need){"kernels scratches", t->threads, sizeof *k->scratch,
                                   (void **)&k->scratch});
    need_add(&needs, (struct need){"kernels scratch", t->threads, scratch_place(NULL, k, NULL),
                                   (void **)scratch});
    return needs;
}

void kernels_plan_memory(struct memory_plan *plan, const struct kernels_settings *settings,
                         const struct model_shape *shape)
{
    struct kernels kernels = {.settings = *settings, .shape = *shape};
    uint8_t *scratch;
    memory_plan_add(plan, MEMORY_ENGINE, "kernels engine", 1, sizeof kernels);
    struct needs needs = memory_needs(&kernels, &scratch);
    for (uint32_t i = 0; i < needs.count; i++) {
        const struct need *need = &needs.list[i];
        memory_plan_add(plan, MEMORY_ENGINE, need->owner, need->count, need->size_bytes);
    }
    kernels_threads_plan_memory(plan, settings->threads);
}

/* As many panels as whole heads fill. */
static uint32_t head_panels(const struct model_shape *shape)
{
    uint32_t heads = 1;
    while (heads * shape->head_dim % KERNELS_PANEL_LANES != 0) {
        heads *= 2;
    }
    return heads * shape->head_dim / KERNELS_PANEL_LANES;
}

/* What a thread must have together: whole heads to normalize or to quantise them, or to rotate
 * pairs that lie apart. Adjacent pairs are whole in any panel. */
static void panels_together(struct kernels *k)
{
    bool levels = k->settings.kv_type == KERNELS_KV_Q8;
    bool adjacent = k->shape.family->rope_pairs == ROPE_ADJACENT && !k->shape.family->qk_norm;
    k->rotate_panels = adjacent && !levels ? 1 : head_panels(&k->shape);
    k->value_panels = levels ? head_panels(&k->shape) : 1;
}

static void engine_work(void *context, uint32_t thread);

enum status kernels_init(struct kernels **kernels, const struct kernels_settings *settings,
                         const struct kernels_weights *weights, struct arena *arena,
                         volatile uint64_t *heartbeat)
{
    ASSERT(settings->kv_block_tokens % KERNELS_OCTET == 0);
    ASSERT(settings->step_tokens >= settings->batch_calls);
    struct kernels *k = arena_take(arena, 1, sizeof *k);
    k->settings = *settings;
    k->shape = weights->shape;
    k->weights = weights;
    k->ops = kernels_ops(settings->simd);
    k->heartbeat = heartbeat;
    k->phase_work_min = KERNELS_PHASE_WORK_MIN;
    k->cached_bytes_max = KERNELS_CACHED_BYTES_MAX;
    k->attention_scale = 1.0f / sqrtf((float)weights->shape.head_dim);
    panels_together(k);
    uint8_t *scratch = NULL;
    struct needs needs = memory_needs(k, &scratch);
    for (uint32_t i = 0; i < needs.count; i++) {
        const struct need *need = &needs.list[i];
        *need->memory = arena_take(arena, need->count, need->size_bytes);
    }
    for (uint32_t i = 0; i < settings->threads; i++) {
        scratch += scratch_place(&k->scratch[i], k, scratch);
    }
    kernels_rope_fill(k->rope, &k->shape, weights->rope_factors, settings->context_tokens);
    *kernels = k;
    return kernels_threads_init(&k->threads, settings->threads, engine_work, k, arena);
}

void kernels_stop(struct kernels *kernels)
{
    kernels_threads_stop(&kernels->threads);
}

void kernels_tell_rounds(struct kernels *kernels, const struct kernels_listener *listener)
{
    kernels->on_round = *listener;
}

const float *kernels_logits(const struct kernels *kernels, uint32_t row)
{
    ASSERT(row < kernels->settings.batch_calls);
    return kernels->logits.at + row * kernels->logits.stride;
}

/* ---- rounds ---- */

static void slot_add(struct kernels *k, struct kernels_slot slot, bool wants_logits)
{
    ASSERT(k->slots_count < k->settings.step_tokens);
    ASSERT(slot.position < k->settings.context_tokens && slot.token < k->shape.vocab_tokens);
    slot.gather = KERNELS_GATHER_NONE;
    if (wants_logits) {
        slot.gather = k->gathers_count;
        k->gather_rows[k->gathers_count++] = slot.row;
    }
    k->slots[k->slots_count++] = slot;
}

/* A slot for each token of a row; the logits of the last one are needed if the row samples. */
static void row_add_slots(struct kernels *k, uint32_t r)
{
    const struct step_row *row = step_row(k->step, r);
    const uint32_t *tokens = step_tokens(k->step) + row->tokens_first;
    for (uint32_t i = 0; i < row->tokens_count; i++) {
        struct kernels_slot slot = {
            .token = tokens[i], .position = row->first_position + i, .row = r};
        slot_add(k, slot, row->decode_steps > 0 && i + 1 == row->tokens_count);
    }
}

/* The first round: the rows that run from the start. */
static void round_first(struct kernels *k)
{
    const struct step_header *header = step_header(k->step);
    k->round = 0;
    k->slots_count = 0;
    k->gathers_count = 0;
    k->standby_next = header->rows_active;
    for (uint32_t r = 0; r < header->rows_count; r++) {
        *step_out(k->step, r) = (struct step_out){.result = STEP_ROW_OK};
    }
    step_progress_begin(k->step);
    for (uint32_t r = 0; r < header->rows_active; r++) {
        row_add_slots(k, r);
    }
}

static bool is_stop_id(const struct call_sampling *sampling, uint32_t token)
{
    for (uint32_t i = 0; i < sampling->stop_ids_count; i++) {
        if (sampling->stop_ids[i] == token) {
            return true;
        }
    }
    return false;
}

/* True when row r needs another token. */
static bool row_goes_on(const struct kernels *k, uint32_t r)
{
    const struct step_row *row = step_row(k->step, r);
    const struct step_out *out = step_out(k->step, r);
    const uint32_t *tokens = step_out_tokens(k->step, r);
    return out->result == STEP_ROW_OK && out->produced < row->decode_steps &&
           !is_stop_id(&row->sampling, tokens[out->produced - 1]);
}

/* Gives free places to the next standby rows. */
static void enter_standbys(struct kernels *k)
{
    const struct step_header *header = step_header(k->step);
    while (k->gathers_count < header->rows_active && k->standby_next < header->rows_count) {
        const struct step_row *row = step_row(k->step, k->standby_next);
        ASSERT(row->tokens_count == 1 && row->decode_steps > 0);
        row_add_slots(k, k->standby_next++);
    }
}

/* Slots for the gathers of the last round that go on, each with the token that it has sampled. */
static void gathers_add_slots(struct kernels *k, uint32_t before)
{
    for (uint32_t g = 0; g < before; g++) {
        uint32_t r = k->gather_rows[g];
        if (row_goes_on(k, r)) {
            const struct step_row *row = step_row(k->step, r);
            uint32_t produced = step_out(k->step, r)->produced;
            struct kernels_slot slot = {
                .token = step_out_tokens(k->step, r)[produced - 1],
                .position = row->first_position + row->tokens_count + produced - 1,
                .row = r,
            };
            slot_add(k, slot, true);
        }
    }
}

/* A later round, if there is one: the rows that go on, and the standby rows that enter. */
static void round_next(struct kernels *k)
{
    uint32_t before = k->gathers_count;
    enum step_stop early_stop = step_early_stop(k->step);
    k->slots_count = 0;
    k->gathers_count = 0;
    step_progress_round(k->step, ++k->round);
    if (k->round == k->settings.steps_per_plan || early_stop == STEP_STOP_ROUND) {
        return;
    }
    gathers_add_slots(k, before);
    enter_standbys(k);
    if (early_stop == STEP_STOP_ROW && k->gathers_count < before) {
        k->slots_count = 0;
    }
}

static void gather_sample(struct kernels *k, uint32_t gather, struct kernels_scratch *scratch)
{
    uint32_t r = k->gather_rows[gather];
    const struct step_row *row = step_row(k->step, r);
    struct step_out *out = step_out(k->step, r);
    uint32_t *tokens = step_out_tokens(k->step, r);
    const float *logits = k->logits.at + gather * k->logits.stride;
    if (!k->ops->is_finite(logits, k->shape.vocab_tokens)) {
        *out = (struct step_out){.result = STEP_ROW_NOT_FINITE};
        return;
    }
    if (row->wants_digest) {
        uint64_t before = out->produced == 0 ? FNV_START : out->digest;
        out->digest = fnv_add(before, logits, k->shape.vocab_tokens * sizeof *logits);
    }
    struct kernels_given given = {
        .history = row->history,
        .history_count = row->history_count,
        .generated = step_generated(k->step, r),
        .generated_count = row->generated_count,
        .produced = tokens,
        .produced_count = out->produced,
        .biases = row->biases,
    };
    uint32_t position = row->first_position + row->tokens_count + out->produced;
    uint32_t token = kernels_sample(&scratch->sampler, logits, &row->sampling, &given, position);
    uint32_t entries = call_logprob_entries(&row->sampling);
    if (entries > 0) {
        kernels_logprobs(&scratch->sampler, logits, token,
                         step_logprobs(k->step, r, out->produced * entries), entries);
    }
    tokens[out->produced] = token;
    step_out_publish(out, out->produced + 1);
}

/* The last round is not told: kernels_run() returns. */
static void tell_round(const struct kernels *k)
{
    if (k->slots_count > 0 && k->on_round.tell != NULL) {
        k->on_round.tell(k->on_round.context);
    }
}

static void engine_work(void *context, uint32_t thread)
{
    struct kernels *k = context;
    kernels_moves(k, thread);
    while (k->slots_count > 0) {
        kernels_forward(k, thread);
        for (uint32_t g = thread; g < k->gathers_count; g += k->threads.active) {
            gather_sample(k, g, &k->scratch[thread]);
        }
        kernels_threads_wait(&k->threads);
        if (thread == 0) {
            round_next(k);
            tell_round(k);
        }
        kernels_threads_wait(&k->threads);
    }
}

/* Multiply-adds of one token slot, divided by the barriers of a forward pass. */
static uint64_t work_of_slot(const struct model_shape *shape)
{
    uint64_t heads = (uint64_t)shape->heads * shape->head_dim;
    uint64_t kv_heads = (uint64_t)shape->kv_heads * shape->head_dim;
    uint64_t layer = shape->dim * (2 * heads + 2 * kv_heads + 3 * (uint64_t)shape->ffn_dim);
    uint64_t output = (uint64_t)shape->dim * shape->vocab_tokens;
    return (layer * shape->layers + output) / (shape->layers * KERNELS_PHASES + 1);
}

/* True when there is too little work for more than one thread. No later round has more slots than
 * the first. */
static bool is_small(const struct kernels *k)
{
    uint64_t moved_floats =
        step_header(k->step)->moves_count * k->kv_block_bytes / sizeof(float);
    return work_of_slot(&k->shape) * k->slots_count < k->phase_work_min &&
           moved_floats < k->phase_work_min;
}

void kernels_run(struct kernels *kernels, const struct step *step)
{
    const struct step_header *header = step_header(step);
    const struct kernels_settings *settings = &kernels->settings;
    ASSERT(header->rows_active <= settings->batch_calls);
    ASSERT(header->rows_active <= header->rows_count);
    ASSERT(header->rows_count <= settings->batch_calls + settings->standby_calls);
    kernels->step = step;
    round_first(kernels);
    kernels_threads_run(&kernels->threads, is_small(kernels));
}
