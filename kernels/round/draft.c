/* SPDX-License-Identifier: MIT */
/*
 * What: the search for a draft, from the end of the text to its beginning.
 * Bounds: every token is read once or twice, and at most DRAFT_LOOKS_MAX places are compared.
 */
#include "kernels/round/draft.h"

#include "config/base/assert.h"

STATIC_ASSERT(DRAFT_MATCH_MIN == 2, "find_pair() finds two tokens");

static uint32_t count_of(const struct draft_text *text)
{
    return text->past_count + text->produced_count;
}

static uint32_t token_at(const struct draft_text *text, uint32_t index)
{
    return index < text->past_count ? text->past[index]
                                    : text->produced[index - text->past_count];
}

/* The last place before `end` at which the text's last two tokens stand, as the index of the token
 * after them; 0: there is none. */
static uint32_t find_pair(const struct draft_text *text, uint32_t end)
{
    uint32_t count = count_of(text);
    uint32_t last = token_at(text, count - 1), before = token_at(text, count - 2);
    uint32_t at = end;
    for (; at > text->past_count && at > 1; at--) {     /* its last token has been produced */
        if (token_at(text, at - 1) == last && token_at(text, at - 2) == before) {
            return at;
        }
    }
    const uint32_t *past = text->past;
    for (; at > 1; at--) {
        if (past[at - 1] == last && past[at - 2] == before) {
            return at;
        }
    }
    return 0;
}

/* Number of tokens before `at` that agree with the end of the text. */
static uint32_t match_before(const struct draft_text *text, uint32_t at)
{
    uint32_t count = count_of(text), match = 0;
    while (match < DRAFT_MATCH_MAX && match < at &&
           token_at(text, at - 1 - match) == token_at(text, count - 1 - match)) {
        match++;
    }
    return match;
}

/* The index of the token that followed the longest match; 0: there is none. */
static uint32_t find_longest(const struct draft_text *text)
{
    uint32_t best = 0, longest = 0, at = count_of(text) - 1;
    for (uint32_t looks = 0; looks < DRAFT_LOOKS_MAX && longest < DRAFT_MATCH_MAX; looks++) {
        at = find_pair(text, at);
        if (at == 0) {
            break;
        }
        uint32_t match = match_before(text, at);
        if (match > longest) {
            longest = match;
            best = at;
        }
        at--;
    }
    return best;
}

uint32_t draft_find(const struct draft_text *text, uint32_t *draft, uint32_t max)
{
    uint32_t count = count_of(text);
    uint32_t from = max > 0 && count > DRAFT_MATCH_MIN ? find_longest(text) : 0;
    if (from == 0) {
        return 0;
    }
    for (uint32_t i = 0; i < max; i++) {    /* beyond the end of the text the draft goes on */
        draft[i] = from + i < count ? token_at(text, from + i) : draft[from + i - count];
    }
    return max;
}
