/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the frames of workflows as structs, and how to walk through the lists in them. Part of
 * net/wire.h, which includes it; net/wire_workflow.c has the code.
 *
 * A list stays in the frame as bytes: a workflow has up to 2^16 nodes, and a struct for each would
 * need memory. wire_flow_open_decode() has looked at every element, so a walk over what it accepted
 * cannot fail.
 */
#include <stdbool.h>
#include <stdint.h>

#include "net/bytes.h"
#include "config/base/call.h"
#include "config/base/status.h"

#define WIRE_NODE_NAME_BYTES 32
#define WIRE_EST_MAX         (1u << 20)
#define WIRE_IS_TEXT         (UINT32_C(1) << 31)    /* of an operand: it is the index of a text */
#define WIRE_IS_SPECIAL      (UINT32_C(1) << 31)    /* of a text's length: special tokens are
                                                       found in it */

enum wire_node_kind { WIRE_NODE_INPUT, WIRE_NODE_TEXT, WIRE_NODE_LLM, WIRE_NODE_LAMBDA };

struct wire_flow_open {
    uint64_t flow_id;
    uint8_t program_id[CALL_PROGRAM_ID_BYTES];
    uint32_t flags;
    uint16_t nodes_count, operands_count, outputs_count, texts_count;
    const uint8_t *nodes, *outputs, *texts;     /* into the frame */
    uint32_t nodes_bytes, texts_bytes;
};
struct wire_flow_node {
    uint8_t kind;                   /* enum wire_node_kind */
    uint8_t flags;
    uint32_t operands_count, max_tokens, est_tokens;
    struct call_sampling sampling;
    uint32_t stop_texts_count;
    struct call_stop_text stop_texts[CALL_STOP_TEXTS_MAX];
    char name[WIRE_NODE_NAME_BYTES];
    const uint8_t *operands;        /* into the frame, little-endian, unaligned */
};
struct wire_flow_text {
    const char *bytes;              /* into the frame */
    uint32_t count;
    bool is_special;
};

struct wire_flow_row {
    uint64_t flow_id;
    uint32_t row, columns_count;
    const uint8_t *columns;         /* into the frame */
    uint32_t columns_bytes;
};
struct wire_flow_answer {
    uint64_t flow_id;
    uint32_t row, node, failed;
    const uint8_t *text;            /* into the frame */
    uint32_t text_bytes;
};
struct wire_flow_end { uint64_t flow_id; };         /* FLOW_CLOSE and FLOW_CANCEL */

struct wire_flow_ok { uint64_t flow_id; uint32_t given, pruned, merged, left, rows, flags; };
struct wire_flow_value {
    uint64_t flow_id;
    uint32_t row, output;
    uint32_t first_index, tokens_count, text_bytes, flags;
    const uint8_t *tokens;          /* into the frame, little-endian, unaligned */
    const uint8_t *text;
};
struct wire_flow_ask {
    uint64_t flow_id;
    uint32_t row, node;
    uint32_t first_byte, text_bytes, flags;
    const uint8_t *text;            /* into the frame */
};
struct wire_flow_row_done {
    uint64_t flow_id;
    uint32_t row;
    enum status status;
    uint32_t calls, shared, fetched;
    uint64_t digest;
};
struct wire_flow_done {
    uint64_t flow_id;
    enum status status;
    uint32_t rows;
    uint64_t calls, shared, fetched;
    uint64_t digest;                /* sum of wire_row_digest() over the rows */
};

/* Encoders of frames that end in a list or a text: whole frames, or 0 where `max` is too small. */
uint32_t wire_flow_open_encode(const struct wire_flow_open *frame, uint8_t *bytes, uint32_t max);
uint32_t wire_flow_row_encode(const struct wire_flow_row *frame, uint8_t *bytes, uint32_t max);
uint32_t wire_flow_answer_encode(const struct wire_flow_answer *frame, uint8_t *bytes,
                                 uint32_t max);
/* `tokens` are host integers and stand for frame->tokens, which is not read. */
uint32_t wire_flow_value_encode(const struct wire_flow_value *frame, const uint32_t *tokens,
                                uint8_t *bytes, uint32_t max);
uint32_t wire_flow_ask_encode(const struct wire_flow_ask *frame, uint8_t *bytes, uint32_t max);

/* Walks over lists that a decoder has accepted: a reader over `nodes`, `texts` or `columns`, which
 * moves on by one element. */
void wire_flow_node_next(struct bytes *nodes, struct wire_flow_node *node);
void wire_flow_text_next(struct bytes *texts, struct wire_flow_text *text);
void wire_flow_column_next(struct bytes *columns, struct wire_flow_text *column);

/* The lists of FLOW_OPEN and ROW, for who makes them: one element appended. node->operands and
 * node->stop_texts are written as they are; `special` of a column is ignored. False: no room. */
bool wire_flow_node_put(struct bytes *nodes, const struct wire_flow_node *node);
bool wire_flow_text_put(struct bytes *texts, const struct wire_flow_text *text);
bool wire_flow_column_put(struct bytes *columns, const struct wire_flow_text *column);

/* Of a row with this number whose values have this digest, in the sum of FLOW_DONE. */
uint64_t wire_row_digest(uint32_t row, uint64_t digest);
