/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: memory is planned, then reserved once, then taken, then sealed.
 *
 *   struct memory_plan   rows (owner, count, size, kind): modules state their bytes in
 *                        x_plan_memory()
 *   struct arena         one extent of one kind: modules take in x_init() exactly what they planned
 *
 * Invariant: after boot, for each kind, arena.used == memory_plan_bytes(plan, kind), to the byte.
 * Both round each row up to ARENA_ALIGN_BYTES, so the two sums can be compared.
 * There is no free: a test drops the whole arena.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/status.h"

#define ARENA_ALIGN_BYTES 64
#define MEMORY_PLAN_ROWS_MAX 256

enum memory_kind {
    MEMORY_CORE,      /* the core's tables: private */
    MEMORY_NEXT,      /* the same of the core that waits to take over */
    MEMORY_KEPT,      /* what the successor of a core that dies takes up: shared by cores alone */
    MEMORY_SHARED,    /* control page and step records: core and worker */
    MEMORY_MODEL,     /* vocabulary and header: read once, inherited by every role */
    MEMORY_WEIGHTS,   /* packed weights: read once by the keeper, inherited by the worker */
    MEMORY_ENGINE,    /* KV blocks and workspace: the worker's */
    MEMORY_DEVICE,    /* of the GPU, where one serves: weights, KV blocks, workspace */
    MEMORY_SELFTEST,  /* what a check of the self-test has for itself; nothing when serving */
    MEMORY_COUNT
};
const char *memory_kind_name(enum memory_kind kind);

/* Of stores to MEMORY_KEPT: what was stored before is there when what is stored after is. A death
 * keeps the order in which the processor was told, and no compiler may change it. */
static inline void kept_order(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

struct memory_plan_row {
    const char *owner;      /* "net connections": a string constant */
    uint64_t count;
    uint64_t size_bytes;
    enum memory_kind kind;
};

struct memory_plan {
    uint32_t rows_count;
    bool overflow;          /* a product or sum left 64 bits; the plan can never fit */
    struct memory_plan_row rows[MEMORY_PLAN_ROWS_MAX];
};

void memory_plan_add(struct memory_plan *plan, enum memory_kind kind, const char *owner,
                     uint64_t count, uint64_t size_bytes);
/* The rows of `part`, for `times` owners that take them one after the other. */
void memory_plan_add_each(struct memory_plan *plan, const struct memory_plan *part,
                          uint32_t times);
uint64_t memory_plan_bytes(const struct memory_plan *plan, enum memory_kind kind);

struct arena {
    uint8_t *base;
    uint64_t size_bytes;
    uint64_t used_bytes;
    bool sealed;
};

/* Uses memory that the caller owns (tests). */
void arena_init(struct arena *arena, void *memory, uint64_t size_bytes);
/* BOOT_ONLY. Maps and populates `size_bytes` of zeroed memory, shared across fork() or private. */
MUST_CHECK enum status arena_map(struct arena *arena, uint64_t size_bytes, bool shared);
/* BOOT_ONLY. A descriptor of zeroed memory: every process that has it maps the same memory, another
 * executable's too, and /proc shows it by this name. Its size is sealed. -1: errno says why. */
int arena_share(const char *name, uint64_t size_bytes);
MUST_CHECK enum status arena_map_shared(struct arena *arena, int handle, uint64_t size_bytes);
/* So many bytes as an arena takes them. */
static inline uint64_t arena_ceil(uint64_t bytes)
{
    return (bytes + ARENA_ALIGN_BYTES - 1) & ~(uint64_t)(ARENA_ALIGN_BYTES - 1);
}
/* BOOT_ONLY. `count` zeroed elements of `size_bytes`, aligned to ARENA_ALIGN_BYTES. Asserts room:
 * the plan has been checked before. */
void *arena_take(struct arena *arena, uint64_t count, uint64_t size_bytes);
/* From here on arena_take() panics. */
void arena_seal(struct arena *arena);
