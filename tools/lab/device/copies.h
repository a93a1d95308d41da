/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: when the copies of a step let its rounds begin, and when they are done. A step copies out
 * (device to host), within the device, and in (host to device); config/base/step.h has the phases.
 *
 *   serial   one phase after the other, then the rounds: our CPU engine (kernels/round/move.c). Its
 *            copies are work of the threads that compute.
 *   streams  out and in are lanes of their own. Work waits for a lane, and then for all of it, if
 *            it fills a block that the lane reads; rounds wait for all that comes in, and for what
 *            is copied within. The step is done when both lanes are: our GPU engine
 *            (kernels/cuda/move.c).
 *   needed   as streams, block by block: rounds wait only for blocks of the step's rows, which are
 *            copied first: those that come in, and those that must be out before a row fills them.
 *            No engine of ours does it.
 */
#include <stdbool.h>

#include "tools/lab/device/cost.h"

struct copies {
    double out_s, within_s, in_s;           /* what each takes by itself */
    double out_needed_s, in_needed_s;       /* of it: blocks of the step's rows */
    bool within_fills_out, in_fills_out, rows_fill_out;     /* a block that the phase out reads */
    bool in_fills_within;
};
struct copies_times {
    double rounds_s;                /* from the step's start until its rounds may begin */
    double done_s;                  /* ... and until all is copied */
};
struct copies_times copies_times(const struct copies *copies, enum cost_copies kind);
