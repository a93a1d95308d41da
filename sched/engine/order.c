/* SPDX-License-Identifier: MIT */
/*
 * What: a binary tree over the jobs of a queue, in their order, that finds the place of a key.
 * Plans walk the list itself; the tree serves jobs that enter in its middle.
 *
 *            list   a <-> b <-> c <-> d <-> e
 *            tree         b ----------- d              weight: b >= d >= c, e; b >= a
 *                       a             c   e
 *
 * It is a treap: each job has a weight, a hash of its number, and no child weighs more than its
 * parent. That makes it as deep as a tree of jobs that came in random order, whatever the order of
 * their keys: about 1.4 log2(jobs) comparisons for a search, and two rotations for a job that
 * comes or goes. Weights are the same in every run.
 *
 * Invariants: the order of the tree is that of the list; a job's node is in use while the job is
 * in the list. A queue in which all jobs go to the end or the beginning has no tree:
 * sched.nodes is NULL.
 * Why not a search in the list: it costs O(jobs) for each job that comes.
 * Why not a heap: a plan walks the jobs in order, and takes none out.
 * Why not a skip list: a tower has the height that its number gave it, so removal searches, or
 * links go both ways on each level.
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

static struct sched_node *node_of(const struct tree *tree, uint32_t job)
{
    ASSERT(job < tree->sched->calls->count);
    return &tree->sched->nodes[job];
}

static uint64_t weight_of(uint32_t job)
{
    return hash_fold(job ^ HASH_START_A, HASH_START_B);
}

static bool is_before(const struct sched_job *a, const struct sched_job *b)
{
    return a->key != b->key ? a->key < b->key : a->tie < b->tie;
}

/* Where the tree names this node: its parent's side, or the root. */
static uint32_t *name_of(const struct tree *tree, uint32_t job)
{
    uint32_t parent = node_of(tree, job)->parent;
    if (parent == SCHED_JOB_NONE) {
        return tree->root;
    }
    struct sched_node *above = node_of(tree, parent);
    return &above->child[above->child[1] == job];
}

/* A rotation: the node takes the place of its parent, which becomes its child. */
static void lift(const struct tree *tree, uint32_t job)
{
    struct sched_node *node = node_of(tree, job);
    uint32_t above = node->parent;
    struct sched_node *parent = node_of(tree, above);
    bool side = parent->child[1] == job;
    uint32_t between = node->child[!side];
    *name_of(tree, above) = job;
    node->parent = parent->parent;
    node->child[!side] = above;
    parent->parent = job;
    parent->child[side] = between;
    if (between != SCHED_JOB_NONE) {
        node_of(tree, between)->parent = above;
    }
}

uint32_t sched_order_find(const struct sched_engine *engine, const struct sched_job *job)
{
    const struct tree tree = tree_of(engine, job);
    uint32_t tail = sched_queue_of(engine, job)->jobs.tail, before = SCHED_JOB_NONE;
    if (tail != SCHED_JOB_NONE && is_before(&tree.sched->jobs[tail], job)) {
        return tail;
    }
    for (uint32_t at = *tree.root; at != SCHED_JOB_NONE;) {
        bool goes_after = !is_before(job, &tree.sched->jobs[at]);
        before = goes_after ? at : before;
        at = node_of(&tree, at)->child[goes_after];
    }
    return before;
}

bool sched_order_fits(const struct sched *sched, const struct sched_job *job)
{
    return (job->prev == SCHED_JOB_NONE || is_before(&sched->jobs[job->prev], job)) &&
           (job->next == SCHED_JOB_NONE || is_before(job, &sched->jobs[job->next]));
}

/* Of two neighbours in the list, one has no child on the side of the other. */
void sched_order_add(struct sched_engine *engine, const struct sched_job *job)
{
    const struct tree tree = tree_of(engine, job);
    uint32_t index = (uint32_t)(job - engine->sched->jobs);
    struct sched_node *node = node_of(&tree, index);
    bool is_after = job->prev != SCHED_JOB_NONE &&
                    node_of(&tree, job->prev)->child[1] == SCHED_JOB_NONE;
    *node = (struct sched_node){.parent = is_after ? job->prev : job->next,
                                .child = {SCHED_JOB_NONE, SCHED_JOB_NONE}};
    uint32_t *name = node->parent == SCHED_JOB_NONE
                         ? tree.root : &node_of(&tree, node->parent)->child[is_after];
    ASSERT(*name == SCHED_JOB_NONE);
    *name = index;
    while (node->parent != SCHED_JOB_NONE && weight_of(node->parent) < weight_of(index)) {
        lift(&tree, index);
    }
}

void sched_order_remove(struct sched_engine *engine, const struct sched_job *job)
{
    const struct tree tree = tree_of(engine, job);
    uint32_t index = (uint32_t)(job - engine->sched->jobs);
    const uint32_t *child = node_of(&tree, index)->child;
    while (child[0] != SCHED_JOB_NONE || child[1] != SCHED_JOB_NONE) {
        bool side = child[0] == SCHED_JOB_NONE ||
                    (child[1] != SCHED_JOB_NONE && weight_of(child[1]) > weight_of(child[0]));
        lift(&tree, child[side]);
    }
    *name_of(&tree, index) = SCHED_JOB_NONE;
}

void sched_order_check(const struct sched_engine *engine, const struct sched_job *job)
{
    const struct tree tree = tree_of(engine, job);
    uint32_t index = (uint32_t)(job - engine->sched->jobs);
    const struct sched_node *node = node_of(&tree, index);
    ASSERT(*name_of(&tree, index) == index);
    for (uint32_t side = 0; side < 2; side++) {
        uint32_t child = node->child[side];
        ASSERT(child == SCHED_JOB_NONE || node_of(&tree, child)->parent == index);
        ASSERT(child == SCHED_JOB_NONE || weight_of(child) <= weight_of(index));
    }
    if (job->next == SCHED_JOB_NONE) {
        ASSERT(node->child[1] == SCHED_JOB_NONE);
        return;
    }
    ASSERT(is_before(job, &tree.sched->jobs[job->next]));
    /* The next job is the first of this one's right side, or this one the last of its left. */
    bool is_below = node->child[1] != SCHED_JOB_NONE;
    uint32_t at = is_below ? node->child[1] : node_of(&tree, job->next)->child[0];
    while (node_of(&tree, at)->child[!is_below] != SCHED_JOB_NONE) {
        at = node_of(&tree, at)->child[!is_below];
    }
    ASSERT(at == (is_below ? job->next : index));
}
