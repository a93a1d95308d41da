/* SPDX-License-Identifier: MIT */
#pragma once
/* What: numbers by lot for tests (Marsaglia's xorshift): from the same state the same ones. */
#include <stdint.h>

/* `state` is not 0. */
static inline uint64_t draw_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static inline uint64_t draw_below(uint64_t *state, uint64_t bound)
{
    return draw_next(state) % bound;
}
