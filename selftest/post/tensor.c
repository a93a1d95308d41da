/* SPDX-License-Identifier: MIT */
#include "selftest/post/tensor.h"

#include <stdio.h>

static uint32_t list_layer(const struct kernels_layer *layer, const struct model_shape *shape,
                           struct post_tensor *list)
{
    uint32_t count = 0;
#define WEIGHT_MATRIX(noun, outputs_, columns_)                             \
    list[count++] = (struct post_tensor){                                   \
        .name = #noun, .matrix = &layer->noun, .columns = layer->noun.columns};
    KERNELS_LAYER_MATRICES
#undef WEIGHT_MATRIX
    list[count++] = (struct post_tensor){
        .name = "attn_norm", .vector = layer->attn_norm, .columns = shape->dim};
    list[count++] = (struct post_tensor){
        .name = "ffn_norm", .vector = layer->ffn_norm, .columns = shape->dim};
    return count;
}

static uint32_t list_ends(const struct kernels_weights *weights, struct post_tensor *list)
{
    const struct model_shape *shape = &weights->shape;
    uint32_t count = 0;
    list[count++] = (struct post_tensor){
        .name = "token_embd", .matrix = &weights->token_embd, .columns = shape->dim};
    list[count++] = (struct post_tensor){
        .name = "output_norm", .vector = weights->output_norm, .columns = shape->dim};
    if (!shape->tied_output) {
        list[count++] = (struct post_tensor){
            .name = "output", .matrix = &weights->output, .columns = shape->dim};
    }
    if (shape->has_rope_factors) {
        list[count++] = (struct post_tensor){
            .name = "rope_freqs", .vector = weights->rope_factors,
            .columns = shape->rope_dim / 2};
    }
    return count;
}

bool post_tensor_at(const struct kernels_weights *weights, uint32_t index,
                    struct post_tensor *tensor)
{
    struct post_tensor list[16];
    uint32_t ends = list_ends(weights, list);
    if (index < ends) {
        *tensor = list[index];
        snprintf(tensor->name, sizeof tensor->name, "%.40s.weight", list[index].name);
        return true;
    }
    uint32_t of_layer = list_layer(&weights->layers[0], &weights->shape, list);
    uint32_t layer = (index - ends) / of_layer;
    if (layer >= weights->shape.layers) {
        return false;
    }
    list_layer(&weights->layers[layer], &weights->shape, list);
    const struct post_tensor *found = &list[(index - ends) % of_layer];
    *tensor = *found;
    snprintf(tensor->name, sizeof tensor->name, "blk.%u.%.40s.weight", layer, found->name);
    return true;
}

uint32_t post_tensors_count(const struct kernels_weights *weights)
{
    struct post_tensor tensor;
    uint32_t count = 0;
    while (post_tensor_at(weights, count, &tensor)) {
        count++;
    }
    return count;
}
