/* SPDX-License-Identifier: MIT */
/* What: how an answer comes (tools/agx/pace.h); an answer of any length takes the same memory. */
#include "tools/agx/pace.h"

#include <inttypes.h>

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
        histogram_note(&pace->between, now_us - pace->last_us, 1);
    }
    histogram_note(&pace->between, 0, tokens - 1);
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
    return histogram_percentile_us(&pace->between, 990);
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
