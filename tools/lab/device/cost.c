/* SPDX-License-Identifier: MIT */
/*
 * What: the cost of a step, and the machines.
 *
 * Presets: figures of vendors' public data sheets, times an efficiency that is an assumption and is
 * stated here. Bandwidth 0.80 of peak, matrix products 0.60 of peak, 1 ms of launching for each
 * round, 1 ms for each bulk transfer between the tiers. Reading and computing overlap without loss.
 * Between two steps our host takes 0.1 ms: a pass of the appliance takes this long with 70 calls in
 * a step (--timing).
 *
 *   A100 80GB SXM: HBM2e 2,039 GB/s, 312 TFLOPS BF16 dense (NVIDIA A100 data sheet); PCIe gen 4
 *   H200 SXM: HBM3e 4,800 GB/s, 141 GB, 989 TFLOPS BF16 and 1,979 TFLOPS FP8, both dense (NVIDIA
 *     H200 data sheet prints twice that, with sparsity); PCIe gen 5
 *   PCIe: 25 and 50 GB/s of 32 and 64 GB/s are assumed to arrive
 *   Llama 3.1 8B: 8.03e9 parameters, 32 layers, 32 heads, 8 KV heads of 128, 128,256 token ids,
 *     131,072 positions; 70B: 70.6e9, 80 layers, 64 heads, 8 KV heads of 128 (model cards)
 *   Llama 2 7B: 6.74e9 parameters, 32 layers, 32 heads, 32 KV heads of 128, 32,000 token ids,
 *     4,096 positions (model card)
 *
 * A block that moves alone: a copy for each layer, K and V apart, as in vLLM 0.6.1; 2.3 us each in
 * addition to its bytes, which FlexKV's developers measured on an H20 (their pull request 193).
 *
 * KV of a position: 2 (K, V) * layers * KV heads * 128 * 2 bytes. Operations: 2 for a parameter and
 * a token; attention 4 * layers * heads * 128 for a token and a position.
 * KV blocks: on the A100 26,000; on the H200 what the weights leave of 0.9 of its memory; beside
 * Llama 2 the 459 of paper 001, figure 3.
 */
#include "tools/lab/device/cost.h"

#include <string.h>

#include "config/base/assert.h"

#define GB 1e9
#define TERA 1e12
#define BANDWIDTH_SHARE 0.80
#define FLOPS_SHARE 0.60
#define BLOCK_ALONE_S(layers) (2.0 * (layers) * 2.3e-6)

/* The parts that two presets share. */
#define MODEL_8B                                                                                 \
    .kv_token_bytes = 2.0 * 32 * 8 * 128 * 2, .token_flops = 2 * 8.03e9,                          \
    .attention_flops = 4.0 * 32 * 32 * 128, .weights_bytes = 2 * 8.03e9,                          \
    .context_tokens = 131072, .vocab_tokens = 128256, .block_transfer_s = BLOCK_ALONE_S(32)
#define GPU_CONTEXT(tokens)                                                                      \
    "sched.batch=256", "sched.prefill_tokens=2048", "kv.block_tokens=16",                         \
    "limits.context_tokens=" tokens
#define GPU_SETTINGS GPU_CONTEXT("16384")
/* The overlap is an assumption, like the shares above: no GPU has been measured. What rows share is
 * read for each row by vLLM's PagedAttention as by our own kernels (attend_split); copies are made
 * as by our own engine. */
#define GPU_ENGINE                                                                                \
    .overlap = 1, .prefix_reads = COST_READS_EACH, .copies = COST_COPIES_STREAMS
/* 64 GiB of host memory, in blocks for each block of the device. */
#define HOST(ratio) "kv.host_ratio=" ratio

static const struct cost_model models[] = {
    {
        /* Figure 2 of paper 000: time is counted in decoding rounds, and reading a prompt takes
         * none. */
        .name = "unit", .unit_s = 1, .context_tokens = 16384, .vocab_tokens = 32000,
        .settings = {"sched.batch=2", "sched.steps_per_plan=1", "sched.quantum=1s",
                     "sched.prefill_tokens=65536", "kv.device_blocks=65536",
                     "sched.wait_max=0", "sched.beta=0"},
    },
    {
        .name = "a100-llama-3.1-8b", MODEL_8B, .host_s = 0.1e-3, .launch_s = 1e-3, GPU_ENGINE,
        .bandwidth = 2039 * GB * BANDWIDTH_SHARE, .flops = 312 * TERA * FLOPS_SHARE,
        .copy_bandwidth = 25 * GB, .transfer_s = 1e-3,
        .settings = {GPU_SETTINGS, "kv.device_blocks=26000", HOST("1.260")},
    },
    {
        /* The machine of paper 001: KV is what is short. A round takes 9.3 ms, and 11.6 where KV is
         * full. */
        .name = "a100-llama-2-7b", .host_s = 0.1e-3, .launch_s = 1e-3, GPU_ENGINE,
        .weights_bytes = 13.5e9, .kv_token_bytes = 2.0 * 32 * 32 * 128 * 2,
        .token_flops = 2 * 6.74e9, .attention_flops = 4.0 * 32 * 32 * 128,
        .context_tokens = 4096, .vocab_tokens = 32000,
        .bandwidth = 2039 * GB * BANDWIDTH_SHARE, .flops = 312 * TERA * FLOPS_SHARE,
        .copy_bandwidth = 25 * GB, .transfer_s = 1e-3, .block_transfer_s = BLOCK_ALONE_S(32),
        .settings = {GPU_CONTEXT("4096"), "kv.device_blocks=459", HOST("17.848")},
    },
    {
        .name = "h200-llama-3.1-8b", MODEL_8B, .host_s = 0.1e-3, .launch_s = 1e-3, GPU_ENGINE,
        .bandwidth = 4800 * GB * BANDWIDTH_SHARE, .flops = 989 * TERA * FLOPS_SHARE,
        .copy_bandwidth = 50 * GB, .transfer_s = 1e-3,
        .settings = {GPU_SETTINGS, "kv.device_blocks=52800", HOST("0.621")},
    },
    {
        /* Weights of one byte, KV of two. */
        .name = "h200-llama-3.1-70b-fp8", .host_s = 0.1e-3, .launch_s = 1e-3, GPU_ENGINE,
        .weights_bytes = 70.6e9,
        .kv_token_bytes = 2.0 * 80 * 8 * 128 * 2, .token_flops = 2 * 70.6e9,
        .attention_flops = 4.0 * 80 * 64 * 128, .context_tokens = 131072, .vocab_tokens = 128256,
        .bandwidth = 4800 * GB * BANDWIDTH_SHARE, .flops = 1979 * TERA * FLOPS_SHARE,
        .copy_bandwidth = 50 * GB, .transfer_s = 1e-3, .block_transfer_s = BLOCK_ALONE_S(80),
        .settings = {GPU_SETTINGS, "kv.device_blocks=10700", HOST("1.225")},
    },
    {
        /* The appliance's own engine: 110M parameters in F32 on two threads, 12 layers of 768, KV
         * in F32. Launch, overlap and the rates are fitted to its rounds
         * (tools/bench/fit_rounds.py, docs/performance.md); the launch was too short to be seen.
         * The copy of a tier is a copy in memory; its rate and overhead are taken, not measured,
         * and a block alone has none. */
        .name = "cpu", .host_s = 20e-6, .weights_bytes = 440e6,
        .kv_token_bytes = 2.0 * 12 * 768 * 4, .token_flops = 2 * 110e6,
        .attention_flops = 4.0 * 12 * 768, .bandwidth = 31.3 * GB, .flops = 403 * GB,
        .overlap = 0.34, .copy_bandwidth = 10 * GB, .transfer_s = 20e-6,
        .context_tokens = 16384, .vocab_tokens = 32000,
        .settings = {"sched.batch=32"},
    },
};
#define MODELS_COUNT (sizeof models / sizeof models[0])

const struct cost_model *cost_find(const char *name)
{
    for (uint32_t i = 0; i < MODELS_COUNT; i++) {
        if (strcmp(models[i].name, name) == 0) {
            return &models[i];
        }
    }
    return NULL;
}

const char *cost_names(void)
{
    STATIC_ASSERT(MODELS_COUNT == 6, "cost_names() names each");
    return "unit, a100-llama-3.1-8b, a100-llama-2-7b, h200-llama-3.1-8b, h200-llama-3.1-70b-fp8, "
           "cpu";
}

double cost_moves_s(const struct cost_model *model, uint64_t tokens_moved, uint32_t transfers,
                    uint32_t blocks_alone)
{
    if (tokens_moved == 0 || model->unit_s > 0) {
        return 0;
    }
    return (double)tokens_moved * model->kv_token_bytes / model->copy_bandwidth +
           transfers * model->transfer_s + blocks_alone * model->block_transfer_s;
}

double cost_copies_s(const struct cost_model *model, uint64_t tokens_copied)
{
    return model->unit_s > 0 ? 0
                             : 2 * (double)tokens_copied * model->kv_token_bytes / model->bandwidth;
}

static void time_round(const struct cost_model *model, struct cost_round *round)
{
    round->read_s = (model->weights_bytes + round->positions * model->kv_token_bytes) /
                    model->bandwidth;
    round->compute_s = (round->tokens * model->token_flops +
                        round->pairs * model->attention_flops) / model->flops;
}

static double round_s(const struct cost_model *model, const struct cost_round *round)
{
    bool reads_longer = round->read_s > round->compute_s;
    double more_s = reads_longer ? round->read_s : round->compute_s;
    double less_s = reads_longer ? round->compute_s : round->read_s;
    return model->launch_s + more_s + (1 - model->overlap) * less_s;
}

double cost_round_s(const struct cost_model *model, uint64_t positions)
{
    struct cost_round round = {.positions = (double)positions};
    time_round(model, &round);
    return model->unit_s > 0 ? model->unit_s : round_s(model, &round);
}

/* The first round feeds all tokens of the row, each later round the last token; each feeds a draft,
 * of which the positions that agreed stay. */
static void add_row(struct cost_round *rounds, const struct cost_row *row)
{
    uint32_t known = row->first_position;
    struct cost_round *round = &rounds[row->start_round];
    ASSERT(row->rounds >= 1 && row->start_round + row->rounds <= COST_ROUNDS_MAX);
    for (uint32_t i = 0; i < row->rounds; i++) {
        struct cost_draft draft = row->drafts != NULL ? row->drafts[i] : (struct cost_draft){0};
        uint32_t own = i == 0 ? row->tokens_count : 1, fed = own + draft.fed;
        round[i].tokens += fed;
        round[i].positions += known + fed;
        round[i].pairs += fed * (known + (fed + 1) / 2.0);
        known += own + draft.agreed;
    }
}

/* ---- what rows share ---- */

/* In each of the rounds that are bits of `in`. */
static void take_positions(struct cost_round *rounds, uint64_t in, double positions)
{
    for (; in != 0; in &= in - 1) {
        rounds[__builtin_ctzll(in)].positions -= positions;
    }
}

static uint32_t whole_blocks(const struct cost_batch *batch, const struct cost_row *row)
{
    return (row->first_position + row->tokens_count) / batch->block_tokens;
}

/* Takes out again what an earlier row of the same round has read. Blocks that become whole later in
 * the step are the row's own. Neighbouring blocks are mostly shared alike, so they are counted
 * together. */
static void share_row(struct cost_round *rounds, const struct cost_batch *batch,
                      const struct cost_row *row)
{
    STATIC_ASSERT(COST_ROUNDS_MAX == 64, "a bit for each round");
    uint64_t mine = UINT64_MAX >> (COST_ROUNDS_MAX - row->rounds) << row->start_round;
    uint64_t again_before = 0;
    uint32_t alike = 0;
    for (uint32_t i = 0; i < whole_blocks(batch, row); i++) {
        uint64_t *seen = &batch->seen[row->blocks[i]], again = *seen & mine;
        *seen |= mine;
        if (again != again_before) {
            take_positions(rounds, again_before, (double)alike * batch->block_tokens);
            again_before = again;
            alike = 0;
        }
        alike++;
    }
    take_positions(rounds, again_before, (double)alike * batch->block_tokens);
}

static void share_rows(struct cost_round *rounds, const struct cost_batch *batch)
{
    for (uint32_t i = 0; i < batch->rows_count; i++) {
        share_row(rounds, batch, &batch->rows[i]);
    }
    for (uint32_t i = 0; i < batch->rows_count; i++) {
        const struct cost_row *row = &batch->rows[i];
        for (uint32_t block = 0; block < whole_blocks(batch, row); block++) {
            batch->seen[row->blocks[block]] = 0;
        }
    }
}

/* ---- rounds ---- */

/* The unit counts decoding rounds only. */
static void time_rounds(const struct cost_model *model, struct cost_round *rounds,
                            uint32_t count, bool decodes)
{
    double seconds = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (model->unit_s > 0) {
            seconds += decodes ? model->unit_s : 0;
        } else {
            time_round(model, &rounds[i]);
            seconds += round_s(model, &rounds[i]);
        }
        rounds[i].end_us = (uint64_t)(seconds * 1e6 + 0.5);
    }
}

uint32_t cost_rounds(const struct cost_model *model, const struct cost_batch *batch,
                     struct cost_round rounds[COST_ROUNDS_MAX])
{
    uint32_t count = 0;
    bool decodes = false;
    memset(rounds, 0, COST_ROUNDS_MAX * sizeof *rounds);
    for (uint32_t i = 0; i < batch->rows_count; i++) {
        const struct cost_row *row = &batch->rows[i];
        uint32_t end = row->start_round + row->rounds;
        add_row(rounds, row);
        count = end > count ? end : count;
        decodes = decodes || row->decodes;
    }
    if (model->prefix_reads == COST_READS_ONCE) {
        share_rows(rounds, batch);
    }
    time_rounds(model, rounds, count, decodes);
    return count;
}
