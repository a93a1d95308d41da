/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the lists of both tiers (tier.c): which block is free, and which content is cached for how
 * long. Only kvmem/ includes this.
 */
#include "kvmem/block.h"

/* A block without a name, in no list, becomes FREE. */
void kvmem_tier_release(struct kvmem *kv, uint32_t block);
/* The free block of the tier that goes to a call whose last one is `before`, or KVMEM_BLOCK_NONE:
 * in no list any more. There is one. */
uint32_t kvmem_tier_take(struct kvmem *kv, struct kvmem_tier *tier, uint32_t before);
/* True when that free block is the neighbour of `before`, or begins a whole cluster. */
bool kvmem_tier_has_cluster(const struct kvmem *kv, uint32_t before);
/* A named block in no list becomes CACHED, in its place by shelf and age. */
void kvmem_tier_cache(struct kvmem *kv, uint32_t block);
void kvmem_tier_uncache(struct kvmem *kv, uint32_t block);
/* One more table holds this full block of the device, CACHED or SHARED. */
void kvmem_tier_share(struct kvmem *kv, uint32_t block);
/* The oldest content of the shelf that is needed least, or KVMEM_BLOCK_NONE. */
uint32_t kvmem_tier_least(const struct kvmem *kv, const struct kvmem_tier *tier);
/* The need of the shelf, or its oldest content, has changed: updates its place in the heaps. */
void kvmem_tier_rank(struct kvmem *kv, struct kvmem_tier *tier, uint32_t shelf);
/* The account's contents there, or its minimum, have changed: updates whether it is within that. */
void kvmem_tier_judge(struct kvmem *kv, struct kvmem_tier *tier, uint32_t account);
/* Moves the contents of shelf `from` to shelf `to`, before its contents, and makes them no younger
 * than these. Neither shelf is wanted. O(contents of `from`). */
void kvmem_tier_splice(struct kvmem *kv, struct kvmem_tier *tier, uint32_t from, uint32_t to);
/* The content of `from`, in no list, is CACHED in `to`, in its place by shelf and age. */
void kvmem_tier_pass(struct kvmem *kv, uint32_t from, uint32_t to);
/* A LEAVING block of the host that has a mirror is the youngest MIRROR. */
void kvmem_tier_mirror(struct kvmem *kv, uint32_t block);
/* A MIRROR is in no list any more. */
void kvmem_tier_unmirror(struct kvmem *kv, uint32_t block);
