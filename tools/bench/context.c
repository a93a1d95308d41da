/* SPDX-License-Identifier: MIT
 *
 * What: speed of decode far into a context, where keys and values are most of what is read.
 *
 *     bench-context MODEL.gguf [--context N] [--calls N] [--kv f16|f32|q8] [--beside f16|f32|q8]
 *                   [--block-tokens N] [--scattered] [--blank [--shared N]] [--threads N]
 *                   [--simd NAME] [--runs N] [--json FILE]
 *         for each KV type, tokens/s of all calls together, median (worst to best) of the runs;
 *         what that reads, and the median share of what memory gives, of which a trial precedes
 *         each plan; tokens/s of the prompts. With --beside two types take turns, run by run: then
 *         also the second one's speed over the first one's, median (least to most) of the turns.
 *         --json: appends a line for each type
 *
 * The calls share nothing, or their first N tokens (--shared), which count once. Their prompts are
 * computed once, or not at all (--blank: keys and values are zeros, which takes as long to decode);
 * each run decodes the same DECODE_TOKENS behind them. A round reads every packed weight once, and
 * all keys and values so far of each call. A call's KV blocks are neighbours; --scattered: no two
 * of them are.
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
#define TYPES_MAX     2u            /* that take turns */

static const char *const kv_words[] = {[KERNELS_KV_F32] = "f32", [KERNELS_KV_F16] = "f16",
                                       [KERNELS_KV_Q8] = "q8", [KERNELS_KV_TYPES] = NULL};

/* An engine with its KV type, and what it did. */
struct contender {
    struct engine engine;
    uint32_t last[CALLS_MAX];       /* token of each call */
    double prefill_seconds;
    double times[RUNS_MAX], shares[RUNS_MAX];
};

struct bench {
    struct contender contenders[TYPES_MAX];
    uint32_t contenders_count;
    const char *model_path, *simd, *json;
    uint32_t context, shared, calls, block_tokens, threads, runs;
    bool is_scattered, is_blank;
    enum kernels_kv_type kv_types[TYPES_MAX];
};
static struct bench bench = {.context = 4096, .calls = 1, .block_tokens = 16, .runs = 5};

static const struct call_sampling greedily = {.top_p = 1, .repeat_penalty = 1};

static uint32_t call_blocks(void)
{
    return (bench.context + DECODE_TOKENS + bench.block_tokens - 1) / bench.block_tokens;
}

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
    while (b > 0) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* About 3/8 of the blocks, and such that its multiples come to every block. */
static uint32_t scattered_stride(uint32_t blocks)
{
    uint32_t stride = blocks * 3 / 8 + 1;
    while (common_divisor(stride, blocks) != 1) {
        stride++;
    }
    return stride;
}

static void start(struct contender *c, enum kernels_simd simd, enum kernels_kv_type kv_type)
{
    const struct kernels_settings settings = {
        .simd = simd, .threads = bench.threads, .batch_calls = bench.calls,
        .steps_per_plan = STEPS, .step_tokens = CHUNK_TOKENS + bench.calls,
        .context_tokens = bench.context + DECODE_TOKENS, .kv_block_tokens = bench.block_tokens,
        .blocks_per_call = call_blocks(), .kv_blocks = bench.calls * call_blocks(),
        .kv_type = kv_type,
    };
    c->engine.model = bench.contenders[0].engine.model;
    c->engine.block_stride = bench.is_scattered ? scattered_stride(settings.kv_blocks) : 1;
    engine_start(&c->engine, &settings, 0);
}

/* ---- runs ---- */

static void feed_chunk(struct engine *engine, uint32_t call, uint32_t first, uint32_t count)
{
    struct engine_row row = {.tokens_count = count, .first_position = first,
                             .decode_steps = first + count == bench.context,
                             .blocks_first = call * call_blocks(), .sampling = greedily};
    engine_step_begin(engine);
    uint32_t *tokens = engine_row_add(engine, &row);
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = ((call + first + i) * 7919u + 13u) % engine->model.gguf.shape.vocab_tokens;
    }
    engine_run(engine);
}

static void feed_prompts(struct contender *c)
{
    double begun = seconds();
    for (uint32_t call = 0; call < bench.calls; call++) {
        for (uint32_t first = 0; first < bench.context; first += CHUNK_TOKENS) {
            uint32_t left = bench.context - first;
            feed_chunk(&c->engine, call, first, left < CHUNK_TOKENS ? left : CHUNK_TOKENS);
        }
        c->last[call] = step_out_tokens(&c->engine.step, 0)[0];
    }
    c->prefill_seconds = seconds() - begun;
}

/* DECODE_TOKENS for each call, in turns with trials of the memory. */
struct decoded {
    double seconds;
    double ceiling;             /* bytes a second: the mean of the trials; 0: unknown */
};
static struct decoded decode(struct contender *c)
{
    struct engine *engine = &c->engine;
    uint32_t next[CALLS_MAX];
    double total = 0, byte_seconds = 0;
    memcpy(next, c->last, sizeof next);
    for (uint32_t done = 0; done < DECODE_TOKENS; done += STEPS) {
        engine_step_begin(engine);
        for (uint32_t call = 0; call < bench.calls; call++) {
            struct engine_row row = {.tokens_count = 1, .first_position = bench.context + done,
                                     .decode_steps = STEPS, .blocks_first = call * call_blocks(),
                                     .blocks_shared = bench.shared / bench.block_tokens,
                                     .sampling = greedily};
            *engine_row_add(engine, &row) = next[call];
        }
        byte_seconds += ceiling_is_there(CEILING_READ) ? 1 / ceiling_trial(CEILING_READ) : 0;
        double begun = seconds();
        engine_run(engine);
        total += seconds() - begun;
        for (uint32_t call = 0; call < bench.calls; call++) {
            next[call] = step_out_tokens(&engine->step, call)[STEPS - 1];
        }
    }
    double trials = DECODE_TOKENS / STEPS;
    return (struct decoded){total, byte_seconds > 0 ? trials / byte_seconds : 0};
}

/* ---- what they mean ---- */

/* Bytes that a round reads of the weights. */
static double weight_bytes(void)
{
    const struct gguf *gguf = &bench.contenders[0].engine.model.gguf;
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
static double kv_bytes(enum kernels_kv_type type)
{
    const struct model_shape *shape = &bench.contenders[0].engine.model.gguf.shape;
    double head = kernels_kv_key_bytes(type, shape->head_dim) +
                  kernels_kv_value_bytes(type, shape->head_dim);
    double position = head * shape->layers * shape->kv_heads;
    double own = bench.context - bench.shared + DECODE_TOKENS / 2;
    return position * (bench.shared + bench.calls * own);
}

static double median(double *values)
{
    sort(values, bench.runs);
    return values[bench.runs / 2];
}

static void run(struct contender *c, uint32_t index)
{
    double moved = DECODE_TOKENS * (weight_bytes() + kv_bytes(c->engine.settings.kv_type));
    struct decoded decoded = decode(c);
    c->times[index] = decoded.seconds;
    c->shares[index] = decoded.ceiling > 0 ? moved / decoded.seconds / decoded.ceiling : 0;
}

/* The medians of a contender's runs. */
struct outcome {
    double tokens_s, least, most;
    double bytes_s, read_share, kv_share;
    double prompt_tokens_s;         /* 0: not computed */
};

static struct outcome outcome(struct contender *c)
{
    double kv = kv_bytes(c->engine.settings.kv_type), weights = weight_bytes();
    double middle = median(c->times), tokens = bench.calls * DECODE_TOKENS;
    double prompts = (double)bench.calls * bench.context;
    return (struct outcome){
        .tokens_s = tokens / middle,
        .least = tokens / c->times[bench.runs - 1],
        .most = tokens / c->times[0],
        .bytes_s = DECODE_TOKENS * (weights + kv) / middle,
        .read_share = median(c->shares),
        .kv_share = kv / (kv + weights),
        .prompt_tokens_s = bench.is_blank ? 0 : prompts / c->prefill_seconds,
    };
}

static void print(const struct contender *c, const struct outcome *o)
{
    printf("%u calls of %u tokens, KV %s, blocks of %u%s, %u shared: %.1f tokens/s (%.1f to %.1f), "
           "%.1f GB/s, %.0f %% of the read ceiling, KV %.0f %% of the bytes",
           bench.calls, bench.context, kv_words[c->engine.settings.kv_type], bench.block_tokens,
           bench.is_scattered ? ", scattered" : "", bench.shared, o->tokens_s, o->least, o->most,
           o->bytes_s * 1e-9, o->read_share * 100, 100 * o->kv_share);
    if (!bench.is_blank) {
        printf("; prompts %.0f tokens/s", o->prompt_tokens_s);
    }
    printf("\n");
}

static void write_json(const struct contender *c, const struct outcome *o)
{
    FILE *file = fopen(bench.json, "a");
    if (file == NULL) {
        fail("the JSON file cannot be written");
    }
    fprintf(file,
            "{\"context\": %u, \"calls\": %u, \"kv\": \"%s\", \"tokens_s\": %.2f, "
            "\"least\": %.2f, \"most\": %.2f, \"gb_s\": %.3f, \"read_share\": %.4f, "
            "\"prompt_tokens_s\": %.2f}\n",
            bench.context, bench.calls, kv_words[c->engine.settings.kv_type], o->tokens_s,
            o->least, o->most, o->bytes_s * 1e-9, o->read_share, o->prompt_tokens_s);
    if (fclose(file) != 0) {
        fail("the JSON file cannot be written");
    }
}

static void report(struct contender *c)
{
    struct outcome medians = outcome(c);
    print(c, &medians);
    if (bench.json != NULL) {
        write_json(c, &medians);
    }
}

static void measure(enum kernels_simd simd)
{
    double ratios[RUNS_MAX];
    struct contender *first = &bench.contenders[0], *last = first + bench.contenders_count - 1;
    ceiling_init(simd, bench.threads);
    for (struct contender *c = first; c <= last; c++) {
        decode(c);
    }
    for (uint32_t i = 0; i < bench.runs; i++) {
        for (struct contender *c = first; c <= last; c++) {
            run(c, i);
        }
        ratios[i] = first->times[i] / last->times[i];
    }
    ceiling_stop();
    for (struct contender *c = first; c <= last; c++) {
        report(c);
    }
    if (last != first) {
        double middle = median(ratios);
        printf("%s over %s: %.2f (%.2f to %.2f)\n", kv_words[last->engine.settings.kv_type],
               kv_words[first->engine.settings.kv_type], middle, ratios[0],
               ratios[bench.runs - 1]);
    }
}

static void parse(int argc, char **argv)
{
    struct argument_choice kv = {kv_words, KERNELS_KV_F16};
    struct argument_choice beside = {kv_words, KERNELS_KV_TYPES};
    const struct argument options[] = {
        {"--context", "N", ARGUMENT_U32, &bench.context, 1, 1u << 17, "tokens (4096)"},
        {"--calls", "N", ARGUMENT_U32, &bench.calls, 1, CALLS_MAX, "at once (1)"},
        {"--kv", "TYPE", ARGUMENT_CHOICE, &kv, 0, 0, "f16 (default), f32 or q8"},
        {"--beside", "TYPE", ARGUMENT_CHOICE, &beside, 0, 0, "a type that takes turns with it"},
        {"--block-tokens", "N", ARGUMENT_U32, &bench.block_tokens, 8, 1024, "of the KV (16)"},
        {"--scattered", NULL, ARGUMENT_FLAG, &bench.is_scattered, 0, 0, "no blocks are neighbours"},
        {"--shared", "N", ARGUMENT_U32, &bench.shared, 0, 1u << 17,
         "tokens that all calls begin with (0)"},
        {"--blank", NULL, ARGUMENT_FLAG, &bench.is_blank, 0, 0, "prompts are not computed"},
        {"--threads", "N", ARGUMENT_U32, &bench.threads, 1, THREADS_MAX, "(all CPUs)"},
        {"--simd", "NAME", ARGUMENT_TEXT, &bench.simd, 0, 0, "(the best)"},
        {"--runs", "N", ARGUMENT_U32, &bench.runs, 1, RUNS_MAX, "(5)"},
        {"--json", "FILE", ARGUMENT_TEXT, &bench.json, 0, 0, "append a line for each type"},
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
    if (bench.shared > bench.context || bench.shared % bench.block_tokens != 0 ||
        (bench.shared > 0 && !bench.is_blank)) {
        fail("--shared is a number of whole blocks, no longer than the context, with --blank");
    }
    bench.contenders_count = beside.chosen == KERNELS_KV_TYPES ? 1 : 2;
    bench.kv_types[0] = (enum kernels_kv_type)kv.chosen;
    bench.kv_types[1] = (enum kernels_kv_type)beside.chosen;
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
    model_load(&bench.contenders[0].engine.model, bench.model_path, false);
    for (uint32_t i = 0; i < bench.contenders_count; i++) {
        start(&bench.contenders[i], simd, bench.kv_types[i]);
        if (!bench.is_blank) {
            feed_prompts(&bench.contenders[i]);
        }
    }
    measure(simd);
    for (uint32_t i = 0; i < bench.contenders_count; i++) {
        kernels_stop(bench.contenders[i].engine.kernels);
    }
    return 0;
}
