/* SPDX-License-Identifier: MIT
 *
 * What: for each byte that a launch touches a cell, with a mark for each kind of access. Cells lie
 * in pages that a hash table finds by the address. As long as only whole words of a page are
 * touched, a cell is of a word: that takes half the time.
 *
 * A phase is the time between two barriers of a thread block; phases are numbered through the
 * launch, so a mark of a phase before the thread block's first one is of another thread block. In a
 * phase each warp has phases of its own.
 *
 * A mark keeps two CUDA threads of a phase, of two warps if there are two: with one of them each
 * further CUDA thread that is not ordered with any shows a race. So it need not keep all.
 */
#include "selftest/fake/races/shadow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/cuda/device/gpu.h"

#define TABLE_SLOTS (2 * SHADOW_PAGES_MAX)      /* a power of two */
#define WORD_BYTES  4u
#define WARPS_MAX   (GPU_HOST_THREADS_MAX / GPU_WARP)
#define NO_THREAD   UINT16_MAX

struct mark {
    uint32_t phase;             /* of the last access; 0: there was none */
    uint32_t warp_phase;        /* of `thread` */
    uint16_t thread, other;     /* `other`: a second one, or NO_THREAD */
    uint32_t site, other_site;
    uint32_t site_before;       /* of an access by a thread block before that of `phase`, or 0; */
    uint32_t phase_before;      /* and its phase */
};

struct cell {
    struct mark marks[SHADOW_ACCESSES];
};

struct page {
    uintptr_t number;           /* of the page of memory; 0: free */
    uint32_t grain;             /* bytes of a cell: 1 or WORD_BYTES */
    struct cell *cells;
};

/* The launch in progress; there is only one at a time. */
static struct shadow {
    uint32_t phase, phase_first;            /* phase_first: of the thread block */
    uint32_t warp_phases[WARPS_MAX];
    bool has_fenced;                        /* the thread block that runs */
    uint8_t is_told[SHADOW_PHASES_MAX];     /* a fence of its thread block came after the phase */
    uint32_t pages_count;
    struct cell (*pages)[SHADOW_PAGE_BYTES];
    struct page table[TABLE_SLOTS];
} shadow;

/* ---- cells ---- */

static void pages_map(void)
{
    shadow.pages = mmap(NULL, sizeof *shadow.pages * SHADOW_PAGES_MAX, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (shadow.pages == MAP_FAILED) {
        perror("races: shadow memory");
        abort();
    }
}

static struct page page_take(uintptr_t number)
{
    if (shadow.pages_count == SHADOW_PAGES_MAX) {
        fprintf(stderr, "races: a launch touches more than %u pages: SHADOW_PAGES_MAX\n",
                SHADOW_PAGES_MAX);
        abort();
    }
    return (struct page){number, WORD_BYTES, shadow.pages[shadow.pages_count++]};
}

static struct page *page_find(uintptr_t address)
{
    uintptr_t number = address / SHADOW_PAGE_BYTES;
    uint32_t slot = (uint32_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 32) % TABLE_SLOTS;
    while (shadow.table[slot].number != number) {
        if (shadow.table[slot].number == 0) {
            shadow.table[slot] = page_take(number);
            break;
        }
        slot = (slot + 1) % TABLE_SLOTS;
    }
    return &shadow.table[slot];
}

/* From a cell for each word to one for each byte. */
static void page_split(struct page *page)
{
    for (uint32_t at = SHADOW_PAGE_BYTES; at-- > 0;) {
        page->cells[at] = page->cells[at / WORD_BYTES];
    }
    page->grain = 1;
}

/* ---- marks ---- */

static uint32_t warp_of(uint32_t thread)
{
    return thread / GPU_WARP;
}

/* A CUDA thread of the mark, which is of this phase, that is not ordered with `thread`. */
static uint32_t unordered_thread(const struct mark *mark, uint32_t thread)
{
    uint32_t warp = warp_of(thread);
    if (warp_of(mark->thread) != warp) {
        return mark->thread;
    }
    if (mark->other != NO_THREAD && warp_of(mark->other) != warp) {
        return mark->other;
    }
    if (mark->warp_phase != shadow.warp_phases[warp]) {
        return NO_THREAD;
    }
    return mark->thread != thread ? mark->thread : mark->other;
}

/* True when an access of another thread block in this phase is ordered with what this one does. */
static bool is_told(uint32_t phase)
{
    return shadow.has_fenced && shadow.is_told[phase] != 0;
}

static bool mark_races(const struct mark *mark, const struct shadow_now *now,
                       struct shadow_other *other)
{
    if (mark->phase == 0) {
        return false;
    }
    bool is_foreign = mark->phase < shadow.phase_first;
    if (is_foreign || mark->site_before != 0) {
        other->is_of_thread_block = false;
        other->site = is_foreign ? mark->site : mark->site_before;
        if (!now->is_shared && !is_told(is_foreign ? mark->phase : mark->phase_before)) {
            return true;
        }
        if (is_foreign) {
            return false;
        }
    }
    uint32_t thread = mark->phase == shadow.phase ? unordered_thread(mark, now->thread) : NO_THREAD;
    other->is_of_thread_block = true;
    other->thread = thread;
    other->site = thread == mark->thread ? mark->site : mark->other_site;
    return thread != NO_THREAD;
}

/* In a phase that the mark has already. */
static void mark_add(struct mark *mark, const struct shadow_now *now, uint32_t warp_phase)
{
    uint32_t warp = warp_of(now->thread);
    bool is_of_warp = warp_of(mark->thread) == warp;
    if (is_of_warp && mark->warp_phase != warp_phase) {
        mark->other = warp_of(mark->other) == warp ? NO_THREAD : mark->other;
        mark->thread = (uint16_t)now->thread;
        mark->warp_phase = warp_phase;
        mark->site = now->site;
    } else if (!is_of_warp || (mark->thread != now->thread && mark->other == NO_THREAD)) {
        mark->other = (uint16_t)now->thread;
        mark->other_site = now->site;
    }
}

static void mark_set(struct mark *mark, const struct shadow_now *now)
{
    uint32_t warp_phase = shadow.warp_phases[warp_of(now->thread)];
    if (mark->phase == shadow.phase) {
        mark_add(mark, now, warp_phase);
        return;
    }
    bool is_foreign = mark->phase != 0 && mark->phase < shadow.phase_first && !now->is_shared;
    *mark = (struct mark){
        .phase = shadow.phase,
        .warp_phase = warp_phase,
        .thread = (uint16_t)now->thread,
        .other = NO_THREAD,
        .site = now->site,
        .site_before = is_foreign ? mark->site : mark->site_before,
        .phase_before = is_foreign ? mark->phase : mark->phase_before,
    };
}

/* ---- what orders, and what is ordered ---- */

void shadow_launch_begin(void)
{
    if (shadow.pages == NULL) {
        pages_map();
    }
    madvise(shadow.pages, shadow.pages_count * sizeof *shadow.pages, MADV_DONTNEED);
    memset(shadow.table, 0, sizeof shadow.table);
    memset(shadow.is_told, 0, shadow.phase + 1);
    shadow.pages_count = 0;
    shadow.phase = 0;
}

void shadow_thread_block_begin(void)
{
    shadow_thread_block_order();
    shadow.phase_first = shadow.phase;
    shadow.has_fenced = false;
}

void shadow_thread_block_order(void)
{
    if (++shadow.phase == SHADOW_PHASES_MAX) {
        fprintf(stderr, "races: a launch has more than %u barriers: SHADOW_PHASES_MAX\n",
                SHADOW_PHASES_MAX);
        abort();
    }
    memset(shadow.warp_phases, 0, sizeof shadow.warp_phases);
}

void shadow_warp_order(uint32_t warp)
{
    shadow.warp_phases[warp]++;
}

void shadow_fence(void)
{
    memset(shadow.is_told + shadow.phase_first, 1, shadow.phase - shadow.phase_first + 1);
    shadow.has_fenced = true;
}

static bool is_harmless(enum shadow_access a, enum shadow_access b)
{
    return a == b && a != SHADOW_WRITE;
}

static bool cell_touch(struct cell *cell, const struct shadow_now *now, struct shadow_other *other)
{
    bool races = false;
    for (uint32_t access = 0; access < SHADOW_ACCESSES && !races; access++) {
        other->access = access;
        races = !is_harmless(access, now->access) && mark_races(&cell->marks[access], now, other);
    }
    mark_set(&cell->marks[now->access], now);
    return races;
}

bool shadow_touch(const struct shadow_now *now, struct shadow_other *other)
{
    bool races = false;
    uintptr_t end = now->address + now->bytes;
    for (uintptr_t at = now->address; at < end && !races;) {
        struct page *page = page_find(at);
        if (page->grain > 1 && (at % WORD_BYTES != 0 || end % WORD_BYTES != 0)) {
            page_split(page);
        }
        races = cell_touch(&page->cells[at % SHADOW_PAGE_BYTES / page->grain], now, other);
        at += page->grain;
    }
    return races;
}
