/* SPDX-License-Identifier: MIT */
/*
 * What: texts of a workflow into tokens of the vocabulary.
 *
 * How: a literal of several parts is one text, so they are joined first. Where only some of the
 * parts may hold special tokens, the others are quoted, as in a CALL with parts. A text that does
 * not begin its prompt goes on what comes before, so it gets no space prefix.
 *
 * Bounds: no text is longer than the tokenizer's scratch; at most PARTS_MAX changes between parts
 * with special tokens and without.
 */
#include "net/workflow/workflow.h"

#include <string.h>

#include "net/bytes.h"

#define PARTS_MAX 512

struct joined {
    char *text;
    uint32_t count;
    uint32_t lengths[PARTS_MAX];    /* special, quoted, special, ... */
    uint32_t lengths_count;
    bool any_special;
};

/* False where it does not fit. */
static bool join(const struct net_flow_intake *intake, const struct workflow_literal *literal,
                 struct joined *joined)
{
    *joined = (struct joined){.text = intake->literal, .lengths_count = 1};
    for (uint32_t i = 0; i < literal->parts_count; i++) {
        const struct workflow_text *part = &literal->parts[i];
        bool is_special = joined->lengths_count % 2 == 1;
        if (part->count > intake->literal_bytes_max - joined->count) {
            return false;
        }
        if (part->parse_special != is_special) {
            if (joined->lengths_count == PARTS_MAX) {
                return false;
            }
            joined->lengths_count++;
        }
        joined->any_special = joined->any_special || part->parse_special;
        memcpy(joined->text + joined->count, part->bytes, part->count);
        joined->count += part->count;
        joined->lengths[joined->lengths_count - 1] += part->count;
    }
    return true;
}

uint32_t net_flow_encode(void *self, const struct workflow_literal *literal, uint32_t *tokens,
                         uint32_t max)
{
    struct net *net = self;
    uint8_t lengths[PARTS_MAX * sizeof(uint32_t)];
    struct bytes list = bytes_writer(lengths, sizeof lengths);
    struct joined joined;
    if (net->encoder != NULL) {
        return net->encoder->encode(net->encoder->self, literal, tokens, max);
    }
    if (!join(&net->flow_intake, literal, &joined)) {
        return UINT32_MAX;
    }
    for (uint32_t i = 0; i < joined.lengths_count; i++) {
        bytes_u32(&list, &joined.lengths[i]);
    }
    const struct vocab_input input = {
        .text = joined.text, .bytes = joined.count, .parse_special = joined.any_special,
        .no_space_prefix = !literal->leads,
        .parts = lengths, .parts_count = joined.any_special ? joined.lengths_count : 0};
    struct vocab_output output = {.tokens = tokens, .max = max};
    if (joined.count == 0) {
        return 0;
    }
    return vocab_encode(net->vocab, &net->scratch, &input, &output) == STATUS_OK ? output.count
                                                                                 : UINT32_MAX;
}
