/* SPDX-License-Identifier: MIT
 *
 * What: how long one round of the CPU engine takes, by what is in it: a part of a prompt, and rows
 * that decode. The lab's preset `cpu` is fitted to this table (tools/bench/fit_rounds.py).
 *
 *     bench-rounds MODEL.gguf [--threads N] [--runs N]
 *         a line for each round: tokens of the prompt, rows that decode, least and median
 *         milliseconds of the runs
 *
 * Each row has POSITIONS positions of its own before; the prompt begins at its beginning. The
 * rounds take turns, so that what else the machine does falls on all of them. The first turn is
 * dropped: it touches memory for the first time.
 */
#include <stdlib.h>
#include <unistd.h>

#include "tools/bench/engine.h"
#include "tools/command_line.h"

#define CALLS_MAX     32u
#define POSITIONS     256u
#define CHUNK_MAX     512u
#define BLOCK_TOKENS  16u
#define CALL_BLOCKS   (POSITIONS / BLOCK_TOKENS + 1)
#define PROMPT_BLOCKS (CHUNK_MAX / BLOCK_TOKENS + 1)
#define RUNS_MAX      100u
#define THREADS_MAX   64u

static const uint32_t chunks[] = {0, 16, 64, 256, 512};
static const uint32_t calls[] = {0, 1, 4, 8, 16, 32};
#define CHUNKS (sizeof chunks / sizeof chunks[0])
#define CALLS  (sizeof calls / sizeof calls[0])

struct bench {
    struct engine engine;
    uint32_t runs;
    double taken[CHUNKS][CALLS][RUNS_MAX];      /* seconds */
};
static struct bench bench;

static void start(uint32_t threads)
{
    const struct kernels_settings settings = {
        .simd = kernels_simd_best(), .threads = threads, .batch_calls = CALLS_MAX + 1,
        .steps_per_plan = 1, .step_tokens = CHUNK_MAX + CALLS_MAX,
        .context_tokens = PROMPT_BLOCKS * BLOCK_TOKENS, .kv_block_tokens = BLOCK_TOKENS,
        .blocks_per_call = PROMPT_BLOCKS, .kv_blocks = CALLS_MAX * CALL_BLOCKS + PROMPT_BLOCKS,
    };
    engine_start(&bench.engine, &settings, 0);
}

static void add_row(uint32_t first, uint32_t count, bool decodes, uint32_t blocks_first)
{
    const struct engine_row row = {
        .first_position = first, .tokens_count = count, .decode_steps = decodes,
        .blocks_first = blocks_first, .sampling = {.top_p = 1, .repeat_penalty = 1}};
    uint32_t *tokens = engine_row_add(&bench.engine, &row);
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = ((first + i) * 7919u + blocks_first + 13u) %
                    bench.engine.model.gguf.shape.vocab_tokens;
    }
}

/* The positions before those of the rounds. */
static void feed_histories(void)
{
    for (uint32_t call = 0; call < CALLS_MAX; call++) {
        engine_step_begin(&bench.engine);
        add_row(0, POSITIONS, false, call * CALL_BLOCKS);
        engine_run(&bench.engine);
    }
}

static double round_run(uint32_t chunk, uint32_t decoding)
{
    engine_step_begin(&bench.engine);
    for (uint32_t call = 0; call < decoding; call++) {
        add_row(POSITIONS, 1, true, call * CALL_BLOCKS);
    }
    if (chunk > 0) {
        add_row(0, chunk, false, CALLS_MAX * CALL_BLOCKS);
    }
    double begun = seconds();
    engine_run(&bench.engine);
    return seconds() - begun;
}

static void take_turn(uint32_t run)
{
    for (uint32_t i = 0; i < CHUNKS; i++) {
        for (uint32_t j = 0; j < CALLS; j++) {
            if (chunks[i] + calls[j] > 0) {
                bench.taken[i][j][run] = round_run(chunks[i], calls[j]);
            }
        }
    }
}

static void measure(void)
{
    feed_histories();
    take_turn(0);
    for (uint32_t run = 0; run < bench.runs; run++) {
        take_turn(run);
    }
    printf("# prompt rows least-ms median-ms (%s, %u threads, %u runs, rows at position %u)\n",
           kernels_simd_name(bench.engine.settings.simd), bench.engine.settings.threads,
           bench.runs, POSITIONS);
    for (uint32_t i = 0; i < CHUNKS; i++) {
        for (uint32_t j = 0; j < CALLS; j++) {
            double *taken = bench.taken[i][j];
            sort(taken, bench.runs);
            if (chunks[i] + calls[j] > 0) {
                printf("%u %u %.4f %.4f\n", chunks[i], calls[j], taken[0] * 1e3,
                       taken[bench.runs / 2] * 1e3);
            }
        }
    }
}

int main(int argc, char **argv)
{
    uint32_t threads = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    const char *model_path = NULL;
    bench.runs = 5;
    const struct argument options[] = {
        {"--threads", "N", ARGUMENT_U32, &threads, 1, THREADS_MAX, "(default: all CPUs)"},
        {"--runs", "N", ARGUMENT_U32, &bench.runs, 1, RUNS_MAX, "of each round (default 5)"},
    };
    const struct command_line line = {
        .program = "bench-rounds", .usage = "MODEL.gguf [OPTION]...",
        .purpose = "How long a round of the CPU engine takes, by the rows in it.",
        .operand = &model_path, .rows = options,
        .rows_count = sizeof options / sizeof options[0]};
    int code = command_line_parse(&line, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    model_load(&bench.engine.model, model_path, false);
    start(threads);
    measure();
    kernels_stop(bench.engine.kernels);
    return 0;
}
