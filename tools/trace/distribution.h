/* SPDX-License-Identifier: MIT */
#pragma once
/* What: mean and percentiles of values. Percentiles are nearest ranks: the smallest value that this
 * many per cent of all values do not exceed. */
#include <stdint.h>

struct distribution { double mean, p50, p90, p95, p99; };

/* Sorts the values. Of none, all are 0. */
struct distribution distribution_of(double *values, uint32_t count);
