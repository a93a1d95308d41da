/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the counters of the core, one struct made from stats.def; the stages get a pointer to
 * it. */
#include <stdint.h>

struct stats {
#define STAT(name, unit, kind, help) uint64_t name;
#include "config/base/stats.def"
#undef STAT
};
