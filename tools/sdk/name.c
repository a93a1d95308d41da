/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "config/base/fnv.h"
#include "tools/sdk/session.h"
#include "tools/sdk/socket.h"

/*
 * What: names: the affinity key of a session, and ids of programs.
 * Invariant: agx->name is what HELLO carries: it ends with a zero, and zeros follow.
 */

static enum agx_result take_name(struct agx *agx, const char *name)
{
    size_t bytes = strlen(name);
    if (bytes >= sizeof agx->name) {
        return AGX_ERROR_ARGUMENT;
    }
    memset(agx->name, 0, sizeof agx->name);
    memcpy(agx->name, name, bytes);
    return AGX_OK;
}

/* Clients without a key of their own are spread over the appliances of a load balancer: each has a
 * random one, with which it comes back after a break. */
static enum agx_result invent_name(struct agx *agx)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t lot[8];
    char name[sizeof "libagx-" + 2 * sizeof lot] = "libagx-";
    if (agx_socket_entropy(lot, sizeof lot) != AGX_OK) {
        return AGX_ERROR_SYSTEM;
    }
    size_t used = strlen(name);
    for (size_t i = 0; i < sizeof lot; i++) {
        name[used++] = digits[lot[i] >> 4];
        name[used++] = digits[lot[i] & 15];
    }
    name[used] = '\0';
    return take_name(agx, name);
}

enum agx_result agx_session_name(struct agx *agx, const char *affinity)
{
    bool is_given = affinity != NULL && affinity[0] != '\0';
    return is_given ? take_name(agx, affinity) : invent_name(agx);
}

enum agx_result agx_unique_id(uint8_t id[AGX_ID_BYTES])
{
    return agx_socket_entropy(id, AGX_ID_BYTES);
}

void agx_program_id(const char *name, uint8_t id[AGX_ID_BYTES])
{
    uint64_t hash = FNV_START;
    for (uint32_t half = 0; half < 2; half++) {
        /* The second half goes on from the first, so it sees another start. */
        hash = fnv_add(hash, name, strlen(name));
        for (uint32_t i = 0; i < 8; i++) {
            id[8 * half + i] = (uint8_t)(hash >> (8 * i));
        }
    }
}
