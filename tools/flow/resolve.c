/* SPDX-License-Identifier: MIT */
/*
 * What: which node NAME[MARK,...] means for given elements of the indices.
 *
 *   *          every element            anna       that element
 *   !INDEX     every other element      INDEX      the element of that index
 *   !anna      the same                 INDEX-1    the one before; INDEX+1: the one after
 *
 * An index of another set stands for the element of the same word. In a group an index that the
 * node does not have is the wildcard's.
 */
#include <string.h>

#include "tools/flow/expand.h"

static const struct flow_word *word_at(const struct flow_syntax *s, uint32_t set, uint32_t element)
{
    return &s->words[s->sets[set].elements.first + element];
}

/* The element of the set that is this word, or FLOW_NO_ELEMENT. */
static uint32_t element_named(const struct flow_syntax *s, uint32_t set, const char *text,
                              size_t bytes)
{
    for (uint32_t i = 0; i < s->sets[set].elements.count; i++) {
        const struct flow_word *word = word_at(s, set, i);
        if (word->bytes == bytes && memcmp(word->text, text, bytes) == 0) {
            return i;
        }
    }
    return FLOW_NO_ELEMENT;
}

static uint32_t element_of(const struct flow_scope *scope, uint32_t set)
{
    return scope->bound[set] != FLOW_NO_ELEMENT ? scope->bound[set] : scope->chosen[set];
}

/* An element of `from` as one of `set`. */
static uint32_t element_as(const struct flow_syntax *s, uint32_t from, uint32_t element,
                           uint32_t set)
{
    if (from == set || element == FLOW_NO_ELEMENT) {
        return element;
    }
    const struct flow_word *word = word_at(s, from, element);
    return element_named(s, set, word->text, word->bytes);
}

/* INDEX-1, INDEX+2: the set and how far. */
static bool read_shift(const struct flow_syntax *s, const struct flow_token *word, uint32_t *set,
                       int64_t *by)
{
    uint64_t far;
    for (uint32_t i = word->bytes; i-- > 1;) {
        if (word->at[i] == '-' || word->at[i] == '+') {
            *set = flow_set_named(s, word->at, i);
            bool is_shift = *set != UINT32_MAX && flow_number(word->at + i + 1, word->bytes - i - 1,
                                                              INT32_MAX, &far);
            *by = !is_shift ? 0 : word->at[i] == '-' ? -(int64_t)far : (int64_t)far;
            return is_shift;
        }
    }
    return false;
}

/* *element is FLOW_NO_ELEMENT where a shift leaves its set. False: the word means nothing here. */
static bool resolve_word(const struct flow_syntax *s, uint32_t set, const struct flow_token *word,
                         const struct flow_scope *scope, uint32_t *element)
{
    uint32_t from = flow_set_named(s, word->at, word->bytes);
    int64_t by = 0;
    if (from != UINT32_MAX || read_shift(s, word, &from, &by)) {
        uint32_t here = element_of(scope, from);
        if (here != FLOW_NO_ELEMENT) {
            int64_t at = (int64_t)here + by;
            bool is_one = at >= 0 && at < s->sets[from].elements.count;
            *element = element_as(s, from, is_one ? (uint32_t)at : FLOW_NO_ELEMENT, set);
            return true;
        }
    }
    *element = element_named(s, set, word->at, word->bytes);
    return *element != FLOW_NO_ELEMENT;
}

static bool refuse_word(const struct flow_syntax *s, const struct flow_token *word)
{
    return flow_refuse(&s->lexer, word, "an index that has an element here, or an element");
}

const struct flow_family *flow_resolve_family(const struct flow_syntax *s,
                                              const struct flow_atom *atom)
{
    uint32_t index = flow_family_named(s, &atom->token);
    if (index == UINT32_MAX) {
        flow_refuse(&s->lexer, &atom->token, "the name of a node, or an index of this one");
        return NULL;
    }
    if (s->families[index].sets_count != atom->marks.count) {
        flow_refuse(&s->lexer, &atom->token, "as many indices as it was defined with");
        return NULL;
    }
    return &s->families[index];
}

bool flow_resolve(const struct flow_syntax *s, const struct flow_atom *atom,
                  const struct flow_scope *scope, uint32_t *node)
{
    const struct flow_family *family = flow_resolve_family(s, atom);
    uint32_t offset = 0;
    *node = AGX_FLOW_NONE;
    for (uint32_t i = 0; family != NULL && i < family->sets_count; i++) {
        const struct flow_mark *mark = &s->marks[atom->marks.first + i];
        uint32_t set = family->sets[i], element = scope->chosen[set];
        if (mark->kind == FLOW_MARK_ONE && !resolve_word(s, set, &mark->word, scope, &element)) {
            return refuse_word(s, &mark->word);
        }
        if (element == FLOW_NO_ELEMENT) {
            return true;
        }
        offset = offset * s->sets[set].elements.count + element;
    }
    *node = family != NULL ? family->nodes.first + offset : AGX_FLOW_NONE;
    return family != NULL;
}

bool flow_resolve_domain(const struct flow_syntax *s, uint32_t set, const struct flow_mark *mark,
                         const struct flow_scope *scope, struct flow_domain *domain)
{
    uint32_t except = FLOW_NO_ELEMENT;
    if (mark->kind == FLOW_MARK_OTHERS && !resolve_word(s, set, &mark->word, scope, &except)) {
        return refuse_word(s, &mark->word);
    }
    for (uint32_t i = 0; i < FLOW_ELEMENTS_MAX; i++) {
        domain->has[i] = i < s->sets[set].elements.count && i != except;
    }
    return true;
}

/* True when the set has this element and no other. */
static bool is_alone(const struct flow_syntax *s, uint32_t set, uint32_t element)
{
    return element != FLOW_NO_ELEMENT && s->sets[set].elements.count == 1;
}

const struct flow_mark *flow_resolve_lack(const struct flow_syntax *s,
                                          const struct flow_atom *atom,
                                          const struct flow_scope *scope)
{
    const struct flow_family *family = flow_resolve_family(s, atom);
    for (uint32_t i = 0; family != NULL && i < atom->marks.count; i++) {
        const struct flow_mark *mark = &s->marks[atom->marks.first + i];
        uint32_t element = FLOW_NO_ELEMENT;
        bool is_word = mark->kind != FLOW_MARK_ALL &&
                       resolve_word(s, family->sets[i], &mark->word, scope, &element);
        bool lacks = mark->kind == FLOW_MARK_ONE ? !is_word || element == FLOW_NO_ELEMENT
                                                 : is_alone(s, family->sets[i], element);
        if (lacks) {
            return mark;
        }
    }
    return NULL;
}

const struct flow_word *flow_resolve_index(const struct flow_syntax *s,
                                           const struct flow_atom *atom,
                                           const struct flow_scope *scope)
{
    uint32_t set = flow_set_named(s, atom->token.at, atom->token.bytes);
    if (set == UINT32_MAX || atom->marks.count > 0) {
        return NULL;
    }
    uint32_t element = element_of(scope, set);
    return element != FLOW_NO_ELEMENT ? word_at(s, set, element) : NULL;
}
