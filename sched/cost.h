/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what serving a call costs, in two units:
 *
 *   token-rounds   (paper 001, eq. 1, as a sum) the positions that its KV holds, added up over the
 *                  rounds in which it decodes: p + 1, p + 2 ... p + d. KV is what is short
 *   tokens         (VTC) its prompt, and twice its output
 *
 * Private to sched/.
 */
#include <stdint.h>

#define SCHED_TOKENS_OF_OUTPUT 2

static inline uint64_t sched_cost_rounds(uint32_t held, uint32_t rounds)
{
    return (uint64_t)held * rounds + (uint64_t)rounds * ((uint64_t)rounds + 1) / 2;
}

static inline uint64_t sched_cost_tokens(uint32_t prompt, uint32_t output)
{
    return prompt + (uint64_t)SCHED_TOKENS_OF_OUTPUT * output;
}
