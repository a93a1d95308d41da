/* SPDX-License-Identifier: MIT
 *
 * What: which set of kernels this CPU can run. Asked once, at boot; the AVX2 set is one choice with
 * FMA and F16C, which every CPU with AVX2 worth serving has too.
 */
#include "kernels/ops.h"

#include <cpuid.h>

/* __builtin_cpu_supports() does not know F16C in every compiler. */
static bool has_f16c(void)
{
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

enum kernels_simd kernels_simd_best(void)
{
    bool has_all = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    return has_all ? KERNELS_AVX2 : KERNELS_PLAIN;
}

const char *kernels_simd_name(enum kernels_simd simd)
{
    return simd == KERNELS_AVX2 ? "avx2" : "plain";
}

const struct kernels_ops *kernels_ops(enum kernels_simd simd)
{
    ASSERT(simd == KERNELS_PLAIN || simd == KERNELS_AVX2);
    ASSERT(simd <= kernels_simd_best());
    return simd == KERNELS_AVX2 ? &kernels_ops_avx2 : &kernels_ops_plain;
}
