/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the copies to shared memory that the CUDA threads of a thread block have in flight
 * (kernels/cuda/device/mma.h).
 */
#include <stdbool.h>
#include <stdint.h>

/* A thread block begins; what an earlier one left in flight is dropped. Late: a copy comes when its
 * CUDA thread waits for it, else at once. */
void copies_begin(uint32_t threads, bool late);
