/* SPDX-License-Identifier: MIT */
/*
 * What: indices expanded, the leftmost slowest. A statement gives a node for each element of its
 * indices, and a group its pieces for each element of its wildcards; wildcards over one set are
 * bound together. A group vanishes where one of its names has no element.
 *
 * Bounds: a few bytes can ask for a great deal, so nodes, pieces, bytes and atoms looked at are
 * counted.
 */
#include "tools/flow/expand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/flow/synthetic.h"

#define WORK_MAX (1u << 20)                 /* atoms looked at */

bool flow_buffer_add(struct flow_buffer *buffer, const void *bytes, size_t count)
{
    if (count > buffer->max - buffer->count) {
        return false;
    }
    if (buffer->bytes == NULL || buffer->count + count > buffer->room) {
        size_t room = 2 * (buffer->count + count) + 64;
        char *larger = realloc(buffer->bytes, room);
        if (larger == NULL) {
            return false;
        }
        buffer->bytes = larger;
        buffer->room = room;
    }
    memcpy(buffer->bytes + buffer->count, bytes, count);
    buffer->count += count;
    return true;
}

static bool too_large(const struct flow_graph *g, const struct flow_token *at)
{
    return flow_refuse(&g->syntax->lexer, at, "less: expanded, the workflow is too large");
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static struct flow_piece *add_piece(struct flow_graph *g, struct flow_node *node)
{
    if (g->pieces_count == FLOW_PIECES_MAX) {
        return NULL;
    }
    node->pieces.count++;
    return &g->pieces[g->pieces_count++];
}

/* Longer by a text; neighbouring texts of a node are one piece. */
static bool add_text(struct flow_graph *g, struct flow_node *node, const char *text, size_t bytes,
                     bool is_marker)
{
    struct flow_piece *last = &g->pieces[g->pieces_count - (node->pieces.count > 0)];
    if (node->pieces.count == 0 || last->node != AGX_FLOW_NONE || last->is_marker != is_marker) {
        last = add_piece(g, node);
        if (last == NULL) {
            return false;
        }
        *last = (struct flow_piece){AGX_FLOW_NONE, g->said.count, 0, is_marker};
    }
    last->text_bytes += bytes;
    return flow_buffer_add(&g->said, text, bytes);
}

static bool add_string(struct flow_graph *g, struct flow_node *node,
                       const struct flow_token *token)
{
    char *text = malloc(token->bytes + 1);
    bool added = text != NULL && add_text(g, node, text, flow_string(token, text), false);
    free(text);
    return added;
}

static bool add_synthetic(struct flow_graph *g, struct flow_node *node,
                          const struct flow_token *token)
{
    struct flow_synthetic_name what;
    if (!flow_synthetic_read(token->at + 2, token->bytes - 2, &what)) {
        return flow_refuse(&g->syntax->lexer, token, "s:NAME:N, N at most 1048576");
    }
    bool added = true;
    if (g->synthetic == FLOW_SYNTHETIC_MARKER) {
        added = add_text(g, node, what.name, token->bytes - 2, true) &&
                add_text(g, node, ";", 1, true);
    }
    for (uint32_t i = 0; added && g->synthetic == FLOW_SYNTHETIC_WORDS && i < what.count; i++) {
        char word[16];
        added = add_text(g, node, word, flow_synthetic_word(&what, i, word), false);
    }
    return added || too_large(g, token);
}

static bool add_value(struct flow_graph *g, struct flow_node *node, uint32_t value)
{
    struct flow_piece *piece = add_piece(g, node);
    if (piece != NULL) {
        *piece = (struct flow_piece){.node = value};
    }
    return piece != NULL;
}

/* ---- repetitions ----------------------------------------------------------------------------- */

struct repeat {                             /* of a group, or of a name outside one */
    struct flow_span atoms;
    uint32_t sets[FLOW_SETS_MAX], sets_count;       /* of its wildcards, as they appear */
    struct flow_domain domains[FLOW_SETS_MAX];
    uint32_t at[FLOW_SETS_MAX];             /* elements chosen now */
};

static const struct flow_atom *atom_at(const struct flow_graph *g, const struct repeat *repeat,
                                       uint32_t i)
{
    return &g->syntax->atoms[repeat->atoms.first + i];
}

/* True when the atom names a node: it is no text, and no index. */
static bool is_value(const struct flow_graph *g, const struct flow_atom *atom,
                     const struct flow_scope *scope)
{
    return atom->kind == FLOW_ATOM_NAME && flow_resolve_index(g->syntax, atom, scope) == NULL;
}

/* Takes a wildcard: its set is new, or its domain becomes that of both. */
static bool add_wildcard(struct flow_graph *g, struct repeat *repeat, uint32_t set,
                         const struct flow_mark *mark, const struct flow_scope *scope)
{
    struct flow_domain domain;
    uint32_t i = 0;
    if (!flow_resolve_domain(g->syntax, set, mark, scope, &domain)) {
        return false;
    }
    while (i < repeat->sets_count && repeat->sets[i] != set) {
        i++;
    }
    if (i == repeat->sets_count) {
        repeat->sets[repeat->sets_count++] = set;
        repeat->domains[i] = domain;
    }
    for (uint32_t e = 0; e < FLOW_ELEMENTS_MAX; e++) {
        repeat->domains[i].has[e] = repeat->domains[i].has[e] && domain.has[e];
    }
    return true;
}

static bool find_wildcards(struct flow_graph *g, struct repeat *repeat,
                           const struct flow_scope *scope)
{
    for (uint32_t a = 0; a < repeat->atoms.count; a++) {
        const struct flow_atom *atom = atom_at(g, repeat, a);
        if (atom->kind != FLOW_ATOM_NAME || atom->marks.count == 0) {
            continue;
        }
        const struct flow_family *family = flow_resolve_family(g->syntax, atom);
        for (uint32_t m = 0; family != NULL && m < atom->marks.count; m++) {
            const struct flow_mark *mark = &g->syntax->marks[atom->marks.first + m];
            if (mark->kind != FLOW_MARK_ONE &&
                !add_wildcard(g, repeat, family->sets[m], mark, scope)) {
                return false;
            }
        }
        if (family == NULL) {
            return false;
        }
    }
    return true;
}

/* The first element of the domain from `from` on; FLOW_ELEMENTS_MAX: none. */
static uint32_t element_from(const struct flow_domain *domain, uint32_t from)
{
    while (from < FLOW_ELEMENTS_MAX && !domain->has[from]) {
        from++;
    }
    return from;
}

/* Chooses the first elements. False: a set has none. */
static bool choose_first(struct repeat *repeat, struct flow_scope *scope)
{
    for (uint32_t i = 0; i < repeat->sets_count; i++) {
        repeat->at[i] = element_from(&repeat->domains[i], 0);
        if (repeat->at[i] == FLOW_ELEMENTS_MAX) {
            return false;
        }
        scope->chosen[repeat->sets[i]] = repeat->at[i];
    }
    return true;
}

/* Chooses the next ones, the last set fastest. False: that was all. */
static bool choose_next(struct repeat *repeat, struct flow_scope *scope)
{
    for (uint32_t i = repeat->sets_count; i-- > 0;) {
        uint32_t next = element_from(&repeat->domains[i], repeat->at[i] + 1);
        bool found = next < FLOW_ELEMENTS_MAX;
        repeat->at[i] = found ? next : element_from(&repeat->domains[i], 0);
        scope->chosen[repeat->sets[i]] = repeat->at[i];
        if (found) {
            return true;
        }
    }
    return false;
}

/* *lacks: some name of the chosen elements means no node. */
static bool find_lack(struct flow_graph *g, const struct repeat *repeat,
                      const struct flow_scope *scope, bool *lacks)
{
    *lacks = false;
    for (uint32_t a = 0; a < repeat->atoms.count; a++) {
        const struct flow_atom *atom = atom_at(g, repeat, a);
        uint32_t node = 0;
        if (++g->work > WORK_MAX) {
            return too_large(g, &atom->token);
        }
        if (is_value(g, atom, scope) && !flow_resolve(g->syntax, atom, scope, &node)) {
            return false;
        }
        *lacks = *lacks || node == AGX_FLOW_NONE;
    }
    return true;
}

static bool add_atom(struct flow_graph *g, struct flow_node *node, const struct flow_atom *atom,
                     const struct flow_scope *scope)
{
    const struct flow_word *word;
    uint32_t value;
    bool added;
    switch (atom->kind) {
    case FLOW_ATOM_STRING:
        added = add_string(g, node, &atom->token);
        break;
    case FLOW_ATOM_SYNTHETIC:
        return add_synthetic(g, node, &atom->token);
    default:
        word = flow_resolve_index(g->syntax, atom, scope);
        if (word == NULL && !flow_resolve(g->syntax, atom, scope, &value)) {
            return false;
        }
        added = word != NULL ? add_text(g, node, word->text, word->bytes, false)
                             : add_value(g, node, value);
    }
    return added || too_large(g, &atom->token);
}

/* *found: how often there were elements for all. */
static bool repeat_atoms(struct flow_graph *g, struct flow_node *node, struct flow_span atoms,
                         struct flow_scope *scope, uint32_t *found)
{
    struct repeat repeat;                   /* large: what is not used stays as it is */
    repeat.atoms = atoms;
    repeat.sets_count = *found = 0;
    if (!find_wildcards(g, &repeat, scope)) {
        return false;
    }
    bool more = choose_first(&repeat, scope);
    while (more) {
        bool lacks;
        if (!find_lack(g, &repeat, scope, &lacks)) {
            return false;
        }
        for (uint32_t a = 0; !lacks && a < atoms.count; a++) {
            if (!add_atom(g, node, atom_at(g, &repeat, a), scope)) {
                return false;
            }
        }
        *found += !lacks;
        more = choose_next(&repeat, scope);
    }
    for (uint32_t i = 0; i < repeat.sets_count; i++) {
        scope->chosen[repeat.sets[i]] = FLOW_NO_ELEMENT;
    }
    return true;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Atoms of the group that begins at `first`, without its brackets. */
static uint32_t group_count(const struct flow_graph *g, uint32_t first)
{
    uint32_t count = 0;
    while (g->syntax->atoms[first + 1 + count].kind != FLOW_ATOM_GROUP_END) {
        count++;
    }
    return count;
}

/* False, after the message which index of the name has no element, and for which operator. */
static bool refuse_lack(const struct flow_graph *g, const struct flow_node *node,
                        const struct flow_scope *scope, const struct flow_atom *atom)
{
    char expected[FLOW_FAULT_BYTES];
    const struct flow_mark *mark = flow_resolve_lack(g->syntax, atom, scope);
    const char *name = node->family != NULL ? g->words.bytes + node->name : "an output";
    if (mark == NULL) {
        return flow_refuse(&g->syntax->lexer, &atom->token, "a name that has an element here");
    }
    snprintf(expected, sizeof expected,
             "a name that has an element here: %s%.*s has none for %.60s",
             mark->kind == FLOW_MARK_OTHERS ? "!" : "",
             (int)(mark->word.bytes < 32 ? mark->word.bytes : 32), mark->word.at, name);
    return flow_refuse(&g->syntax->lexer, &atom->token, expected);
}

static bool expand_atoms(struct flow_graph *g, struct flow_node *node, struct flow_scope *scope,
                         struct flow_span atoms)
{
    for (uint32_t a = atoms.first; a < atoms.first + atoms.count; a++) {
        const struct flow_atom *atom = &g->syntax->atoms[a];
        bool is_group = atom->kind == FLOW_ATOM_GROUP;
        uint32_t count = is_group ? group_count(g, a) : 1, found;
        if (!repeat_atoms(g, node, (struct flow_span){a + is_group, count}, scope, &found)) {
            return false;
        }
        if (!is_group && found == 0) {
            return refuse_lack(g, node, scope, atom);
        }
        a += is_group ? count + 1 : 0;
    }
    return true;
}

static void no_elements(struct flow_scope *scope)
{
    memset(scope, 0xff, sizeof *scope);
}

static bool expand_node(struct flow_graph *g, struct flow_node *node)
{
    const struct flow_family *family = node->family;
    struct flow_scope scope;
    no_elements(&scope);
    for (uint32_t i = 0; i < family->sets_count; i++) {
        scope.bound[family->sets[i]] = node->elements[i];
    }
    node->pieces.first = g->pieces_count;
    return expand_atoms(g, node, &scope, family->atoms);
}

/* NAME[ELEMENT,...], a zero, NAME, a zero. */
static bool name_node(struct flow_graph *g, struct flow_node *node)
{
    const struct flow_family *family = node->family;
    bool added = flow_buffer_add(&g->words, family->name.at, family->name.bytes);
    for (uint32_t i = 0; i < family->sets_count; i++) {
        const struct flow_set *set = &g->syntax->sets[family->sets[i]];
        const struct flow_word *word =
            &g->syntax->words[set->elements.first + node->elements[i]];
        added = added && flow_buffer_add(&g->words, i == 0 ? "[" : ",", 1) &&
                flow_buffer_add(&g->words, word->text, word->bytes);
    }
    return added && flow_buffer_add(&g->words, "]", family->sets_count > 0) &&
           flow_buffer_add(&g->words, "", 1) &&
           flow_buffer_add(&g->words, family->name.at, family->name.bytes) &&
           flow_buffer_add(&g->words, "", 1);
}

static bool add_family(struct flow_graph *g, struct flow_family *family)
{
    uint32_t count = 1;
    family->nodes.first = g->nodes_count;
    for (uint32_t i = 0; i < family->sets_count; i++) {
        count *= g->syntax->sets[family->sets[i]].elements.count;
        if (count > AGX_FLOW_NODES_MAX) {
            break;
        }
    }
    if (count > AGX_FLOW_NODES_MAX - g->nodes_count) {
        return flow_refuse(&g->syntax->lexer, &family->name, "at most 256 nodes");
    }
    for (uint32_t n = 0; n < count; n++) {
        struct flow_node *node = &g->nodes[g->nodes_count++];
        *node = (struct flow_node){.family = family, .name = g->words.count};
        for (uint32_t i = family->sets_count, rest = n; i-- > 0;) {
            uint32_t elements = g->syntax->sets[family->sets[i]].elements.count;
            node->elements[i] = rest % elements;
            rest /= elements;
        }
        if (!name_node(g, node)) {
            return too_large(g, &family->name);
        }
    }
    family->nodes.count = count;
    return true;
}

/* An output line is expanded as the pieces of a node that is not there. */
static bool expand_outputs(struct flow_graph *g, struct flow_span atoms)
{
    struct flow_node none = {.pieces = {g->pieces_count, 0}};
    struct flow_scope scope;
    no_elements(&scope);
    if (!expand_atoms(g, &none, &scope, atoms)) {
        return false;
    }
    for (uint32_t p = 0; p < none.pieces.count; p++) {
        if (g->outputs_count == AGX_FLOW_NODES_MAX) {
            return too_large(g, &g->syntax->atoms[atoms.first].token);
        }
        g->outputs[g->outputs_count++] = g->pieces[none.pieces.first + p].node;
    }
    g->pieces_count = none.pieces.first;
    return true;
}

bool flow_expand(struct flow_graph *g, struct flow_syntax *syntax)
{
    g->syntax = syntax;
    g->said.max = g->words.max = FLOW_TEXT_BYTES_MAX;
    for (uint32_t i = 0; i < syntax->families_count; i++) {
        if (!add_family(g, &syntax->families[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < g->nodes_count; i++) {
        if (!expand_node(g, &g->nodes[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < syntax->outputs_count; i++) {
        if (!expand_outputs(g, syntax->outputs[i])) {
            return false;
        }
    }
    return true;
}
