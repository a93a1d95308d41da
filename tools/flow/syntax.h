/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the statements of a flow file as they are written, before indices are expanded. Private to
 * tools/flow.
 */
#include "tools/flow/lexer.h"

#define FLOW_ATOMS_MAX 65536                /* of a file */
#define FLOW_MARKS_MAX 65536
#define FLOW_WORDS_MAX 16384

struct flow_span { uint32_t first, count; };

struct flow_set {                           /* each NAME = ELEMENT ... */
    struct flow_token name;
    struct flow_span elements;              /* in syntax->words */
};
struct flow_word { char text[32]; uint32_t bytes; };

enum flow_atom_kind {
    FLOW_ATOM_STRING,
    FLOW_ATOM_NAME,                         /* an index, or a node: NAME or NAME[MARK,...] */
    FLOW_ATOM_SYNTHETIC,                    /* s:NAME:N */
    FLOW_ATOM_GROUP, FLOW_ATOM_GROUP_END,
};
struct flow_atom {
    enum flow_atom_kind kind;
    struct flow_token token;
    struct flow_span marks;                 /* of a name, in syntax->marks */
};
struct flow_mark {                          /* between the brackets of a name */
    enum { FLOW_MARK_ONE, FLOW_MARK_ALL, FLOW_MARK_OTHERS } kind;
    struct flow_token word;                 /* of ONE and OTHERS */
};

struct flow_family {                        /* what one statement defines: a node for each index */
    enum agx_node kind;
    struct flow_token name;
    uint32_t sets[FLOW_INDICES_MAX], sets_count;
    struct agx_operator how;
    uint32_t stop_ids[AGX_STOP_IDS_MAX];
    char stop_texts[AGX_STOP_TEXTS_MAX][65];
    struct flow_span atoms;                 /* in syntax->atoms */
    struct flow_span nodes;                 /* set by expand.c: leftmost index slowest */
};

struct flow_syntax {
    struct flow_lexer lexer;
    struct flow_token token;                /* the next one */
    uint32_t sets_count, families_count, words_count, atoms_count, marks_count;
    struct flow_set sets[FLOW_SETS_MAX];
    struct flow_family families[AGX_FLOW_NODES_MAX];
    struct flow_word words[FLOW_WORDS_MAX];
    struct flow_atom atoms[FLOW_ATOMS_MAX];
    struct flow_mark marks[FLOW_MARKS_MAX];
    struct flow_span outputs[AGX_FLOW_NODES_MAX];   /* of atoms: the names of a statement each */
    uint32_t outputs_count;
};

/* The lexer must be at the beginning of a file. False after a fault. */
bool flow_syntax_read(struct flow_syntax *syntax);
/* The index of the set, or of the family, of this name; UINT32_MAX: there is none. */
uint32_t flow_set_named(const struct flow_syntax *syntax, const char *name, size_t bytes);
uint32_t flow_family_named(const struct flow_syntax *syntax, const struct flow_token *name);

/* options.c: reads NAME=VALUE up to the `=` that stands alone. */
bool flow_options_read(struct flow_syntax *syntax, struct flow_family *family);
/* Takes the next token. */
bool flow_advance(struct flow_syntax *syntax);
