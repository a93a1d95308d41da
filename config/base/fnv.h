/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: FNV-1a, 64 bits: the one digest of the house, for tokens, weights and tables. It is no
 * defence against an adversary: where a collision matters, the contents are compared in full.
 * Header only; the client library is built from it too.
 */
#include <stdint.h>
#include <string.h>

#define FNV_START UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

static inline uint64_t fnv_add(uint64_t digest, const void *bytes, uint64_t count)
{
    const uint8_t *at = bytes;
    for (uint64_t i = 0; i < count; i++) {
        digest = (digest ^ at[i]) * FNV_PRIME;
    }
    return digest;
}

/* Eight bytes at a time, for long inputs: not the digest of fnv_add(). A product carries nothing
 * downwards, so its upper half is folded into the lower. */
static inline uint64_t fnv_add_words(uint64_t digest, const void *bytes, uint64_t count)
{
    const uint8_t *at = bytes;
    for (uint64_t i = 0; i < count / sizeof digest; i++) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        at += sizeof word;
        digest = (digest ^ word) * FNV_PRIME;
        digest ^= digest >> 32;
    }
    return fnv_add(digest, at, count % sizeof digest);
}
