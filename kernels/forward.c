/* SPDX-License-Identifier: MIT
 *
 * What: the forward pass of a round, as phases between barriers. The phases of a layer:
 *
 *   normalize | q, k, v, bias, norm, RoPE, KV stored | attention | output + residual | normalize |
 *   gate, up, SwiGLU | down + residual
 *
 * Families differ only in the second phase: a layer without biases or head norms leaves them out.
 * A head that must be rotated or normalized as a whole belongs to one thread.
 *
 * Every thread runs every function here. A phase takes this thread's share of panels (products),
 * rows (norms, embeddings) or heads (attention). Each thread normalizes all rows of a small tile
 * for itself: that costs less than a barrier.
 *
 * Invariants: all KV of a tile is stored before any of its rows attends, and a row sees only
 * positions up to its own, so the result does not depend on how a prompt is cut into tiles, steps
 * or rows. Stores go only to KV blocks that the core gave to this call alone.
 *
 * Why RoPE is here and in plain C: its results are sums of two products, rounded three times, which
 * are the same on every machine, and it touches a thousandth of what a product does.
 */
#include "kernels/engine_state.h"

#include <string.h>

/* One thread's view of one tile in one layer. */
struct forward {
    struct kernels *k;
    uint32_t thread;
    const struct kernels_slot *slots;
    uint32_t rows;
    uint32_t layer_index;
    const struct kernels_layer *layer;
};

static struct kernels_share share(const struct forward *f, uint32_t total)
{
    return kernels_share(total, f->thread, f->k->threads.active);
}

static void phase_end(const struct forward *f)
{
    kernels_threads_wait(&f->k->threads);
    if (f->thread == 0) {
        *f->k->heartbeat += 1;
    }
}

/* The input of a product: activations, and the same rounded as the types of weights need them. */
struct operand {
    struct kernels_buffer x;
    struct kernels_rounded rounded;
};

static void product(const struct forward *f, const struct kernels_matrix *matrix,
                    struct kernels_share panels, struct operand from, struct kernels_buffer y)
{
    if (panels.first >= panels.end) {
        return;
    }
    struct kernels_product task = {
        .matrix = matrix,
        .panel_first = panels.first,
        .panel_end = panels.end,
        .rows = f->rows,
        .tuning = f->k->scratch[f->thread].tuning,
        .x = from.x.at,
        .x_stride = from.x.stride,
        .rounded = from.rounded,
        .y = y.at,
        .y_stride = y.stride,
    };
    f->k->ops->product(&task);
}

/* True when rows are so few that every thread prepares all of them for itself, without a
 * barrier. */
static bool is_alone(const struct forward *f)
{
    return f->rows <= KERNELS_NORM_ROWS;
}

static struct kernels_rounded rounded_of(const struct forward *f)
{
    return is_alone(f) ? f->k->scratch[f->thread].rounded : f->k->rounded;
}

/* What a matrix reads, as a bit for each kernels_reads; matrices with the same input are or'ed. */
static uint32_t reads(const struct kernels_matrix *matrix)
{
    return 1u << kernels_reads(matrix->type);
}

/* Rounds the row of `to` in every way that is read. */
static void row_round(const struct forward *f, const struct operand *to, uint32_t row,
                      uint32_t columns, uint32_t all_reads)
{
    struct kernels_rounded rounded = kernels_rounded_from(to->rounded, row);
    const float *x = to->x.at + row * to->x.stride;
    for (uint32_t way = KERNELS_READS_BFLOATS; way <= KERNELS_READS_LEVELS; way++) {
        if ((all_reads & 1u << way) != 0) {
            kernels_round(f->k->ops, (enum kernels_reads)way, &rounded, x, columns);
        }
    }
}

/* The rows that this thread prepares; prepare_end() follows. */
static struct kernels_share rows_to_prepare(const struct forward *f)
{
    return is_alone(f) ? (struct kernels_share){0, f->rows} : share(f, f->rows);
}

static void prepare_end(const struct forward *f)
{
    if (!is_alone(f)) {
        phase_end(f);
    }
}

/* The rows of `x` as a product with `matrix` takes them. */
static struct operand prepare(const struct forward *f, struct kernels_buffer x,
                              const struct kernels_matrix *matrix)
{
    struct operand operand = {x, rounded_of(f)};
    if (kernels_reads(matrix->type) == KERNELS_READS_FLOATS) {
        return operand;
    }
    struct kernels_share rows = rows_to_prepare(f);
    for (uint32_t r = rows.first; r < rows.end; r++) {
        row_round(f, &operand, r, matrix->columns, reads(matrix));
    }
    prepare_end(f);
    return operand;
}

/* Normalizes the residual; returns where this thread finds the result. */
static struct operand normalize(const struct forward *f, const float *weight, uint32_t all_reads)
{
    struct kernels *k = f->k;
    struct operand out = {k->normed, rounded_of(f)};
    struct kernels_share rows = rows_to_prepare(f);
    if (is_alone(f)) {
        out.x.at = k->scratch[f->thread].normed;
    }
    for (uint32_t r = rows.first; r < rows.end; r++) {
        k->ops->norm(out.x.at + r * out.x.stride, k->x.at + r * k->x.stride, weight, k->shape.dim,
                     k->shape.norm_epsilon);
        row_round(f, &out, r, k->shape.dim, all_reads);
    }
    prepare_end(f);
    return out;
}

/* ---- q, k, v ---- */

/* Normalizes the heads in a row's columns, in scratch: the kernel writes whole octets, and the next
 * head follows at once. */
static void heads_normalize(const struct forward *f, float *row, struct kernels_share columns,
                            const float *weight)
{
    const struct kernels *k = f->k;
    uint32_t head_dim = k->shape.head_dim;
    float *head = k->scratch[f->thread].heads;
    for (uint32_t c = columns.first; c < columns.end; c += head_dim) {
        memcpy(head, row + c, head_dim * sizeof *head);
        k->ops->norm(head, head, weight, head_dim, k->shape.norm_epsilon);
        memcpy(row + c, head, head_dim * sizeof *head);
    }
}

/* What a family does to a product before it is rotated or stored. NULL: the family lacks it. */
static void product_finish(const struct forward *f, float *row, struct kernels_share columns,
                           const float *bias, const float *norm)
{
    if (bias != NULL) {
        for (uint32_t c = columns.first; c < columns.end; c++) {
            row[c] += bias[c];
        }
    }
    if (norm != NULL) {
        heads_normalize(f, row, columns, norm);
    }
}

/* Rotates the pairs in a row's columns: of each head the first rope_dim channels. Pair i is the
 * channels i * step and i * step + apart. */
static void rope_rotate(const struct kernels *k, float *row, struct kernels_share columns,
                      uint32_t position)
{
    bool halves = k->shape.family->rope_pairs == ROPE_HALVES;
    uint32_t pairs = k->shape.rope_dim / 2;
    uint32_t step = halves ? 1 : 2, apart = halves ? pairs : 1;
    const float *table = k->rope + (uint64_t)position * k->shape.rope_dim;
    for (uint32_t c = columns.first; c < columns.end;) {
        struct kernels_head_part part = kernels_head_part_at(&k->shape, c, columns.end);
        float *head = row + (uint64_t)part.head * k->shape.head_dim;
        for (uint32_t i = part.first / 2; i < part.end / 2 && i < pairs; i++) {
            float *pair = head + i * step;
            float a = pair[0], b = pair[apart], cosine = table[2 * i], sine = table[2 * i + 1];
            pair[0] = a * cosine - b * sine;
            pair[apart] = a * sine + b * cosine;
        }
        c += part.end - part.first;
    }
}

/* The part of [begin, begin + count) that lies in `all`, counted from `begin`. */
static struct kernels_share share_within(struct kernels_share all, uint32_t begin, uint32_t count)
{
    uint32_t first = all.first > begin ? all.first - begin : 0;
    uint32_t end = all.end > begin ? all.end - begin : 0;
    return (struct kernels_share){first < count ? first : count, end < count ? end : count};
}

/* The columns of a share of panels; the last panel may be wider than the matrix. */
static struct kernels_share columns_of(const struct kernels_matrix *matrix,
                                       struct kernels_share panels)
{
    uint32_t first = panels.first * KERNELS_PANEL_LANES;
    uint32_t end = panels.end * KERNELS_PANEL_LANES;
    uint32_t outputs = matrix->outputs;
    return (struct kernels_share){first < outputs ? first : outputs, end < outputs ? end : outputs};
}

/* Moves both ends of a share of queries, keys or values down to a multiple of the panels that
 * belong together. All threads do the same, so no panel is left out and none is computed twice. */
static struct kernels_share share_of_whole(struct kernels_share panels, uint32_t panels_count,
                                           uint32_t together)
{
    uint32_t *ends[] = {&panels.first, &panels.end};
    for (uint32_t i = 0; i < 2; i++) {
        if (*ends[i] < panels_count) {
            *ends[i] -= *ends[i] % together;
        }
    }
    return panels;
}

/* The thread's columns of the three products: bias, norm, rotation, and KV stored. */
static void rows_finish(const struct forward *f, struct kernels_share query,
                        struct kernels_share key, struct kernels_share value)
{
    struct kernels *k = f->k;
    const struct kernels_layer *layer = f->layer;
    for (uint32_t r = 0; r < f->rows; r++) {
        uint32_t position = f->slots[r].position;
        float *queries = k->q.at + r * k->q.stride, *keys = k->k.at + r * k->k.stride;
        float *values = k->v.at + r * k->v.stride;
        product_finish(f, queries, query, layer->attn_q_bias, layer->attn_q_norm);
        product_finish(f, keys, key, layer->attn_k_bias, layer->attn_k_norm);
        product_finish(f, values, value, layer->attn_v_bias, NULL);
        rope_rotate(k, queries, query, position);
        rope_rotate(k, keys, key, position);
        kernels_kv_store(&(struct kernels_storing){
            .k = k, .slot = &f->slots[r], .layer = f->layer_index, .keys = keys, .values = values,
            .key = key, .value = value, .scratch = &k->scratch[f->thread],
        });
    }
}

/* The panels of the three matrices are split among the threads as one sequence. */
static void phase_qkv(const struct forward *f)
{
    struct kernels *k = f->k;
    const struct kernels_matrix *wq = &f->layer->attn_q, *wk = &f->layer->attn_k;
    const struct kernels_matrix *wv = &f->layer->attn_v;
    struct operand x = normalize(f, f->layer->attn_norm, reads(wq) | reads(wk) | reads(wv));
    uint32_t k_first = wq->panels_count, v_first = k_first + wk->panels_count;
    struct kernels_share all = share(f, v_first + wv->panels_count);
    struct kernels_share pq = share_within(all, 0, wq->panels_count);
    struct kernels_share pk = share_within(all, k_first, wk->panels_count);
    struct kernels_share pv = share_within(all, v_first, wv->panels_count);
    pq = share_of_whole(pq, wq->panels_count, k->rotate_panels);
    pk = share_of_whole(pk, wk->panels_count, k->rotate_panels);
    pv = share_of_whole(pv, wv->panels_count, k->value_panels);
    product(f, wq, pq, x, k->q);
    product(f, wk, pk, x, k->k);
    product(f, wv, pv, x, k->v);
    rows_finish(f, columns_of(wq, pq), columns_of(wk, pk), columns_of(wv, pv));
    if (f->thread == 0) {
        k->attend_next = 0;         /* no thread attends: all are in this phase or before it */
    }
    phase_end(f);
}

static void phase_attention(const struct forward *f)
{
    kernels_attend(f->k, f->thread, f->slots, f->layer_index);
    phase_end(f);
}

/* ---- products into the residual, feed-forward ---- */

static void phase_residual(const struct forward *f, const struct kernels_matrix *matrix,
                           struct kernels_buffer from, struct kernels_buffer sum)
{
    struct kernels *k = f->k;
    struct kernels_share panels = share(f, matrix->panels_count);
    product(f, matrix, panels, prepare(f, from, matrix), sum);
    struct kernels_share columns = columns_of(matrix, panels);
    for (uint32_t r = 0; r < f->rows; r++) {
        float *x = k->x.at + r * k->x.stride;
        const float *y = sum.at + r * sum.stride;
        for (uint32_t c = columns.first; c < columns.end; c++) {
            x[c] += y[c];
        }
    }
    phase_end(f);
}

static void phase_swiglu(const struct forward *f)
{
    struct kernels *k = f->k;
    uint32_t all_reads = reads(&f->layer->ffn_gate) | reads(&f->layer->ffn_up);
    struct operand x = normalize(f, f->layer->ffn_norm, all_reads);
    struct kernels_share panels = share(f, f->layer->ffn_gate.panels_count);
    product(f, &f->layer->ffn_gate, panels, x, k->gate);
    product(f, &f->layer->ffn_up, panels, x, k->up);
    uint32_t first = panels.first * KERNELS_PANEL_LANES;
    uint32_t count = (panels.end - panels.first) * KERNELS_PANEL_LANES;
    for (uint32_t r = 0; r < f->rows; r++) {
        k->ops->swiglu(k->gate.at + r * k->gate.stride + first, k->up.at + r * k->up.stride + first,
                       count);
    }
    phase_end(f);
}

/* ---- the ends ---- */

static void phase_embed(const struct forward *f)
{
    struct kernels *k = f->k;
    struct kernels_share rows = share(f, f->rows);
    if (f->thread == 0) {
        kernels_bundle(k, f->slots, f->rows);
    }
    for (uint32_t r = rows.first; r < rows.end; r++) {
        kernels_matrix_row(&k->weights->token_embd, f->slots[r].token, k->x.at + r * k->x.stride);
    }
    phase_end(f);
}

/* Normalizes the rows whose logits are needed into neighbouring rows. */
static void phase_gather(const struct forward *f)
{
    struct kernels *k = f->k;
    for (uint32_t r = f->thread; r < f->rows; r += k->threads.active) {
        uint32_t gather = f->slots[r].gather;
        if (gather != KERNELS_GATHER_NONE) {
            k->ops->norm(k->gathered.at + gather * k->gathered.stride, k->x.at + r * k->x.stride,
                         k->weights->output_norm, k->shape.dim, k->shape.norm_epsilon);
        }
    }
    phase_end(f);
}

static void tile_forward(struct forward *f)
{
    struct kernels *k = f->k;
    phase_embed(f);
    for (f->layer_index = 0; f->layer_index < k->shape.layers; f->layer_index++) {
        f->layer = &k->weights->layers[f->layer_index];
        phase_qkv(f);
        phase_attention(f);
        phase_residual(f, &f->layer->attn_output, k->attended, k->normed);
        phase_swiglu(f);
        phase_residual(f, &f->layer->ffn_down, k->gate, k->normed);
    }
    phase_gather(f);
}

void kernels_forward(struct kernels *kernels, uint32_t thread)
{
    struct forward forward = {.k = kernels, .thread = thread};
    for (uint32_t first = 0; first < kernels->slots_count; first += forward.rows) {
        uint32_t left = kernels->slots_count - first;
        forward.rows = left < kernels->tile_rows ? left : kernels->tile_rows;
        forward.slots = kernels->slots + first;
        tile_forward(&forward);
    }
    const struct kernels_matrix *output = &kernels->weights->output;
    forward.rows = kernels->gathers_count;
    if (forward.rows > 0) {
        struct kernels_share panels = share(&forward, output->panels_count);
        struct operand gathered = prepare(&forward, kernels->gathered, output);
        product(&forward, output, panels, gathered, kernels->logits);
        phase_end(&forward);
    }
}
