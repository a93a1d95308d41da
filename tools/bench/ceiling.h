/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what this machine can do at most, for a benchmark to be measured against: bytes that are
 * read from memory, and fused multiply-adds of the vectors that the kernels use. By the engine's
 * own crew of threads, all at once.
 */
#include <stdint.h>

/* Takes memory and starts threads; once. */
void ceiling_init(uint32_t threads);
/* One shot each, some hundredth of a second. Bytes a second; operations a second (a multiply-add is
 * two). */
double ceiling_read(void);
double ceiling_multiply(void);
void ceiling_stop(void);

/* private: ceiling_avx2.c */

/* The sum of what lies there, so that it is read; `bytes` is a multiple of CEILING_STRIDE_BYTES. */
#define CEILING_STRIDE_BYTES 256u
uint64_t ceiling_read_avx2(const uint8_t *from, uint64_t bytes);
/* `turns` times CEILING_CHAINS multiply-adds of eight floats. */
#define CEILING_CHAINS 12u
float ceiling_multiply_avx2(uint64_t turns);
