/* SPDX-License-Identifier: MIT */
/* What: times between tokens in buckets, so that an answer of any length takes the same memory. */
#include "tools/agx/pace.h"

#include <inttypes.h>

/* The bucket of a time: the position of its highest bit, and the three bits below it. */
static uint32_t bucket_of(uint64_t us)
{
    if (us < 8) {
        return (uint32_t)us;
    }
    uint32_t high = 63 - (uint32_t)__builtin_clzll(us);
    uint32_t bucket = (high - 2) * 8 + (uint32_t)(us >> (high - 3) & 7);
    return bucket < PACE_BUCKETS ? bucket : PACE_BUCKETS - 1;
}

/* The longest time in a bucket. */
static uint64_t longest_in(uint32_t bucket)
{
    if (bucket < 8) {
        return bucket;
    }
    uint32_t high = bucket / 8 + 2;
    return ((UINT64_C(8) + bucket % 8 + 1) << (high - 3)) - 1;
}

void pace_start(struct pace *pace, uint64_t now_us)
{
    *pace = (struct pace){.start_us = now_us};
}

void pace_add(struct pace *pace, uint32_t tokens, uint64_t now_us)
{
    if (tokens == 0) {
        return;
    }
    if (pace->tokens == 0) {
        pace->first_us = now_us;
        pace->first_tokens = tokens;
    } else {
        pace->buckets[bucket_of(now_us - pace->last_us)]++;
    }
    pace->buckets[0] += tokens - 1;
    pace->tokens += tokens;
    pace->last_us = now_us;
}

uint64_t pace_between_us_mean(const struct pace *pace)
{
    uint64_t later = pace->tokens - pace->first_tokens;
    return later > 0 ? (pace->last_us - pace->first_us) / later : 0;
}

uint64_t pace_between_us_p99(const struct pace *pace)
{
    uint64_t count = pace->tokens > 1 ? pace->tokens - 1 : 0, seen = 0;
    uint64_t wanted = count - count / 100;
    for (uint32_t bucket = 0; bucket < PACE_BUCKETS; bucket++) {
        seen += pace->buckets[bucket];
        if (seen >= wanted) {
            return count > 0 ? longest_in(bucket) : 0;
        }
    }
    return 0;
}

double pace_tokens_per_s(const struct pace *pace)
{
    uint64_t span_us = pace->last_us - pace->first_us;
    uint64_t later = pace->tokens - pace->first_tokens;
    return span_us > 0 ? (double)later * 1e6 / (double)span_us : 0;
}

void pace_print(const struct pace *pace, FILE *out)
{
    fprintf(out, " ttft_us=%" PRIu64 " between_us_mean=%" PRIu64 " between_us_p99=%" PRIu64
            " tokens_per_s=%.1f", pace->tokens > 0 ? pace->first_us - pace->start_us : 0,
            pace_between_us_mean(pace), pace_between_us_p99(pace), pace_tokens_per_s(pace));
}
