/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the kernels as nvcc has compiled them, one image for each .cu file and architecture: a
 * cubin for each that the Makefile names, and PTX for what comes. The build writes list and bytes
 * (tools/mkimages.py); the bytes are linked only where they are loaded. A build without nvcc has no
 * image, and says so.
 */
#include <stdint.h>
#include <stdio.h>

/* What a device takes when it is the soft GPU of the tests: every kernel is in there already. */
#define IMAGES_SOFT "soft"
#define IMAGES_SOFT_BYTES "agentix softgpu\n"

struct image {
    const char *file;               /* kernels/cuda/FILE.cu */
    const char *arch;               /* "sm_90a", or "compute_80": PTX */
    uint32_t bytes;
};
extern const struct image images[];
extern const uint32_t images_count;
extern const uint32_t images_toolkit;           /* 13000: of CUDA 13.0; 0: there was no nvcc */

/* (images_count): the bytes of each, aligned, a NUL behind them. Only in the GPU worker. */
extern const uint8_t *const images_data[];

/* The architecture whose images a device of this compute capability (90: 9.0) takes; NULL: there
 * is none. */
const char *images_arch(uint32_t capability);
/* For --version: a line for each architecture, or one that says why there is none. BOOT_ONLY. */
void images_write(FILE *file);
