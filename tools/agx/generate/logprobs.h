/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: log probabilities as lines, one for each token: its id and its own, then the alternatives
 * there, the most probable first.
 *
 *     278 -0.4213   278:-0.4213 411:-1.9020
 */
#include <inttypes.h>
#include <stdio.h>

#include "tools/command_line.h"
#include "tools/sdk/agx.h"

#define LOGPROBS_NONE UINT32_MAX            /* the option was not given */
#define LOGPROBS_ROW(count)                                                                   \
    {"--logprobs", "N", ARGUMENT_U32, &(count), 0, AGX_TOP_LOGPROBS_MAX,                      \
     "for each token a line, instead of text: its id and log probability,\n"                  \
     "and those of the N most probable tokens there"}

static inline void logprobs_print(const struct agx_event *event)
{
    for (uint32_t i = 0; i < event->tokens_count; i++) {
        const struct agx_logprob *each = event->logprobs + (size_t)i * event->logprobs_each;
        printf("%" PRIu32 " %.4f", each[0].token, (double)each[0].logprob);
        for (uint32_t k = 1; k < event->logprobs_each; k++) {
            printf("%s%" PRIu32 ":%.4f", k == 1 ? "   " : " ", each[k].token,
                   (double)each[k].logprob);
        }
        printf("\n");
    }
}
