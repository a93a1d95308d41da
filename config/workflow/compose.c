/* SPDX-License-Identifier: MIT */
/*
 * What: what the nodes of a workflow compose, from the operands that the client named: TEXT nodes
 * are inlined, neighbouring literals are joined to one text, and each text becomes tokens.
 *
 * Method: the operands of a node are walked in depth, with a stack of their own: an operand is an
 * earlier node, so the stack is never deeper than there are nodes. The texts that come between two
 * values are a literal. Literals are equal when their bytes are, and what may be special in them;
 * how the client divided them does not matter. Of equal ones the first is encoded.
 *
 * Bounds: texts within texts within texts can double with each node, so what is walked is counted:
 * WORK_MAX ends it. The lists lie in source->lists: the parts of literals from the front, the
 * literals from the back.
 */
#include <string.h>

#include "config/base/assert.h"
#include "config/base/fnv.h"
#include "config/workflow/compose.h"

/* Bytes that are read, and so many for each operand: some tens of milliseconds at the worst. */
#define WORK_MAX     (16u << 20)
#define WORK_OPERAND 16u
#define BUCKETS      256u

struct literal {
    uint64_t hash;
    uint32_t parts_first, parts_count;
    struct workflow_span tokens;
    uint32_t next;                  /* of its bucket, or WORKFLOW_NONE */
    bool leads;
};

struct composer {
    struct workflow *flow;
    const struct workflow_limits *limits;
    const struct workflow_source *source;
    const struct workflow_encoder *encoder;
    uint64_t work;
    uint64_t lists_bytes;           /* of both lists together, at most */
    struct workflow_text *parts;    /* [parts_count]; those from `open` on are not yet a literal */
    uint32_t parts_count, open;
    struct literal *literals_end;   /* literal i is literals_end[-1 - i] */
    uint32_t literals_count;
    uint32_t buckets[BUCKETS];
};

static struct literal *literal_at(const struct composer *c, uint32_t index)
{
    return &c->literals_end[-1 - (int64_t)index];
}

/* True when the lists have room for so many more. */
static bool lists_fit(const struct composer *c, uint32_t parts, uint32_t literals)
{
    return ((uint64_t)c->parts_count + parts) * sizeof *c->parts +
               ((uint64_t)c->literals_count + literals) * sizeof(struct literal) <=
           c->lists_bytes;
}

static bool work(struct composer *c, uint64_t amount)
{
    c->work += amount;
    return c->work <= WORK_MAX;
}

/* ---- literals -------------------------------------------------------------------------------- */

/* A literal as it is read: where one part ends and the next begins does not show. */
struct reader { const struct workflow_text *part, *end; uint32_t used; };

static struct reader read_parts(const struct composer *c, uint32_t first, uint32_t count)
{
    return (struct reader){c->parts + first, c->parts + first + count, 0};
}

static void skip(struct reader *reader, uint32_t count)
{
    reader->used += count;
    if (reader->used == reader->part->count) {
        reader->part++;
        reader->used = 0;
    }
}

static bool equal(struct reader a, struct reader b)
{
    while (a.part < a.end && b.part < b.end) {
        uint32_t left_a = a.part->count - a.used, left_b = b.part->count - b.used;
        uint32_t count = left_a < left_b ? left_a : left_b;
        if (a.part->parse_special != b.part->parse_special ||
            memcmp(a.part->bytes + a.used, b.part->bytes + b.used, count) != 0) {
            return false;
        }
        skip(&a, count);
        skip(&b, count);
    }
    return a.part == a.end && b.part == b.end;
}

static uint64_t hash_of(struct reader reader, bool leads)
{
    uint64_t hash = fnv_add(FNV_START, &leads, sizeof leads);
    bool special = false;
    for (; reader.part < reader.end; reader.part++) {
        if (special != reader.part->parse_special) {
            special = !special;
            hash = fnv_add(hash, &special, sizeof special);
        }
        hash = fnv_add(hash, reader.part->bytes, reader.part->count);
    }
    return hash;
}

/* The literal that equals the open parts, or NULL. */
static const struct literal *find(const struct composer *c, uint64_t hash, bool leads)
{
    struct reader open = read_parts(c, c->open, c->parts_count - c->open);
    uint32_t i = c->buckets[hash % BUCKETS];
    for (; i != WORKFLOW_NONE; i = literal_at(c, i)->next) {
        const struct literal *literal = literal_at(c, i);
        if (literal->hash == hash && literal->leads == leads &&
            equal(read_parts(c, literal->parts_first, literal->parts_count), open)) {
            return literal;
        }
    }
    return NULL;
}

/* The open parts become a literal with tokens of its own. NULL: there is no room. */
static const struct literal *encode(struct composer *c, uint64_t hash, bool leads)
{
    struct workflow *flow = c->flow;
    const struct workflow_literal text = {.parts = c->parts + c->open, .leads = leads,
                                          .parts_count = c->parts_count - c->open};
    if (!lists_fit(c, 0, 1)) {
        return NULL;
    }
    uint32_t count = c->encoder->encode(c->encoder->self, &text, flow->tokens + flow->tokens_count,
                                        c->limits->tokens - flow->tokens_count);
    if (count == UINT32_MAX) {
        return NULL;
    }
    struct literal *literal = literal_at(c, c->literals_count);
    *literal = (struct literal){.hash = hash, .leads = leads, .parts_first = c->open,
                                .parts_count = text.parts_count,
                                .tokens = {flow->tokens_count, count},
                                .next = c->buckets[hash % BUCKETS]};
    c->buckets[hash % BUCKETS] = c->literals_count++;
    flow->tokens_count += count;
    c->open = c->parts_count;
    return literal;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static enum status add_piece(struct composer *c, struct workflow_node *node,
                             const struct workflow_piece *piece)
{
    if (c->flow->pieces_count == c->limits->pieces) {
        return STATUS_BUSY_SPACE;
    }
    c->flow->pieces[c->flow->pieces_count++] = *piece;
    node->pieces_count++;
    return STATUS_OK;
}

/* The texts since the last value are a literal; none, or empty ones, are nothing. */
static enum status end_literal(struct composer *c, struct workflow_node *node)
{
    if (c->parts_count == c->open) {
        return STATUS_OK;
    }
    /* What a lambda gets and what a client reads is no prompt. */
    bool leads = node->kind == WORKFLOW_LLM && node->pieces_count == 0;
    uint64_t hash = hash_of(read_parts(c, c->open, c->parts_count - c->open), leads);
    const struct literal *literal = find(c, hash, leads);
    if (literal != NULL) {
        c->parts_count = c->open;
    } else {
        literal = encode(c, hash, leads);
    }
    struct workflow_piece piece = {.node = WORKFLOW_NONE};
    if (literal == NULL) {
        return STATUS_BUSY_SPACE;
    }
    piece.tokens = literal->tokens;
    return piece.tokens.count > 0 ? add_piece(c, node, &piece) : STATUS_OK;
}

static enum status add_text(struct composer *c, uint32_t index)
{
    ASSERT(index < c->source->texts_count);
    const struct workflow_text *text = &c->source->texts[index];
    if (text->count == 0) {
        return STATUS_OK;
    }
    if (!work(c, text->count) || !lists_fit(c, 1, 0)) {
        return STATUS_BUSY_SPACE;
    }
    c->parts[c->parts_count++] = *text;
    return STATUS_OK;
}

static enum status add_value(struct composer *c, struct workflow_node *node, uint32_t value)
{
    struct workflow_piece piece = {.node = value};
    TRY(end_literal(c, node));
    return add_piece(c, node, &piece);
}

/* The operands of `index` in their order, those of a TEXT node in its place. */
static enum status compose_node(struct composer *c, uint32_t index)
{
    struct workflow_node *node = &c->flow->nodes[index];
    struct workflow_span stack[WORKFLOW_NODES_MAX];     /* operands left at each depth */
    uint32_t depth = 1;
    stack[0] = c->source->of_node[index];
    while (depth > 0) {
        struct workflow_span *at = &stack[depth - 1];
        if (at->count == 0) {
            depth--;
            continue;
        }
        ASSERT(at->first < c->source->operands_count);
        const struct workflow_operand *operand = &c->source->operands[at->first++];
        at->count--;
        ASSERT(operand->node == WORKFLOW_NONE || operand->node < index);
        if (!work(c, WORK_OPERAND)) {
            return STATUS_BUSY_SPACE;
        }
        if (operand->node == WORKFLOW_NONE) {
            TRY(add_text(c, operand->text));
        } else if (c->flow->nodes[operand->node].kind == WORKFLOW_TEXT) {
            ASSERT(depth < WORKFLOW_NODES_MAX);
            stack[depth++] = c->source->of_node[operand->node];
        } else {
            TRY(add_value(c, node, operand->node));
        }
    }
    return end_literal(c, node);
}

static void begin(struct composer *c)
{
    struct workflow *flow = c->flow;
    uintptr_t first = (uintptr_t)c->source->lists, align = sizeof(uint64_t);
    uintptr_t end = first + c->source->lists_bytes;
    first = (first + align - 1) / align * align;
    end = end / align * align;
    c->parts = (struct workflow_text *)first;
    c->literals_end = (struct literal *)end;
    c->lists_bytes = end > first ? end - first : 0;
    memset(c->buckets, 0xff, sizeof c->buckets);
    flow->pieces_count = flow->tokens_count = 0;
}

enum status workflow_compose(struct workflow *flow, const struct workflow_limits *limits,
                             const struct workflow_source *source,
                             const struct workflow_encoder *encoder, uint32_t *node)
{
    struct composer c = {.flow = flow, .limits = limits, .source = source, .encoder = encoder};
    begin(&c);
    for (uint32_t i = 0; i < flow->nodes_count; i++) {
        flow->nodes[i].pieces_first = flow->pieces_count;
        flow->nodes[i].pieces_count = 0;
        /* A TEXT node lives in those that read it; what it is by itself only an output shows. */
        if (flow->nodes[i].kind == WORKFLOW_TEXT && !flow->nodes[i].is_output) {
            continue;
        }
        *node = i;
        TRY(compose_node(&c, i));
    }
    return STATUS_OK;
}

/* ---- columns --------------------------------------------------------------------------------- */

static bool is_read(const struct workflow *flow, uint32_t input, bool leads)
{
    for (uint32_t i = 0; i < flow->nodes_count; i++) {
        const struct workflow_node *node = &flow->nodes[i];
        for (uint32_t p = 0; p < node->pieces_count; p++) {
            if (flow->pieces[node->pieces_first + p].node == input &&
                leads == (p == 0 && node->kind == WORKFLOW_LLM)) {
                return true;
            }
        }
    }
    return false;
}

bool workflow_input_leads(const struct workflow *flow, uint32_t node)
{
    return is_read(flow, node, true);
}

bool workflow_input_follows(const struct workflow *flow, uint32_t node)
{
    return flow->nodes[node].is_output || is_read(flow, node, false);
}
