/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: which model is served, in which numbers: what was computed with one digest is valid for the
 * same one alone. It is of contents, and so the same for a copy of the file, on any disk.
 */
#include "appliance/boot/boot.h"

/* BOOT_ONLY, once the plan is made: fills boot->model_digest. Reads the header of the model again,
 * and samples of its weights. */
enum boot_exit model_digest_fill(struct boot *boot);

struct model_digests {
    uint64_t model;                 /* boot.model_digest */
    uint64_t weights;               /* of all of them; 0: not read yet, or a GPU has them */
};
/* True when these are two models, or one in other numbers. Weights count where both are known. */
static inline bool model_digests_differ(struct model_digests a, struct model_digests b)
{
    return a.model != b.model || (a.weights != 0 && b.weights != 0 && a.weights != b.weights);
}
#define MODEL_DIGESTS_DIFFER \
    "another model, or other numbers to compute it in (kv.type, model.weights, engine.kind)"
