/* SPDX-License-Identifier: MIT
 *
 * What: speed of the CPU engine alone, without sockets and scheduler.
 *
 *     bench MODEL.gguf [--threads N] [--simd plain|avx2] [--runs N]
 *         tokens/s of decode with 1, 4, 16 and 32 calls and of a prefill of 256 tokens; for each
 *         the best, median and worst of the runs, and what the median means in GB/s and GFLOP/s
 *     bench MODEL.gguf [--threads N] --greedy N
 *         greedy ids from BOS (token 1) on standard output, tokens/s on standard error; N is
 *         rounded up to whole plans
 *
 * The formulas: a decode step reads every packed weight once, and the keys and values of every call
 * so far (those of the middle of the run); a token costs two operations a weight of the products,
 * but for the output matrix, which a prefill uses once. Nothing else is counted.
 *
 * Why the first run is dropped: it touches memory for the first time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/bench/model.h"

#define CALLS_MAX      32u
#define STEPS          8u           /* decode steps of a plan */
#define PROMPT_TOKENS  16u
#define DECODE_TOKENS  64u          /* of each call in a run */
#define PREFILL_TOKENS 256u
#define RUNS_MAX       100u
#define GREEDY_MAX     4096u
#define THREADS_MAX    64u

struct bench {
    struct bench_model model;
    struct kernels *kernels;
    struct kernels_settings settings;
    struct step step;
    uint64_t heartbeat;
    uint32_t runs;
};
static struct bench bench;

static void engine_start(enum kernels_simd simd, uint32_t threads, uint32_t context)
{
    static struct arena arena;
    struct plan plan = {0};
    uint32_t blocks = (context + 15) / 16;
    bench.settings = (struct kernels_settings){
        .simd = simd, .threads = threads, .batch_calls = CALLS_MAX, .steps_per_plan = STEPS,
        .step_tokens = PREFILL_TOKENS + CALLS_MAX * PROMPT_TOKENS, .context_tokens = context,
        .kv_block_tokens = 16, .kv_blocks = CALLS_MAX * blocks, .blocks_per_call = blocks,
    };
    kernels_plan(&plan, &bench.settings, &bench.model.gguf.shape);
    arena_reserve(&arena, &plan, TIER_ENGINE);
    if (kernels_init(&bench.kernels, &bench.settings, bench.model.weights, &arena,
                     &bench.heartbeat) != STATUS_OK) {
        fail("the engine does not start");
    }
    step_layout_init(&bench.step.layout, CALLS_MAX, STEPS, bench.settings.step_tokens, blocks, 0);
    bench.step.base = aligned_alloc(64, bench.step.layout.total_bytes);
    if (bench.step.base == NULL) {
        fail("no memory");
    }
}

/* ---- steps ---- */

static void step_begin(void)
{
    memset(bench.step.base, 0, bench.step.layout.total_bytes);
}

static uint32_t *step_add(uint32_t tokens, uint32_t position, uint32_t decode_steps)
{
    struct step_header *header = step_header(&bench.step);
    uint32_t index = header->rows_count++;
    header->rows_active++;
    uint32_t blocks = bench.settings.blocks_per_call;
    *step_row(&bench.step, index) = (struct step_row){
        .first_position = position,
        .tokens_count = tokens,
        .tokens_first = header->tokens_count,
        .decode_steps = decode_steps,
        .blocks_count = blocks,
        .sampling = {.top_p = 1, .repeat_penalty = 1},
    };
    for (uint32_t i = 0; i < blocks; i++) {
        step_blocks(&bench.step, index)[i] = index * blocks + i;
    }
    header->tokens_count += tokens;
    return step_tokens(&bench.step) + header->tokens_count - tokens;
}

static uint32_t some_token(uint32_t i)
{
    return (i * 7919u + 13u) % bench.model.gguf.shape.vocab_tokens;
}

/* Seconds that `calls` calls take for DECODE_TOKENS each, prompts aside. */
static double decode_run(uint32_t calls)
{
    uint32_t next[CALLS_MAX];
    step_begin();
    for (uint32_t c = 0; c < calls; c++) {
        uint32_t *tokens = step_add(PROMPT_TOKENS, 0, 1);
        for (uint32_t i = 0; i < PROMPT_TOKENS; i++) {
            tokens[i] = some_token(c + i);
        }
    }
    kernels_run(bench.kernels, &bench.step);
    double total = 0;
    for (uint32_t done = 0; done < DECODE_TOKENS; done += STEPS) {
        for (uint32_t c = 0; c < calls; c++) {
            next[c] = step_out_tokens(&bench.step, c)[step_out(&bench.step, c)->produced - 1];
        }
        step_begin();
        for (uint32_t c = 0; c < calls; c++) {
            *step_add(1, PROMPT_TOKENS + done, STEPS) = next[c];
        }
        double start = seconds();
        kernels_run(bench.kernels, &bench.step);
        total += seconds() - start;
    }
    return total;
}

static double prefill_run(void)
{
    step_begin();
    uint32_t *tokens = step_add(PREFILL_TOKENS, 0, 1);
    for (uint32_t i = 0; i < PREFILL_TOKENS; i++) {
        tokens[i] = some_token(i);
    }
    double start = seconds();
    kernels_run(bench.kernels, &bench.step);
    return seconds() - start;
}

/* ---- what a token costs ---- */

/* Bytes of all products, and weights of those in layers and of the output matrix. */
static void model_count(double *bytes, double *layer_weights, double *output_weights)
{
    const char *output = bench.model.gguf.shape.tied_output ? "token_embd.weight" : "output.weight";
    *bytes = *layer_weights = *output_weights = 0;
    for (uint32_t i = 0; i < bench.model.gguf.tensors_count; i++) {
        const struct gguf_tensor *tensor = &bench.model.gguf.tensors[i];
        double weights = (double)tensor->dims[0] * (double)tensor->dims[1];
        if (strncmp(tensor->name, "blk.", 4) == 0) {
            *layer_weights += weights;      /* norms are too small to count */
            *bytes += (double)tensor->bytes;
        } else if (strcmp(tensor->name, output) == 0) {
            *output_weights = weights;
            *bytes += (double)tensor->bytes;
        }
    }
}

static double kv_bytes(uint32_t tokens)
{
    const struct model_shape *shape = &bench.model.gguf.shape;
    return 2.0 * sizeof(float) * shape->layers * shape->kv_heads * shape->head_dim * tokens;
}

static void report(const char *what, uint32_t calls, uint32_t tokens, double *times)
{
    double bytes, layers, output;
    bool prefill = calls == 0;
    sort(times, bench.runs);
    double median = times[bench.runs / 2];
    model_count(&bytes, &layers, &output);
    uint32_t steps = prefill ? 1 : DECODE_TOKENS;
    double operations = 2 * (layers * tokens + output * (prefill ? 1 : tokens));
    double moved = steps * (bytes + calls * kv_bytes(PROMPT_TOKENS + DECODE_TOKENS / 2));
    printf("%-7s %5u  %9.1f %9.1f %9.1f  %7.1f GB/s  %8.1f GFLOP/s\n", what,
           prefill ? tokens : calls, tokens / times[0], tokens / median,
           tokens / times[bench.runs - 1], moved / median * 1e-9,
           operations / median * 1e-9);
}

static void measure(void)
{
    static const uint32_t calls[] = {1, 4, 16, 32};
    double times[RUNS_MAX];
    printf("%s, %u threads, %s, %u runs; tokens/s\n", bench.model.gguf.model_name,
           bench.settings.threads, kernels_simd_name(bench.settings.simd), bench.runs);
    printf("what       n       best    median     worst\n");
    for (uint32_t i = 0; i < 4; i++) {
        decode_run(calls[i]);
        for (uint32_t run = 0; run < bench.runs; run++) {
            times[run] = decode_run(calls[i]);
        }
        report("decode", calls[i], calls[i] * DECODE_TOKENS, times);
    }
    for (uint32_t run = 0; run < bench.runs; run++) {
        times[run] = prefill_run();
    }
    report("prefill", 0, PREFILL_TOKENS, times);
}

/* The clock starts after the first step, as llama2.c's does after its first token. */
static void greedy(uint32_t count)
{
    uint32_t token = 1;
    double start = 0, timed = 0;
    for (uint32_t position = 0; position < count; position += STEPS) {
        step_begin();
        *step_add(1, position, STEPS) = token;
        kernels_run(bench.kernels, &bench.step);
        if (position == 0) {
            start = seconds();
        } else {
            timed += STEPS;
        }
        for (uint32_t i = 0; i < STEPS; i++) {
            printf("%u ", step_out_tokens(&bench.step, 0)[i]);
        }
        token = step_out_tokens(&bench.step, 0)[STEPS - 1];
    }
    printf("\n");
    fprintf(stderr, "achieved tok/s: %f\n", timed / (seconds() - start));
}

int main(int count, char **words)
{
    uint32_t threads = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN), ids = 0;
    enum kernels_simd simd = kernels_simd_best();
    bench.runs = 5;
    if (count < 2 || count % 2 != 0) {
        fail("usage: bench MODEL.gguf [--threads N] [--simd plain|avx2] [--runs N] [--greedy N]");
    }
    for (int i = 2; i < count; i += 2) {
        if (strcmp(words[i], "--threads") == 0) {
            threads = number(words[i + 1], THREADS_MAX);
        } else if (strcmp(words[i], "--runs") == 0) {
            bench.runs = number(words[i + 1], RUNS_MAX);
        } else if (strcmp(words[i], "--greedy") == 0) {
            ids = (number(words[i + 1], GREEDY_MAX) + STEPS - 1) / STEPS * STEPS;
        } else if (strcmp(words[i], "--simd") == 0) {
            simd = strcmp(words[i + 1], "plain") == 0 ? KERNELS_PLAIN : simd;
        } else {
            fail("an unknown option");
        }
    }
    model_load(&bench.model, words[1]);
    uint32_t least = PREFILL_TOKENS + STEPS;
    engine_start(simd, threads, ids > least ? ids : least);
    if (ids > 0) {
        greedy(ids);
    } else {
        measure();
    }
    kernels_stop(bench.kernels);
    return 0;
}
