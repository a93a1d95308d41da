/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the packed weights as a list: each matrix and each vector under its name in the file. */
#include "config/model/gguf.h"
#include "kernels/weights/weights.h"

struct post_tensor {
    char name[GGUF_NAME_BYTES];
    const struct kernels_matrix *matrix;    /* NULL: a vector */
    float *vector;
    uint32_t columns;
};

/* Entry `index` of the list; false: the list has ended. */
bool post_tensor_at(const struct kernels_weights *weights, uint32_t index,
                    struct post_tensor *tensor);
uint32_t post_tensors_count(const struct kernels_weights *weights);
