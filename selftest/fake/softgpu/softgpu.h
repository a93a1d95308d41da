/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the soft GPU: a library that offers the entry points of kernels/cuda/driver/driver.def,
 * blas.def and nvml.def on the CPU, so that all code above the GPU is tested without one. It is
 * built for tests only; the appliance opens it if engine.cuda_library names it.
 *
 * A process has one of the devices. Streams are queues, each with a thread; device memory is from
 * malloc, with redzones around it. It is stricter than a GPU: no default stream, no copy of memory
 * that is not pinned or not within one allocation, no cuBLAS without a workspace. Each refusal says
 * why on standard error.
 *
 * The environment, read by cuInit() (the first three at each use):
 *
 *   SOFTGPU_VERSION=13000     of the driver
 *   SOFTGPU_LACKS=NAME        an entry point that is missing
 *   SOFTGPU_DEVICES=1         0: none
 *   SOFTGPU_MEMORY=268435456  bytes of the device. These three may be lists, of each device one
 *                             number, and the last number is that of all further devices
 *   SOFTGPU_PROCESSORS=2      of the device
 *   SOFTGPU_CAPABILITY=0      90: takes fat binaries, as a GPU of 9.0 does
 *   SOFTGPU_LAZY=0            1: an operation runs only when a caller waits for it or queries it
 *   SOFTGPU_FIRST=0           2: lazy, and the second stream runs as far ahead of the others as
 *                             events allow
 *   SOFTGPU_OPENS=0           1: opens a file at the first use of a kernel, stream, product, wait,
 *                             or size and direction of a copy, as a driver may; so does the thread
 *                             of a stream, which blocks all signals
 *   SOFTGPU_BLAS_MEMORY=0     bytes of the device that cuBLAS takes when it starts
 *   SOFTGPU_BLAS_SKEWED=0     1: cuBLAS sums the second half of the rows of a product in another
 *                             order than the first
 *   SOFTGPU_MMA_SKEWED=0      1: tensor cores round some rows of a product in another way
 *   SOFTGPU_ACT=              a system call of selftest/misbehave/forbidden.c: see `act`
 *   SOFTGPU_FAULTS=           as below; @FILE: the contents of the file, which is removed
 *
 *   SOFTGPU_NVML=             figures of NVML that differ from a sound GPU's: NAME:N,... with names
 *                             temperature, slowdown, sm, memory, power, held (reasons), corrected,
 *                             uncorrected (growth at each reading), pending, failed, pages; -1: not
 *                             available
 *
 * Faults: KIND:N, separated by commas; DEVICE:KIND:N, but not in a file: of that device alone. The
 * Nth event of the kind from now on fails. A question whether an event is past is no call here:
 *
 *   alloc     an allocation of device or host memory is refused
 *   launch    a launch is refused; the next one is not
 *   sticky    a call reports an illegal address, and so does every later one
 *   lost      a call reports that the device is gone, and so does every later one
 *   hang      an operation of a stream never ends
 *   act       a launch makes the system call SOFTGPU_ACT, and says so if the process survives
 *   corrupt   a copy changes one bit
 *   stuck     from this operation of a stream on, one bit of the largest allocation is always 1
 */
#include <stdbool.h>
#include <stdint.h>

#define SOFTGPU_IMAGE  "agentix softgpu\n"  /* the beginning of a module of the soft GPU */
#define SOFTGPU_FATBIN "\x50\xed\x55\xba"  /* the beginning of a module by nvcc */

/* Exported. Launches of kernels so far. */
uint64_t softgpu_launches(void);
/* Exported. Replaces the faults by new ones; a device that was lost or hung works again. */
void softgpu_faults(const char *text);
