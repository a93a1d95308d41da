/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: digests of memory that must never change, slice by slice, and which slice is compared next.
 * A flipped bit is found when the turn of its slice comes, and reported by the slice's number.
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

/* Computes the digests of what the memory holds now. O(bytes). */
void scrub_learn(struct scrub *scrub, const void *base, uint64_t bytes, uint64_t slice_bytes);
/* Compares the next slice; after the last one comes the first. False: it has changed; scrub_last()
 * is its number. O(slice_bytes). */
bool scrub_next(struct scrub *scrub);
static inline uint32_t scrub_last(const struct scrub *scrub)
{
    return (scrub->next == 0 ? scrub->count : scrub->next) - 1;
}
