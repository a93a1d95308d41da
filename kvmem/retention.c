/* SPDX-License-Identifier: MIT */
/*
 * What: contents that no call asks for grow old: they leave the device, and in the end they are
 * forgotten. The deadlines are in struct kvmem_settings; a content for which a call waits has only
 * the last one: KVMEM_SAVED_US or retain_drop_us, whichever is longer.
 *
 * Bounds: KVMEM_EXPIRE_MAX contents for each kvmem_expire(), oldest first; what is over the bound
 * is still due and makes kvmem_next_us() a time that has passed.
 * Why leave the device before a call needs the room: then that call does not wait for the move.
 * Without a host tier there is nothing to gain, and without a step there is no move; then contents
 * stay until they are forgotten.
 */
#include "config/base/assert.h"
#include "kvmem/tier.h"

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t forget_after_us(const struct kvmem *kv, bool is_wanted)
{
    uint64_t drop_us = kv->settings.retain_drop_us;
    return is_wanted && drop_us < KVMEM_SAVED_US ? KVMEM_SAVED_US : drop_us;
}

/* When the oldest content in the heap reaches this age; UINT64_MAX: there is none. */
static uint64_t due_us(const struct heap *ages, uint64_t age_us)
{
    return add_saturating(heap_first_key(ages), age_us);
}

/* The oldest content in the heap, which is not empty. */
static uint32_t oldest(const struct kvmem *kv, const struct kvmem_tier *tier, bool is_wanted)
{
    return kvmem_contents(kv, tier, heap_first(&tier->ages[is_wanted]))->head;
}

/* Returns what is left of the budget. */
static uint32_t forget_old(struct kvmem *kv, struct kvmem_tier *tier, bool is_wanted,
                           uint64_t now_us, uint32_t budget)
{
    const struct heap *ages = &tier->ages[is_wanted];
    uint64_t age_us = forget_after_us(kv, is_wanted);
    for (; budget > 0 && ages->count > 0 && due_us(ages, age_us) <= now_us; budget--) {
        uint32_t block = oldest(kv, tier, is_wanted);
        kvmem_room_forget(kv, block);
        kvmem_tier_release(kv, block);
    }
    return budget;
}

void kvmem_expire(struct kvmem *kv, uint64_t now_us, bool step_follows)
{
    const struct heap *ages = &kv->device.ages[false];
    uint32_t budget = KVMEM_EXPIRE_MAX;
    ASSERT(!kv->bound);
    kv->now_us = now_us > kv->now_us ? now_us : kv->now_us;
    budget = forget_old(kv, &kv->host, false, now_us, budget);
    budget = forget_old(kv, &kv->device, false, now_us, budget);
    budget = forget_old(kv, &kv->host, true, now_us, budget);
    budget = forget_old(kv, &kv->device, true, now_us, budget);
    if (kv->host.count == 0 || !step_follows) {
        return;
    }
    for (; budget > 0 && ages->count > 0; budget--) {
        if (due_us(ages, kv->settings.retain_device_us) > now_us) {
            break;
        }
        uint32_t block = oldest(kv, &kv->device, false);
        kvmem_room_evict(kv, block);
        kvmem_tier_release(kv, block);
    }
}

uint64_t kvmem_next_us(const struct kvmem *kv)
{
    const struct kvmem_tier *tiers[] = {&kv->device, &kv->host};
    uint64_t next_us = UINT64_MAX;
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t wanted = 0; wanted < 2; wanted++) {
            uint64_t at_us = due_us(&tiers[i]->ages[wanted], forget_after_us(kv, wanted == 1));
            next_us = at_us < next_us ? at_us : next_us;
        }
    }
    return next_us;
}
