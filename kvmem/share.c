/* SPDX-License-Identifier: MIT */
/*
 * What: what each account has for itself of the cached contents of a tier. The contents of an
 * account that has no more than its minimum there go after those of all accounts that have more;
 * among them, and among the others, all goes by need as ever.
 *
 *   needed least   contents of accounts above their minimums, and what is left; by need
 *   needed most    contents of accounts within their minimums; by need
 *
 * Blocks that calls own do not count: a call gives them up when it ends, or its tenant has had more
 * than others (sched/engine/share). A call does not fit for which what others have within their
 * minimums would have to go (kvmem_fits_beside), but for one that would never run otherwise, or has
 * taken blocks of a tenant that is ahead: then that goes, too, after all else
 * (docs/decisions/0101).
 *
 * Invariants: where an account has a minimum, cached is what the shelves of the account's holders
 * hold on the tier, without what former holders have left. Else nothing is counted.
 * Bounds: O(1) for a content that comes or goes; O(holders) where an account passes its minimum,
 * once for each part of that, amortised; O(holders) for a block where all that is cached
 * is within minimums.
 */
#include "config/base/assert.h"
#include "kvmem/tier.h"

void kvmem_share_reset(struct kvmem_tier *tier)
{
    tier->within = 0;
    for (uint32_t i = 0; i < QUOTA_ACCOUNTS_MAX; i++) {
        tier->shares[i].cached = 0;
        tier->shares[i].is_within = tier->shares[i].min > 0;
    }
}

/* What each account has there: it was not counted where no account had a minimum. */
static void count_cached(const struct kvmem *kv, const struct kvmem_tier *tier, uint32_t *counted)
{
    for (uint32_t shelf = 0; shelf < kvmem_shelves(&kv->settings); shelf++) {
        uint32_t account = kvmem_account_of(kv, shelf);
        if (account != QUOTA_ACCOUNT_NONE) {
            counted[account] += kvmem_contents(kv, tier, shelf)->count;
        }
    }
}

static void bind_tier(struct kvmem *kv, struct kvmem_tier *tier, const struct quotas *quotas)
{
    uint32_t counted[QUOTA_ACCOUNTS_MAX] = {0};
    count_cached(kv, tier, counted);
    for (uint32_t i = 0; i < QUOTA_ACCOUNTS_MAX; i++) {
        uint64_t min = quotas->of[QUOTA_KV_BLOCKS][i].min;
        tier->shares[i].cached = counted[i];
        tier->shares[i].min = (uint32_t)(min * tier->count / kv->settings.device_blocks);
        kvmem_tier_judge(kv, tier, i);
    }
    for (uint32_t shelf = 0; shelf < kvmem_shelves(&kv->settings); shelf++) {
        kvmem_tier_rank(kv, tier, shelf);
    }
}

void kvmem_bind_quotas(struct kvmem *kv, const struct quotas *quotas)
{
    kv->has_shares = false;
    for (uint32_t i = 0; i < QUOTA_ACCOUNTS_MAX; i++) {
        kv->has_shares = kv->has_shares || quotas->of[QUOTA_KV_BLOCKS][i].min > 0;
    }
    bind_tier(kv, &kv->device, quotas);
    bind_tier(kv, &kv->host, quotas);
}

/* Of what the account's holders have on the device. */
static uint32_t least_of(const struct kvmem *kv, uint32_t account)
{
    const struct kvmem_tier *tier = &kv->device;
    uint32_t least = HEAP_NONE;
    for (uint32_t shelf = 0; shelf < kvmem_shelves(&kv->settings); shelf++) {
        bool is_its = kvmem_account_of(kv, shelf) == account && heap_has(&tier->needs, shelf);
        bool is_less = is_its && (least == HEAP_NONE || heap_key(&tier->needs, shelf) <
                                                            heap_key(&tier->needs, least));
        least = is_less ? shelf : least;
    }
    return least == HEAP_NONE ? KVMEM_BLOCK_NONE : kvmem_contents(kv, tier, least)->head;
}

bool kvmem_share_withholds(const struct kvmem *kv, uint32_t block, uint32_t account)
{
    uint32_t its = kvmem_account_of(kv, kv->blocks[block].shelf);
    return its != QUOTA_ACCOUNT_NONE && its != account && kv->device.shares[its].is_within;
}

/* Where all that is cached is within minimums, an account's calls take its own first. */
uint32_t kvmem_share_least(const struct kvmem *kv, uint32_t account)
{
    uint32_t block = kvmem_tier_least(kv, &kv->device);
    bool is_withheld = block != KVMEM_BLOCK_NONE && kvmem_share_withholds(kv, block, account);
    uint32_t own = is_withheld ? least_of(kv, account) : KVMEM_BLOCK_NONE;
    return own != KVMEM_BLOCK_NONE ? own : block;
}

uint32_t kvmem_withheld(const struct kvmem *kv, uint32_t holder)
{
    const struct kvmem_share *own = &kv->device.shares[kv->holders[holder].account];
    return kv->device.within - (own->is_within ? own->cached : 0);
}

/* Asserts the counts of a tier. */
void kvmem_share_check(const struct kvmem *kv, const struct kvmem_tier *tier)
{
    uint32_t counted[QUOTA_ACCOUNTS_MAX] = {0}, within = 0;
    count_cached(kv, tier, counted);
    for (uint32_t i = 0; i < QUOTA_ACCOUNTS_MAX; i++) {
        const struct kvmem_share *share = &tier->shares[i];
        ASSERT(!kv->has_shares || share->cached == counted[i]);
        ASSERT(share->min == 0 || share->cached > share->min || share->is_within);
        ASSERT(share->min > 0 || !share->is_within);
        within += share->is_within ? share->cached : 0;
    }
    ASSERT(tier->within == within);
}
