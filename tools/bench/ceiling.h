/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the limits of this machine, for a benchmark to be compared with: bytes read from memory,
 * and products added to sums, with the vectors of a set of kernels. Measured with the engine's own
 * threads, all at once.
 */
#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"

enum ceiling {
    CEILING_READ,               /* bytes a second */
    CEILING_FLOATS,             /* operations a second; a multiply-add is two */
    CEILING_BFLOATS,
    CEILING_LEVELS,             /* bytes by bytes */
    CEILINGS
};

/* Takes memory and starts threads; once. */
void ceiling_init(enum kernels_simd simd, uint32_t threads);
/* True when the set has instructions for it; the plain set has none. */
bool ceiling_is_there(enum ceiling ceiling);
/* One trial, some hundredths of a second: what there is now. */
double ceiling_trial(enum ceiling ceiling);
/* The best of a few. */
double ceiling_shot(enum ceiling ceiling);
void ceiling_stop(void);

/* private: ceiling_avx2.c, ceiling_avx512.c, ceiling_avx512bf16.c */

/* Reads and sums `bytes`, a multiple of CEILING_STRIDE_BYTES. `prefetch_bytes` is the prefetch
 * distance; 0: no prefetch. */
#define CEILING_STRIDE_BYTES 256u
uint64_t ceiling_read_avx2(const uint8_t *from, uint64_t bytes, uint32_t prefetch_bytes);

/* `iterations` times a step of each chain. Two units times a latency of four or five need ten
 * chains; twelve fit the registers of AVX2. */
struct ceiling_loop {
    uint64_t (*run)(uint64_t iterations);
    uint32_t products;          /* added to sums in one iteration */
};
extern const struct ceiling_loop ceiling_floats_avx2, ceiling_levels_avx2;
extern const struct ceiling_loop ceiling_floats_avx512, ceiling_levels_avx512;
extern const struct ceiling_loop ceiling_bfloats_avx512bf16;
