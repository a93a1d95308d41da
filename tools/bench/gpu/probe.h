/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the times of the kernels of one step, each between two events of the driver. The probe
 * stands in the table of the driver's entry points, so it sees what the engine launches, however
 * many kernels that has and whatever their arguments are. Products by the library are not seen.
 */
#include "tools/bench/gpu/machine.h"

/* Kernels by the begin of their name: PROBE_GROUP(noun, begin). The last one has the others. */
#define PROBE_GROUPS                     \
    PROBE_GROUP(PRODUCT, "product")      \
    PROBE_GROUP(ATTENTION, "attend")     \
    PROBE_GROUP(SAMPLE, "sample")        \
    PROBE_GROUP(RMS_NORM, "rms_norm")    \
    PROBE_GROUP(ROPE, "rope")            \
    PROBE_GROUP(SWIGLU, "swiglu")        \
    PROBE_GROUP(OTHERS, "")

enum probe_group {
#define PROBE_GROUP(noun, begin) PROBE_##noun,
    PROBE_GROUPS
#undef PROBE_GROUP
    PROBE_GROUPS_COUNT
};

struct probe_sum {
    double us;
    uint32_t launches;
};

/* Runs the machine's step with the device busy before it, so that it never waits for the host. */
void probe_step(struct machine *machine, struct probe_sum sums[PROBE_GROUPS_COUNT]);
