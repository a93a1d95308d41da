/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: FNV-1a, 64 bits: the one digest of the house, for tokens, weights and tables. Not secret
 * and not against an adversary: what may collide is compared in full. Header only; the client
 * library is built from it too.
 */
#include <stdint.h>

#define FNV_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t fnv_add(uint64_t digest, const void *bytes, uint64_t count)
{
    const uint8_t *at = bytes;
    for (uint64_t i = 0; i < count; i++) {
        digest = (digest ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return digest;
}
