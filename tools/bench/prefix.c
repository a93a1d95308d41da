/* SPDX-License-Identifier: MIT
 *
 * What: speed of attention over long contexts, without sockets and scheduler.
 *
 *     bench-prefix MODEL.gguf [--threads N] [--runs N] [--prefix N] [--kv f32|f16|q8]
 *         tokens/s of 16 calls that decode after a prompt of N tokens (2048), whose blocks they
 *         share, and after copies of their own; in turns, with the ratio of each pair. Then of
 *         prefills of 512 and 4096 tokens.
 *
 * Why copies: the keys and values, and with them every product, are the same in both; only where
 * they are read differs.
 */
#include <string.h>
#include <unistd.h>

#include "tools/bench/model.h"
#include "tools/command_line.h"

#define CALLS          16u
#define STEPS          8u           /* decode steps of a plan */
#define DECODE_PLANS   2u           /* plans in a run */
#define BLOCK_TOKENS   16u
#define PREFILL_MAX    4096u
#define STEP_TOKENS    512u
#define RUNS_MAX       100u
#define THREADS_MAX    64u

struct bench {
    struct bench_model model;
    struct kernels *kernels;
    struct kernels_settings settings;
    struct step step;
    uint64_t heartbeat;
    uint32_t runs, prefix_blocks, call_blocks;
};
static struct bench bench;

static void engine_start(uint32_t threads, enum kernels_kv_type kv_type)
{
    static struct arena arena;
    struct memory_plan plan = {0};
    uint32_t blocks = (PREFILL_MAX + STEPS) / BLOCK_TOKENS + 1;
    bench.settings = (struct kernels_settings){
        .simd = kernels_simd_best(), .threads = threads, .batch_calls = CALLS,
        .steps_per_plan = STEPS, .step_tokens = STEP_TOKENS,
        .context_tokens = blocks * BLOCK_TOKENS, .kv_block_tokens = BLOCK_TOKENS,
        .kv_blocks = CALLS * bench.call_blocks + blocks, .blocks_per_call = blocks,
        .kv_type = kv_type,
    };
    kernels_plan_memory(&plan, &bench.settings, &bench.model.gguf.shape);
    arena_reserve(&arena, &plan, MEMORY_ENGINE);
    if (kernels_init(&bench.kernels, &bench.settings, bench.model.weights, &arena,
                     &bench.heartbeat) != STATUS_OK) {
        fail("the engine does not start");
    }
    bench.step.layout = (struct step_layout){
        .rows_max = CALLS, .steps_max = STEPS, .tokens_max = STEP_TOKENS,
        .blocks_per_call = blocks, .moves_max = CALLS * bench.call_blocks};
    step_layout_init(&bench.step.layout);
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

static void step_add(uint32_t tokens, uint32_t position, uint32_t decode_steps)
{
    struct step_header *header = step_header(&bench.step);
    uint32_t index = header->rows_count++;
    header->rows_active++;
    *step_row(&bench.step, index) = (struct step_row){
        .first_position = position,
        .tokens_count = tokens,
        .tokens_first = header->tokens_count,
        .decode_steps = decode_steps,
        .blocks_count = bench.settings.blocks_per_call,
        .sampling = {.top_p = 1, .repeat_penalty = 1},
    };
    for (uint32_t i = 0; i < tokens; i++) {
        step_tokens(&bench.step)[header->tokens_count++] =
            ((position + i) * 7919u + index + 13u) % bench.model.gguf.shape.vocab_tokens;
    }
}

/* Call `call` has blocks of its own, but for the prefix if it is shared. */
static void blocks_of_call(uint32_t row, uint32_t call, bool shared)
{
    for (uint32_t i = 0; i < bench.call_blocks; i++) {
        uint32_t of = shared && i < bench.prefix_blocks ? 0 : call;
        step_blocks(&bench.step, row)[i] = of * bench.call_blocks + i;
    }
}

static void step_run(double *total)
{
    double start = seconds();
    kernels_run(bench.kernels, &bench.step);
    *total += seconds() - start;
}

static double prefill_run(uint32_t tokens)
{
    double total = 0;
    for (uint32_t done = 0; done < tokens; done += STEP_TOKENS) {
        uint32_t left = tokens - done;
        step_begin();
        step_add(left < STEP_TOKENS ? left : STEP_TOKENS, done, 0);
        for (uint32_t i = 0; i < bench.settings.blocks_per_call; i++) {
            step_blocks(&bench.step, 0)[i] = i;
        }
        step_run(&total);
    }
    return total;
}

/* The prefix of call 0, and a copy for each other. */
static void prefix_make(void)
{
    double unused = 0;
    prefill_run(bench.prefix_blocks * BLOCK_TOKENS);
    step_begin();
    for (uint32_t call = 1; call < CALLS; call++) {
        for (uint32_t i = 0; i < bench.prefix_blocks; i++) {
            step_moves(&bench.step)[step_header(&bench.step)->moves_count++] =
                (struct step_move){.from = i, .to = call * bench.call_blocks + i};
        }
    }
    step_run(&unused);
}

static double decode_run(bool shared)
{
    double total = 0;
    for (uint32_t plan = 0; plan < DECODE_PLANS; plan++) {
        step_begin();
        for (uint32_t call = 0; call < CALLS; call++) {
            step_add(1, bench.prefix_blocks * BLOCK_TOKENS + plan * STEPS, STEPS);
            blocks_of_call(call, call, shared);
        }
        step_run(&total);
    }
    return total;
}

/* ---- measurements ---- */

static void report(const char *what, uint32_t tokens, double *times)
{
    sort(times, bench.runs);
    printf("%-22s %9.1f %9.1f %9.1f tokens/s\n", what, tokens / times[0],
           tokens / times[bench.runs / 2], tokens / times[bench.runs - 1]);
}

static void measure_decode(void)
{
    double shared[RUNS_MAX], own[RUNS_MAX], ratios[RUNS_MAX];
    uint32_t tokens = CALLS * DECODE_PLANS * STEPS;
    prefix_make();
    decode_run(true);
    decode_run(false);
    for (uint32_t run = 0; run < bench.runs; run++) {
        shared[run] = decode_run(true);
        own[run] = decode_run(false);
        ratios[run] = own[run] / shared[run];
    }
    report("decode, a prefix shared", tokens, shared);
    report("decode, prefixes apart", tokens, own);
    sort(ratios, bench.runs);
    printf("%-22s %9.2f %9.2f %9.2f times\n", "shared over apart", ratios[bench.runs - 1],
           ratios[bench.runs / 2], ratios[0]);
}

static void measure_prefill(const char *what, uint32_t tokens)
{
    double times[RUNS_MAX];
    prefill_run(tokens);
    for (uint32_t run = 0; run < bench.runs; run++) {
        times[run] = prefill_run(tokens);
    }
    report(what, tokens, times);
}

struct arguments {
    const char *model_path;
    uint32_t threads, prefix;
    struct argument_choice kv;
};

static int parse(struct arguments *arguments, int argc, char **argv)
{
    const struct argument rows[] = {
        {"--threads", "N", ARGUMENT_U32, &arguments->threads, 1, THREADS_MAX,
         "(default: all CPUs)"},
        {"--runs", "N", ARGUMENT_U32, &bench.runs, 1, RUNS_MAX, "(default 5)"},
        {"--prefix", "N", ARGUMENT_U32, &arguments->prefix, 1, PREFILL_MAX - BLOCK_TOKENS,
         "tokens that the calls share (default 2048)"},
        {"--kv", "TYPE", ARGUMENT_CHOICE, &arguments->kv, 0, 0, "f32 (default), f16 or q8"},
    };
    const struct command_line line = {
        .program = "bench-prefix", .usage = "MODEL.gguf [OPTION]...",
        .purpose = "Speed of attention over long contexts, with a shared prefix and with copies.",
        .operand = &arguments->model_path, .rows = rows,
        .rows_count = sizeof rows / sizeof rows[0]};
    return command_line_parse(&line, argc, argv);
}

int main(int argc, char **argv)
{
    struct arguments arguments = {.threads = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN),
                                  .prefix = 2048,
                                  .kv.words = (const char *const[]){"f32", "f16", "q8", NULL}};
    bench.runs = 5;
    int code = parse(&arguments, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    bench.prefix_blocks = (arguments.prefix + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
    bench.call_blocks = bench.prefix_blocks + DECODE_PLANS * STEPS / BLOCK_TOKENS;
    model_load(&bench.model, arguments.model_path, false);
    engine_start(arguments.threads, (enum kernels_kv_type)arguments.kv.chosen);
    printf("%s, %u threads, KV in %s, %u runs: best, median, worst; a prefix of %u tokens\n",
           bench.model.gguf.model_name, arguments.threads,
           arguments.kv.words[arguments.kv.chosen], bench.runs,
           bench.prefix_blocks * BLOCK_TOKENS);
    measure_decode();
    measure_prefill("prefill of 512", 512);
    measure_prefill("prefill of 4096", PREFILL_MAX);
    kernels_stop(bench.kernels);
    return 0;
}
