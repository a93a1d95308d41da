/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: known digests of the embedded model's results: a second reference of the self-test, on any
 * machine. Every sum has one order and every exponential is our own (docs/decisions/0013,
 * kernels/exp.h), so the digests hold on every CPU. Another embedded model needs other digests;
 * `agentix --selftest=full` prints them.
 */
#include "selftest/post/check.h"

/* Of kernels.c's prompt, and of call.c's first call, by kv.type. */
#define POST_KNOWN_LOGITS ((const uint64_t[KERNELS_KV_TYPES]){ \
    [KERNELS_KV_F32] = UINT64_C(0xea42987b05843a73),          \
    [KERNELS_KV_F16] = UINT64_C(0x2b3b897df5d5f37d),          \
    [KERNELS_KV_Q8] = UINT64_C(0x739242571bcc587d)})
#define POST_KNOWN_CANARY ((const uint64_t[KERNELS_KV_TYPES]){ \
    [KERNELS_KV_F32] = UINT64_C(0x070c3b56fdc87ed5),          \
    [KERNELS_KV_F16] = UINT64_C(0x070c3b56fdc87ed5),          \
    [KERNELS_KV_Q8] = UINT64_C(0x070c3b56fdc87ed5)})
#define POST_KNOWN_PRODUCTS UINT64_C(0x60b8d8758ad187e1)    /* of product.c's slabs */

/* With the embedded model, unchanged, `digest` must be the `known` one. */
static inline void post_known_compare(const struct post *post, const char *what, uint64_t digest,
                                      uint64_t known, struct post_faults *faults)
{
    bool is_known = post->is_embedded && !post->boot->engine.weights_as_bfloats;
    if (is_known && digest != known) {
        post_fault_say(faults, "%s: digest %016llx, of the embedded model it is %016llx", what,
                       (unsigned long long)digest, (unsigned long long)known);
    }
}
