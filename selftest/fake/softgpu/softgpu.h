/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the soft GPU: a library that offers the entry points of kernels/cuda/driver/driver.def,
 * blas.def
 * and nvml.def on the CPU, so that everything above the chip is tested without one. It is built
 * for tests only; the appliance opens it where engine.cuda_library names it.
 *
 * One device. Streams are queues, each with a thread; device memory is malloc's, between redzones.
 * It is stricter than a GPU: no default stream, no copy of memory that is not pinned or is not
 * within one allocation, no cuBLAS without a workspace; each refusal says why on standard error.
 *
 * The environment, read by cuInit() (the first three: whenever they are asked for):
 *
 *   SOFTGPU_VERSION=13000     of the driver
 *   SOFTGPU_LACKS=NAME        an entry point that is not there
 *   SOFTGPU_DEVICES=1         0: none
 *   SOFTGPU_MEMORY=268435456  bytes of the device
 *   SOFTGPU_CAPABILITY=0      90: takes fat binaries, as a 9.0 does
 *   SOFTGPU_LAZY=0            1: an operation runs only when somebody waits for it or asks
 *   SOFTGPU_FIRST=0           2: lazy, and the second stream is as far ahead of the others as
 *                             events allow
 *   SOFTGPU_BLAS_SKEWED=0     1: cuBLAS sums the second half of the rows of a product in another
 *                             order than the first
 *   SOFTGPU_ACT=              a system call of selftest/misbehave/forbidden.c: see `act`
 *   SOFTGPU_FAULTS=           as below; @FILE: what is in the file, which is removed
 *
 *   SOFTGPU_NVML=             figures of NVML that a sound GPU has not: NAME:N,... of temperature,
 *                             slowdown, sm, memory, power, held (reasons), corrected, uncorrected
 *                             (what they grow by at a look), pending, failed, pages; -1: not told
 *
 * Faults: KIND:N, more of them behind a comma. The Nth event of the kind from now on fails:
 *
 *   alloc     an allocation of device or host memory is refused
 *   launch    a launch is refused; the next one is not
 *   sticky    a call reports an illegal address, and so does every later one
 *   lost      a call reports that the device is gone, and so does every later one
 *   hang      an operation of a stream never ends
 *   act       a launch makes the system call SOFTGPU_ACT, and says so if it lives on
 *   corrupt   one bit of what a copy has copied is wrong
 *   stuck     from an operation of a stream on, a bit in the middle of the largest allocation is 1
 */
#include <stdbool.h>
#include <stdint.h>

#define SOFTGPU_IMAGE  "agentix softgpu\n"  /* what a module of the soft GPU begins with */
#define SOFTGPU_FATBIN "\x50\xed\x55\xba"  /* what one of nvcc begins with */

/* Exported. Takes new faults instead of the old; a device that was lost or hung goes on. */
void softgpu_faults(const char *text);
