/* SPDX-License-Identifier: MIT */
#pragma once
/* What: settings of a run, for tests of the lab. */
#include "selftest/unit/trace_text.h"

#include "tools/lab/lab.h"

static inline struct lab_settings traces_settings(const char *policy, const char *cost)
{
    return (struct lab_settings){.trace_path = "test", .system = "agentix", .policy = policy,
                                 .cost = cost_find(cost)};
}

static inline void traces_set(struct lab_settings *settings, const char *assignment)
{
    settings->sets[settings->sets_count++] = assignment;
}
