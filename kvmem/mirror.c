/* SPDX-License-Identifier: MIT */
/*
 * What: mirrors. A full block never changes. So when its content comes in from the host, the host's
 * block keeps the bytes, as the mirror of the device's block. When the content has to leave the
 * device again, its name goes back to the mirror and no byte moves.
 *
 *     host     CACHED --commit--> LEAVING --the step is done--> MIRROR --evict--> CACHED
 *     device   FREE ------------> SHARED <----> CACHED ----------------evict--> FREE
 *
 * The name is with the device's block. Where the host needs room, a mirror is given up before any
 * content; the content on the device then has to move again when it leaves.
 *
 * Invariants: each of the two names the other. The device's block is full and SHARED or CACHED; the
 * host's block is LEAVING or MIRROR. A block that is not full has no mirror: a call goes on writing
 * in it. What is forgotten is forgotten with its mirror: it may be wrong, or no call wants it.
 * Bounds: O(1), but for the place of the content in the host's list (room.c).
 */
#include "config/base/assert.h"
#include "kvmem/tier.h"

void kvmem_mirror_begin(struct kvmem *kv, uint32_t device, uint32_t host)
{
    ASSERT(!kvmem_is_host(kv, device) && kvmem_is_host(kv, host));
    ASSERT(kv->blocks[device].fill == kv->settings.block_tokens && kv->blocks[host].fill == 0);
    ASSERT(kv->blocks[device].mirror == KVMEM_BLOCK_NONE);
    ASSERT(kv->blocks[host].mirror == KVMEM_BLOCK_NONE);
    kv->blocks[device].mirror = host;
    kv->blocks[host].mirror = device;
}

/* They do not know each other any more; the host's block, LEAVING or MIRROR, is in no list. Returns
 * it, or KVMEM_BLOCK_NONE. */
static uint32_t part(struct kvmem *kv, uint32_t device)
{
    uint32_t host = kv->blocks[device].mirror;
    if (host == KVMEM_BLOCK_NONE) {
        return host;
    }
    ASSERT(!kvmem_is_host(kv, device) && kv->blocks[host].mirror == device);
    if (kv->blocks[host].state == KVMEM_MIRROR) {
        kvmem_tier_unmirror(kv, host);
    }
    kv->blocks[device].mirror = kv->blocks[host].mirror = KVMEM_BLOCK_NONE;
    return host;
}

void kvmem_mirror_read(struct kvmem *kv, uint32_t host)
{
    ASSERT(kv->blocks[host].state == KVMEM_LEAVING);
    if (kv->blocks[host].mirror != KVMEM_BLOCK_NONE) {
        kvmem_tier_mirror(kv, host);
    } else {
        kvmem_tier_release(kv, host);
    }
}

void kvmem_mirror_forget(struct kvmem *kv, uint32_t device)
{
    uint32_t host = part(kv, device);
    if (host != KVMEM_BLOCK_NONE && kv->blocks[host].state == KVMEM_MIRROR) {
        kvmem_tier_release(kv, host);
    }
}

bool kvmem_mirror_return(struct kvmem *kv, uint32_t device)
{
    uint32_t host = part(kv, device);
    if (host == KVMEM_BLOCK_NONE) {
        return false;
    }
    kvmem_tier_pass(kv, device, host);
    return true;
}

uint32_t kvmem_mirror_give_up(struct kvmem *kv)
{
    uint32_t host = kv->host.mirrors.head;
    return host == KVMEM_BLOCK_NONE ? host : part(kv, kv->blocks[host].mirror);
}
