/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the counters and the histograms of the core, made from stats.def. The stages get a pointer
 * to the counters; sched has the histograms, for it sees all that is timed. */
#include <stdint.h>

#include "config/base/bounds.h"
#include "config/base/histogram.h"

struct stats {
#define STAT(name, unit, kind, help) uint64_t name;
#include "config/base/stats.def"
};

enum time_kind {
#define TIME(NAME, name, by, help) TIME_##NAME,
#include "config/base/stats.def"
    TIMES_COUNT
};

struct times {
    struct histogram all[TIMES_COUNT];
    struct histogram queue_wait[BOUND_QUEUES];      /* TIME_QUEUE_WAIT, each queue by itself */
};
