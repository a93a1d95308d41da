/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the counts that workflows are built from: config/limits.c fills them, every stage that has
 * to do with workflows reads them. */
#include <stdint.h>

struct workflow_limits {
    uint32_t workflows;             /* open at once; 0: off */
    uint32_t nodes, pieces, tokens; /* of one workflow; tokens of all its literals */
    uint32_t rows;
    uint32_t value_tokens;          /* of the inputs and values of all its rows */
};
