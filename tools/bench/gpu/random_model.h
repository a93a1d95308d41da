/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a model of random weights for the GPU engine, of any size, in a few MiB of memory: a GGUF
 * source whose matrices all have the same bytes. The device has each of them for itself.
 *
 * Weights are random and about 2^-7 in size, so no number is lost or infinite; norms are 1, the
 * last one 6, which gives logits the spread of those of a trained model.
 */
#include "config/model/gguf.h"

/* RANDOM_SHAPE(name, preset of tools/mkmodel/presets.def, tokens of the long context) */
#define RANDOM_SHAPES                          \
    RANDOM_SHAPE("8b", "llama-3.1-8b", 8192)   \
    RANDOM_SHAPE("14b", "qwen3-14b", 8192)     \
    RANDOM_SHAPE("70b", "llama-3.1-70b", 8192) \
    RANDOM_SHAPE("tiny", "tiny", 256)          \
    RANDOM_SHAPE("tiny-256", "tiny-256", 256)

struct random_model {
    struct gguf gguf;
    struct gguf_source source;
    uint32_t long_tokens;           /* a long context; a short one is an eighth of it */
};

/* `shape`: a number in RANDOM_SHAPES; `type`: of matrices, no F32. False: no memory, or a row is
 * no multiple of its blocks. */
bool random_model_init(struct random_model *model, uint32_t shape, enum gguf_type type);
