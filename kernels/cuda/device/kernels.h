/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the kernels of the GPU: what each takes, what it does to the bit, and how it is launched,
 * in six parts. Plain C, for the kernels (nvcc), their tests and who launches them.
 *
 *   arguments   one struct a kernel, by value: device addresses as uint64_t, sizes, units in the
 *               names. `(a, b)` behind an address is a matrix of a rows, whose stride counts
 *               elements. Activations are F32 but for what products read (`_type`)
 *   launch      gpu_NAME_launch() of the arguments: grid, block and shared bytes. Beyond 48 KiB
 *               shared memory must be asked for (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
 *   trust       arguments and lists are the engine's, which has checked them: ids, positions and
 *               tokens are in range
 *
 * Promise: a row's numbers depend on its own call and the model only. Sums have one order, which
 * the comment of the kernel states; it knows of no other row, no grid, no SM. So decode, prefill in
 * chunks of any size and a recompute give the same bits. No sum uses atomics but those of integers.
 *
 * KV is block-major: [block][layer][K|V][kv_head][token][head_dim], keys and values alike, without
 * padding; from one block to the next it is block_bytes, a multiple of 16.
 */
#include "kernels/cuda/device/attention.h"
#include "kernels/cuda/device/forward.h"
#include "kernels/cuda/device/pattern.h"
#include "kernels/cuda/device/record.h"
#include "kernels/cuda/device/rounds.h"
#include "kernels/cuda/device/swap.h"
