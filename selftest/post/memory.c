/* SPDX-License-Identifier: MIT */
/*
 * What: patterns over memory of the size that the appliance will use for tables and KV, at most
 * PROBE_BYTES_MAX: own address, checkerboard and its inverse, walking bit.
 */
#include <stdio.h>

#include "selftest/post/post.h"

#define PROBE_BYTES_MAX (UINT64_C(1) << 30)

typedef uint64_t pattern(uint64_t index);

static uint64_t own_address(uint64_t index) { return index * 8; }
static uint64_t checkerboard(uint64_t index) { return (index & 1) ? UINT64_C(0x5555555555555555)
                                                                   : UINT64_C(0xaaaaaaaaaaaaaaaa); }
static uint64_t checkerboard_inverse(uint64_t index) { return ~checkerboard(index); }
static uint64_t walking_bit(uint64_t index) { return UINT64_C(1) << (index & 63); }

static bool pattern_holds(volatile uint64_t *words, uint64_t count, pattern *expected)
{
    for (uint64_t i = 0; i < count; i++) {
        words[i] = expected(i);
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t found = words[i];
        if (found != expected(i)) {
            printf("memory: word %llu: expected %016llx, found %016llx\n", (unsigned long long)i,
                   (unsigned long long)expected(i), (unsigned long long)found);
            return false;
        }
    }
    return true;
}

bool post_memory(struct boot *boot)
{
    static pattern *const patterns[] = {own_address, checkerboard, checkerboard_inverse,
                                        walking_bit};
    struct arena arena;
    uint64_t bytes = plan_tier_bytes(&boot->plan, TIER_CORE) +
                     plan_tier_bytes(&boot->plan, TIER_ENGINE);
    bytes = bytes < PROBE_BYTES_MAX ? bytes : PROBE_BYTES_MAX;
    if (arena_map(&arena, bytes, false) != STATUS_OK) {
        printf("memory: cannot map %llu bytes\n", (unsigned long long)bytes);
        return false;
    }
    for (uint32_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        if (!pattern_holds((volatile uint64_t *)(void *)arena.base, bytes / 8, patterns[i])) {
            return false;
        }
    }
    return true;
}
