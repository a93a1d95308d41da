/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a flow file with its indices expanded: a flat list of nodes in the order of the file, each
 * with its pieces. A piece may still name a later node. Private to tools/flow.
 */
#include "tools/flow/syntax.h"

#define FLOW_PIECES_MAX AGX_FLOW_COUNT_MAX

struct flow_buffer { char *bytes; size_t count, room, max; };

struct flow_piece {
    uint32_t node;                          /* or AGX_FLOW_NONE: a text */
    size_t text, text_bytes;                /* in graph->said */
    bool is_marker;                         /* of synthetic tokens */
};
struct flow_node {
    const struct flow_family *family;
    uint32_t elements[FLOW_INDICES_MAX];    /* of its indices, in their sets */
    size_t name;                            /* in graph->words, zero-terminated, as is the base */
    struct flow_span pieces;
};
struct flow_graph {
    const struct flow_syntax *syntax;
    enum flow_synthetic synthetic;
    uint32_t nodes_count, pieces_count, outputs_count;
    struct flow_node nodes[AGX_FLOW_NODES_MAX];
    struct flow_piece pieces[FLOW_PIECES_MAX];
    uint32_t outputs[AGX_FLOW_NODES_MAX];
    struct flow_buffer said, words;
    uint64_t work;
};

/* False after a fault. `syntax` gets the nodes of its families. */
bool flow_expand(struct flow_graph *graph, struct flow_syntax *syntax);
/* False: memory, or beyond `max`. */
bool flow_buffer_add(struct flow_buffer *buffer, const void *bytes, size_t count);

/* ---- resolve.c: which node a name means ------------------------------------------------------ */

struct flow_scope {                         /* elements of sets, or FLOW_NO_ELEMENT */
    uint32_t bound[FLOW_SETS_MAX];          /* by the indices of the node */
    uint32_t chosen[FLOW_SETS_MAX];         /* by the wildcards of the group */
};
#define FLOW_NO_ELEMENT UINT32_MAX

/* The family of a name, whose marks are as many as its indices; NULL after a fault. */
const struct flow_family *flow_resolve_family(const struct flow_syntax *syntax,
                                              const struct flow_atom *atom);
/* *node is AGX_FLOW_NONE where there is no such element. False after a fault. */
bool flow_resolve(const struct flow_syntax *syntax, const struct flow_atom *atom,
                  const struct flow_scope *scope, uint32_t *node);
/* Which elements of a set a wildcard stands for. False after a fault. */
struct flow_domain { bool has[FLOW_ELEMENTS_MAX]; };
bool flow_resolve_domain(const struct flow_syntax *syntax, uint32_t set,
                         const struct flow_mark *mark, const struct flow_scope *scope,
                         struct flow_domain *domain);
/* Which mark of the name has no element there; NULL: that depends on what its wildcards choose. */
const struct flow_mark *flow_resolve_lack(const struct flow_syntax *syntax,
                                          const struct flow_atom *atom,
                                          const struct flow_scope *scope);
/* The element of an index that is a piece; NULL: the name is none. */
const struct flow_word *flow_resolve_index(const struct flow_syntax *syntax,
                                           const struct flow_atom *atom,
                                           const struct flow_scope *scope);
