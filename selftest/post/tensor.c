/* SPDX-License-Identifier: MIT */
/* What: the list of packed weights; see tensor.h. The order is that of config/model/layer.def. */
#include "selftest/post/tensor.h"

#include <stdio.h>

static uint32_t list_layer(const struct kernels_layer *layer, const struct model_shape *s,
                           struct post_tensor *list)
{
    uint32_t count = 0;
#define LAYER_MATRIX(noun, outputs_, columns_)                              \
    list[count++] = (struct post_tensor){                                   \
        .name = #noun ".weight", .matrix = &layer->noun, .columns = layer->noun.columns};
#define LAYER_VECTOR(noun, file, count_, wanted)                            \
    if (wanted) {                                                           \
        list[count++] = (struct post_tensor){                               \
            .name = file, .vector = layer->noun, .columns = (uint32_t)(count_)}; \
    }
#include "config/model/layer.def"
#undef LAYER_MATRIX
#undef LAYER_VECTOR
    return count;
}

static uint32_t list_ends(const struct kernels_weights *weights, struct post_tensor *list)
{
    const struct model_shape *shape = &weights->shape;
    uint32_t count = 0;
    list[count++] = (struct post_tensor){
        .name = "token_embd.weight", .matrix = &weights->token_embd, .columns = shape->dim};
    list[count++] = (struct post_tensor){
        .name = "output_norm.weight", .vector = weights->output_norm, .columns = shape->dim};
    if (!shape->tied_output) {
        list[count++] = (struct post_tensor){
            .name = "output.weight", .matrix = &weights->output, .columns = shape->dim};
    }
    if (shape->has_rope_factors) {
        list[count++] = (struct post_tensor){
            .name = "rope_freqs.weight", .vector = weights->rope_factors,
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
    snprintf(tensor->name, sizeof tensor->name, "blk.%u.%.48s", layer, found->name);
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
