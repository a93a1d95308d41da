/* SPDX-License-Identifier: MIT */
/* What: the memory that is left, read from small files of the kernel. */
#include "appliance/boot/available.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number from a small file of /proc or /sys, after `label` where there is one; UINT64_MAX:
 * none. */
static uint64_t number_from_file(const char *path, const char *label)
{
    char text[2048];
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return UINT64_MAX;
    }
    size_t count = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[count] = '\0';
    const char *at = label == NULL ? text : strstr(text, label);
    if (at == NULL) {
        return UINT64_MAX;
    }
    at += label == NULL ? 0 : strlen(label);
    char *end = NULL;
    uint64_t number = strtoull(at, &end, 10);
    return end == at ? UINT64_MAX : number;
}

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The limit of the control group that a line of /proc/self/cgroup names: "0::PATH" of version 2,
 * "N:memory:PATH" of version 1. UINT64_MAX: none. */
static uint64_t group_bytes(const char *line)
{
    static const char version_1[] = ":memory:";
    char path[512];
    const char *memory = strstr(line, version_1);
    if (strncmp(line, "0::", 3) == 0) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", line + 3);
    } else if (memory != NULL) {
        snprintf(path, sizeof path, "/sys/fs/cgroup/memory%s/memory.limit_in_bytes",
                 memory + sizeof version_1 - 1);
    } else {
        return UINT64_MAX;
    }
    return number_from_file(path, NULL);
}

/* In a container the group may be the root that is mounted: then its limit is at the top. */
static uint64_t groups_bytes(void)
{
    char line[400];
    uint64_t least = number_from_file("/sys/fs/cgroup/memory.max", NULL);
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        least = least_of(least, group_bytes(line));
    }
    if (file != NULL) {
        fclose(file);
    }
    return least;
}

uint64_t available_bytes(void)
{
    uint64_t kib = number_from_file("/proc/meminfo", "MemAvailable:");
    return least_of(kib > UINT64_MAX / 1024 ? UINT64_MAX : kib * 1024, groups_bytes());
}
