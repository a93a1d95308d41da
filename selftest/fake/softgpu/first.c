/* SPDX-License-Identifier: MIT */
/*
 * What: a driver does much at the first use of something, and opens files for it: `soft_first`
 * opens one, whose name says what is used, and goes on whether it could or not.
 *
 * Bounds: FIRSTS_MAX different uses.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/base/assert.h"
#include "selftest/fake/softgpu/device.h"

#define FIRSTS_MAX 512
#define NAME_BYTES 64

static struct {
    char names[FIRSTS_MAX][NAME_BYTES];
    uint32_t count;
} seen;

void soft_first(const char *format, ...)
{
    char name[NAME_BYTES], path[NAME_BYTES + 32];
    va_list arguments;
    if (soft_environment("SOFTGPU_OPENS", 0) == 0) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    for (uint32_t i = 0; i < seen.count; i++) {
        if (strcmp(seen.names[i], name) == 0) {
            return;
        }
    }
    ASSERT(seen.count < FIRSTS_MAX);
    memcpy(seen.names[seen.count++], name, sizeof name);
    snprintf(path, sizeof path, "/softgpu/first/%s", name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        close(file);
    }
}
