/* SPDX-License-Identifier: MIT */
#pragma once
/* What: whether the step that a kernel works for has ended: what it would read is not needed. */
#include "kernels/cuda/device/gpu.h"
#include "kernels/cuda/device/kernels.h"

/* `round`: struct gpu_round, or 0 outside of a step. */
GPU_INLINE bool gpu_step_has_ended(uint64_t round)
{
    return round != 0 && ((const struct gpu_round *)round)->has_ended != 0;
}
