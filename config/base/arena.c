/* SPDX-License-Identifier: MIT */
#include "config/base/arena.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/base/assert.h"

const char *memory_kind_name(enum memory_kind kind)
{
    static const char *const names[MEMORY_COUNT] = {
        "core", "next", "kept", "shared", "model", "weights", "engine", "device", "selftest"};
    ASSERT(kind < MEMORY_COUNT);
    return names[kind];
}

/* Bytes of a row as the arena takes it; false when they leave 64 bits. */
static bool row_bytes(uint64_t count, uint64_t size_bytes, uint64_t *bytes)
{
    uint64_t product = 0;
    if (__builtin_mul_overflow(count, size_bytes, &product) ||
        __builtin_add_overflow(product, (uint64_t)(ARENA_ALIGN_BYTES - 1), &product)) {
        return false;
    }
    *bytes = product & ~(uint64_t)(ARENA_ALIGN_BYTES - 1);
    return true;
}

void memory_plan_add(struct memory_plan *plan, enum memory_kind kind, const char *owner,
                     uint64_t count, uint64_t size_bytes)
{
    ASSERT(plan->rows_count < MEMORY_PLAN_ROWS_MAX);
    ASSERT(owner != NULL);
    plan->rows[plan->rows_count++] =
        (struct memory_plan_row){
            .owner = owner, .count = count, .size_bytes = size_bytes, .kind = kind};
    uint64_t total = memory_plan_bytes(plan, kind);
    plan->overflow = plan->overflow || total == UINT64_MAX;
}

/* Of several, a row's size is what one owner's arena takes, its alignment included. */
void memory_plan_add_each(struct memory_plan *plan, const struct memory_plan *part, uint32_t times)
{
    for (uint32_t i = 0; i < part->rows_count; i++) {
        const struct memory_plan_row *row = &part->rows[i];
        uint64_t bytes = 0;
        if (times == 1 || !row_bytes(row->count, row->size_bytes, &bytes)) {
            memory_plan_add(plan, row->kind, row->owner, row->count, row->size_bytes);
        } else {
            memory_plan_add(plan, row->kind, row->owner, times, bytes);
        }
    }
}

uint64_t memory_plan_bytes(const struct memory_plan *plan, enum memory_kind kind)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < plan->rows_count; i++) {
        const struct memory_plan_row *row = &plan->rows[i];
        uint64_t bytes = 0;
        if (row->kind != kind) {
            continue;
        }
        if (!row_bytes(row->count, row->size_bytes, &bytes) ||
            __builtin_add_overflow(total, bytes, &total)) {
            return UINT64_MAX;
        }
    }
    return total;
}

void arena_init(struct arena *arena, void *memory, uint64_t size_bytes)
{
    ASSERT(memory != NULL || size_bytes == 0);
    ASSERT(((uintptr_t)memory & (ARENA_ALIGN_BYTES - 1)) == 0);
    *arena = (struct arena){.base = memory, .size_bytes = size_bytes};
    if (size_bytes > 0) {
        memset(memory, 0, size_bytes);
    }
}

/* In huge pages where the kernel has some: weights are read once a step from end to end, and a
 * translation for each 4 KiB costs a third of that. Afterwards the kernel shall leave them alone:
 * to make huge pages of small ones later would take them away for a moment. */
static void populate(void *memory, uint64_t bytes)
{
    (void)!madvise(memory, bytes, MADV_HUGEPAGE);
    if (madvise(memory, bytes, MADV_POPULATE_WRITE) != 0) {
        memset(memory, 0, bytes);
    }
    (void)!madvise(memory, bytes, MADV_NOHUGEPAGE);
}

enum status arena_map(struct arena *arena, uint64_t size_bytes, bool shared)
{
    uint64_t bytes = size_bytes > 0 ? size_bytes : 1;
    int flags = MAP_ANONYMOUS | (shared ? MAP_SHARED | MAP_POPULATE : MAP_PRIVATE);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED) {
        return STATUS_CONFIG_MEMORY;
    }
    if (!shared) {
        populate(memory, bytes);
    }
    *arena = (struct arena){.base = memory, .size_bytes = size_bytes};
    return STATUS_OK;
}

int arena_share(const char *name, uint64_t size_bytes)
{
    int handle = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    if (handle >= 0 && (ftruncate(handle, (off_t)size_bytes) != 0 ||
                        fcntl(handle, F_ADD_SEALS, seals) != 0)) {
        close(handle);
        return -1;
    }
    return handle;
}

enum status arena_map_shared(struct arena *arena, int handle, uint64_t size_bytes)
{
    void *memory = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, handle,
                        0);
    if (memory == MAP_FAILED) {
        return STATUS_CONFIG_MEMORY;
    }
    *arena = (struct arena){.base = memory, .size_bytes = size_bytes};
    return STATUS_OK;
}

void *arena_take(struct arena *arena, uint64_t count, uint64_t size_bytes)
{
    uint64_t bytes = 0;
    ASSERT(!arena->sealed);
    ASSERT(row_bytes(count, size_bytes, &bytes));
    ASSERT(bytes <= arena->size_bytes - arena->used_bytes);
    void *memory = arena->base + arena->used_bytes;
    arena->used_bytes += bytes;
    return memory;
}

void arena_seal(struct arena *arena)
{
    ASSERT(!arena->sealed);
    arena->sealed = true;
}
