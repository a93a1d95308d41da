/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the options that change a call's logits: penalties that count tokens, and biases. Of their
 * ranges the library judges those that a row cannot say.
 */
#include <stdlib.h>

#include "tools/command_line.h"
#include "tools/sdk/agx.h"

struct adjustment {
    struct argument_texts texts;        /* "ID=NUMBER" each */
    struct agx_bias biases[AGX_BIASES_MAX];
};

#define ADJUSTMENT_ROWS(call, adjustment)                                                     \
    {"--presence-penalty", "P", ARGUMENT_F32, &(call)->presence_penalty, -2, 2,               \
     "of tokens that were generated; 0: off (default)"},                                      \
    {"--frequency-penalty", "P", ARGUMENT_F32, &(call)->frequency_penalty, -2, 2,             \
     "for each time that they were; 0: off (default)"},                                       \
    {"--logit-bias", "ID=B", ARGUMENT_TEXTS, &(adjustment).texts, 0, AGX_BIASES_MAX,          \
     "adds B (-100 .. 100) to the logit of a token; up to 64"}

static inline bool adjustment_read_bias(const char *text, struct agx_bias *bias)
{
    char *end = NULL;
    unsigned long token = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '=' || token > UINT32_MAX) {
        return false;
    }
    const char *number = end + 1;
    *bias = (struct agx_bias){(uint32_t)token, strtof(number, &end)};
    return end != number && *end == '\0';
}

/* Into the call. ARGUMENT_GO_ON, or EXIT_USAGE after a message. */
static inline int adjustment_fill(struct adjustment *adjustment, struct agx_call *call)
{
    for (uint32_t i = 0; i < adjustment->texts.count; i++) {
        if (!adjustment_read_bias(adjustment->texts.texts[i], &adjustment->biases[i])) {
            fprintf(stderr, "agx: --logit-bias: '%s' is not ID=NUMBER\n",
                    adjustment->texts.texts[i]);
            return EXIT_USAGE;
        }
    }
    call->biases = adjustment->biases;
    call->biases_count = adjustment->texts.count;
    return ARGUMENT_GO_ON;
}
