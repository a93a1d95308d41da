/* SPDX-License-Identifier: MIT */
#pragma once
/* What: traces as text, for tests of the lab. */
#include "selftest/unit/folder.h"

#include <stdio.h>
#include <unistd.h>

#include "tools/lab/lab.h"

/* Through a file, because that is how traces are read. */
static inline void traces_load(struct trace *trace, const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "%s/trace", test_folder());
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    close(file);
    assert_int_equal(trace_load(trace, path), 0);
}

static inline struct lab_settings traces_settings(const char *policy, const char *cost)
{
    return (struct lab_settings){.trace_path = "test", .system = "agentix", .policy = policy,
                                 .cost = cost_find(cost)};
}

static inline void traces_set(struct lab_settings *settings, const char *assignment)
{
    settings->sets[settings->sets_count++] = assignment;
}
