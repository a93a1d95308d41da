/* SPDX-License-Identifier: MIT */
/*
 * What: which architectures the image has code for, and which of them a device runs. Code for an
 * architecture runs on the same major version from the same minor version on, or, if its name ends
 * with `a`, on exactly that version. PTX runs on all later ones, after the driver has compiled it.
 * Why a file of its own: the Makefile compiles the list of architectures into it.
 */
#include "kernels/cuda/driver/images.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#ifndef IMAGES_ARCHS                    /* the Makefile defines it if there is an nvcc */
#define IMAGES_ARCHS
#define IMAGES_TOOLKIT 0
#endif

const char *const images_archs[] = {IMAGES_ARCHS NULL};
const uint32_t images_toolkit = IMAGES_TOOLKIT;

static bool arch_runs_on(const char *arch, uint32_t capability)
{
    char *end = NULL;
    uint32_t own = (uint32_t)strtoul(strchr(arch, '_') + 1, &end, 10);
    if (*end == 'a') {
        return capability == own;
    }
    bool is_ptx = strncmp(arch, "compute_", strlen("compute_")) == 0;
    return capability >= own && (is_ptx || capability / 10 == own / 10);
}

const char *images_arch(const char *const archs[], uint32_t capability)
{
    if (capability == 0) {
        return IMAGES_SOFT;
    }
    while (*archs != NULL && !arch_runs_on(*archs, capability)) {
        archs++;
    }
    return *archs;
}

void images_write(FILE *file)
{
    if (images_archs[0] == NULL) {
        fprintf(file, "gpu kernels: none: no nvcc when this was built\n");
        return;
    }
    fprintf(file, "gpu kernels:");
    for (const char *const *arch = images_archs; *arch != NULL; arch++) {
        fprintf(file, " %s", *arch);
    }
    fprintf(file, ", CUDA %u.%u\n", images_toolkit / 1000, images_toolkit % 1000 / 10);
}
