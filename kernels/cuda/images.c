/* SPDX-License-Identifier: MIT */
/*
 * What: which images there are, and which a device takes. A cubin runs on its own major version,
 * from its minor on; one with an `a` on exactly its own; PTX on everything later, after the driver
 * has compiled it.
 */
#include "kernels/cuda/images.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The best first. */
static const struct arch {
    const char *name;
    uint32_t capability;
    enum { EXACTLY, SAME_MAJOR, LATER } runs_on;
} archs[] = {
    {"sm_90a", 90, EXACTLY},
    {"sm_80", 80, SAME_MAJOR},
    {"sm_100", 100, SAME_MAJOR},
    {"compute_80", 80, LATER},
    {IMAGES_SOFT, 0, EXACTLY},
};
#define ARCHS (sizeof archs / sizeof archs[0])

static bool arch_runs_on(const struct arch *arch, uint32_t capability)
{
    bool is_later = capability >= arch->capability;
    bool is_same_major = capability / 10 == arch->capability / 10;
    return arch->runs_on == EXACTLY      ? capability == arch->capability
           : arch->runs_on == SAME_MAJOR ? is_later && is_same_major
                                         : is_later;
}

const char *images_arch(uint32_t capability)
{
    for (uint32_t i = 0; i < ARCHS; i++) {
        if (arch_runs_on(&archs[i], capability)) {
            return archs[i].name;
        }
    }
    return NULL;
}

static void write_arch(FILE *file, const char *arch)
{
    uint32_t count = 0, bytes = 0;
    for (uint32_t i = 0; i < images_count; i++) {
        if (strcmp(images[i].arch, arch) == 0) {
            count++;
            bytes += images[i].bytes;
        }
    }
    if (count > 0) {
        fprintf(file, "gpu kernels %s: %u images, %u bytes, CUDA %u.%u\n", arch, count, bytes,
                images_toolkit / 1000, images_toolkit % 1000 / 10);
    }
}

void images_write(FILE *file)
{
    for (uint32_t i = 0; i < ARCHS; i++) {
        write_arch(file, archs[i].name);
    }
    if (images_count == 0) {
        fprintf(file, "gpu kernels: none: %s\n",
                images_toolkit == 0 ? "no nvcc when this was built" : "no .cu file");
    }
}
