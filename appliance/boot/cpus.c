/* SPDX-License-Identifier: MIT */
/*
 * What: sets of CPUs (appliance/boot/cpus.h).
 * Why neighbours by number: firmware numbers the cores of a memory node one after the other, so a
 * worker's threads meet within a node, and its KV, which its threads touch first, is that node's.
 * Why the kernel's calls and not those of the C library: the set is ours, in a file that tests can
 * give any machine.
 * Bounds: O(CPUS_MAX). BOOT_ONLY.
 */
#include "appliance/boot/cpus.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/base/assert.h"
#include "config/base/text.h"

#define RANGE_BYTES_MAX 10u         /* ",1022-1023" */

STATIC_ASSERT(sizeof(struct cpus) * 8 == CPUS_MAX, "a bit for each");

static bool has(const struct cpus *cpus, uint32_t cpu)
{
    return cpu < CPUS_MAX && (cpus->bits[cpu / 64] >> cpu % 64 & 1) != 0;
}

bool cpus_read(struct cpus *cpus)
{
    memset(cpus, 0, sizeof *cpus);
    return syscall(SYS_sched_getaffinity, 0, sizeof *cpus, cpus) > 0;
}

uint32_t cpus_count(const struct cpus *cpus)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < CPUS_MAX / 64; i++) {
        count += (uint32_t)__builtin_popcountll(cpus->bits[i]);
    }
    return count;
}

bool cpus_part(const struct cpus *cpus, uint32_t part, uint32_t parts, struct cpus *own)
{
    uint32_t count = cpus_count(cpus), seen = 0;
    uint32_t first = count * part / parts, end = count * (part + 1) / parts;
    ASSERT(part < parts && own != cpus);
    memset(own, 0, sizeof *own);
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++) {
        if (has(cpus, cpu)) {
            bool is_own = seen >= first && seen < end;
            own->bits[cpu / 64] |= is_own ? UINT64_C(1) << cpu % 64 : 0;
            seen++;
        }
    }
    return count >= parts;
}

bool cpus_keep_to(const struct cpus *cpus)
{
    return syscall(SYS_sched_setaffinity, 0, sizeof *cpus, cpus) == 0;
}

static void add_range(struct text *out, uint32_t first, uint32_t last)
{
    text_add(out, out->length > 0 ? "," : "");
    text_add_u64(out, first);
    if (last > first) {
        text_add(out, "-");
        text_add_u64(out, last);
    }
}

void cpus_write(const struct cpus *cpus, char text[CPUS_TEXT_BYTES])
{
    struct text out;
    text_init(&out, text, CPUS_TEXT_BYTES - 1);
    for (uint32_t cpu = 0, last; cpu < CPUS_MAX; cpu = last + 1) {
        for (last = cpu; has(cpus, cpu) && has(cpus, last + 1); last++) {
        }
        if (has(cpus, cpu) && out.max - out.length >= RANGE_BYTES_MAX) {
            add_range(&out, cpu, last);
        }
    }
    text[out.length] = '\0';
}
