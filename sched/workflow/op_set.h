/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a set of numbers below 128, the operators of a workflow or siblings of a tree, as bits.
 * Private to sched/workflow/. */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/assert.h"
#include "config/workflow/workflow.h"

#define OP_SET_NONE UINT32_MAX

struct op_set { uint64_t words[2]; };

STATIC_ASSERT(WORKFLOW_LLMS_MAX == 128, "an operator is a bit of two words");

static inline bool op_set_has(struct op_set set, uint32_t op)
{
    return set.words[op / 64] >> op % 64 & 1;
}
static inline void op_set_add(struct op_set *set, uint32_t op)
{
    set->words[op / 64] |= UINT64_C(1) << op % 64;
}
static inline void op_set_remove(struct op_set *set, uint32_t op)
{
    set->words[op / 64] &= ~(UINT64_C(1) << op % 64);
}
static inline bool op_set_is_empty(struct op_set set)
{
    return (set.words[0] | set.words[1]) == 0;
}
static inline struct op_set op_set_union(struct op_set a, struct op_set b)
{
    return (struct op_set){{a.words[0] | b.words[0], a.words[1] | b.words[1]}};
}
static inline struct op_set op_set_both(struct op_set a, struct op_set b)
{
    return (struct op_set){{a.words[0] & b.words[0], a.words[1] & b.words[1]}};
}
static inline struct op_set op_set_without(struct op_set a, struct op_set b)
{
    return (struct op_set){{a.words[0] & ~b.words[0], a.words[1] & ~b.words[1]}};
}
static inline bool op_set_meet(struct op_set a, struct op_set b)
{
    return ((a.words[0] & b.words[0]) | (a.words[1] & b.words[1])) != 0;
}
static inline uint32_t op_set_count(struct op_set set)
{
    uint32_t count = 0;             /* the built-in would be a function of the compiler's library */
    for (uint32_t word = 0; word < 2; word++) {
        for (uint64_t rest = set.words[word]; rest != 0; rest &= rest - 1) {
            count++;
        }
    }
    return count;
}
/* The least number from `from` on, or OP_SET_NONE. */
static inline uint32_t op_set_next(struct op_set set, uint32_t from)
{
    for (uint32_t word = from / 64; word < 2; word++, from = 0) {
        uint64_t rest = set.words[word] >> from % 64 << from % 64;
        if (rest != 0) {
            return word * 64 + (uint32_t)__builtin_ctzll(rest);
        }
    }
    return OP_SET_NONE;
}
#define OP_SET_EACH(op, set) \
    for (uint32_t op = op_set_next(set, 0); op != OP_SET_NONE; op = op_set_next(set, op + 1))
