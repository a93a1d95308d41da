/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: how an answer comes, as its reader sees it: the time to the first token, and the times
 * between tokens. Tokens that come in one frame have no time between them.
 */
#include <stdint.h>
#include <stdio.h>

#include "config/base/histogram.h"

struct pace {
    uint64_t start_us, first_us, last_us;   /* the call, its first and its last token */
    uint64_t tokens, first_tokens;          /* first_tokens: in the first frame */
    struct histogram between;               /* times between tokens */
};

void pace_start(struct pace *pace, uint64_t now_us);
/* A frame with `tokens` tokens has come. */
void pace_add(struct pace *pace, uint32_t tokens, uint64_t now_us);
/* " ttft_us=N between_us_mean=N between_us_p99=N tokens_per_s=X": a p99 is the upper end of its
 * bucket, at most an eighth too long; mean and tokens_per_s leave out the first frame. */
void pace_print(const struct pace *pace, FILE *out);
uint64_t pace_between_us_mean(const struct pace *pace);
uint64_t pace_between_us_p99(const struct pace *pace);
double pace_tokens_per_s(const struct pace *pace);
