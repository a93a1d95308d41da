/* SPDX-License-Identifier: MIT
 *
 * What: which set of kernels this CPU can run. Asked once, at boot; the AVX2 set is one choice with
 * FMA and F16C, which every CPU with AVX2 worth serving has too, and the AVX-512 set, which names
 * many kernels of AVX2's, is one with VNNI.
 */
#include "kernels/ops.h"

#include <cpuid.h>
#include <string.h>

static const char *const names[KERNELS_SIMDS] = {"plain", "avx2", "avx512"};
static const struct kernels_ops *const sets[KERNELS_SIMDS] = {
    &kernels_ops_plain, &kernels_ops_avx2, &kernels_ops_avx512,
};

/* __builtin_cpu_supports() does not know F16C in every compiler. */
static bool has_f16c(void)
{
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

/* What the Makefile compiles the set for. The compiler's function also asks whether the operating
 * system keeps the registers. */
static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}

enum kernels_simd kernels_simd_best(void)
{
    if (!has_avx2()) {
        return KERNELS_PLAIN;
    }
    return has_avx512() ? KERNELS_AVX512 : KERNELS_AVX2;
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
    ASSERT(simd <= kernels_simd_best());
    return sets[simd];
}
