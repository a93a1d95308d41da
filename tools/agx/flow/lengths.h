/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: how long the values of operators are, in a file: a line for each operator, its name, the
 * mean of its tokens and the number of values, separated by tabs. `agx flow --profile` writes one,
 * `--est` reads it: a better foresight makes a better order, and never other answers.
 */
#include <stdbool.h>
#include <stdint.h>

#include "tools/sdk/flow.h"

#define LENGTHS_FAULT_BYTES 256
#define LENGTHS_NAME_BYTES  256

struct length { char name[LENGTHS_NAME_BYTES]; double tokens; uint64_t values; };
struct lengths { uint32_t count; struct length rows[AGX_FLOW_NODES_MAX]; };

/* False: `fault` says why. */
bool lengths_read(struct lengths *lengths, const char *path, char fault[LENGTHS_FAULT_BYTES]);
bool lengths_write(const struct lengths *lengths, const char *path);
/* One more value. What has no room is left out. */
void lengths_add(struct lengths *lengths, const char *name, uint32_t tokens);
/* The mean, rounded up, at least 1; 0: the name is not known. As flow_file_settings.est. */
uint32_t lengths_est(void *lengths, const char *name);
