/* SPDX-License-Identifier: MIT */
/*
 * What: a binary tree over the calls of a queue, in their order, that finds the place of a key.
 * Plans walk the list itself; the tree serves calls that enter in its middle.
 *
 *            list   a <-> b <-> c <-> d <-> e
 *            tree         b ----------- d              weight: b >= d >= c, e; b >= a
 *                       a             c   e
 *
 * It is a treap: each call has a weight, a hash of its slot, and no child weighs more than its
 * parent. That makes it as deep as a tree of calls that came in random order, whatever the order of
 * their keys: about 1.4 log2(calls) comparisons for a search, and two rotations for a call that
 * comes or goes. Weights are the same in every run.
 *
 * Invariants: the order of the tree is that of the list; a call's node is in use while the call is
 * in the list. A queue in which all calls go to the end or the beginning has no tree:
 * sched.nodes is NULL.
 * Why not a search in the list: it costs O(calls) for each call that comes.
 * Why not a skip list: a tower has the height that its slot gave it, so removal searches, or links
 * go both ways on each level.
 */
#include "sched/engine/order.h"

#include "config/base/hash.h"

struct tree {
    const struct sched *sched;
    uint32_t *root;
};

static struct tree tree_of(const struct sched_engine *engine, const struct sched_job *job)
{
    ASSERT(engine->sched->nodes != NULL);
    return (struct tree){.sched = engine->sched, .root = &sched_queue_of(engine, job)->root};
}

static struct sched_node *node_of(const struct tree *tree, uint32_t slot)
{
    ASSERT(slot < tree->sched->calls->count);
    return &tree->sched->nodes[slot];
}

static uint64_t weight_of(uint32_t slot)
{
    return hash_fold(slot ^ HASH_START_A, HASH_START_B);
}

/* Where the tree names this node: its parent's side, or the root. */
static uint32_t *name_of(const struct tree *tree, uint32_t slot)
{
    uint32_t parent = node_of(tree, slot)->parent;
    if (parent == CALL_NONE) {
        return tree->root;
    }
    struct sched_node *above = node_of(tree, parent);
    return &above->child[above->child[1] == slot];
}

/* A rotation: the node takes the place of its parent, which becomes its child. */
static void lift(const struct tree *tree, uint32_t slot)
{
    struct sched_node *node = node_of(tree, slot);
    uint32_t above = node->parent;
    struct sched_node *parent = node_of(tree, above);
    bool side = parent->child[1] == slot;
    uint32_t between = node->child[!side];
    *name_of(tree, above) = slot;
    node->parent = parent->parent;
    node->child[!side] = above;
    parent->parent = slot;
    parent->child[side] = between;
    if (between != CALL_NONE) {
        node_of(tree, between)->parent = above;
    }
}

uint32_t sched_order_find(const struct sched_engine *engine, const struct sched_job *job,
                          uint64_t key)
{
    const struct tree tree = tree_of(engine, job);
    uint32_t before = CALL_NONE;
    for (uint32_t at = *tree.root; at != CALL_NONE;) {
        bool goes_after = key >= sched_call(tree.sched, at)->order_key;
        before = goes_after ? at : before;
        at = node_of(&tree, at)->child[goes_after];
    }
    return before;
}

/* Of two neighbours in the list, one has no child on the side of the other. */
void sched_order_add(struct sched_engine *engine, const struct call *call)
{
    const struct tree tree = tree_of(engine, sched_job_of(engine->sched, call));
    struct call_link link = call->links[CALL_LIST_ALL];
    struct sched_node *node = node_of(&tree, call->slot);
    bool is_after = link.prev != CALL_NONE && node_of(&tree, link.prev)->child[1] == CALL_NONE;
    *node = (struct sched_node){.parent = is_after ? link.prev : link.next,
                                .child = {CALL_NONE, CALL_NONE}};
    uint32_t *name =
        node->parent == CALL_NONE ? tree.root : &node_of(&tree, node->parent)->child[is_after];
    ASSERT(*name == CALL_NONE);
    *name = call->slot;
    while (node->parent != CALL_NONE && weight_of(node->parent) < weight_of(call->slot)) {
        lift(&tree, call->slot);
    }
}

void sched_order_remove(struct sched_engine *engine, const struct call *call)
{
    const struct tree tree = tree_of(engine, sched_job_of(engine->sched, call));
    const uint32_t *child = node_of(&tree, call->slot)->child;
    while (child[0] != CALL_NONE || child[1] != CALL_NONE) {
        bool side = child[0] == CALL_NONE ||
                    (child[1] != CALL_NONE && weight_of(child[1]) > weight_of(child[0]));
        lift(&tree, child[side]);
    }
    *name_of(&tree, call->slot) = CALL_NONE;
}

void sched_order_check(const struct sched_engine *engine, const struct call *call)
{
    const struct tree tree = tree_of(engine, sched_job_of(engine->sched, call));
    const struct sched_node *node = node_of(&tree, call->slot);
    uint32_t next = call->links[CALL_LIST_ALL].next;
    ASSERT(*name_of(&tree, call->slot) == call->slot);
    for (uint32_t side = 0; side < 2; side++) {
        uint32_t child = node->child[side];
        ASSERT(child == CALL_NONE || node_of(&tree, child)->parent == call->slot);
        ASSERT(child == CALL_NONE || weight_of(child) <= weight_of(call->slot));
    }
    if (next == CALL_NONE) {
        ASSERT(node->child[1] == CALL_NONE);
        return;
    }
    ASSERT(call->order_key <= sched_call(tree.sched, next)->order_key);
    /* The next call is the first of this one's right side, or this one the last of its left. */
    bool is_below = node->child[1] != CALL_NONE;
    uint32_t at = is_below ? node->child[1] : node_of(&tree, next)->child[0];
    while (node_of(&tree, at)->child[!is_below] != CALL_NONE) {
        at = node_of(&tree, at)->child[!is_below];
    }
    ASSERT(at == (is_below ? next : call->slot));
}
