/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the tensors of a model: their list, and random weights for each.
 *
 * Invariant: each tensor has a random stream of its own from (seed, tensor index), so that all
 * types hold the same weights, rounded differently.
 */
#include "tools/mkmodel/settings.h"
#include "tools/mkmodel/vocabulary.h"

struct tensors {
    struct tensor *list;
    uint32_t count;
};

void tensors_list(struct tensors *tensors, const struct settings *settings);
/* Names, shapes and places in the file. */
void tensors_put_infos(const struct tensors *tensors, struct writer *writer);
void tensors_put_weights(const struct tensors *tensors, const struct vocabulary *vocabulary,
                         const struct settings *settings, struct writer *writer);
