/* SPDX-License-Identifier: MIT
 *
 * What: the ceilings of this machine (tools/bench/ceiling.h).
 *
 * Method: a buffer that no last-level cache holds, a share for each thread, read once from end to
 * end; and chains of multiply-adds in registers. A shot has to be long against the start of a run
 * and short against what else the machine does, so that it is taken beside every run it is compared
 * with.
 */
#include "tools/bench/ceiling.h"

#include <string.h>

#include "kernels/threads.h"
#include "tools/bench/model.h"

#define READ_BYTES     (UINT64_C(512) << 20)    /* the largest L3 that is sold holds less */
#define MULTIPLY_TURNS UINT64_C(4000000)        /* of each thread: about 8 ms */

struct ceiling {
    struct kernels_threads threads;
    uint8_t *bytes;
    uint64_t share_bytes;
    bool multiplies;
    double results[KERNELS_THREADS_MAX];
};
static struct ceiling ceiling;

static void work(void *context, uint32_t thread)
{
    struct ceiling *c = context;
    c->results[thread] =
        c->multiplies ? (double)ceiling_multiply_avx2(MULTIPLY_TURNS)
                      : (double)ceiling_read_avx2(c->bytes + thread * c->share_bytes,
                                                  c->share_bytes);
}

void ceiling_init(uint32_t threads)
{
    static struct arena arena;
    struct plan plan = {0};
    kernels_threads_plan(&plan, threads);
    plan_add(&plan, TIER_ENGINE, "ceiling", 1, READ_BYTES);
    arena_reserve(&arena, &plan, TIER_ENGINE);
    ceiling.bytes = arena_take(&arena, 1, READ_BYTES);
    ceiling.share_bytes = READ_BYTES / threads / CEILING_STRIDE_BYTES * CEILING_STRIDE_BYTES;
    memset(ceiling.bytes, 1, READ_BYTES);
    if (kernels_threads_init(&ceiling.threads, threads, work, &ceiling, &arena) != STATUS_OK) {
        fail("no threads");
    }
}

static double shot(bool multiplies)
{
    ceiling.multiplies = multiplies;
    double start = seconds();
    kernels_threads_run(&ceiling.threads, false);
    return seconds() - start;
}

double ceiling_read(void)
{
    return (double)(ceiling.share_bytes * ceiling.threads.count) / shot(false);
}

double ceiling_multiply(void)
{
    double operations = (double)(MULTIPLY_TURNS * CEILING_CHAINS * 8 * 2);
    return operations * ceiling.threads.count / shot(true);
}

void ceiling_stop(void)
{
    kernels_threads_stop(&ceiling.threads);
}
