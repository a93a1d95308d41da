/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what a closed load of N sessions serves in its middle: from the end of the N-th program to
 * the start of the last one. Before it the sessions move in step, as they began together; after it
 * fewer than N programs are open. Counted are the calls and the programs that end in the middle.
 */
#include <stdbool.h>
#include <stdint.h>

struct sessions {
    uint32_t count;                 /* 0: the load is open, and nothing is counted */
    uint32_t programs, ended;       /* to be played; so far, failed ones too */
    uint64_t begin_us, end_us;      /* of the middle */
    uint64_t generated_tokens, prompt_tokens, cached_tokens;
    uint32_t completed;
    double token_us_sum;            /* token latencies of those that completed */
};
struct sessions_figures {           /* zeroes, where nothing is counted */
    uint32_t programs;
    double seconds, programs_per_s, tokens_per_s, hit_ratio, token_latency_s;
};

/* True when a load of so many programs has a middle, of at least as many ends as sessions. */
static inline bool sessions_fit(uint32_t count, uint32_t programs)
{
    return programs / 3 >= count;
}
void sessions_init(struct sessions *sessions, uint32_t count, uint32_t programs);
/* A call has ended. */
void sessions_call(struct sessions *sessions, uint32_t generated_tokens, uint32_t prompt_tokens,
                   uint32_t cached_tokens);
/* A program is complete: its response time, the tokens of all its calls. */
void sessions_program(struct sessions *sessions, uint64_t path_us, uint64_t tokens,
                      uint64_t now_us);
void sessions_failure(struct sessions *sessions, uint64_t now_us);
struct sessions_figures sessions_figures(const struct sessions *sessions);
