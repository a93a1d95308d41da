/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a clock of the kernel's, in microseconds. The stages have world.now_us() instead. */
#include <signal.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t clock_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Sleeps so long, by a call that the keeper's filter has. */
static inline void clock_rest(uint64_t us)
{
    const struct timespec rest = {.tv_sec = (time_t)(us / 1000000),
                                  .tv_nsec = (long)(us % 1000000 * 1000)};
    sigset_t none;
    sigemptyset(&none);
    (void)sigtimedwait(&none, NULL, &rest);
}
