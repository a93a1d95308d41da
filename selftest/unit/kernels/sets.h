/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the sets of kernels that a test compares with the plain one: those that this CPU runs, and
 * AVX-512 a second time in terms of AVX2 (selftest/fake/avx512.h), so that CPUs without AVX-512
 * test it too.
 */
#include <cmocka.h>

#include "kernels/ops.h"

extern const struct kernels_ops kernels_ops_emulated, kernels_ops_emulated_bf16;

struct sets {
    uint32_t count;
    const struct kernels_ops *ops[KERNELS_SIMDS + 1];
};

static inline struct sets sets_find(void)
{
    struct sets sets = {0};
    for (enum kernels_simd simd = KERNELS_AVX2; simd <= kernels_simd_best(); simd++) {
        sets.ops[sets.count++] = kernels_ops(simd);
    }
    if (kernels_simd_best() >= KERNELS_AVX2) {
        sets.ops[sets.count++] = &kernels_ops_emulated;
        sets.ops[sets.count++] = &kernels_ops_emulated_bf16;
    }
    return sets;
}

/* True when its shorten() writes bfloats, not floats. */
static inline bool sets_shortens_to_pairs(const struct kernels_ops *ops)
{
    return ops == &kernels_ops_avx512bf16 || ops == &kernels_ops_emulated_bf16;
}

/* Prints the sets that are left out on this machine. */
static inline void sets_say(void)
{
    static const char *const said[KERNELS_SIMDS] = {
        [KERNELS_PLAIN] = "no AVX2 on this machine: only the plain kernels are checked",
        [KERNELS_AVX2] = "no AVX-512 on this machine: its kernels are checked by emulation only",
        [KERNELS_AVX512] = "AVX-512 kernels are checked natively and by emulation, the product of "
                           "bfloats by emulation only",
        [KERNELS_AVX512BF16] = "AVX-512 kernels are checked natively and by emulation",
    };
    print_message("%s\n", said[kernels_simd_best()]);
}
