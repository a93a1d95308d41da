/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the digests of memory that is never to change, slice by slice, and the slice that is looked
 * at next. A bit that has flipped is found when its slice comes, and told by the slice's number.
 */
#include <stdbool.h>
#include <stdint.h>

#define SCRUB_SLICES_MAX 4096           /* of more memory the slices are larger */

struct scrub {
    const uint8_t *base;
    uint64_t bytes, slice_bytes;
    uint32_t count;                     /* slices */
    uint32_t next;                      /* that is looked at next */
    uint64_t digests[SCRUB_SLICES_MAX]; /* 32 KiB: place it statically */
};

/* Learns what the memory holds now. O(bytes). */
void scrub_learn(struct scrub *scrub, const void *base, uint64_t bytes, uint64_t slice_bytes);
/* Looks at the next slice; after the last one comes the first. False: it is not what was learnt;
 * scrub_last() is its number. O(slice_bytes). */
bool scrub_next(struct scrub *scrub);
static inline uint32_t scrub_last(const struct scrub *scrub)
{
    return (scrub->next == 0 ? scrub->count : scrub->next) - 1;
}
