/* SPDX-License-Identifier: MIT */
#pragma once
/* What: what of machine and files is looked at before anything is computed. */
#include "selftest/post/check.h"

/* A reading of the clock after another one, on `cpu`. */
void post_clock_compare(uint64_t before_us, uint64_t now_us, uint32_t cpu,
                        struct post_faults *faults);
/* `forbidden`: mode bits that the file must not have. */
void post_file_compare(const char *path, uint32_t forbidden, struct post_faults *faults);
