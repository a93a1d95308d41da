/* SPDX-License-Identifier: MIT */
/*
 * What: means and percentiles (nearest rank: the smallest value that this many per cent of all
 * values do not exceed).
 * Bounds: a heap sort for each of the three distributions: O(n log n), n the programs.
 */
#include "tools/lab/figures.h"

#include "config/base/assert.h"

static void sink(double *values, uint32_t at, uint32_t count)
{
    double value = values[at];
    for (uint32_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && values[child + 1] > values[child]) {
            child++;
        }
        if (values[child] <= value) {
            break;
        }
        values[at] = values[child];
        at = child;
    }
    values[at] = value;
}

static void sort(double *values, uint32_t count)
{
    for (uint32_t at = count / 2; at-- > 0;) {
        sink(values, at, count);
    }
    for (uint32_t rest = count; rest-- > 1;) {
        double largest = values[0];
        values[0] = values[rest];
        values[rest] = largest;
        sink(values, 0, rest);
    }
}

static double percentile(const double *sorted, uint32_t count, uint32_t percent)
{
    uint64_t rank = ((uint64_t)count * percent + 99) / 100;
    return sorted[rank > 0 ? rank - 1 : 0];
}

static struct figures_latency latency(double *values, uint32_t count)
{
    struct figures_latency result = {0};
    double sum = 0;
    if (count == 0) {
        return result;
    }
    sort(values, count);
    for (uint32_t i = 0; i < count; i++) {
        sum += values[i];
    }
    result.mean_s = sum / count;
    result.p50_s = percentile(values, count, 50);
    result.p90_s = percentile(values, count, 90);
    result.p95_s = percentile(values, count, 95);
    result.p99_s = percentile(values, count, 99);
    return result;
}

enum quantity { TOKEN, TOKEN_WITH_GAPS, JCT };

static double value_of(const struct figures_program *program, enum quantity quantity)
{
    double tokens = (double)program->tokens;
    ASSERT(program->tokens > 0);
    switch (quantity) {
    case TOKEN:
        return (double)program->path_us / 1e6 / tokens;
    case TOKEN_WITH_GAPS:
        return (double)program->whole_us / 1e6 / tokens;
    default:
        return (double)program->whole_us / 1e6;
    }
}

void figures_compute(struct figures *figures, const struct figures_program *programs,
                     uint32_t first, uint32_t end, double *scratch)
{
    struct figures_latency *const results[] = {&figures->token, &figures->token_with_gaps,
                                               &figures->jct};
    ASSERT(first <= end);
    *figures = (struct figures){.programs = end - first};
    for (enum quantity quantity = TOKEN; quantity <= JCT; quantity++) {
        uint32_t count = 0;
        for (uint32_t i = first; i < end; i++) {
            if (programs[i].completed) {
                scratch[count++] = value_of(&programs[i], quantity);
            }
        }
        *results[quantity] = latency(scratch, count);
        figures->completed = count;
    }
}
