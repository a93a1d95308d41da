/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the reader of our own form, `agentix-trace 1` (trace.h). */
#include "tools/trace/build.h"

/* Adds what the text says. The line that was read last, where a fault is. */
uint32_t native_read(struct build *build, const char *text, size_t bytes);
