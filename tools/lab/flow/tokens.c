/* SPDX-License-Identifier: MIT */
/*
 * What: tokens without words: of literals, of cells, and of what workflows' calls answer.
 *
 *   a byte of a literal          its value
 *   s:NAME:N, a cell NAME:N      N tokens: hashes of (NAME, position)
 *   an answer                    hashes of (its prompt, position): equal prompts, equal answers
 *
 * Invariants: every id is below vocab_tokens; only the token that ends an answer is eos_id. A text
 * of a flow file that is special is a list of markers (tools/flow); a cell begins with
 * LAB_FLOW_CELL.
 */
#include <stdlib.h>
#include <string.h>

#include "config/base/assert.h"
#include "config/base/fnv.h"
#include "tools/flow/synthetic.h"
#include "tools/lab/lab.h"

#define IDS_FIRST   1024u           /* of hashes: above bytes and EOS */

static uint32_t id_at(uint32_t key, uint32_t index, uint32_t vocab_tokens)
{
    uint32_t x = (index + 1) * UINT32_C(0x9e3779b1) ^ key;
    x = (x ^ x >> 16) * UINT32_C(0x85ebca6b);
    x = (x ^ x >> 13) * UINT32_C(0xc2b2ae35);
    return IDS_FIRST + (uint32_t)((uint64_t)(x ^ x >> 16) * (vocab_tokens - IDS_FIRST) >> 32);
}

static uint32_t key_of(const void *bytes, uint64_t count)
{
    uint64_t hash = fnv_add(FNV_START, bytes, count);
    return (uint32_t)(hash ^ hash >> 32);
}

static uint32_t encode_synthetic(const struct lab_flow *flow,
                                 const struct flow_synthetic_name *what, uint32_t *tokens,
                                 uint32_t max)
{
    uint32_t key = key_of(what->name, what->name_bytes);
    for (uint32_t i = 0; i < what->count && what->count <= max; i++) {
        tokens[i] = id_at(key, i, flow->vocab_tokens);
    }
    return what->count <= max ? what->count : UINT32_MAX;
}

/* The markers of a flow file, one after the other. */
static uint32_t encode_markers(const struct lab_flow *flow, const struct workflow_text *part,
                               uint32_t *tokens, uint32_t max)
{
    struct flow_synthetic_name what;
    size_t at = 0;
    uint32_t count = 0;
    while (flow_synthetic_next(part->bytes, part->count, &at, &what)) {
        uint32_t more = encode_synthetic(flow, &what, tokens + count, max - count);
        if (more == UINT32_MAX) {
            return UINT32_MAX;
        }
        count += more;
    }
    return count;
}

static uint32_t encode_bytes(const char *bytes, uint32_t count, uint32_t *tokens, uint32_t max)
{
    for (uint32_t i = 0; i < count && count <= max; i++) {
        tokens[i] = (uint8_t)bytes[i];
    }
    return count <= max ? count : UINT32_MAX;
}

static uint32_t encode_part(const struct lab_flow *flow, const struct workflow_text *part,
                            uint32_t *tokens, uint32_t max)
{
    struct flow_synthetic_name cell;
    if (part->parse_special) {
        return encode_markers(flow, part, tokens, max);
    }
    if (part->count > 0 && part->bytes[0] == LAB_FLOW_CELL &&
        flow_synthetic_read(part->bytes + 1, part->count - 1, &cell)) {
        return encode_synthetic(flow, &cell, tokens, max);
    }
    return encode_bytes(part->bytes, part->count, tokens, max);
}

uint32_t lab_flow_encode(void *self, const struct workflow_literal *literal, uint32_t *tokens,
                         uint32_t max)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < literal->parts_count; i++) {
        uint32_t more = encode_part(self, &literal->parts[i], tokens + count, max - count);
        if (more == UINT32_MAX) {
            return UINT32_MAX;
        }
        count += more;
    }
    return count;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* est of its operator, scaled by its row. */
static uint32_t length_of(const struct lab *lab, const struct call *call)
{
    const struct workflow *flow = &lab->loop.workflows.workflows[call->workflow];
    const struct workflow_node *node = &flow->nodes[call->instance % flow->nodes_count];
    const struct workflow_row *row = &flow->rows[call->instance / flow->nodes_count];
    const struct lab_client *client = &lab->flow.clients[flow->flow_id - 1];
    const struct lab_rows *rows = &lab->flow.rows[client->batch];
    uint64_t length = (uint64_t)node->est_tokens * rows->percent[client->rows_first + row->number];
    length = length / 100 > 0 ? length / 100 : 1;
    return (uint32_t)(length < node->max_tokens ? length : node->max_tokens);
}

/* Looks at the prompt once. */
static const struct lab_flow_call *answer_of(struct lab *lab, uint32_t slot)
{
    const struct call *call = &lab->loop.calls.calls[slot];
    struct lab_flow_call *known = &lab->flow.calls[slot];
    if (known->length == 0 || known->generation != call->generation) {
        *known = (struct lab_flow_call){
            call->generation, key_of(call->tokens, call->prompt_tokens * sizeof *call->tokens),
            length_of(lab, call)};
    }
    return known;
}

uint32_t lab_flow_left(struct lab *lab, uint32_t slot, uint32_t known)
{
    const struct call *call = &lab->loop.calls.calls[slot];
    uint32_t length = answer_of(lab, slot)->length;
    uint32_t all = length < call->max_tokens ? length + 1 : length;
    ASSERT(known < all);
    return all - known;
}

uint32_t lab_flow_token(const struct lab *lab, uint32_t slot, uint32_t index)
{
    const struct lab_flow_call *answer = &lab->flow.calls[slot];
    return index == answer->length ? lab->flow.eos_id
                                   : id_at(answer->key, index, lab->flow.vocab_tokens);
}
