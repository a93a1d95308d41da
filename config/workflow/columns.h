/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a set of inputs of a workflow, whose values are the columns of its rows. */
#include <stdbool.h>
#include <stdint.h>

#define WORKFLOW_INPUTS_MAX 256     /* all nodes may be inputs */

struct workflow_columns {           /* a set of inputs: bit i is inputs[i] */
    uint64_t words[WORKFLOW_INPUTS_MAX / 64];
};
static inline bool workflow_has_column(const struct workflow_columns *columns, uint32_t input)
{
    return (columns->words[input / 64] >> input % 64 & 1) != 0;
}
static inline void workflow_add_column(struct workflow_columns *columns, uint32_t input)
{
    columns->words[input / 64] |= UINT64_C(1) << input % 64;
}
static inline void workflow_add_columns(struct workflow_columns *columns,
                                        const struct workflow_columns *more)
{
    for (uint32_t i = 0; i < WORKFLOW_INPUTS_MAX / 64; i++) {
        columns->words[i] |= more->words[i];
    }
}
