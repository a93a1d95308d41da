/* SPDX-License-Identifier: MIT */
/*
 * What: memory of the device and pinned memory of the host, as a list of ranges. A device address
 * is a host address, so that kernels on the host reach it. New memory holds NEW bytes, so that code
 * which relies on zeros fails.
 *
 * Under AddressSanitizer there are no redzones of our own: those of malloc are better.
 */
#include <stdlib.h>
#include <string.h>

#include "selftest/fake/softgpu/device.h"

#define RANGES_MAX  256
#define NEW         0xc9
#define REDZONE     0xa5
#define STUCK_BIT   4
#define ALIGNMENT   256             /* as cuMemAlloc promises */
#ifdef __SANITIZE_ADDRESS__
#define ZONE_BYTES  0
#else
#define ZONE_BYTES  4096
#endif

struct range {
    enum soft_place place;
    uint8_t *memory;
    size_t bytes;
    bool is_ours;                   /* allocated here; false: registered */
};

static struct {
    struct range ranges[RANGES_MAX];
    uint32_t count;
    uint64_t size, used;
} state;

void soft_memory_init(uint64_t size)
{
    state.size = size;
}

uint64_t soft_memory_free(uint64_t *size)
{
    *size = state.size;
    return state.size - state.used;
}

static struct range *range_add(enum soft_place place, void *memory, size_t bytes, bool is_ours)
{
    if (state.count == RANGES_MAX) {
        return NULL;
    }
    state.ranges[state.count] = (struct range){place, memory, bytes, is_ours};
    return &state.ranges[state.count++];
}

static struct range *range_at(enum soft_place place, const void *memory, bool is_ours)
{
    for (uint32_t i = 0; i < state.count; i++) {
        struct range *range = &state.ranges[i];
        if (range->place == place && range->memory == memory && range->is_ours == is_ours) {
            return range;
        }
    }
    return NULL;
}

unsigned soft_reserve(enum soft_place place, void **memory, size_t bytes)
{
    if (bytes == 0) {
        return soft_refuse(SOFT_INVALID_VALUE, "an allocation of 0 bytes");
    }
    if (soft_fault_strikes(FAULT_ALLOC) || (place == PLACE_DEVICE &&
                                            bytes > state.size - state.used)) {
        return DRIVER_OUT_OF_MEMORY;
    }
    size_t room = (bytes + 2 * ZONE_BYTES + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    uint8_t *base = aligned_alloc(ALIGNMENT, room);
    if (base == NULL || range_add(place, base + ZONE_BYTES, bytes, true) == NULL) {
        free(base);
        return DRIVER_OUT_OF_MEMORY;
    }
    memset(base, REDZONE, room);
    memset(base + ZONE_BYTES, NEW, bytes);
    state.used += place == PLACE_DEVICE ? bytes : 0;
    *memory = base + ZONE_BYTES;
    return DRIVER_SUCCESS;
}

unsigned soft_release(enum soft_place place, void *memory)
{
    struct range *range = range_at(place, memory, true);
    if (range == NULL) {
        return soft_refuse(SOFT_INVALID_VALUE, "%p was not allocated", memory);
    }
    state.used -= place == PLACE_DEVICE ? range->bytes : 0;
    free(range->memory - ZONE_BYTES);
    *range = state.ranges[--state.count];
    return DRIVER_SUCCESS;
}

unsigned soft_register(void *memory, size_t bytes)
{
    bool is_added = bytes > 0 && range_add(PLACE_HOST, memory, bytes, false) != NULL;
    return is_added ? DRIVER_SUCCESS : SOFT_INVALID_VALUE;
}

unsigned soft_unregister(void *memory)
{
    struct range *range = range_at(PLACE_HOST, memory, false);
    if (range == NULL) {
        return soft_refuse(SOFT_INVALID_VALUE, "%p was not registered", memory);
    }
    *range = state.ranges[--state.count];
    return DRIVER_SUCCESS;
}

bool soft_memory_holds(enum soft_place place, const void *from, size_t bytes)
{
    uintptr_t at = (uintptr_t)from;
    for (uint32_t i = 0; i < state.count; i++) {
        const struct range *range = &state.ranges[i];
        uintptr_t base = (uintptr_t)range->memory;
        if (range->place == place && at >= base && at - base <= range->bytes &&
            bytes <= range->bytes - (at - base)) {
            return true;
        }
    }
    return false;
}

static bool zone_holds(const uint8_t *zone)
{
    const uint8_t *end = zone + ZONE_BYTES;
    while (zone < end && *zone == REDZONE) {
        zone++;
    }
    return zone == end;
}

void soft_memory_spoil(void)
{
    const struct range *largest = NULL;
    bool sticks = soft_is_stuck();
    for (uint32_t i = 0; i < state.count && sticks; i++) {
        const struct range *range = &state.ranges[i];
        if (range->place == PLACE_DEVICE && (largest == NULL || range->bytes > largest->bytes)) {
            largest = range;
        }
    }
    if (largest != NULL) {
        largest->memory[largest->bytes / 2] |= 1u << STUCK_BIT;
    }
}

bool soft_redzones_hold(void)
{
    bool hold = true;
    for (uint32_t i = 0; i < state.count; i++) {
        const struct range *range = &state.ranges[i];
        if (range->is_ours && (!zone_holds(range->memory - ZONE_BYTES) ||
                               !zone_holds(range->memory + range->bytes))) {
            soft_refuse(0, "bytes were written beyond the %zu bytes at %p", range->bytes,
                        (void *)range->memory);
            hold = false;
        }
    }
    return hold;
}
