/* SPDX-License-Identifier: MIT */
/*
 * What: Algorithm 1 with its recursion as a stack of frames.
 *
 *   while not recurse(root, unforced): recurse(root, forced)
 *   recurse(node):  a leaf: schedule it; force ends
 *                   else for each child as selected: recurse(child); True when nothing is left
 *
 * Each call of recurse has its own children tried, and the next is selected when the one before has
 * returned, as the clock has run and dependencies are gone. Candidates are untried children with an
 * operator that is ready; e is the least of theirs. Unforced, e must be over: by the longest chain,
 * the least e, the least place. Forced: by the least e, the longest chain, the least place. (By the
 * chain first, as in the paper, a forced pass can meet a child whose operators are not ready, and
 * so schedule nothing, for ever.) As a candidate has a ready operator, each descent ends in a leaf.
 *
 * A chain is counted among the siblings that are left, tried ones too. There is an edge from X to Y
 * where something left of Y depends on something left of X; siblings may depend on each other
 * mutually, so chains are those of strongly connected components, each of which counts one.
 */
#include "sched/workflow/helium.h"

static void push(struct helium *helium, uint16_t node)
{
    ASSERT(helium->depth < TEMPLATE_TREE_DEPTH_MAX);
    helium->frames[helium->depth++] = (struct helium_frame){.node = node};
}

void helium_begin(struct helium *helium, struct op_schedule *schedule)
{
    helium->schedule = schedule;
    helium->is_forced_pass = helium->force = false;
    helium->depth = 0;
    push(helium, TEMPLATE_TREE_ROOT);
}

/* ---- siblings -------------------------------------------------------------------------------- */

/* Fills the siblings; returns how many are candidates. */
static uint32_t find_siblings(struct helium *helium, const struct helium_frame *frame)
{
    const struct op_schedule *schedule = helium->schedule;
    const struct template_node *nodes = schedule->tree->nodes;
    uint32_t place = 0, candidates = 0;
    uint16_t child = nodes[frame->node].first_child;
    helium->siblings_count = 0;
    for (; child != TEMPLATE_TREE_NONE; child = nodes[child].next, place++) {
        struct op_set left = op_set_both(nodes[child].leaves, schedule->left);
        if (op_set_is_empty(left)) {
            continue;
        }
        struct helium_sibling *sibling = &helium->siblings[helium->siblings_count++];
        *sibling = (struct helium_sibling){.node = child, .place = (uint8_t)place, .left = left,
                                           .earliest = UINT64_MAX};
        OP_SET_EACH(op, op_set_both(left, schedule->ready)) {
            sibling->earliest = schedule->earliest[op] < sibling->earliest
                                    ? schedule->earliest[op] : sibling->earliest;
        }
        sibling->is_candidate = sibling->earliest != UINT64_MAX &&
                                !op_set_has(frame->tried, place) &&
                                (helium->force || sibling->earliest <= schedule->now);
        candidates += sibling->is_candidate;
    }
    return candidates;
}

/* Edges first, then whom each one leads to. */
static void find_reach(struct helium *helium)
{
    const struct op_schedule *schedule = helium->schedule;
    uint8_t owner[WORKFLOW_LLMS_MAX] = {0};
    struct op_set all = {{0}};
    for (uint32_t i = 0; i < helium->siblings_count; i++) {
        all = op_set_union(all, helium->siblings[i].left);
        OP_SET_EACH(op, helium->siblings[i].left) {
            owner[op] = (uint8_t)i;
        }
    }
    for (uint32_t i = 0; i < helium->siblings_count; i++) {
        struct op_set depends = {{0}};
        OP_SET_EACH(op, helium->siblings[i].left) {
            depends = op_set_union(depends, schedule->graph->ops[op].depends);
        }
        depends = op_set_without(op_set_both(depends, all), helium->siblings[i].left);
        OP_SET_EACH(op, depends) {
            op_set_add(&helium->siblings[owner[op]].reach, i);
        }
    }
    for (uint32_t via = 0; via < helium->siblings_count; via++) {
        struct op_set onward = helium->siblings[via].reach;
        for (uint32_t i = 0; i < helium->siblings_count && !op_set_is_empty(onward); i++) {
            if (op_set_has(helium->siblings[i].reach, via)) {
                helium->siblings[i].reach = op_set_union(helium->siblings[i].reach, onward);
            }
        }
    }
}

static void find_components(struct helium *helium)
{
    for (uint32_t i = 0; i < helium->siblings_count; i++) {
        struct helium_sibling *sibling = &helium->siblings[i];
        op_set_add(&sibling->component, i);
        OP_SET_EACH(other, sibling->reach) {
            if (op_set_has(helium->siblings[other].reach, i)) {
                op_set_add(&sibling->component, other);
            }
        }
    }
}

/* Round by round, those that lead to nothing but what earlier rounds have. */
static void find_chains(struct helium *helium)
{
    struct op_set left = {{0}};
    for (uint32_t i = 0; i < helium->siblings_count; i++) {
        op_set_add(&left, i);
    }
    for (uint32_t round = 1; !op_set_is_empty(left); round++) {
        struct op_set ends = {{0}};
        OP_SET_EACH(i, left) {
            struct helium_sibling *sibling = &helium->siblings[i];
            if (!op_set_meet(op_set_without(sibling->reach, sibling->component), left)) {
                sibling->chain = round;
                op_set_add(&ends, i);
            }
        }
        left = op_set_without(left, ends);
    }
}

/* ---- selection ------------------------------------------------------------------------------- */

static bool is_before(const struct helium *helium, const struct helium_sibling *a,
                      const struct helium_sibling *b)
{
    bool chain_first = !helium->force;
    if (chain_first && a->chain != b->chain) {
        return a->chain > b->chain;
    }
    if (a->earliest != b->earliest) {
        return a->earliest < b->earliest;
    }
    return a->chain != b->chain ? a->chain > b->chain : a->place < b->place;
}

/* The child to go on with, or NULL. */
static const struct helium_sibling *select_child(struct helium *helium,
                                                 const struct helium_frame *frame)
{
    const struct helium_sibling *best = NULL;
    uint32_t candidates = find_siblings(helium, frame);
    helium->work = helium->siblings_count;
    if (candidates > 1) {
        helium->work = 3 * helium->siblings_count * helium->siblings_count;
        find_reach(helium);
        find_components(helium);
        find_chains(helium);
    }
    for (uint32_t i = 0; i < helium->siblings_count && candidates > 0; i++) {
        const struct helium_sibling *sibling = &helium->siblings[i];
        if (sibling->is_candidate && (best == NULL || is_before(helium, sibling, best))) {
            best = sibling;
        }
    }
    return best;
}

/* The root's call has returned: the next pass is forced where this one was not. */
static void begin_pass(struct helium *helium)
{
    helium->is_forced_pass = !helium->is_forced_pass;
    helium->force = helium->is_forced_pass;
    push(helium, TEMPLATE_TREE_ROOT);
}

bool helium_step(struct helium *helium, int64_t *work)
{
    struct op_schedule *schedule = helium->schedule;
    while (!op_schedule_is_done(schedule) && *work > 0) {
        struct helium_frame *frame = &helium->frames[helium->depth - 1];
        const struct helium_sibling *child = select_child(helium, frame);
        *work -= WORKFLOW_LLMS_MAX + helium->work;
        if (child == NULL) {
            if (--helium->depth == 0) {
                begin_pass(helium);
            }
            continue;
        }
        op_set_add(&frame->tried, child->place);
        if (schedule->tree->nodes[child->node].op == TEMPLATE_TREE_NONE) {
            push(helium, child->node);
        } else {
            op_schedule_put(schedule, schedule->tree->nodes[child->node].op);
            helium->force = false;
        }
    }
    return op_schedule_is_done(schedule);
}
