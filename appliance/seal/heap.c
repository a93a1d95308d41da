/* SPDX-License-Identifier: MIT */
/*
 * What: malloc and its relatives, defined in the binary itself, so that the linker takes these for
 * libc's own callers too and nothing in the static binary can reach another allocator. A bump
 * pointer; each block has its size in front, for realloc().
 * Bounds: BOOT_HEAP_BYTES in all, four times what 64 threads and an INI file take; not more,
 * because every process locks all of it in memory.
 * Owner: boot is single-threaded; the worker creates its threads one after the other.
 * Why not --wrap=malloc: it would miss the calls from inside libc.a.
 */
#include "appliance/seal/heap.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/assert.h"
#include "config/base/say.h"

#ifdef AGENTIX_NO_TRAP
/* Sanitizers have an allocator of their own. */
void heap_seal(void) {}
uint64_t heap_used_bytes(void) { return 0; }
void heap_rewind(uint64_t mark) {}
#else

#define BOOT_HEAP_BYTES (128u << 10)
#define BLOCK_ALIGN     16u

struct block_head {
    size_t size_bytes;
    size_t unused;
};
STATIC_ASSERT(sizeof(struct block_head) == BLOCK_ALIGN, "the head keeps blocks aligned");

static _Alignas(4096) uint8_t heap[BOOT_HEAP_BYTES];
static size_t heap_used;
static bool heap_sealed;

void heap_seal(void)
{
    heap_sealed = true;
}

uint64_t heap_used_bytes(void)
{
    return heap_used;
}

void heap_rewind(uint64_t mark)
{
    ASSERT(!heap_sealed && mark <= heap_used);
    memset(heap + mark, 0, heap_used - mark);
    heap_used = mark;
}

/* Formats nothing with libc: the trap must not allocate. */
static _Noreturn void trap(const char *function, size_t size_bytes)
{
    char digits[24];
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + size_bytes % 10);
        size_bytes /= 10;
    } while (size_bytes > 0);
    say("allocation after the seal: ");
    say(function);
    say("(");
    say(digits + at);
    say(")\n");
    __builtin_trap();       /* as in assert_failed() */
}

static void *take(const char *function, size_t align_bytes, size_t size_bytes)
{
    if (heap_sealed) {
        trap(function, size_bytes);
    }
    size_t align = align_bytes < BLOCK_ALIGN ? BLOCK_ALIGN : align_bytes;
    if (size_bytes > BOOT_HEAP_BYTES || align > BOOT_HEAP_BYTES || (align & (align - 1)) != 0) {
        errno = ENOMEM;
        return NULL;
    }
    size_t start = (heap_used + sizeof(struct block_head) + align - 1) & ~(align - 1);
    if (start + size_bytes > BOOT_HEAP_BYTES) {
        errno = ENOMEM;
        return NULL;
    }
    struct block_head *head = (struct block_head *)(void *)(heap + start) - 1;
    head->size_bytes = size_bytes;
    heap_used = start + size_bytes;
    return heap + start;
}

void *malloc(size_t size_bytes)
{
    return take("malloc", BLOCK_ALIGN, size_bytes);
}

void free(void *memory)
{
    if (memory != NULL && heap_sealed) {
        trap("free", 0);
    }
}

void *calloc(size_t count, size_t size_bytes)
{
    size_t bytes = 0;
    if (__builtin_mul_overflow(count, size_bytes, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return take("calloc", BLOCK_ALIGN, bytes);   /* the heap is zeroed and never reused */
}

void *realloc(void *memory, size_t size_bytes)
{
    void *fresh = take("realloc", BLOCK_ALIGN, size_bytes);
    if (memory != NULL && fresh != NULL) {
        const struct block_head *head = (const struct block_head *)memory - 1;
        memcpy(fresh, memory, head->size_bytes < size_bytes ? head->size_bytes : size_bytes);
    }
    return fresh;
}

void *memalign(size_t align_bytes, size_t size_bytes);
void *memalign(size_t align_bytes, size_t size_bytes)
{
    return take("memalign", align_bytes, size_bytes);
}

void *aligned_alloc(size_t align_bytes, size_t size_bytes)
{
    return take("aligned_alloc", align_bytes, size_bytes);
}

int posix_memalign(void **memory, size_t align_bytes, size_t size_bytes)
{
    *memory = take("posix_memalign", align_bytes, size_bytes);
    return *memory == NULL ? ENOMEM : 0;
}

void *valloc(size_t size_bytes)
{
    return take("valloc", 4096, size_bytes);
}

void *pvalloc(size_t size_bytes);
void *pvalloc(size_t size_bytes)
{
    return take("pvalloc", 4096, (size_bytes + 4095) & ~(size_t)4095);
}

size_t malloc_usable_size(void *memory);
size_t malloc_usable_size(void *memory)
{
    return memory == NULL ? 0 : ((const struct block_head *)memory - 1)->size_bytes;
}
#endif
