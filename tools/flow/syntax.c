/* SPDX-License-Identifier: MIT */
/*
 * What: the statements of a flow file.
 *
 *   each NAME = ELEMENT ... | A..B
 *   input NAME[INDEX,...]=EST ...
 *   text | llm | lambda NAME[INDEX,...] OPTION=VALUE ... = PIECE ...
 *   output NAME[MARK,...] ...
 *
 * Names need not be known before they are used: expand.c finds them. Bounds: linear but for the
 * search of names; lists of fixed length, and no recursion, since groups hold no groups.
 */
#include "tools/flow/syntax.h"

#include <stdio.h>
#include <string.h>

bool flow_advance(struct flow_syntax *s)
{
    return flow_lexer_next(&s->lexer, &s->token);
}

static bool refuse(const struct flow_syntax *s, const char *expected)
{
    return flow_refuse(&s->lexer, &s->token, expected);
}

static bool take_sign(struct flow_syntax *s, char sign, const char *expected)
{
    return flow_is_sign(&s->token, sign) ? flow_advance(s) : refuse(s, expected);
}

static bool is_end(const struct flow_syntax *s)
{
    return s->token.kind == FLOW_STATEMENT_END;
}

static bool is_letter(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_';
}

static bool take_name(struct flow_syntax *s, struct flow_token *name)
{
    *name = s->token;
    bool good = s->token.kind == FLOW_WORD && is_letter(name->at[0]);
    for (uint32_t i = 0; good && i < name->bytes; i++) {
        char byte = name->at[i];
        good = is_letter(byte) || (byte >= '0' && byte <= '9') || byte == '-' || byte == '.';
    }
    return good ? flow_advance(s) : refuse(s, "a name: a letter or _, then letters, digits, _ . -");
}

uint32_t flow_set_named(const struct flow_syntax *s, const char *name, size_t bytes)
{
    for (uint32_t i = 0; i < s->sets_count; i++) {
        const struct flow_token *set = &s->sets[i].name;
        if (set->bytes == bytes && memcmp(set->at, name, bytes) == 0) {
            return i;
        }
    }
    return UINT32_MAX;
}

uint32_t flow_family_named(const struct flow_syntax *s, const struct flow_token *name)
{
    for (uint32_t i = 0; i < s->families_count; i++) {
        if (flow_same_word(&s->families[i].name, name)) {
            return i;
        }
    }
    return UINT32_MAX;
}

/* ---- each ------------------------------------------------------------------------------------ */

static bool add_element(struct flow_syntax *s, struct flow_set *set, const char *text,
                        size_t bytes)
{
    struct flow_word *word = &s->words[s->words_count];
    if (bytes >= sizeof word->text) {
        return refuse(s, "an element of at most 31 bytes");
    }
    if (set->elements.count == FLOW_ELEMENTS_MAX || s->words_count == FLOW_WORDS_MAX) {
        return refuse(s, "at most 256 elements");
    }
    for (uint32_t i = set->elements.first; i < s->words_count; i++) {
        if (s->words[i].bytes == bytes && memcmp(s->words[i].text, text, bytes) == 0) {
            return refuse(s, "each element once");
        }
    }
    memcpy(word->text, text, bytes);
    word->bytes = (uint32_t)bytes;
    s->words_count++;
    set->elements.count++;
    return true;
}

/* A..B, whose dots are at `dots`. */
static bool add_range(struct flow_syntax *s, struct flow_set *set, const char *dots)
{
    const struct flow_token *word = &s->token;
    size_t before = (size_t)(dots - word->at);
    uint64_t first, last;
    if (!flow_number(word->at, before, INT32_MAX, &first) ||
        !flow_number(dots + 2, word->bytes - before - 2, INT32_MAX, &last)) {
        return refuse(s, "a range A..B of two whole numbers, each 0 .. 2147483647, such as 1..4");
    }
    if (first > last) {
        return refuse(s, "a range that goes upwards");
    }
    for (uint64_t i = first; i <= last; i++) {
        char digits[16];
        int bytes = snprintf(digits, sizeof digits, "%u", (unsigned)i);
        if (!add_element(s, set, digits, (size_t)bytes)) {
            return false;
        }
    }
    return true;
}

/* An element, or all of a range. Two dots make a range: a slip of the pen is no element. */
static bool read_elements(struct flow_syntax *s, struct flow_set *set)
{
    if (s->token.kind != FLOW_WORD) {
        return refuse(s, "an element or a range, such as anna or 1..4");
    }
    const char *dots = memmem(s->token.at, s->token.bytes, "..", 2);
    bool added = dots != NULL ? add_range(s, set, dots)
                              : add_element(s, set, s->token.at, s->token.bytes);
    return added && flow_advance(s);
}

static bool read_each(struct flow_syntax *s)
{
    if (s->sets_count == FLOW_SETS_MAX) {
        return refuse(s, "at most 64 sets");
    }
    struct flow_set *set = &s->sets[s->sets_count];
    *set = (struct flow_set){.elements = {s->words_count, 0}};
    if (flow_set_named(s, s->token.at, s->token.bytes) != UINT32_MAX) {
        return refuse(s, "a new name");
    }
    if (!take_name(s, &set->name) || !take_sign(s, '=', "=")) {
        return false;
    }
    do {
        if (!read_elements(s, set)) {
            return false;
        }
    } while (!is_end(s));
    s->sets_count++;
    return true;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static bool read_mark(struct flow_syntax *s, struct flow_atom *atom)
{
    if (s->marks_count == FLOW_MARKS_MAX || atom->marks.count == FLOW_INDICES_MAX) {
        return refuse(s, "fewer indices");
    }
    struct flow_mark *mark = &s->marks[s->marks_count++];
    atom->marks.count++;
    mark->kind = flow_is_sign(&s->token, '*')   ? FLOW_MARK_ALL
                 : flow_is_sign(&s->token, '!') ? FLOW_MARK_OTHERS
                                                : FLOW_MARK_ONE;
    if (mark->kind != FLOW_MARK_ONE && !flow_advance(s)) {
        return false;
    }
    mark->word = s->token;
    if (mark->kind == FLOW_MARK_ALL) {
        return true;
    }
    return s->token.kind == FLOW_WORD ? flow_advance(s) : refuse(s, "*, !INDEX or an index");
}

/* The brackets of a name, if there are any. */
static bool read_marks(struct flow_syntax *s, struct flow_atom *atom)
{
    atom->marks = (struct flow_span){s->marks_count, 0};
    if (!flow_is_sign(&s->token, '[')) {
        return true;
    }
    do {
        if (!flow_advance(s) || !read_mark(s, atom)) {
            return false;
        }
    } while (flow_is_sign(&s->token, ','));
    return take_sign(s, ']', ", or ]");
}

static bool read_atom(struct flow_syntax *s)
{
    if (s->atoms_count == FLOW_ATOMS_MAX) {
        return refuse(s, "fewer pieces");
    }
    struct flow_atom *atom = &s->atoms[s->atoms_count++];
    *atom = (struct flow_atom){.token = s->token};
    if (s->token.kind == FLOW_WORD) {
        bool is_synthetic = s->token.bytes >= 2 && memcmp(s->token.at, "s:", 2) == 0;
        atom->kind = is_synthetic ? FLOW_ATOM_SYNTHETIC : FLOW_ATOM_NAME;
        return is_synthetic ? flow_advance(s)
                            : take_name(s, &atom->token) && read_marks(s, atom);
    }
    atom->kind = flow_is_sign(&s->token, '{')   ? FLOW_ATOM_GROUP
                 : flow_is_sign(&s->token, '}') ? FLOW_ATOM_GROUP_END
                                                : FLOW_ATOM_STRING;
    if (atom->kind == FLOW_ATOM_STRING && s->token.kind != FLOW_STRING) {
        return refuse(s, "a piece: \"text\", a name, s:NAME:N or {");
    }
    return flow_advance(s);
}

static bool read_pieces(struct flow_syntax *s, struct flow_family *family)
{
    bool in_group = false;
    family->atoms.first = s->atoms_count;
    while (!is_end(s)) {
        if (flow_is_sign(&s->token, in_group ? '{' : '}')) {
            return refuse(s, in_group ? "}: a group holds no group" : "{ before it");
        }
        in_group = flow_is_sign(&s->token, '{') || (in_group && !flow_is_sign(&s->token, '}'));
        if (!read_atom(s)) {
            return false;
        }
    }
    family->atoms.count = s->atoms_count - family->atoms.first;
    return !in_group || refuse(s, "}");
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool read_indices(struct flow_syntax *s, struct flow_family *family)
{
    if (!flow_is_sign(&s->token, '[')) {
        return true;
    }
    do {
        if (!flow_advance(s)) {
            return false;
        }
        uint32_t set = flow_set_named(s, s->token.at, s->token.bytes);
        for (uint32_t i = 0; i < family->sets_count; i++) {
            set = family->sets[i] == set ? UINT32_MAX : set;
        }
        if (s->token.kind != FLOW_WORD || set == UINT32_MAX ||
            family->sets_count == FLOW_INDICES_MAX) {
            return refuse(s, "the name of an `each` above, once, and at most 8 of them");
        }
        family->sets[family->sets_count++] = set;
        if (!flow_advance(s)) {
            return false;
        }
    } while (flow_is_sign(&s->token, ','));
    return take_sign(s, ']', ", or ]");
}

static bool read_family(struct flow_syntax *s, enum agx_node kind, struct flow_family **family)
{
    if (s->families_count == AGX_FLOW_NODES_MAX) {
        return refuse(s, "at most 256 nodes");
    }
    struct flow_family *new = *family = &s->families[s->families_count];
    memset(new, 0, sizeof *new);
    new->kind = kind;
    if (s->token.kind == FLOW_WORD && flow_family_named(s, &s->token) != UINT32_MAX) {
        return refuse(s, "a new name");
    }
    if (!take_name(s, &new->name) || !read_indices(s, new)) {
        return false;
    }
    s->families_count++;
    return true;
}

static bool read_inputs(struct flow_syntax *s)
{
    do {
        struct flow_family *family;
        uint64_t est = 0;
        if (!read_family(s, AGX_NODE_INPUT, &family)) {
            return false;
        }
        if (flow_is_sign(&s->token, '=')) {
            if (!flow_advance(s)) {
                return false;
            }
            if (s->token.kind != FLOW_WORD ||
                !flow_number(s->token.at, s->token.bytes, 1u << 20, &est) || est == 0) {
                return refuse(s, "how many tokens it has, about: 1 .. 1048576");
            }
            if (!flow_advance(s)) {
                return false;
            }
        }
        family->how.est_tokens = (uint32_t)est;
    } while (!is_end(s));
    return true;
}

static bool read_operator(struct flow_syntax *s, enum agx_node kind)
{
    struct flow_family *family;
    return read_family(s, kind, &family) && flow_options_read(s, family) &&
           take_sign(s, '=', "=") && read_pieces(s, family);
}

static bool read_outputs(struct flow_syntax *s)
{
    if (s->outputs_count == AGX_FLOW_NODES_MAX) {
        return refuse(s, "at most 256 lines of outputs");
    }
    struct flow_span *outputs = &s->outputs[s->outputs_count++];
    outputs->first = s->atoms_count;
    do {
        if (!read_atom(s)) {
            return false;
        }
        const struct flow_atom *atom = &s->atoms[s->atoms_count - 1];
        if (atom->kind != FLOW_ATOM_NAME) {
            return flow_refuse(&s->lexer, &atom->token, "the name of a node");
        }
    } while (!is_end(s));
    outputs->count = s->atoms_count - outputs->first;
    return true;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool read_statement(struct flow_syntax *s)
{
    static const char *const words[] = {"input", "text", "llm", "lambda", "each", "output"};
    uint32_t word = 0;
    while (word < 6 && !flow_is_word(&s->token, words[word])) {
        word++;
    }
    if (word == 6) {
        return refuse(s, "each, input, text, llm, lambda or output");
    }
    if (!flow_advance(s)) {
        return false;
    }
    switch (word) {
    case 0:
        return read_inputs(s);
    case 4:
        return read_each(s);
    case 5:
        return read_outputs(s);
    default:
        return read_operator(s, (enum agx_node)word);
    }
}

static bool read_title(struct flow_syntax *s)
{
    if (!flow_is_word(&s->token, "agentix-flow")) {
        return refuse(s, "agentix-flow 1");
    }
    if (!flow_advance(s)) {
        return false;
    }
    return flow_is_word(&s->token, "1") ? flow_advance(s) : refuse(s, "version 1");
}

/* The statement is over, and so is its last token. */
static bool end_statement(struct flow_syntax *s)
{
    return is_end(s) ? flow_advance(s) : refuse(s, "the end of the statement");
}

bool flow_syntax_read(struct flow_syntax *s)
{
    if (!flow_advance(s) || !read_title(s) || !end_statement(s)) {
        return false;
    }
    while (s->token.kind != FLOW_FILE_END) {
        if (!read_statement(s) || !end_statement(s)) {
            return false;
        }
    }
    return s->outputs_count > 0 || refuse(s, "an output");
}
