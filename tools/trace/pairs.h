/* SPDX-License-Identifier: MIT */
#pragma once
/* What: numbers pairs of words 0, 1, 2, ... in the order in which they first come: a hash table. */
#include <stdbool.h>
#include <stdint.h>

#define PAIRS_NONE UINT32_MAX       /* no number: there is no memory for one more */

struct pair { uint64_t a, b; };
struct pairs {
    struct pair *pairs;             /* [count], by number */
    uint32_t *slots;                /* [slots_count], numbers + 1, 0: free; half are, at least */
    uint32_t count, slots_count;
};

/* Zeroed is empty. */
void pairs_free(struct pairs *pairs);
/* The number of the pair; a new one is `count` before the call. */
uint32_t pairs_number(struct pairs *pairs, struct pair pair);
/* The number of the pair, or PAIRS_NONE: it has not come yet. */
uint32_t pairs_find(const struct pairs *pairs, struct pair pair);
/* Of a text: two digests, which no two texts of a file have in common by accident. */
struct pair pair_of_text(const char *text);
