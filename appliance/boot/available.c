/* SPDX-License-Identifier: MIT */
/*
 * What: the memory that is left, read from small files of the kernel.
 *
 * A control group has left what its limit allows beyond what it uses; file pages that the kernel
 * would drop first do not count as used. Each group up to the root has a limit of its own, and all
 * of them hold. Version 1 of control groups has other names for the same files.
 */
#include "appliance/boot/available.h"

#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "config/base/bounds.h"

#define PATH_BYTES 512
#define NO_LIMIT   (UINT64_C(1) << 62)     /* version 1 has a large number for it */

/* A number from a small file of /proc or /sys, after `label` where there is one; MEMORY_UNBOUNDED:
 * none. `base` as of strtoull(). */
static uint64_t number_from_file(const char *path, const char *label, int base)
{
    char text[4096];
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return MEMORY_UNBOUNDED;
    }
    size_t count = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[count] = '\0';
    const char *at = label == NULL ? text : strstr(text, label);
    if (at == NULL) {
        return MEMORY_UNBOUNDED;
    }
    at += label == NULL ? 0 : strlen(label);
    char *end = NULL;
    uint64_t number = strtoull(at, &end, base);
    return end == at ? MEMORY_UNBOUNDED : number;
}

/* ---- control groups ---- */

struct group_files {                /* of one version of control groups */
    const char *mount, *limit, *usage, *dropped;
};
static const struct group_files version_1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                             "memory.usage_in_bytes", "\ntotal_inactive_file "};
static const struct group_files version_2 = {"/sys/fs/cgroup", "memory.max", "memory.current",
                                             "\ninactive_file "};

static uint64_t group_number(const struct group_files *files, const char *group, const char *file,
                             const char *label)
{
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s%s/%s", files->mount, group, file);
    return number_from_file(path, label, 10);
}

/* What one group has left. */
static uint64_t left_in(const struct group_files *files, const char *group)
{
    uint64_t limit = group_number(files, group, files->limit, NULL);
    uint64_t usage = group_number(files, group, files->usage, NULL);
    uint64_t dropped = group_number(files, group, "memory.stat", files->dropped);
    if (limit >= NO_LIMIT || usage == MEMORY_UNBOUNDED) {
        return limit >= NO_LIMIT ? MEMORY_UNBOUNDED : limit;
    }
    usage -= dropped == MEMORY_UNBOUNDED ? 0 : lesser(usage, dropped);
    return limit - lesser(limit, usage);
}

/* The least of a group and all above it. In a container the group may be the root that is mounted:
 * then its limit is at the top. */
static uint64_t left_above(const struct group_files *files, const char *group)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s", group);
    uint64_t least = left_in(files, path);
    for (char *slash = strrchr(path, '/'); slash != NULL; slash = strrchr(path, '/')) {
        *slash = '\0';
        least = lesser(least, left_in(files, path));
    }
    return least;
}

/* Of the group that a line of /proc/self/cgroup names: "0::PATH" of version 2, "N:memory:PATH" of
 * version 1. */
static uint64_t left_by_line(const char *line)
{
    static const char memory[] = ":memory:";
    const char *first = strstr(line, memory);
    if (strncmp(line, "0::", 3) == 0) {
        return left_above(&version_2, line + 3);
    }
    return first != NULL ? left_above(&version_1, first + sizeof memory - 1) : MEMORY_UNBOUNDED;
}

static uint64_t left_in_groups(void)
{
    char line[PATH_BYTES];
    uint64_t least = left_in(&version_2, "");
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        least = lesser(least, left_by_line(line));
    }
    if (file != NULL) {
        fclose(file);
    }
    return least;
}

/* ---- locks ---- */

/* The limit of ulimit -l, which root does not have. */
static uint64_t lockable(void)
{
    struct rlimit limit;
    uint64_t rights = number_from_file("/proc/self/status", "\nCapEff:", 16);
    bool is_free = rights != MEMORY_UNBOUNDED && (rights >> CAP_IPC_LOCK & 1) != 0;
    if (is_free || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return MEMORY_UNBOUNDED;
    }
    return limit.rlim_cur;
}

void memory_bounds_read(struct memory_bounds *bounds, bool must_lock)
{
    uint64_t kib = number_from_file("/proc/meminfo", "MemAvailable:", 10);
    *bounds = (struct memory_bounds){
        .machine = kib > UINT64_MAX / 1024 ? MEMORY_UNBOUNDED : kib * 1024,
        .group = left_in_groups(),
        .locked = must_lock ? lockable() : MEMORY_UNBOUNDED,
    };
}
