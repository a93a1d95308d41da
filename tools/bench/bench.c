/* SPDX-License-Identifier: MIT
 *
 * What: speed of the CPU engine alone, without sockets and scheduler, beside the ceilings of the
 * machine.
 *
 *     bench MODEL.gguf [--threads N] [--simd plain|avx2|avx512|avx512bf16] [--runs N] [--row NAME]
 *           [--weights file|bf16] [--kv f32|f16|q8] [--json FILE]
 *         decode-N   N calls, PROMPT_TOKENS each before, DECODE_TOKENS each timed
 *         prefill-N  a prompt of N tokens, CHUNK_TOKENS a step
 *         mixed      MIXED_CALLS calls decode; each plan begins with MIXED_CHUNK tokens of a prompt
 *         tokens/s: median, worst and best of the runs; the median as GB/s and GFLOP/s; and its
 *         shares of the ceilings. --row: only this row. --json: appends one line.
 *     bench MODEL.gguf [--threads N] --greedy N
 *         greedy ids from BOS (token 1) on standard output, tokens/s on standard error; N is
 *         rounded up to whole plans
 *
 * The formulas: a round reads every packed weight once, and all keys and values so far of every
 * call that decodes (as of the middle of the run). A token costs two operations for each weight of
 * the products, and four for each channel of the queries and each position that it sees. Only
 * tokens that sample use the output matrix. Nothing else counts.
 *
 * Ceilings are measured before every run, because other work on the machine slows both; a share is
 * the median of the runs' shares. They are those of the set of kernels. The share of arithmetic
 * refers to floats, so bfloats and integers may exceed it. The plain set has no ceilings.
 *
 * Why the first run is dropped: it touches memory for the first time.
 */
#include <math.h>
#include <unistd.h>

#include "tools/bench/ceiling.h"
#include "tools/bench/engine.h"
#include "tools/command_line.h"

#define CALLS_MAX      64u
#define BLOCK_TOKENS   16u
#define STEPS          8u           /* decode steps of a plan */
#define PROMPT_TOKENS  16u
#define DECODE_TOKENS  64u          /* of each call in a run */
#define DECODE_BLOCKS  ((PROMPT_TOKENS + DECODE_TOKENS + BLOCK_TOKENS - 1) / BLOCK_TOKENS)
#define PREFILL_MAX    4096u
#define CHUNK_TOKENS   512u
#define MIXED_CALLS    16u
#define MIXED_CHUNK    64u
#define RUNS_MAX       100u
#define THREADS_MAX    64u

enum kind { DECODE, PREFILL, MIXED };

struct row {
    const char *name;
    enum kind kind;
    uint32_t count;                 /* calls, or tokens of the prompt */
};
static const struct row rows[] = {
    {"decode-1", DECODE, 1},        {"decode-4", DECODE, 4},
    {"decode-16", DECODE, 16},      {"decode-64", DECODE, 64},
    {"prefill-512", PREFILL, 512},  {"prefill-4096", PREFILL, PREFILL_MAX},
    {"mixed", MIXED, MIXED_CALLS},
};
#define ROWS_COUNT (sizeof rows / sizeof rows[0])

/* The work of one run of a row. */
struct work {
    double tokens, sampled, rounds;
    double decode_seen;             /* positions that sampled tokens see */
    double prompt_seen;             /* positions that tokens of the prompt see */
};

struct run {
    double seconds;
    double ceilings[CEILINGS];      /* measured before it; infinite if there is none */
};

/* Medians over the runs of a row, except for least and most. */
struct outcome {
    double tokens_s, tokens_s_least, tokens_s_most;
    double bytes_s, read_share;
    double operations_s, multiply_share;
};

struct bench {
    struct engine engine;
    uint32_t runs;
    bool as_bfloats;
    enum kernels_kv_type kv_type;
    const char *model_path, *row, *json;
    double ceilings[CEILINGS][ROWS_COUNT * RUNS_MAX];
    uint32_t shots;                         /* of each of them, over all rows */
};
static struct bench bench;

static void start(enum kernels_simd simd, uint32_t threads, uint32_t context)
{
    uint32_t call_blocks = (context + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
    uint32_t decode_blocks = CALLS_MAX * DECODE_BLOCKS;
    struct kernels_settings settings = {
        .simd = simd, .threads = threads, .batch_calls = CALLS_MAX, .steps_per_plan = STEPS,
        .step_tokens = CALLS_MAX * PROMPT_TOKENS, .context_tokens = context,
        .kv_block_tokens = BLOCK_TOKENS, .blocks_per_call = call_blocks,
        .kv_blocks = call_blocks > decode_blocks ? call_blocks : decode_blocks,
        .kv_type = bench.kv_type,
    };
    engine_start(&bench.engine, &settings, 0);
}

/* ---- runs ---- */

static const struct call_sampling greedily = {.top_p = 1, .repeat_penalty = 1};

static uint32_t some_token(uint32_t i)
{
    return (i * 7919u + 13u) % bench.engine.model.gguf.shape.vocab_tokens;
}

/* A part of a prompt whose KV lies after the blocks of `calls` calls. */
static void add_prompt(uint32_t calls, uint32_t first, uint32_t count, bool samples)
{
    struct engine_row row = {.tokens_count = count, .first_position = first,
                             .decode_steps = samples, .blocks_first = calls * DECODE_BLOCKS,
                             .sampling = greedily};
    uint32_t *tokens = engine_row_add(&bench.engine, &row);
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = some_token(calls + first + i);
    }
}

static double timed_run(void)
{
    double begun = seconds();
    engine_run(&bench.engine);
    return seconds() - begun;
}

static void feed_prompts(uint32_t calls)
{
    engine_step_begin(&bench.engine);
    for (uint32_t c = 0; c < calls; c++) {
        add_prompt(c, 0, PROMPT_TOKENS, true);
    }
    engine_run(&bench.engine);
}

/* Seconds that `calls` calls take for DECODE_TOKENS each, without their prompts; each plan feeds
 * `chunk` tokens of one more prompt. */
static double decode_run(uint32_t calls, uint32_t chunk)
{
    uint32_t next[CALLS_MAX];
    double total = 0;
    feed_prompts(calls);
    for (uint32_t done = 0; done < DECODE_TOKENS; done += STEPS) {
        const struct step *step = &bench.engine.step;
        for (uint32_t c = 0; c < calls; c++) {
            next[c] = step_out_tokens(step, c)[step_out(step, c)->produced - 1];
        }
        engine_step_begin(&bench.engine);
        for (uint32_t c = 0; c < calls; c++) {
            struct engine_row row = {.tokens_count = 1, .first_position = PROMPT_TOKENS + done,
                                     .decode_steps = STEPS, .blocks_first = c * DECODE_BLOCKS,
                                     .sampling = greedily};
            *engine_row_add(&bench.engine, &row) = next[c];
        }
        if (chunk > 0) {
            add_prompt(calls, done / STEPS * chunk, chunk, false);
        }
        total += timed_run();
    }
    return total;
}

static double prefill_run(uint32_t tokens)
{
    double total = 0;
    for (uint32_t done = 0; done < tokens; done += CHUNK_TOKENS) {
        engine_step_begin(&bench.engine);
        add_prompt(0, done, CHUNK_TOKENS, done + CHUNK_TOKENS == tokens);
        total += timed_run();
    }
    return total;
}

static double row_run(const struct row *row)
{
    switch (row->kind) {
    case DECODE: return decode_run(row->count, 0);
    case MIXED: return decode_run(row->count, MIXED_CHUNK);
    case PREFILL: break;
    }
    return prefill_run(row->count);
}

/* ---- what they mean ---- */

static struct work row_work(const struct row *row)
{
    double calls = row->kind == PREFILL ? 0 : row->count;
    double prompt = row->kind == PREFILL ? row->count
                    : row->kind == MIXED ? DECODE_TOKENS / STEPS * MIXED_CHUNK
                                         : 0;
    double sampled = calls * DECODE_TOKENS;
    return (struct work){
        .tokens = sampled + prompt,
        .sampled = row->kind == PREFILL ? 1 : sampled,
        .rounds = row->kind == PREFILL ? row->count / CHUNK_TOKENS : DECODE_TOKENS,
        .decode_seen = sampled * (PROMPT_TOKENS + DECODE_TOKENS / 2),
        .prompt_seen = prompt * (prompt + 1) / 2,
    };
}

/* Bytes that a round reads of the weights, and weights of the layers and of the output matrix. */
static void model_count(double *bytes, double *layer_weights, double *output_weights)
{
    const struct gguf *gguf = &bench.engine.model.gguf;
    const char *output = gguf->shape.tied_output ? "token_embd.weight" : "output.weight";
    *bytes = *layer_weights = *output_weights = 0;
    for (uint32_t i = 0; i < gguf->tensors_count; i++) {
        const struct gguf_tensor *tensor = &gguf->tensors[i];
        double weights = (double)tensor->dims[0] * (double)tensor->dims[1];
        bool is_float = tensor->type == GGUF_F32 || tensor->type == GGUF_F16;
        double tensor_bytes = bench.as_bfloats && is_float ? weights * 2 : (double)tensor->bytes;
        if (strncmp(tensor->name, "blk.", 4) == 0) {
            *layer_weights += weights;      /* norms are too small to count */
            *bytes += tensor_bytes;
        } else if (strcmp(tensor->name, output) == 0) {
            *output_weights = weights;
            *bytes += tensor_bytes;
        }
    }
}

/* A position has a key and a value in every layer. */
static double kv_bytes(void)
{
    const struct model_shape *shape = &bench.engine.model.gguf.shape;
    double head = kernels_kv_key_bytes(bench.kv_type, shape->head_dim) +
                  kernels_kv_value_bytes(bench.kv_type, shape->head_dim);
    return head * shape->layers * shape->kv_heads;
}

static double seen_operations(void)
{
    const struct model_shape *shape = &bench.engine.model.gguf.shape;
    return 4.0 * shape->layers * shape->heads * shape->head_dim;
}

static double median(double *values, uint32_t count)
{
    sort(values, count);
    return values[count / 2];
}

static struct outcome row_outcome(const struct row *row, const struct run *runs)
{
    double bytes, layers, output, times[RUNS_MAX], read[RUNS_MAX], multiply[RUNS_MAX];
    struct work work = row_work(row);
    model_count(&bytes, &layers, &output);
    double moved = work.rounds * bytes + work.decode_seen * kv_bytes();
    double operations = 2 * (layers * work.tokens + output * work.sampled) +
                        (work.decode_seen + work.prompt_seen) * seen_operations();
    for (uint32_t i = 0; i < bench.runs; i++) {
        times[i] = runs[i].seconds;
        read[i] = moved / runs[i].seconds / runs[i].ceilings[CEILING_READ];
        multiply[i] = operations / runs[i].seconds / runs[i].ceilings[CEILING_FLOATS];
    }
    double middle = median(times, bench.runs);
    return (struct outcome){
        .tokens_s = work.tokens / middle,
        .tokens_s_least = work.tokens / times[bench.runs - 1],
        .tokens_s_most = work.tokens / times[0],
        .bytes_s = moved / middle,
        .read_share = median(read, bench.runs),
        .operations_s = operations / middle,
        .multiply_share = median(multiply, bench.runs),
    };
}

/* ---- reports ---- */

static const struct {
    const char *unit, *json;
} ceilings[CEILINGS] = {
    [CEILING_READ] = {"GB/s", "read_gb_s"},
    [CEILING_FLOATS] = {"GFLOP/s of floats", "multiply_gflop_s"},
    [CEILING_BFLOATS] = {"of bfloats", "multiply_bf16_gflop_s"},
    [CEILING_LEVELS] = {"Gop/s of bytes", "multiply_int8_gop_s"},
};

static void print_row(const struct row *row, const struct outcome *outcome)
{
    printf("%-13s %9.1f (%.1f to %.1f)  %6.1f GB/s %3.0f %%  %7.1f GFLOP/s %3.0f %%\n", row->name,
           outcome->tokens_s, outcome->tokens_s_least, outcome->tokens_s_most,
           outcome->bytes_s * 1e-9, outcome->read_share * 100, outcome->operations_s * 1e-9,
           outcome->multiply_share * 100);
}

static void write_row(FILE *file, const struct row *row, const struct outcome *outcome)
{
    fprintf(file,
            "{\"row\": \"%s\", \"tokens_s\": %.2f, \"least\": %.2f, \"most\": %.2f, "
            "\"gb_s\": %.3f, \"read_share\": %.4f, \"gflop_s\": %.2f, \"multiply_share\": %.4f}",
            row->name, outcome->tokens_s, outcome->tokens_s_least, outcome->tokens_s_most,
            outcome->bytes_s * 1e-9, outcome->read_share,
            outcome->operations_s * 1e-9, outcome->multiply_share);
}

static void measure_row(struct outcome *outcome, const struct row *row)
{
    struct run runs[RUNS_MAX];
    row_run(row);
    for (uint32_t i = 0; i < bench.runs; i++) {
        for (enum ceiling c = 0; c < CEILINGS; c++) {
            runs[i].ceilings[c] = ceiling_is_there(c) ? ceiling_shot(c) : INFINITY;
            bench.ceilings[c][bench.shots] = runs[i].ceilings[c];
        }
        bench.shots++;
        runs[i].seconds = row_run(row);
    }
    *outcome = row_outcome(row, runs);
}

static const char *weights_name(void)
{
    return bench.as_bfloats ? "bf16" : "file";
}

static void print_ceilings(void)
{
    if (!ceiling_is_there(CEILING_READ)) {
        printf("ceilings: not measured, the plain kernels have none\n");
        return;
    }
    printf("ceilings: %.1f GB/s read; multiplied and added:",
           median(bench.ceilings[CEILING_READ], bench.shots) * 1e-9);
    for (enum ceiling c = CEILING_FLOATS; c < CEILINGS; c++) {
        if (ceiling_is_there(c)) {
            printf(" %.1f %s", median(bench.ceilings[c], bench.shots) * 1e-9, ceilings[c].unit);
        }
    }
    printf(" (medians of %u)\n", bench.shots);
}

static void write_json(const struct outcome *outcomes, const bool *measured)
{
    FILE *file = fopen(bench.json, "a");
    if (file == NULL) {
        fail("the JSON file cannot be written");
    }
    fprintf(file, "{\"model\": \"%s\", \"weights\": \"%s\", \"threads\": %u, \"simd\": \"%s\", "
            "\"runs\": %u",
            bench.model_path, weights_name(), bench.engine.settings.threads,
            kernels_simd_name(bench.engine.settings.simd), bench.runs);
    for (enum ceiling c = 0; c < CEILINGS; c++) {
        if (ceiling_is_there(c)) {
            fprintf(file, ", \"%s\": %.3f", ceilings[c].json,
                    median(bench.ceilings[c], bench.shots) * 1e-9);
        }
    }
    const char *separator = ", \"rows\": [";
    for (uint32_t i = 0; i < ROWS_COUNT; i++) {
        if (measured[i]) {
            fputs(separator, file);
            write_row(file, &rows[i], &outcomes[i]);
            separator = ", ";
        }
    }
    fputs("]}\n", file);
    if (fclose(file) != 0) {
        fail("the JSON file cannot be written");
    }
}

static void measure(void)
{
    struct outcome outcomes[ROWS_COUNT];
    bool measured[ROWS_COUNT] = {false}, any = false;
    ceiling_init(bench.engine.settings.simd, bench.engine.settings.threads);
    printf("%s, weights %s, %u threads, %s, %u runs; tokens/s\n",
           bench.engine.model.gguf.model_name, weights_name(), bench.engine.settings.threads,
           kernels_simd_name(bench.engine.settings.simd),
           bench.runs);
    for (uint32_t i = 0; i < ROWS_COUNT; i++) {
        if (bench.row == NULL || strcmp(bench.row, rows[i].name) == 0) {
            measure_row(&outcomes[i], &rows[i]);
            print_row(&rows[i], &outcomes[i]);
            fflush(stdout);
            measured[i] = any = true;
        }
    }
    if (!any) {
        fail("there is no such row");
    }
    ceiling_stop();
    print_ceilings();
    if (bench.json != NULL) {
        write_json(outcomes, measured);
    }
}

/* The clock starts after the first plan, as llama2.c's does after its first token. */
static void greedy(uint32_t count)
{
    uint32_t token = 1;
    double begun = 0, timed = 0;
    for (uint32_t position = 0; position < count; position += STEPS) {
        struct engine_row row = {.tokens_count = 1, .first_position = position,
                                 .decode_steps = STEPS, .sampling = greedily};
        engine_step_begin(&bench.engine);
        *engine_row_add(&bench.engine, &row) = token;
        engine_run(&bench.engine);
        if (position == 0) {
            begun = seconds();
        } else {
            timed += STEPS;
        }
        for (uint32_t i = 0; i < STEPS; i++) {
            printf("%u ", step_out_tokens(&bench.engine.step, 0)[i]);
        }
        token = step_out_tokens(&bench.engine.step, 0)[STEPS - 1];
    }
    printf("\n");
    fprintf(stderr, "achieved tok/s: %f\n", timed / (seconds() - begun));
}

/* Reads the command line into `bench` and the other arguments. Ends the process after --help or a
 * fault. */
static void parse(uint32_t *threads, const char **simd, uint32_t *ids, int argc, char **argv)
{
    struct argument_choice weights = {.words = (const char *const[]){"file", "bf16", NULL}};
    struct argument_choice kv = {.words = (const char *const[]){"f32", "f16", "q8", NULL}};
    const struct argument options[] = {
        {"--threads", "N", ARGUMENT_U32, threads, 1, THREADS_MAX, "(default: all CPUs)"},
        {"--simd", "NAME", ARGUMENT_TEXT, simd, 0, 0,
         "plain, avx2, avx512 or avx512bf16 (default: the best)"},
        {"--weights", "KIND", ARGUMENT_CHOICE, &weights, 0, 0,
         "file (default), or bf16: of these numbers alone"},
        {"--kv", "TYPE", ARGUMENT_CHOICE, &kv, 0, 0, "f32 (default), f16 or q8"},
        {"--runs", "N", ARGUMENT_U32, &bench.runs, 1, RUNS_MAX, "of each row (default 5)"},
        {"--row", "NAME", ARGUMENT_TEXT, &bench.row, 0, 0, "this one alone"},
        {"--json", "FILE", ARGUMENT_TEXT, &bench.json, 0, 0, "append one line"},
        {"--greedy", "N", ARGUMENT_U32, ids, 1, PREFILL_MAX,
         "no rows: greedy ids from BOS, rounded up to whole plans"},
    };
    const struct command_line line = {
        .program = "bench", .usage = "MODEL.gguf [OPTION]...",
        .purpose = "Speed of the CPU engine alone, beside what the machine could do at most.",
        .operand = &bench.model_path, .rows = options,
        .rows_count = sizeof options / sizeof options[0]};
    int code = command_line_parse(&line, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        exit(code);
    }
    bench.as_bfloats = weights.chosen == 1;
    bench.kv_type = (enum kernels_kv_type)kv.chosen;
    *ids = (*ids + STEPS - 1) / STEPS * STEPS;
}

int main(int argc, char **argv)
{
    uint32_t threads = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN), ids = 0;
    const char *simd_name = NULL;
    bench.runs = 5;
    parse(&threads, &simd_name, &ids, argc, argv);
    enum kernels_simd simd = simd_name != NULL ? kernels_simd_named(simd_name)
                                               : kernels_simd_best();
    if (simd > kernels_simd_best()) {
        fail("this CPU cannot run these kernels");
    }
    model_load(&bench.engine.model, bench.model_path, bench.as_bfloats);
    start(simd, threads, PREFILL_MAX + STEPS);
    if (ids > 0) {
        greedy(ids);
    } else {
        measure();
    }
    kernels_stop(bench.engine.kernels);
    return 0;
}
