/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the checks of machine and files, which come before any computation. */
#include "selftest/post/check.h"

/* Compares a reading of the clock on `cpu` with an earlier one. */
void post_clock_compare(uint64_t before_us, uint64_t now_us, uint32_t cpu,
                        struct post_faults *faults);
/* `forbidden`: mode bits that the file must not have. */
void post_file_compare(const char *path, uint32_t forbidden, struct post_faults *faults);
