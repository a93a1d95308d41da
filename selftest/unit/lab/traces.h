/* SPDX-License-Identifier: MIT */
#pragma once
/* What: settings of a run, and a run of a trace that is a text, for tests of the lab. */
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

/* Each of its programs ends. */
static inline struct lab_result traces_play(const struct lab_settings *settings, const char *text)
{
    struct lab_result result;
    struct trace trace;
    trace_text_load(&trace, text);
    assert_int_equal(lab_run(settings, &trace, &result), LAB_EXIT_OK);
    trace_free(&trace);
    assert_int_equal(result.all.completed, result.programs);
    return result;
}
