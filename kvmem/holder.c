/* SPDX-License-Identifier: MIT */
/*
 * What: holders. A holder is a party that is expected to ask for its contents again. Each cached
 * content belongs to one: the one that used it last, or one that needs it more and has asked for it
 * before. Room is made from the shelf that is needed least, of its contents the oldest first.
 *
 *   asked   what a waiting call has asked for, or had: by the need of its holder, after all others
 *   rest    what no waiting call has asked for: least recently used, of any holder
 *   left    what a holder left that is gone, where others can find it: least recently used, too
 *
 * Why not all contents of a party that waits: what it has left behind, such as the dead branches of
 * a search, would keep what others need off both tiers. Why not what is left first: a system prompt
 * belongs to the program that used it last, and all find it.
 *
 * What was asked for and is still there when no call of its holder waits any more was out of reach
 * when its call had its turn. It is the first of the rest to go, and no later call revives it.
 *
 * Invariants: holders without waiting calls have a need below KVMEM_WANTED, and none of their
 * contents is wanted.
 * Bounds: O(log holders). The end of the last waiting call costs O(contents that were asked for and
 * not taken), kvmem_abandon() O(contents of the holder): each was computed, brought in or asked for
 * since it was last counted so.
 */
#include "config/base/assert.h"
#include "kvmem/tier.h"

/* What lies on the shelf has another need now. Without contents it has no rank. */
static void rank(struct kvmem *kv, struct kvmem_tier *tier, uint32_t shelf)
{
    if (kvmem_contents(kv, tier, shelf)->count > 0) {
        kvmem_tier_rank(kv, tier, shelf);
    }
}

static void tell(struct kvmem *kv, struct kvmem_tier *tier, uint32_t shelf, bool was_wanted)
{
    uint32_t count = kvmem_contents(kv, tier, shelf)->count;
    tier->cached_count[was_wanted] -= count;
    tier->cached_count[kvmem_is_wanted(kv, shelf)] += count;
    rank(kv, tier, shelf);
}

void kvmem_need(struct kvmem *kv, uint32_t holder, uint64_t need)
{
    uint32_t shelf = kvmem_shelf_of(holder, KVMEM_ASKED);
    ASSERT(holder < kv->settings.holders);
    if (need == kv->holders[holder].need && need >= KVMEM_WANTED) {
        return;
    }
    bool was_wanted = kvmem_is_wanted(kv, shelf);
    kv->holders[holder].need = need;
    tell(kv, &kv->device, shelf, was_wanted);
    tell(kv, &kv->host, shelf, was_wanted);
    if (need < KVMEM_WANTED) {
        kvmem_tier_splice(kv, &kv->device, shelf, kvmem_shelf_of(holder, KVMEM_REST));
        kvmem_tier_splice(kv, &kv->host, shelf, kvmem_shelf_of(holder, KVMEM_REST));
    }
}

void kvmem_protect(struct kvmem *kv, uint32_t holder, bool is_protected)
{
    ASSERT(holder < kv->settings.holders);
    kv->holders[holder].is_protected = is_protected;
    for (enum kvmem_shelf shelf = KVMEM_REST; shelf <= KVMEM_ASKED; shelf++) {
        rank(kv, &kv->device, kvmem_shelf_of(holder, shelf));
        rank(kv, &kv->host, kvmem_shelf_of(holder, shelf));
    }
}

static void leave(struct kvmem *kv, struct kvmem_tier *tier, uint32_t holder, bool others_find)
{
    const struct kvmem_list *list = kvmem_contents(kv, tier, kvmem_shelf_of(holder, KVMEM_REST));
    while (list->count > 0) {
        uint32_t block = list->head;
        if (others_find) {
            kvmem_tier_uncache(kv, block);
            kv->blocks[block].shelf = kvmem_shelf_of(holder, KVMEM_LEFT);
            kvmem_tier_cache(kv, block);
        } else {
            kvmem_room_free(kv, block);
            kvmem_tier_release(kv, block);
        }
    }
}

void kvmem_abandon(struct kvmem *kv, uint32_t holder, bool others_find)
{
    ASSERT(holder < kv->settings.holders);
    kvmem_need(kv, holder, 0);
    kvmem_protect(kv, holder, false);
    leave(kv, &kv->device, holder, others_find);
    leave(kv, &kv->host, holder, others_find);
}

struct kvmem_held kvmem_held(const struct kvmem *kv, uint32_t holder)
{
    uint32_t rest = kvmem_shelf_of(holder, KVMEM_REST);
    uint32_t asked = kvmem_shelf_of(holder, KVMEM_ASKED);
    return (struct kvmem_held){
        .device = kvmem_contents(kv, &kv->device, rest)->count +
                  kvmem_contents(kv, &kv->device, asked)->count,
        .host = kvmem_contents(kv, &kv->host, rest)->count +
                kvmem_contents(kv, &kv->host, asked)->count};
}

void kvmem_account(struct kvmem *kv, uint32_t holder, uint32_t account)
{
    const struct kvmem_held held = kvmem_held(kv, holder);
    ASSERT(account < QUOTA_ACCOUNTS_MAX && held.device + held.host == 0);
    kv->holders[holder].account = account;
}
