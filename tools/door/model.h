/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the model that the appliance serves, read from the same file: its vocabulary, to count and
 * show tokens, and the chat format that its template is. No weights.
 */
#include "config/config.h"
#include "config/vocab/vocab.h"
#include "tools/sdk/agx.h"

struct model {
    char name[65];
    struct vocab vocab;
    struct chat_format format;
    enum chat_verdict verdict;
    bool has_control_marks;                 /* calls begin with control tokens: [TOOL_CALLS] */
    uint64_t vocab_digest, chat_digest;     /* what the appliance has to say of its own */
    /* private */
    struct vocab_scratch scratch;
    uint32_t *ids;                          /* of the last model_encode() */
    uint32_t ids_max;
};

/* Reads model.path, or the embedded model; takes memory for texts of `text_bytes_max`. Once. */
MUST_CHECK enum status model_load(struct model *model, const struct options *options,
                                  uint32_t text_bytes_max, struct config_error *error);
/* NULL: the appliance, which has answered agx_model_ask() with `told`, serves this model; else what
 * differs. `told` NULL: it has only greeted. */
const char *model_difference(const struct model *model, const struct agx_welcome *welcome,
                             const struct agx_event *told);
/* The tokens that the appliance will make of a text, BOS not counted; they stay until the next
 * call. False: the text is too long. */
bool model_encode(struct model *model, const struct vocab_input *input, const uint32_t **ids,
                  uint32_t *count);
