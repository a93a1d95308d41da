/* SPDX-License-Identifier: MIT
 *
 * What: the speed at which the KV of a call moves between the tiers, as one block of all layers and
 * as a block for each layer.
 *
 *     bench-moves MODEL.gguf [--threads N]        (default: one for each CPU)
 *         for calls of 16, 64 and 256 blocks that lie side by side or scattered, GB/s (each byte
 *         counted once) off the device and onto it:
 *           blocks   the engine, whose block holds all layers: kernels_run() of a step of moves
 *           layers   one memcpy() for each block, layer, and K or V, by one thread
 *         and the median of the ratios of their pairs, with the least and the most
 *
 * Method: both have pools of the same size; they take turns, RUNS times, and each run moves other
 * blocks than the one before. First one memcpy() of a whole pool: the bound for
 * one thread. With --threads 1 the ratio is that of the two layouts alone.
 */
#include <string.h>
#include <unistd.h>

#include "tools/bench/engine.h"
#include "tools/command_line.h"

#define BLOCK_TOKENS   16u
#define RUNS           15u
#define POOL_BLOCKS    512u             /* of each tier; a power of two */
#define POOL_BYTES_MAX (UINT64_C(1) << 30)
#define STRIDE         167u             /* odd: comes to every block of a pool */
#define THREADS_MAX    64u

struct bench {
    struct engine engine;
    uint32_t pool_blocks;
    uint64_t piece_bytes;               /* of a block: one layer's K, or V */
    uint32_t pieces;
    uint8_t *device, *host;             /* (pieces, pool_blocks, piece_bytes) */
};
static struct bench bench;

static void start(uint32_t threads)
{
    struct kernels_settings settings = {
        .simd = kernels_simd_best(), .threads = threads, .batch_calls = 1, .steps_per_plan = 1,
        .step_tokens = 1, .context_tokens = BLOCK_TOKENS, .kv_block_tokens = BLOCK_TOKENS,
        .kv_blocks = bench.pool_blocks, .blocks_per_call = 1, .kv_host_blocks = bench.pool_blocks};
    engine_start(&bench.engine, &settings, POOL_BLOCKS);
}

/* The same bytes again, by layers. */
static void pools_start(void)
{
    const struct model_shape *shape = &bench.engine.model.gguf.shape;
    uint64_t block_floats = (uint64_t)shape->kv_heads * shape->head_dim * BLOCK_TOKENS;
    bench.pieces = 2 * shape->layers;
    bench.piece_bytes = block_floats * sizeof(float);
    bench.pool_blocks = POOL_BLOCKS;
    while (bench.pool_blocks * bench.pieces * bench.piece_bytes > POOL_BYTES_MAX) {
        bench.pool_blocks /= 2;
    }
    uint64_t bytes = bench.pool_blocks * bench.pieces * bench.piece_bytes;
    bench.device = aligned_alloc(4096, bytes);
    bench.host = aligned_alloc(4096, bytes);
    if (bench.device == NULL || bench.host == NULL) {
        fail("no memory");
    }
    memset(bench.device, 1, bytes);
    memset(bench.host, 2, bytes);
}

/* The moves of a call whose blocks begin at `first` of both tiers; the engine's numbers. */
static void write_moves(uint32_t blocks, uint32_t first, bool scattered, bool outwards)
{
    engine_step_begin(&bench.engine);
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t at = (first + i) * (scattered ? STRIDE : 1) % bench.pool_blocks;
        uint32_t host = bench.pool_blocks + at;
        step_moves(&bench.engine.step)[i] =
            outwards ? (struct step_move){.from = at, .to = host}
                     : (struct step_move){.from = host, .to = at};
    }
    step_header(&bench.engine.step)->moves_count = blocks;
}

static double move_blocks(void)
{
    double start = seconds();
    engine_run(&bench.engine);
    return seconds() - start;
}

static uint8_t *piece_at(uint32_t piece, uint32_t block)
{
    uint8_t *pool = block < bench.pool_blocks ? bench.device : bench.host;
    return pool + ((uint64_t)piece * bench.pool_blocks + block % bench.pool_blocks) *
                  bench.piece_bytes;
}

static double move_layers(void)
{
    const struct step_move *moves = step_moves(&bench.engine.step);
    double start = seconds();
    for (uint32_t piece = 0; piece < bench.pieces; piece++) {
        for (uint32_t i = 0; i < step_header(&bench.engine.step)->moves_count; i++) {
            memcpy(piece_at(piece, moves[i].to), piece_at(piece, moves[i].from),
                   bench.piece_bytes);
        }
    }
    return seconds() - start;
}

static void measure(uint32_t blocks, bool scattered, bool outwards)
{
    double whole[RUNS], pieces[RUNS], ratios[RUNS];
    double bytes = (double)blocks * bench.pieces * (double)bench.piece_bytes;
    for (uint32_t run = 0; run < RUNS; run++) {
        write_moves(blocks, run * blocks, scattered, outwards);
        whole[run] = move_blocks();
        pieces[run] = move_layers();
        ratios[run] = pieces[run] / whole[run];
    }
    sort(whole, RUNS);
    sort(pieces, RUNS);
    sort(ratios, RUNS);
    printf("moves %4u %-9s %-3s  blocks %6.2f GB/s  layers %6.2f GB/s  %.2fx (%.2f to %.2f)\n",
           blocks, scattered ? "scattered" : "adjacent", outwards ? "out" : "in",
           bytes / whole[RUNS / 2] * 1e-9, bytes / pieces[RUNS / 2] * 1e-9, ratios[RUNS / 2],
           ratios[0], ratios[RUNS - 1]);
}

/* All blocks once, both ways: memory that has been touched, for both. */
static void warm(void)
{
    for (uint32_t way = 0; way < 2; way++) {
        write_moves(bench.pool_blocks, 0, false, way == 0);
        move_blocks();
        move_layers();
    }
}

static void measure_limit(uint32_t threads)
{
    double times[RUNS];
    uint64_t bytes = bench.pool_blocks * bench.pieces * bench.piece_bytes;
    for (uint32_t run = 0; run < RUNS; run++) {
        double start = seconds();
        memcpy(bench.host, bench.device, bytes);
        times[run] = seconds() - start;
    }
    sort(times, RUNS);
    printf("moves of %s, %u threads: a block is %u pieces of %llu bytes; one memcpy of %llu MiB: "
           "%.2f GB/s\n", bench.engine.model.gguf.model_name, threads, bench.pieces,
           (unsigned long long)bench.piece_bytes, (unsigned long long)(bytes >> 20),
           (double)bytes / times[RUNS / 2] * 1e-9);
}

int main(int argc, char **argv)
{
    static const uint32_t calls[] = {16, 64, 256};
    uint32_t threads = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    const char *model_path = NULL;
    const struct argument rows[] = {
        {"--threads", "N", ARGUMENT_U32, &threads, 1, THREADS_MAX, "(default: all CPUs)"},
    };
    const struct command_line line = {
        .program = "bench-moves", .usage = "MODEL.gguf [--threads N]",
        .purpose = "The speed at which the KV of a call moves between the tiers.",
        .operand = &model_path, .rows = rows, .rows_count = sizeof rows / sizeof rows[0]};
    int code = command_line_parse(&line, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    model_load(&bench.engine.model, model_path, false);
    pools_start();
    start(threads);
    measure_limit(threads);
    warm();
    for (uint32_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        for (uint32_t way = 0; way < 4; way++) {
            measure(calls[i], way >= 2, way % 2 == 0);
        }
    }
    kernels_stop(bench.engine.kernels);
    return 0;
}
