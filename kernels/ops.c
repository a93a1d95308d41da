/* SPDX-License-Identifier: MIT
 *
 * What: which set of kernels this CPU can run, found at boot. The AVX2 set needs FMA and F16C too,
 * which every CPU with AVX2 worth serving has. The AVX-512 sets use many kernels of the AVX2 set
 * and need VNNI. The last set multiplies bfloats with an instruction whose sums are tried before it
 * is used, because its documents do not say where it rounds (decision 0041).
 */
#include "kernels/ops.h"

#include <cpuid.h>
#include <string.h>
#include <unistd.h>

#include "kernels/half.h"

static const char *const names[KERNELS_SIMDS] = {"plain", "avx2", "avx512", "avx512bf16"};
static const struct kernels_ops *const sets[KERNELS_SIMDS] = {
    &kernels_ops_plain, &kernels_ops_avx2, &kernels_ops_avx512, &kernels_ops_avx512bf16,
};

/* Not every compiler's __builtin_cpu_supports() knows F16C. */
static bool has_f16c(void)
{
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

/* What the Makefile compiles the set for. The compiler's function also checks that the operating
 * system saves the registers. */
static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}

static bool has_bfloats(void)
{
    return __builtin_cpu_supports("avx512bf16") != 0;
}

/* Finite bfloats of both signs. In two of eight columns the exponents are so small that products
 * are about 2^-126, where sums become zeros. */
static uint16_t trial_bfloat(uint32_t *state, uint32_t column)
{
    *state = *state * 1664525u + 1013904223u;
    uint32_t exponent = column % 8 < 2 ? 62 + (*state >> 27) % 3 : 124 + (*state >> 27) % 6;
    return (uint16_t)((*state >> 8 & 0x807fu) | exponent << 7);
}

/* Two rows; the second has tiny numbers only. */
bool kernels_sums_bfloats_alike(const struct kernels_ops *set)
{
    enum { COLUMNS = 64, ROWS = 2, FLOATS = ROWS * KERNELS_PANEL_LANES };
    _Alignas(ARENA_ALIGN_BYTES) uint16_t panel[COLUMNS * KERNELS_PANEL_LANES];
    float x[ROWS * COLUMNS], rounded[ROWS * COLUMNS], y[2][FLOATS];
    uint32_t state = 1;
    for (uint32_t i = 0; i < COLUMNS * KERNELS_PANEL_LANES; i++) {
        panel[i] = trial_bfloat(&state, i / KERNELS_PANEL_LANES);
    }
    for (uint32_t k = 0; k < COLUMNS; k++) {
        x[k] = kernels_float_of_bfloat(trial_bfloat(&state, k));
        x[COLUMNS + k] = k % 8 < 2 ? x[k] : 0;
    }
    struct kernels_matrix matrix;
    kernels_matrix_init(&matrix, GGUF_BF16, KERNELS_PANEL_LANES, COLUMNS, panel);
    for (uint32_t i = 0; i < 2; i++) {
        const struct kernels_ops *ops = i == 0 ? &kernels_ops_plain : set;
        for (uint32_t r = 0; r < ROWS; r++) {
            ops->shorten(rounded + r * COLUMNS, x + r * COLUMNS, COLUMNS);
        }
        ops->product(&(struct kernels_product){
            .matrix = &matrix, .panel_end = 1, .rows = ROWS,
            .rounded = {.bfloats = rounded, .stride = COLUMNS},
            .y = y[i], .y_stride = KERNELS_PANEL_LANES,
        });
    }
    return memcmp(y[0], y[1], sizeof y[0]) == 0;
}

enum kernels_simd kernels_simd_best(void)
{
    if (!has_avx2()) {
        return KERNELS_PLAIN;
    }
    if (!has_avx512()) {
        return KERNELS_AVX2;
    }
    bool multiplies = has_bfloats() && kernels_sums_bfloats_alike(&kernels_ops_avx512bf16);
    return multiplies ? KERNELS_AVX512BF16 : KERNELS_AVX512;
}

/* The hardware prefetcher of AMD's CPUs keeps up with straight streams; prefetch instructions cost
 * a quarter of the bandwidth (Zen 3). Intel's does not: one row of integers, or of halves, is 1.2
 * to 1.5 times as fast with them (family 6, model 207).
 *
 * Sums go to memory and back between chunks, so chunks should be long, as long as the L2 cache
 * holds what rows and weights leave in it: with 2 MiB (that Intel) 1,024 columns are 1.03 times as
 * fast as 256, with 1 MiB (Zen 5) 0.95 times. Decision 0042. */
struct kernels_tuning kernels_tuning_find(float *widened)
{
    bool is_large = sysconf(_SC_LEVEL2_CACHE_SIZE) >= 2 << 20;
    return (struct kernels_tuning){
        .prefetch_bytes = __builtin_cpu_is("intel") ? KERNELS_PREFETCH_BYTES : 0,
        .chunk_columns = is_large ? KERNELS_CHUNK_MOST : KERNELS_CHUNK_LEAST,
        .widened = widened,
    };
}

const char *kernels_simd_name(enum kernels_simd simd)
{
    ASSERT(simd < KERNELS_SIMDS);
    return names[simd];
}

enum kernels_simd kernels_simd_named(const char *name)
{
    for (enum kernels_simd simd = KERNELS_PLAIN; simd < KERNELS_SIMDS; simd++) {
        if (strcmp(name, names[simd]) == 0) {
            return simd;
        }
    }
    return kernels_simd_best();
}

const struct kernels_ops *kernels_ops(enum kernels_simd simd)
{
    ASSERT(simd < KERNELS_SIMDS);       /* the caller has checked that the CPU can run it */
    return sets[simd];
}
