/* SPDX-License-Identifier: MIT */
/*
 * What: what each program took, as distributions.
 * Bounds: three sorts, O(n log n), n the programs.
 */
#include "tools/lab/figures.h"

#include "config/base/assert.h"

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
    struct distribution *const results[] = {&figures->token, &figures->token_with_gaps,
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
        *results[quantity] = distribution_of(scratch, count);
        figures->completed = count;
    }
}
