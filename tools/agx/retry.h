/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what a command does with a busy answer: it sends the same request again after the pause
 * that the library names, a bounded number of times.
 */
#include <stdbool.h>
#include <stdint.h>

#include "tools/sdk/agx.h"

#define RETRY_OF_ONE  8         /* a person waits for one call: seconds */
#define RETRY_OF_MANY 100       /* many calls wait for the same places: about a minute each */

/* A row of a command line, for a command whose default is one of these. */
#define RETRY_TEXT(number) #number
#define RETRY_ROW(retry, most) \
    {"--retries", "N", ARGUMENT_U32, &(retry).tries_max, 0, UINT32_MAX, \
     "how often a request that finds it busy is made again (default " RETRY_TEXT(most) ")"}

struct retry {
    uint32_t tries_max;         /* of one request; 0: none */
    uint64_t lot;               /* seed of the pauses: agx_retry_ms() */
    uint64_t waits;             /* pauses so far */
};

/* A request was refused as busy, after `*tries` earlier refusals. True: send it again in *pause_us.
 * False: it has had all its tries (without a `retry`, NULL, at once). */
bool retry_again(struct retry *retry, const struct agx_fault *fault, uint32_t *tries,
                 uint64_t *pause_us);
/* The same, and sleeps for the pause. */
bool retry_wait(struct retry *retry, const struct agx_fault *fault, uint32_t *tries);
/* Prints on stderr how often we waited, if ever. */
void retry_report(const struct retry *retry);
