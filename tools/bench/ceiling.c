/* SPDX-License-Identifier: MIT
 *
 * What: the ceilings of this machine (tools/bench/ceiling.h).
 *
 * Method: a buffer that no last-level cache holds, a share for each thread, read once from end to
 * end, with prefetching or without, whichever was faster at the start; and chains of multiply-adds
 * in registers. A result is the best of a few trials. Each trial is long compared with the start of
 * a run, and all are short compared with the changes of the machine's load, so that they fit beside
 * every run that they are compared with.
 */
#include "tools/bench/ceiling.h"

#include <string.h>

#include "kernels/threads.h"
#include "tools/bench/model.h"

#define READ_BYTES     (UINT64_C(512) << 20)    /* the largest L3 that is sold holds less */
#define PREFETCH_BYTES 4096u
#define TRIALS         3u
#define ITERATIONS     UINT64_C(4000000)    /* of each thread: about 10 ms */

static const struct ceiling_loop *const loops[KERNELS_SIMDS][CEILINGS] = {
    [KERNELS_AVX2] = {[CEILING_FLOATS] = &ceiling_floats_avx2,
                      [CEILING_LEVELS] = &ceiling_levels_avx2},
    [KERNELS_AVX512] = {[CEILING_FLOATS] = &ceiling_floats_avx512,
                        [CEILING_LEVELS] = &ceiling_levels_avx512},
    [KERNELS_AVX512BF16] = {[CEILING_FLOATS] = &ceiling_floats_avx512,
                            [CEILING_BFLOATS] = &ceiling_bfloats_avx512bf16,
                            [CEILING_LEVELS] = &ceiling_levels_avx512},
};

struct state {
    struct kernels_threads threads;
    uint8_t *bytes;
    uint64_t share_bytes;
    uint32_t prefetch_bytes;
    enum kernels_simd simd;
    const struct ceiling_loop *loop;    /* NULL: read */
    uint64_t results[KERNELS_THREADS_MAX];
};
static struct state state;

static void work(void *context, uint32_t thread)
{
    struct state *s = context;
    const uint8_t *share = s->bytes + thread * s->share_bytes;
    s->results[thread] = s->loop != NULL
                             ? s->loop->run(ITERATIONS)
                             : ceiling_read_avx2(share, s->share_bytes, s->prefetch_bytes);
}

bool ceiling_is_there(enum ceiling ceiling)
{
    return ceiling == CEILING_READ ? state.simd != KERNELS_PLAIN
                                   : loops[state.simd][ceiling] != NULL;
}

double ceiling_trial(enum ceiling ceiling)
{
    state.loop = loops[state.simd][ceiling];
    double amount = state.loop != NULL ? (double)ITERATIONS * state.loop->products * 2
                                       : (double)state.share_bytes;
    double start = seconds();
    kernels_threads_run(&state.threads, false);
    return amount * state.threads.count / (seconds() - start);
}

double ceiling_shot(enum ceiling ceiling)
{
    double best = 0;
    for (uint32_t i = 0; i < TRIALS; i++) {
        double taken = ceiling_trial(ceiling);
        best = taken > best ? taken : best;
    }
    return best;
}

static void read_choose(void)
{
    double plain = ceiling_shot(CEILING_READ);
    state.prefetch_bytes = PREFETCH_BYTES;
    if (ceiling_shot(CEILING_READ) < plain) {
        state.prefetch_bytes = 0;
    }
}

void ceiling_init(enum kernels_simd simd, uint32_t threads)
{
    static struct arena arena;
    struct memory_plan plan = {0};
    kernels_threads_plan_memory(&plan, threads);
    memory_plan_add(&plan, MEMORY_ENGINE, "ceiling", 1, READ_BYTES);
    arena_reserve(&arena, &plan, MEMORY_ENGINE);
    state.simd = simd;
    state.bytes = arena_take(&arena, 1, READ_BYTES);
    state.share_bytes = READ_BYTES / threads / CEILING_STRIDE_BYTES * CEILING_STRIDE_BYTES;
    memset(state.bytes, 1, READ_BYTES);
    if (kernels_threads_init(&state.threads, threads, work, &state, &arena) != STATUS_OK) {
        fail("no threads");
    }
    if (ceiling_is_there(CEILING_READ)) {
        read_choose();
    }
}

void ceiling_stop(void)
{
    kernels_threads_stop(&state.threads);
}
