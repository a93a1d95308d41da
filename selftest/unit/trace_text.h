/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a trace from its text, for tests of what plays traces. */
#include "selftest/unit/folder.h"

#include "tools/trace/trace.h"

/* Through a file, because that is how traces are read. */
static inline void trace_text_load(struct trace *trace, const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "%s/trace", test_folder());
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    close(file);
    assert_int_equal(trace_load(trace, path, &(struct trace_options){0}), 0);
}
