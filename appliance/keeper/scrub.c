/* SPDX-License-Identifier: MIT */
/* What: the digests of memory that is never to change (appliance/keeper/scrub.h). */
#include "appliance/keeper/scrub.h"

#include "config/base/assert.h"
#include "config/base/fnv.h"

static uint64_t digest_of(const struct scrub *scrub, uint32_t slice)
{
    uint64_t first = slice * scrub->slice_bytes, left = scrub->bytes - first;
    ASSERT(slice < scrub->count);
    return fnv_add_words(FNV_START, scrub->base + first,
                         left < scrub->slice_bytes ? left : scrub->slice_bytes);
}

void scrub_learn(struct scrub *scrub, const void *base, uint64_t bytes, uint64_t slice_bytes)
{
    uint64_t least = (bytes + SCRUB_SLICES_MAX - 1) / SCRUB_SLICES_MAX;
    ASSERT(bytes > 0 && slice_bytes > 0);
    scrub->base = base;
    scrub->bytes = bytes;
    scrub->slice_bytes = slice_bytes > least ? slice_bytes : least;
    scrub->count = (uint32_t)((bytes + scrub->slice_bytes - 1) / scrub->slice_bytes);
    scrub->next = 0;
    for (uint32_t i = 0; i < scrub->count; i++) {
        scrub->digests[i] = digest_of(scrub, i);
    }
}

bool scrub_next(struct scrub *scrub)
{
    uint32_t slice = scrub->next;
    scrub->next = slice + 1 == scrub->count ? 0 : slice + 1;
    return digest_of(scrub, slice) == scrub->digests[slice];
}
