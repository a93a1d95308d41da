/* SPDX-License-Identifier: MIT */
#include "tools/flow/record.h"

#include <stdlib.h>
#include <string.h>

#include "net/wire.h"
#include "tools/flow/synthetic.h"

#define INPUT_TOKENS 64                     /* of an input, where the client does not say */
#define TOKENS_MAX   (4u << 20)             /* of all literals */

STATIC_ASSERT(WORKFLOW_INPUTS_MAX >= AGX_FLOW_NODES_MAX, "all nodes may be inputs");
STATIC_ASSERT(TOKENS_MAX == 4194304 && FLOW_SYMBOL_NAMES_MAX == 4000 &&
              sizeof ((struct flow_symbols *)0)->names[0].text == 64 &&
              AGX_FLOW_COUNT_MAX + 1 == 65536, "the messages say so");
static const char too_many_tokens[] = "all literals together have more than 4194304 tokens";
static const char too_many_names[] = "more than 4000 names of s:NAME:N";
static const char too_long_a_name[] = "the name in an s:NAME:N has more than 64 bytes";
/* The bounds of config/workflow/compose.c, and of take_record(). */
static const char too_long[] =
    "its prompts are too long: all together have at most 65536 pieces, and 16 MiB";

/* ---- symbols --------------------------------------------------------------------------------- */

#define SYMBOL_POSITION_BITS 20             /* s:NAME:N has at most 2^20 tokens */

/* The number of the name, from 1; 0: there are too many, or it is too long. */
static uint32_t name_number(struct flow_symbols *symbols, const struct flow_synthetic_name *what)
{
    uint32_t i = 0;
    while (i < symbols->names_count &&
           (symbols->names[i].bytes != what->name_bytes ||
            memcmp(symbols->names[i].text, what->name, what->name_bytes) != 0)) {
        i++;
    }
    if (i == symbols->names_count) {
        bool is_long = what->name_bytes > sizeof symbols->names[0].text;
        if (i == FLOW_SYMBOL_NAMES_MAX || is_long) {
            symbols->fault = is_long ? too_long_a_name : too_many_names;
            return 0;
        }
        memcpy(symbols->names[i].text, what->name, what->name_bytes);
        symbols->names[i].bytes = what->name_bytes;
        symbols->names_count++;
    }
    return i + 1;
}

/* Appends the tokens of one part. Returns the new count, or UINT32_MAX. */
static uint32_t encode_part(struct flow_symbols *symbols, const struct workflow_text *part,
                            uint32_t *tokens, struct workflow_span room)
{
    uint32_t count = room.first;
    struct flow_synthetic_name what;
    size_t at = 0;
    while (part->parse_special && flow_synthetic_next(part->bytes, part->count, &at, &what)) {
        uint32_t number = name_number(symbols, &what);
        if (number == 0) {
            return UINT32_MAX;
        }
        if (what.count > room.count - count) {
            symbols->fault = too_many_tokens;
            return UINT32_MAX;
        }
        for (uint32_t i = 0; i < what.count; i++) {
            tokens[count++] = (number << SYMBOL_POSITION_BITS) + i;
        }
    }
    if (!part->parse_special) {
        if (part->count > room.count - count) {
            symbols->fault = too_many_tokens;
            return UINT32_MAX;
        }
        for (uint32_t i = 0; i < part->count; i++) {
            tokens[count++] = (uint8_t)part->bytes[i];
        }
    }
    return count;
}

uint32_t flow_encode_symbols(void *self, const struct workflow_literal *literal, uint32_t *tokens,
                             uint32_t max)
{
    uint32_t count = 0;
    for (uint32_t i = 0; count != UINT32_MAX && i < literal->parts_count; i++) {
        count = encode_part(self, &literal->parts[i], tokens, (struct workflow_span){count, max});
    }
    return count;
}

/* ---- the record ------------------------------------------------------------------------------ */

static void fill_call(struct workflow_call *call, const struct wire_flow_node *from)
{
    memset(call, 0, sizeof *call);          /* nodes are compared byte by byte */
    call->sampling = from->sampling;
    call->ignore_eos = (from->flags & WIRE_FLOW_NODE_IGNORE_EOS) != 0;
    call->stop_texts_count = from->stop_texts_count;
    memcpy(call->stop_texts, from->stop_texts, sizeof call->stop_texts);
}

static void fill_node(struct workflow *w, struct workflow_node *node,
                      const struct wire_flow_node *from)
{
    memset(node, 0, sizeof *node);
    node->kind = (enum workflow_kind)from->kind;
    node->max_tokens = from->max_tokens;
    node->est_tokens = from->est_tokens != 0        ? from->est_tokens
                       : node->kind == WORKFLOW_INPUT ? INPUT_TOKENS
                                                      : from->max_tokens;
    node->same_as = w->nodes_count;
    memcpy(node->name, from->name, sizeof node->name);
    if (node->kind == WORKFLOW_LLM) {
        fill_call(&node->call, from);
    }
    if (node->kind == WORKFLOW_INPUT) {
        w->inputs[w->inputs_count++] = w->nodes_count;
    }
    w->nodes_count++;
}

/* Nodes and operands. */
static void fill_nodes(struct workflow *w, struct workflow_source *source,
                       struct workflow_operand *operands, const struct agx_flow *flow)
{
    struct bytes nodes = bytes_reader(flow->memory + flow->texts_bytes, flow->nodes_bytes);
    for (uint32_t i = 0; i < flow->nodes_count; i++) {
        struct wire_flow_node from;
        wire_flow_node_next(&nodes, &from);
        fill_node(w, &w->nodes[i], &from);
        source->of_node[i] = (struct workflow_span){source->operands_count, from.operands_count};
        struct bytes words = bytes_reader(from.operands,
                                          from.operands_count * (uint32_t)sizeof(uint32_t));
        for (uint32_t k = 0; k < from.operands_count; k++) {
            uint32_t word = 0;
            bytes_u32(&words, &word);
            bool is_text = (word & WIRE_IS_TEXT) != 0;
            operands[source->operands_count++] = (struct workflow_operand){
                is_text ? WORKFLOW_NONE : word, is_text ? word & ~WIRE_IS_TEXT : WORKFLOW_NONE};
        }
    }
    for (uint32_t i = 0; i < flow->outputs_count; i++) {
        w->nodes[flow->outputs[i]].is_output = true;
        w->outputs[w->outputs_count++] = flow->outputs[i];
    }
}

static void fill_texts(struct workflow_source *source, struct workflow_text *texts,
                       const struct agx_flow *flow)
{
    struct bytes reader = bytes_reader(flow->memory, flow->texts_bytes);
    for (uint32_t i = 0; i < flow->texts_count; i++) {
        struct wire_flow_text text;
        wire_flow_text_next(&reader, &text);
        texts[i] = (struct workflow_text){text.bytes, text.count, text.is_special};
    }
    source->texts_count = flow->texts_count;
}

/* What is needed for as long as it is composed. */
struct source_memory {
    struct workflow_source source;
    struct workflow_operand operands[AGX_FLOW_COUNT_MAX];
    struct workflow_text texts[AGX_FLOW_COUNT_MAX];
};

static const char *fill(struct flow_record *record, struct source_memory *memory,
                        const struct agx_flow *flow, const struct workflow_encoder *encoder,
                        uint32_t *node)
{
    struct workflow *w = record->workflow;
    memory->source.operands = memory->operands;
    memory->source.texts = memory->texts;
    memory->source.lists = w->values;       /* there are no rows */
    memory->source.lists_bytes = record->table.limits.value_tokens * sizeof *w->values;
    fill_texts(&memory->source, memory->texts, flow);
    fill_nodes(w, &memory->source, memory->operands, flow);
    return workflow_compose(w, &record->table.limits, &memory->source, encoder, node) == STATUS_OK
               ? NULL
               : too_long;
}

static bool take_record(struct flow_record *record)
{
    const struct workflow_limits limits = {
        .workflows = 1, .nodes = WORKFLOW_NODES_MAX, .pieces = AGX_FLOW_COUNT_MAX + 1,
        .tokens = TOKENS_MAX, .rows = 1, .value_tokens = TOKENS_MAX};
    struct memory_plan plan = {0};
    struct arena arena;
    workflow_table_plan_memory(&plan, &limits);
    uint64_t bytes = memory_plan_bytes(&plan, MEMORY_CORE) +
                     memory_plan_bytes(&plan, MEMORY_KEPT);
    record->memory = aligned_alloc(ARENA_ALIGN_BYTES, bytes);
    if (record->memory == NULL) {
        return false;
    }
    memset(record->memory, 0, bytes);
    arena_init(&arena, record->memory, bytes);
    workflow_table_init(&record->table, &limits, &arena, &arena);
    record->workflow = &record->table.workflows[workflow_take(&record->table, 0)];
    return true;
}

const char *flow_record_fill(struct flow_record *record, const struct agx_flow *flow,
                             const struct workflow_encoder *encoder, uint32_t *node)
{
    struct source_memory *memory = calloc(1, sizeof *memory);
    const char *fault = "more memory than there is";
    memset(record, 0, sizeof *record);
    *node = WORKFLOW_NONE;
    if (memory != NULL && take_record(record)) {
        fault = fill(record, memory, flow, encoder, node);
    }
    free(memory);
    if (fault != NULL) {
        flow_record_free(record);
    }
    return fault;
}

void flow_record_free(struct flow_record *record)
{
    free(record->memory);
    memset(record, 0, sizeof *record);
}
