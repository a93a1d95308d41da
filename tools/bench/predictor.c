/* SPDX-License-Identifier: MIT
 *
 * What: how long the scheduler takes to foresee a program's cost, by the length of its prompt.
 *
 *     bench-predictor
 *
 * A prompt has random token ids of a vocabulary of 32,000; the weights are random. Each figure is
 * the median of RUNS runs of PREDICTIONS predictions, each of another prompt, in CPU time of this
 * thread. "few words" are prompts of 16 different ids: most buckets are empty, some count hundreds.
 */
#include <stdio.h>
#include <time.h>

#include "sched/class/predictor.h"

#define RUNS        31u
#define PREDICTIONS 2000u
#define PROMPTS     16u             /* different ones */
#define TOKENS_MAX  4096u
#define VOCABULARY  32000u
#define FEW_WORDS   16u

static struct predictor_class class;
static uint32_t prompts[PROMPTS][TOKENS_MAX];
static uint64_t seed = 1;

static uint32_t draw(uint32_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((seed >> 32) * below >> 32);
}

static void prepare(uint32_t words)
{
    class = (struct predictor_class){.high = PREDICTOR_LOG_MAX};
    for (uint32_t i = 0; i < PREDICTOR_WEIGHTS; i++) {
        class.weights[i] = (float)draw(1000) / 500 - 1;
    }
    class.weights[PREDICTOR_BUCKETS + 1] = 12;
    for (uint32_t i = 0; i < PROMPTS * TOKENS_MAX; i++) {
        prompts[i / TOKENS_MAX][i % TOKENS_MAX] = draw(words);
    }
}

static double spent_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static double run_us(uint32_t tokens, uint64_t *sum)
{
    double begun_us = spent_us();
    for (uint32_t i = 0; i < PREDICTIONS; i++) {
        *sum += sched_predictor_cost(&class, prompts[i % PROMPTS], tokens);
    }
    return (spent_us() - begun_us) / PREDICTIONS;
}

static double median_us(uint32_t tokens, uint64_t *sum)
{
    double runs[RUNS];
    for (uint32_t i = 0; i < RUNS; i++) {
        double us = run_us(tokens, sum);
        uint32_t at = i;
        for (; at > 0 && runs[at - 1] > us; at--) {
            runs[at] = runs[at - 1];
        }
        runs[at] = us;
    }
    return runs[RUNS / 2];
}

int main(void)
{
    static const uint32_t lengths[] = {1, 64, 256, 1024, 4096};
    uint64_t sum = 0;
    for (uint32_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        prepare(VOCABULARY);
        printf("predictor tokens=%u us=%.2f\n", lengths[i], median_us(lengths[i], &sum));
    }
    prepare(FEW_WORDS);
    printf("predictor tokens=1024 few words us=%.2f\n", median_us(1024, &sum));
    printf("predictor digest=%016llx\n", (unsigned long long)sum);
    return 0;
}
