/* SPDX-License-Identifier: MIT */
/*
 * What: the kernels of a round other than products, each as it is in a step: with that step's
 * numbers, and with caches as the kernels before it left them. A time is the median over steps; of
 * attention, RoPE, SwiGLU and norms that of one layer or norm, of sampling that of all its kernels.
 * The row "smallest kernel between events" says how much of a short time is not the kernel's.
 */
#include "tools/bench/gpu/parts.h"
#include "tools/bench/gpu/probe.h"

#define STEPS_MAX   5u
#define STEPS_QUICK 1u

/* Steps of one kind, probed. */
struct probed {
    struct batch batch;
    uint64_t pairs;                     /* of a query's position and a key's, of all rows */
    struct probe_sum sums[PROBE_GROUPS_COUNT];  /* .us: the medians */
    uint32_t steps;
};

static void probe_all(struct machine *m, struct probed *p)
{
    double us[PROBE_GROUPS_COUNT][STEPS_MAX];
    p->steps = m->wishes.is_quick ? STEPS_QUICK : STEPS_MAX;
    p->pairs = 0;
    for (uint32_t i = 0; i < p->batch.tokens; i++) {
        p->pairs += (uint64_t)p->batch.rows * (p->batch.position + i + 1);
    }
    machine_fill_step(m, &p->batch);
    probe_step(m, p->sums);
    for (uint32_t step = 0; step < p->steps; step++) {
        probe_step(m, p->sums);
        for (uint32_t g = 0; g < PROBE_GROUPS_COUNT; g++) {
            us[g][step] = p->sums[g].us;
        }
    }
    for (uint32_t g = 0; g < PROBE_GROUPS_COUNT; g++) {
        p->sums[g].us = timer_median_of(us[g], p->steps);
    }
}

/* A row for a group whose time is that of `units` equal parts. */
static void print_group(const struct machine *m, const struct probed *p, enum probe_group group,
                        struct row row)
{
    const struct probe_sum *sum = &p->sums[group];
    uint32_t layers = m->model.gguf.shape.layers;
    uint32_t units = group == PROBE_SAMPLE || group == PROBE_OTHERS ? 1
                     : group == PROBE_RMS_NORM                      ? sum->launches
                                                                    : layers;
    row.rows = p->batch.rows;
    row.with = "";
    row.floor_us = table_floor_us(m, row.bytes, row.operations);
    if (sum->launches == 0) {
        table_skip(&row, "the step has no such kernel");
        return;
    }
    table_print(&row, (struct timed){sum->us / units, p->steps});
}

static void print_attention(const struct machine *m, const struct probed *p, const char *name)
{
    const struct model_shape *s = &m->model.gguf.shape;
    double tokens = p->batch.position + p->batch.tokens;
    double slots = (double)p->batch.rows * p->batch.tokens;
    double kv = (double)machine_kv_bytes(m, (uint64_t)tokens) / s->layers * p->batch.rows;
    print_group(m, p, PROBE_ATTENTION,
                (struct row){.name = name, .tokens = (uint32_t)tokens,
                             .bytes = kv + slots * 2 * s->heads * s->head_dim * sizeof(float),
                             .operations = 4.0 * (double)p->pairs * s->heads * s->head_dim});
}

static void print_sample(const struct machine *m, const struct probed *p, const char *name)
{
    double logits = (double)p->batch.rows * m->model.gguf.shape.vocab_tokens;
    print_group(m, p, PROBE_SAMPLE, (struct row){.name = name, .bytes = logits * sizeof(float)});
}

/* Bytes that each reads and writes as floats. */
static void print_elementwise(const struct machine *m, const struct probed *p)
{
    const struct model_shape *s = &m->model.gguf.shape;
    double slots = (double)p->batch.rows * p->batch.tokens, each = sizeof(float);
    uint32_t tokens = p->batch.tokens > 1 ? p->batch.tokens : 0;
    double heads = (2.0 * s->heads + 3.0 * s->kv_heads) * s->head_dim;  /* KV are halves */
    print_group(m, p, PROBE_RMS_NORM, (struct row){.name = "rms_norm", .tokens = tokens,
                                                   .bytes = slots * s->dim * 4 * each});
    print_group(m, p, PROBE_ROPE,
                (struct row){.name = "rope", .tokens = tokens, .bytes = slots * heads * each});
    print_group(m, p, PROBE_SWIGLU, (struct row){.name = "swiglu", .tokens = tokens,
                                                 .bytes = slots * s->ffn_dim * 3 * each});
    print_group(m, p, PROBE_OTHERS, (struct row){.name = "other kernels, all of a step",
                                                 .tokens = tokens});
}

static void measure_decode(struct machine *m, uint32_t rows)
{
    static struct probed p;
    const struct row before = {.name = "decode, its kernels", .with = "", .rows = rows};
    if (!table_may_run(m, &before)) {
        return;
    }
    p.batch = (struct batch){.rows = rows, .tokens = 1, .position = m->short_tokens - 1,
                             .decode_steps = 1};
    probe_all(m, &p);
    print_attention(m, &p, "attention, decode");
    print_elementwise(m, &p);
    print_sample(m, &p, "sample, greedy");
    if (!table_may_run(m, &before)) {
        return;
    }
    p.batch.position = m->long_tokens - 1;
    p.batch.is_sampled = true;
    probe_all(m, &p);
    print_attention(m, &p, "attention, decode");
    print_sample(m, &p, "sample, top_p");
}

static void measure_prefill(struct machine *m, uint32_t tokens)
{
    static struct probed p;
    const struct row before = {.name = "prefill, its kernels", .with = "", .rows = 1,
                               .tokens = tokens};
    if (!table_may_run(m, &before)) {
        return;
    }
    p.batch = (struct batch){.rows = 1, .tokens = tokens, .decode_steps = 1};
    probe_all(m, &p);
    print_attention(m, &p, "attention, prefill");
    print_elementwise(m, &p);
}

void kernels_run_alone(struct machine *machine, const struct rows_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        measure_decode(machine, list->rows[i]);
    }
    measure_prefill(machine, machine->long_tokens / 4);
    measure_prefill(machine, machine->long_tokens);
}
