/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the templated radix tree (paper 002, section 5 and appendix A): the prompts of all
 * operators by what they begin with, over symbols. A symbol is a token, or the place of a value:
 * that of the node whose value it is. A label is a part of one operator's prompt; it is not copied.
 *
 * A leaf is an operator; its label is the rest of its prompt, which may be empty. Children have
 * places: a node that is split keeps its place in its parent, and what is new comes last.
 * Private to sched/workflow/.
 */
#include "sched/workflow/op_graph.h"

/* An operator adds a leaf and splits one node at most. */
#define TEMPLATE_TREE_NODES_MAX (2 * WORKFLOW_LLMS_MAX + 1)
#define TEMPLATE_TREE_NONE      UINT16_MAX
#define TEMPLATE_TREE_ROOT      0
/* Nodes on a path from the root: each has an operator more than the one above it, or is a leaf. */
#define TEMPLATE_TREE_DEPTH_MAX (WORKFLOW_LLMS_MAX + 2)

/* A place in a prompt. It is never at the end of a piece, and no piece of it is empty. */
struct template_place { uint32_t piece, token; };

struct template_node {
    uint16_t parent, first_child, last_child, next;     /* `next` of the same parent */
    uint16_t op;                    /* of a leaf, or TEMPLATE_TREE_NONE */
    uint16_t label_op;              /* whose prompt has the label, */
    struct template_place begin, end;                   /* and where */
    uint32_t tokens;                /* of the prompt to the end of the label; values as foreseen */
    struct op_set leaves;           /* operators at it and below it */
};

struct template_tree {
    const struct op_graph *graph;
    uint32_t input_tokens;
    uint32_t count;
    struct template_node nodes[TEMPLATE_TREE_NODES_MAX];
    uint16_t leaf[WORKFLOW_LLMS_MAX];           /* of each operator */
    uint32_t work;                  /* symbols and children looked at by the last addition */
};

void template_tree_init(struct template_tree *tree, const struct op_graph *graph,
                        uint32_t input_tokens);
/* Adds the prompt of the next operator. Cost: the pieces of its prompt, the tokens of a literal
 * that differs from another one, and the children on its path. */
void template_tree_add(struct template_tree *tree, uint32_t op);
/* Static symbols with which the label begins; *is_static: it has no other ones. */
uint32_t template_tree_static(const struct template_tree *tree, uint32_t node, bool *is_static);
/* Asserts every invariant. */
void template_tree_check(const struct template_tree *tree);
