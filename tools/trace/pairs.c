/* SPDX-License-Identifier: MIT */
/*
 * What: open addressing with linear probing; the table doubles when half of it is taken.
 * Bounds: O(1) on average. Pairs that were chosen to collide make it slow, not wrong.
 */
#include "tools/trace/pairs.h"

#include <stdlib.h>
#include <string.h>

#include "config/base/fnv.h"

#define SLOTS_MIN 1024u
#define SLOTS_MAX (1u << 30)

void pairs_free(struct pairs *pairs)
{
    free(pairs->pairs);
    free(pairs->slots);
    *pairs = (struct pairs){0};
}

/* The slot of the pair, or the free one where it belongs. */
static uint32_t slot_of(const struct pairs *pairs, struct pair pair)
{
    uint64_t hash = (pair.a * UINT64_C(0x9e3779b97f4a7c15) ^ pair.b) *
                    UINT64_C(0xbf58476d1ce4e5b9);
    uint32_t at = (uint32_t)(hash >> 32) & (pairs->slots_count - 1);
    while (pairs->slots[at] != 0) {
        const struct pair *known = &pairs->pairs[pairs->slots[at] - 1];
        if (known->a == pair.a && known->b == pair.b) {
            break;
        }
        at = (at + 1) & (pairs->slots_count - 1);
    }
    return at;
}

static bool make_room(struct pairs *pairs)
{
    uint32_t larger = pairs->slots_count == 0 ? SLOTS_MIN : pairs->slots_count * 2;
    if (pairs->count < pairs->slots_count / 2) {
        return true;
    }
    if (pairs->slots_count == SLOTS_MAX) {
        return false;
    }
    struct pair *moved = realloc(pairs->pairs, larger / 2 * sizeof *moved);
    uint32_t *slots = moved != NULL ? calloc(larger, sizeof *slots) : NULL;
    pairs->pairs = moved != NULL ? moved : pairs->pairs;
    if (slots == NULL) {
        return false;
    }
    free(pairs->slots);
    pairs->slots = slots;
    pairs->slots_count = larger;
    for (uint32_t i = 0; i < pairs->count; i++) {
        slots[slot_of(pairs, pairs->pairs[i])] = i + 1;
    }
    return true;
}

uint32_t pairs_number(struct pairs *pairs, struct pair pair)
{
    if (!make_room(pairs)) {
        return PAIRS_NONE;
    }
    uint32_t *slot = &pairs->slots[slot_of(pairs, pair)];
    if (*slot == 0) {
        pairs->pairs[pairs->count++] = pair;
        *slot = pairs->count;
    }
    return *slot - 1;
}

uint32_t pairs_find(const struct pairs *pairs, struct pair pair)
{
    uint32_t number = pairs->slots_count > 0 ? pairs->slots[slot_of(pairs, pair)] : 0;
    return number > 0 ? number - 1 : PAIRS_NONE;
}

struct pair pair_of_text(const char *text)
{
    size_t bytes = strlen(text);
    uint64_t digest = fnv_add(FNV_START, text, bytes);
    return (struct pair){digest, fnv_add(~digest, text, bytes)};
}
