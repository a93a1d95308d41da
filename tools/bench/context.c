/* SPDX-License-Identifier: MIT
 *
 * What: speed of decode far into a context, where keys and values are most of what is read.
 *
 *     bench-context MODEL.gguf [--context N] [--calls N] [--kv f16|f32] [--block-tokens N]
 *                   [--threads N] [--simd NAME] [--runs N]
 *         tokens/s of all calls together, median (worst to best) of the runs; what that reads, and
 *         the median share of the read ceiling, which is measured before each run
 *
 * The calls share nothing. Their prompts are computed once; each run decodes the same DECODE_TOKENS
 * behind them. A round reads every packed weight once, and all keys and values so far of each call.
 */
#include <unistd.h>

#include "tools/bench/ceiling.h"
#include "tools/bench/engine.h"
#include "tools/command_line.h"

#define CALLS_MAX     64u
#define STEPS         8u            /* decode steps of a plan */
#define DECODE_TOKENS 32u
#define CHUNK_TOKENS  512u
#define RUNS_MAX      100u
#define THREADS_MAX   64u

struct bench {
    struct engine engine;
    const char *model_path, *simd;
    uint32_t context, calls, block_tokens, threads, runs;
    bool kv_halves;
    uint32_t last[CALLS_MAX];       /* token of each call */
};
static struct bench bench = {.context = 4096, .calls = 1, .block_tokens = 16, .runs = 5};

static const struct call_sampling greedily = {.top_p = 1, .repeat_penalty = 1};

static uint32_t call_blocks(void)
{
    return (bench.context + DECODE_TOKENS + bench.block_tokens - 1) / bench.block_tokens;
}

static void start(enum kernels_simd simd)
{
    const struct kernels_settings settings = {
        .simd = simd, .threads = bench.threads, .batch_calls = bench.calls,
        .steps_per_plan = STEPS, .step_tokens = CHUNK_TOKENS + bench.calls,
        .context_tokens = bench.context + DECODE_TOKENS, .kv_block_tokens = bench.block_tokens,
        .blocks_per_call = call_blocks(), .kv_blocks = bench.calls * call_blocks(),
        .kv_halves = bench.kv_halves,
    };
    engine_start(&bench.engine, &settings, 0);
}

/* ---- runs ---- */

static void feed_chunk(uint32_t call, uint32_t first, uint32_t count)
{
    struct engine_row row = {.tokens_count = count, .first_position = first,
                             .decode_steps = first + count == bench.context,
                             .blocks_first = call * call_blocks(), .sampling = greedily};
    engine_step_begin(&bench.engine);
    uint32_t *tokens = engine_row_add(&bench.engine, &row);
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = ((call + first + i) * 7919u + 13u) %
                    bench.engine.model.gguf.shape.vocab_tokens;
    }
    engine_run(&bench.engine);
}

static void feed_prompts(void)
{
    for (uint32_t call = 0; call < bench.calls; call++) {
        for (uint32_t first = 0; first < bench.context; first += CHUNK_TOKENS) {
            uint32_t left = bench.context - first;
            feed_chunk(call, first, left < CHUNK_TOKENS ? left : CHUNK_TOKENS);
        }
        bench.last[call] = step_out_tokens(&bench.engine.step, 0)[0];
    }
}

/* Seconds of DECODE_TOKENS for each call. */
static double decode(void)
{
    uint32_t next[CALLS_MAX];
    double total = 0;
    memcpy(next, bench.last, sizeof next);
    for (uint32_t done = 0; done < DECODE_TOKENS; done += STEPS) {
        engine_step_begin(&bench.engine);
        for (uint32_t call = 0; call < bench.calls; call++) {
            struct engine_row row = {.tokens_count = 1, .first_position = bench.context + done,
                                     .decode_steps = STEPS, .blocks_first = call * call_blocks(),
                                     .sampling = greedily};
            *engine_row_add(&bench.engine, &row) = next[call];
        }
        double begun = seconds();
        engine_run(&bench.engine);
        total += seconds() - begun;
        for (uint32_t call = 0; call < bench.calls; call++) {
            next[call] = step_out_tokens(&bench.engine.step, call)[STEPS - 1];
        }
    }
    return total;
}

/* ---- what they mean ---- */

/* Bytes that a round reads of the weights. */
static double weight_bytes(void)
{
    const struct gguf *gguf = &bench.engine.model.gguf;
    const char *output = gguf->shape.tied_output ? "token_embd.weight" : "output.weight";
    double bytes = 0;
    for (uint32_t i = 0; i < gguf->tensors_count; i++) {
        const struct gguf_tensor *tensor = &gguf->tensors[i];
        bool counts = strncmp(tensor->name, "blk.", 4) == 0 || strcmp(tensor->name, output) == 0;
        bytes += counts ? (double)tensor->bytes : 0;
    }
    return bytes;
}

/* Bytes of keys and values that a round reads, in the middle of a run. */
static double kv_bytes(void)
{
    const struct model_shape *shape = &bench.engine.model.gguf.shape;
    double position = (bench.kv_halves ? 4.0 : 8.0) * shape->layers * shape->kv_heads *
                      shape->head_dim;
    return position * bench.calls * (bench.context + DECODE_TOKENS / 2);
}

static double median(double *values)
{
    sort(values, bench.runs);
    return values[bench.runs / 2];
}

static void measure(enum kernels_simd simd)
{
    double times[RUNS_MAX], shares[RUNS_MAX], tokens = bench.calls * DECODE_TOKENS;
    double moved = DECODE_TOKENS * (weight_bytes() + kv_bytes());
    ceiling_init(simd, bench.threads);
    decode();
    for (uint32_t i = 0; i < bench.runs; i++) {
        double ceiling = ceiling_is_there(CEILING_READ) ? ceiling_shot(CEILING_READ) : 0;
        times[i] = decode();
        shares[i] = ceiling > 0 ? moved / times[i] / ceiling : 0;
    }
    ceiling_stop();
    double middle = median(times);
    printf("%u calls of %u tokens, KV %s, blocks of %u: %.1f tokens/s (%.1f to %.1f), "
           "%.1f GB/s, %.0f %% of the read ceiling, KV %.0f %% of the bytes\n",
           bench.calls, bench.context, bench.kv_halves ? "f16" : "f32", bench.block_tokens,
           tokens / middle, tokens / times[bench.runs - 1], tokens / times[0],
           moved / middle * 1e-9, median(shares) * 100,
           100 * kv_bytes() / (kv_bytes() + weight_bytes()));
}

static void parse(int argc, char **argv)
{
    struct argument_choice kv = {.words = (const char *const[]){"f16", "f32", NULL}};
    const struct argument options[] = {
        {"--context", "N", ARGUMENT_U32, &bench.context, 1, 1u << 17, "tokens (4096)"},
        {"--calls", "N", ARGUMENT_U32, &bench.calls, 1, CALLS_MAX, "at once (1)"},
        {"--kv", "TYPE", ARGUMENT_CHOICE, &kv, 0, 0, "f16 (default), or f32"},
        {"--block-tokens", "N", ARGUMENT_U32, &bench.block_tokens, 8, 1024, "of the KV (16)"},
        {"--threads", "N", ARGUMENT_U32, &bench.threads, 1, THREADS_MAX, "(all CPUs)"},
        {"--simd", "NAME", ARGUMENT_TEXT, &bench.simd, 0, 0, "(the best)"},
        {"--runs", "N", ARGUMENT_U32, &bench.runs, 1, RUNS_MAX, "(5)"},
    };
    const struct command_line line = {
        .program = "bench-context", .usage = "MODEL.gguf [OPTION]...",
        .purpose = "Speed of decode far into a context.",
        .operand = &bench.model_path, .rows = options,
        .rows_count = sizeof options / sizeof options[0]};
    int code = command_line_parse(&line, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        exit(code);
    }
    bench.kv_halves = kv.chosen == 0;
}

int main(int argc, char **argv)
{
    bench.threads = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    parse(argc, argv);
    enum kernels_simd simd = bench.simd != NULL ? kernels_simd_named(bench.simd)
                                                : kernels_simd_best();
    if (simd > kernels_simd_best()) {
        fail("this CPU cannot run these kernels");
    }
    model_load(&bench.engine.model, bench.model_path, false);
    start(simd);
    feed_prompts();
    measure(simd);
    kernels_stop(bench.engine.kernels);
    return 0;
}
