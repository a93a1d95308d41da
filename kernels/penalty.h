/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what a penalty makes of a logit, defined once for the CPU and the GPU. Each operation is
 * rounded by itself: nothing is fused.
 */
#include <stdint.h>

#ifndef KERNELS_DEVICE
#define KERNELS_DEVICE                  /* kernels/cuda/device/gpu.h: for the GPU */
#endif

/* Of a token that was generated `count` times, at least once. */
static inline KERNELS_DEVICE float kernels_counted(float logit, uint32_t count, float frequency,
                                                   float presence)
{
    return logit - ((float)count * frequency + presence);
}

/* Of a token among the last ones. */
static inline KERNELS_DEVICE float kernels_repeated(float logit, float penalty)
{
    return logit > 0 ? logit / penalty : logit * penalty;
}
