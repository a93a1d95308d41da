/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the kernels of the GPU: what each takes, its result to the bit, and how it is launched, in
 * seven parts. Plain C, for the kernels (nvcc), their tests and the code that launches them.
 *
 *   arguments   one struct for each kernel, by value: device addresses as uint64_t, sizes, units in
 *               the names. `(a, b)` after an address is a matrix of a rows, whose stride counts
 *               elements. Activations are F32 except the inputs of products (`_type`)
 *   launch      gpu_NAME_launch() of the arguments: grid, thread block and shared bytes. Beyond
 *               48 KiB, shared memory must be requested
 *               (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
 *   trust       arguments and lists come from the engine, which has checked them: ids, positions
 *               and tokens are in range
 *
 * Promise: a row's numbers depend on its own call and the model only. Sums have one order, which
 * the kernel's comment states; it depends on no other row, no grid, no SM. So decode, prefill in
 * chunks of any size and a recompute give the same bits. Only sums of integers use atomics. Within
 * an instruction of a tensor core the order is the chip's own (mma.h).
 *
 * Words: a slot is a token slot, a place one of the rows that run at a time (record.h). A thread is
 * a CUDA thread, a block of threads a thread block, a block of KV a KV block.
 *
 * KV is block-major: [KV block][layer][K|V][kv_head][token][head_dim], keys and values alike,
 * without padding; from one block to the next it is block_bytes, a multiple of 16.
 */
#include "kernels/cuda/device/attention.h"
#include "kernels/cuda/device/forward.h"
#include "kernels/cuda/device/pattern.h"
#include "kernels/cuda/device/product.h"
#include "kernels/cuda/device/record.h"
#include "kernels/cuda/device/rounds.h"
#include "kernels/cuda/device/swap.h"
