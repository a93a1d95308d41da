/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: which slot of the text port a newcomer gets when all are taken. Sources share the slots: a
 * newcomer displaces a peer of the source that holds most, its own source counted with the newcomer
 * in it. Between sources that hold as many, a peer keeps its slot for TEXTPORT_GRACE_US, so that no
 * flood cuts an honest answer off. A source that holds more than the newcomer's would has no grace.
 *
 * Invariant: of S slots and n sources that want them, none loses one to another source while it
 * holds S / n or fewer.
 * Bounds: O(slots * slots) for an accept.
 */
#include <stdbool.h>
#include <stdint.h>

#include "appliance/text/slot.h"
#include "config/base/world.h"

struct textport_source textplace_source(const struct world_peer *peer);
/* True when the peer has nothing under way. */
bool textplace_is_idle(const struct textport_slot *slot);
/* A free slot of slots[count], or the one whose peer yields to a newcomer from `from`: neither
 * people who leave a telnet open nor peers that dawdle keep a probe of health out. count: none. */
uint32_t textplace_find(const struct textport_slot *slots, uint32_t count,
                        const struct textport_source *from, uint64_t now_us);
