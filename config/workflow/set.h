/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a set of nodes of a workflow, or of its inputs, by their numbers. */
#include <stdbool.h>
#include <stdint.h>

#define WORKFLOW_NODES_MAX  256     /* of one workflow */
#define WORKFLOW_INPUTS_MAX WORKFLOW_NODES_MAX

struct workflow_set {
    uint64_t words[WORKFLOW_NODES_MAX / 64];
};
static inline bool workflow_set_has(const struct workflow_set *set, uint32_t number)
{
    return (set->words[number / 64] >> number % 64 & 1) != 0;
}
static inline void workflow_set_add(struct workflow_set *set, uint32_t number)
{
    set->words[number / 64] |= UINT64_C(1) << number % 64;
}
static inline void workflow_set_unite(struct workflow_set *set, const struct workflow_set *more)
{
    for (uint32_t i = 0; i < WORKFLOW_NODES_MAX / 64; i++) {
        set->words[i] |= more->words[i];
    }
}
