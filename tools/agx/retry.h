/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what a command does with a busy answer: it makes the same request again after the pause
 * that the library says, a bounded number of times.
 */
#include <stdbool.h>
#include <stdint.h>

#include "tools/sdk/agx.h"

#define RETRY_OF_ONE  8         /* somebody waits for one call: seconds */
#define RETRY_OF_MANY 100       /* many calls wait for the same places: about a minute each */

/* A row of an option table, for a command whose default is one of these. */
#define RETRY_TEXT(number) #number
#define RETRY_ROW(retry, most) \
    {"--retries", "N", ARGUMENT_U32, &(retry).tries_max, 0, UINT32_MAX, \
     "how often a request that finds it busy is made again (default " RETRY_TEXT(most) ")"}

struct retry {
    uint32_t tries_max;         /* of one request; 0: off */
    uint64_t lot;               /* of the pauses: agx_retry_ms() */
    uint64_t waits;             /* how often we were told to wait, and did */
};

/* A request was refused as busy, `*tries` times before: true, it is to be made again in *pause_us;
 * false, it has been often enough (without a `retry`, NULL, at once). */
bool retry_again(struct retry *retry, const struct agx_fault *fault, uint32_t *tries,
                 uint64_t *pause_us);
/* The same, and sleeps. */
bool retry_wait(struct retry *retry, const struct agx_fault *fault, uint32_t *tries);
/* Says on stderr how often we waited, if ever. */
void retry_report(const struct retry *retry);
