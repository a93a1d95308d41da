/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a clock of the kernel's, in microseconds. The stages have world.now_us() instead. */
#include <stdint.h>
#include <time.h>

static inline uint64_t clock_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}
