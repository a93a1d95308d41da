/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the steps that the worker runs before its seal. A driver does much at the first use of a
 * kernel, a stream, a size or direction of a copy, or an event: it loads code, starts threads, and
 * opens files, which it may not do later. So these steps use all that a step of a call may use:
 * prompt and decode, every option of sampling, and moves of all phases, which wait for each other.
 */
#include "kernels/cuda/engine.h"

struct rehearsal {
    struct gpu_engine *engine;
    const struct kernels_settings *settings;
    const struct step_layout *layout;   /* of the steps that will come */
};

/* What `*is_finite` says of a step's logits counts with OK: the weights are, or are not. */
MUST_CHECK enum status rehearsal_run(const struct rehearsal *rehearsal, bool *is_finite,
                                     struct config_error *error);
