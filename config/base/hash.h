/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: keyed hashes of ids that clients choose. The key is a secret of this boot, so no
 * client can choose ids that meet in one chain. A hash only finds: ids are compared in full.
 */
#include <stdint.h>
#include <string.h>

#include "config/base/assert.h"
#include "config/base/call.h"

/* Two halves of a 128-bit product, folded. */
static inline uint64_t hash_fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Added to the key, so that a caller without secrets (a test) has a hash too. */
#define HASH_START_A UINT64_C(0x9e3779b97f4a7c15)
#define HASH_START_B UINT64_C(0xbf58476d1ce4e5b9)

static inline uint64_t hash_program(const uint64_t key[2], uint64_t domain,
                                    const uint8_t id[CALL_PROGRAM_ID_BYTES])
{
    uint64_t words[2];
    STATIC_ASSERT(sizeof words == CALL_PROGRAM_ID_BYTES, "a program id is two words");
    memcpy(words, id, sizeof words);
    uint64_t a = key[0] ^ HASH_START_A, b = key[1] ^ HASH_START_B;
    return hash_fold(hash_fold(words[0] ^ a, words[1] ^ b) ^ b, domain ^ a);
}

static inline uint64_t hash_call(const uint64_t key[2], uint64_t program_hash, uint64_t call_id)
{
    return hash_fold(program_hash ^ key[1] ^ HASH_START_B, call_id ^ key[0] ^ HASH_START_A);
}

/* Of so many bytes, whole words, that a trust domain has sent. Who compares nothing but hashes
 * relies on the key: without it two contents of one hash cannot be found. */
static inline uint64_t hash_content(const uint64_t key[2], uint64_t domain, const void *content,
                                    uint32_t content_bytes)
{
    uint64_t a = key[0] ^ HASH_START_A, b = key[1] ^ HASH_START_B, word;
    uint64_t hash = hash_fold(domain ^ a, content_bytes ^ b);
    ASSERT(content_bytes % sizeof word == 0);
    for (uint32_t at = 0; at < content_bytes; at += sizeof word) {
        memcpy(&word, (const uint8_t *)content + at, sizeof word);
        hash = hash_fold(hash ^ a, word ^ b);
    }
    return hash;
}
