/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a stretch of shared memory that may be mirrored in a file, and which of its pages differ
 * from the file. One process changes the memory, another one writes pages to the file; neither
 * waits for the other.
 *
 * Order: the counter of a page is raised after the page has changed, and read before the page is.
 * So what is written is as new as the counter says, or newer, and then the counter will show it.
 * The same holds for numbers: pages are counted before their number is published.
 */
#include <stdint.h>

#define PAGES_BYTES 4096u

struct pages_mark {                     /* of a page */
    uint32_t changed;                   /* counts up: of the process that changes the memory */
    uint32_t written;                   /* `changed`, when it was last written: the writer's */
};

struct pages_numbers {                  /* of the records in the memory; they only grow */
    uint64_t changed;                   /* the newest in the memory */
    uint64_t written;                   /* the newest in the file: the writer's */
};

struct pages {
    uint8_t *base;                      /* [bytes], of whole cache lines */
    uint64_t bytes;
    struct pages_mark *marks;           /* [pages_count(bytes)] */
    struct pages_numbers *numbers;
};

static inline uint64_t pages_count(uint64_t bytes)
{
    return bytes / PAGES_BYTES + (bytes % PAGES_BYTES != 0);
}

/* `bytes` bytes from `from` on have changed. */
static inline void pages_change(const struct pages *pages, const void *from, uint64_t bytes)
{
    uint64_t first = (uint64_t)((const uint8_t *)from - pages->base);
    for (uint64_t page = first / PAGES_BYTES; page < pages_count(first + bytes); page++) {
        uint32_t *changed = &pages->marks[page].changed;
        __atomic_store_n(changed, *changed + 1, __ATOMIC_RELEASE);
    }
}

/* The number up to which records are in the file. */
static inline uint64_t pages_written(const struct pages *pages)
{
    return __atomic_load_n(&pages->numbers->written, __ATOMIC_ACQUIRE);
}

/* The record with this number is in the memory as a whole. */
static inline void pages_number(const struct pages *pages, uint64_t number)
{
    __atomic_store_n(&pages->numbers->changed, number, __ATOMIC_RELEASE);
}
