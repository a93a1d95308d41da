/* SPDX-License-Identifier: MIT */
/*
 * What: contents that no call asks for grow old: they leave the device, and in the end they are
 * forgotten. The deadlines are in struct kvmem_settings; a SAVED content, whose call waits, has
 * only the last one: KVMEM_SAVED_US or retain_drop_us, whichever is longer.
 *
 * Bounds: KVMEM_EXPIRE_MAX contents for each kvmem_expire(), oldest first; what is over the bound
 * is still due and makes kvmem_next_us() a time that has passed.
 * Why leave the device before a call needs the room: then that call does not wait for the move.
 * Without a host tier there is nothing to gain, and without a step there is no move; then contents
 * stay until they are forgotten.
 */
#include "config/base/assert.h"
#include "kvmem/block.h"

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t forget_after_us(const struct kvmem *kv, enum kvmem_rank rank)
{
    uint64_t drop_us = kv->settings.retain_drop_us;
    return rank == KVMEM_SAVED && drop_us < KVMEM_SAVED_US ? KVMEM_SAVED_US : drop_us;
}

/* When the oldest content of the list reaches this age; UINT64_MAX: there is none. */
static uint64_t due_us(const struct kvmem *kv, const struct kvmem_list *list, uint64_t age_us)
{
    return list->head == KVMEM_BLOCK_NONE ? UINT64_MAX
                                          : add_saturating(kv->blocks[list->head].used_us, age_us);
}

/* Returns what is left of the budget. */
static uint32_t forget_old(struct kvmem *kv, struct kvmem_tier *tier, enum kvmem_rank rank,
                           uint64_t now_us, uint32_t budget)
{
    const struct kvmem_list *list = &tier->cached[rank];
    for (; budget > 0 && due_us(kv, list, forget_after_us(kv, rank)) <= now_us; budget--) {
        uint32_t block = list->head;
        if (block == KVMEM_BLOCK_NONE) {
            break;
        }
        kvmem_tier_forget(kv, block);
        kvmem_tier_release(kv, block);
    }
    return budget;
}

void kvmem_expire(struct kvmem *kv, uint64_t now_us, bool step_follows)
{
    const struct kvmem_list *retained = &kv->device.cached[KVMEM_RETAINED];
    uint32_t budget = KVMEM_EXPIRE_MAX;
    ASSERT(!kv->bound);
    kv->now_us = now_us > kv->now_us ? now_us : kv->now_us;
    budget = forget_old(kv, &kv->host, KVMEM_RETAINED, now_us, budget);
    budget = forget_old(kv, &kv->device, KVMEM_RETAINED, now_us, budget);
    budget = forget_old(kv, &kv->host, KVMEM_SAVED, now_us, budget);
    budget = forget_old(kv, &kv->device, KVMEM_SAVED, now_us, budget);
    if (kv->host.count == 0 || !step_follows) {
        return;
    }
    for (; budget > 0 && retained->head != KVMEM_BLOCK_NONE; budget--) {
        uint32_t block = retained->head;
        if (due_us(kv, retained, kv->settings.retain_device_us) > now_us) {
            break;
        }
        kvmem_room_evict(kv, block);
        kvmem_tier_release(kv, block);
    }
}

uint64_t kvmem_next_us(const struct kvmem *kv)
{
    const struct kvmem_tier *tiers[] = {&kv->device, &kv->host};
    uint64_t next_us = UINT64_MAX;
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t rank = KVMEM_RETAINED; rank <= KVMEM_SAVED; rank++) {
            uint64_t at_us = due_us(kv, &tiers[i]->cached[rank], forget_after_us(kv, rank));
            next_us = at_us < next_us ? at_us : next_us;
        }
    }
    return next_us;
}
