/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a draft, a guess at the tokens that a row brings next: what came after the last place in
 * its text where that ends as it ends now. Agents copy: outputs of tools, files, earlier answers. A
 * guess need not be right, for the engine verifies it (config/base/step.h); it decides how many
 * tokens a round brings, never which.
 *
 * Why a search and no index: the engine has the row's tokens for one step. An index over them would
 * be made in the time of many searches. Eight thousand tokens take three microseconds
 * (docs/decisions/0089).
 */
#include <stdint.h>

#define DRAFT_MATCH_MIN  2u         /* tokens that must agree before the place; */
#define DRAFT_MATCH_MAX  16u        /* after so many the search ends */
#define DRAFT_LOOKS_MAX  64u        /* places that are compared: one text cannot keep the engine */

/* The tokens of a row in two pieces, one after the other. */
struct draft_text {
    const uint32_t *past;           /* known before the step */
    uint32_t past_count;
    const uint32_t *produced;       /* by the step */
    uint32_t produced_count;
};

/* Writes up to `max` tokens that may follow, and returns how many. Of the places with the longest
 * match it takes the last one. 0: no place matches. O(tokens + DRAFT_LOOKS_MAX *
 * DRAFT_MATCH_MAX). */
uint32_t draft_find(const struct draft_text *text, uint32_t *draft, uint32_t max);
