/* SPDX-License-Identifier: MIT */
/* What: a heap sort, a sum in ascending order, ranks. Bounds: O(n log n); no memory. */
#include "tools/trace/distribution.h"

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

struct distribution distribution_of(double *values, uint32_t count)
{
    double sum = 0;
    if (count == 0) {
        return (struct distribution){0};
    }
    sort(values, count);
    for (uint32_t i = 0; i < count; i++) {
        sum += values[i];
    }
    return (struct distribution){.mean = sum / count,
                                 .p50 = percentile(values, count, 50),
                                 .p90 = percentile(values, count, 90),
                                 .p95 = percentile(values, count, 95),
                                 .p99 = percentile(values, count, 99)};
}
