/* SPDX-License-Identifier: MIT */
/*
 * What: sums over the middle of a closed load.
 * Invariants: in the middle, count <= ended < programs - count. With the end of program number
 * programs - count the last one starts, in the session that has just become free.
 */
#include "tools/trace/sessions.h"

#include "config/base/assert.h"

void sessions_init(struct sessions *sessions, uint32_t count, uint32_t programs)
{
    ASSERT(sessions_fit(count, programs));
    *sessions = (struct sessions){.count = count, .programs = programs};
}

static bool is_in_middle(const struct sessions *sessions)
{
    return sessions->count > 0 && sessions->ended >= sessions->count &&
           sessions->ended < sessions->programs - sessions->count;
}

void sessions_call(struct sessions *sessions, uint32_t generated_tokens, uint32_t prompt_tokens,
                   uint32_t cached_tokens)
{
    if (is_in_middle(sessions)) {
        sessions->generated_tokens += generated_tokens;
        sessions->prompt_tokens += prompt_tokens;
        sessions->cached_tokens += cached_tokens;
    }
}

void sessions_program(struct sessions *sessions, uint64_t path_us, uint64_t tokens,
                      uint64_t now_us)
{
    ASSERT(tokens > 0);
    if (is_in_middle(sessions)) {
        sessions->completed++;
        sessions->token_us_sum += (double)path_us / (double)tokens;
    }
    sessions_failure(sessions, now_us);
}

void sessions_failure(struct sessions *sessions, uint64_t now_us)
{
    ASSERT(sessions->ended < sessions->programs);
    sessions->ended++;
    if (sessions->ended == sessions->count) {
        sessions->begin_us = now_us;
    }
    if (sessions->ended == sessions->programs - sessions->count) {
        sessions->end_us = now_us;
    }
}

struct sessions_figures sessions_figures(const struct sessions *sessions)
{
    const struct sessions *s = sessions;
    struct sessions_figures figures = {.programs = s->completed};
    if (s->count == 0 || s->completed == 0 || s->end_us <= s->begin_us) {
        return figures;
    }
    figures.seconds = (double)(s->end_us - s->begin_us) / 1e6;
    figures.programs_per_s = s->completed / figures.seconds;
    figures.tokens_per_s = (double)s->generated_tokens / figures.seconds;
    figures.hit_ratio =
        s->prompt_tokens > 0 ? (double)s->cached_tokens / (double)s->prompt_tokens : 0;
    figures.token_latency_s = s->token_us_sum / s->completed / 1e6;
    return figures;
}
