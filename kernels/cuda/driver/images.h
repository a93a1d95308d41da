/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the kernels as nvcc has compiled them: one fat binary, with code for each architecture that
 * the Makefile names (GPU_ARCHS), and PTX for later ones. The driver takes the code that its device
 * runs. A build without nvcc has no image, and says so.
 */
#include <stdint.h>
#include <stdio.h>

/* The image for the soft GPU of the tests, which contains every kernel already. */
#define IMAGES_SOFT "soft"
#define IMAGES_SOFT_BYTES "agentix softgpu\n"

extern const char *const images_archs[];        /* "sm_90a", "compute_80" (PTX); ends with NULL */
extern const uint32_t images_toolkit;           /* 13000: of CUDA 13.0; 0: there was no nvcc */
extern const uint8_t images_data[];             /* the fat binary. Only in the GPU worker */

/* The first of `archs` that a device of this compute capability (90: 9.0) runs; NULL: none. The
 * soft GPU has 0. */
const char *images_arch(const char *const archs[], uint32_t capability);
/* For --version: a line with the architectures, or why there are none. BOOT_ONLY. */
void images_write(FILE *file);
