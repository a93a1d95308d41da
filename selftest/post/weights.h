/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: compares the packed weights with the file that they came from: each panel is read and
 * packed again, and compared to the bit, padding included.
 */
#include "selftest/post/check.h"
#include "selftest/post/tensor.h"

struct post_reader {
    const struct kernels_weights *weights;
    const struct gguf *gguf;
    struct gguf_source source;
    uint8_t *piece;                 /* as in the file: the rows of one panel */
    uint8_t *packed;                /* as in memory: one panel */
};

/* Memory for the widest panel. */
void post_reader_plan_memory(struct memory_plan *plan, const struct model_shape *shape);
struct post_reader *post_reader_init(struct arena *arena, const struct kernels_weights *weights,
                                     const struct gguf *gguf, const struct gguf_source *source);

/* The panels of a tensor; a vector is one panel. The words of a panel, and their number. */
uint32_t post_panels_count(const struct post_tensor *tensor);
uint64_t *post_panel_words(const struct post_tensor *tensor, uint32_t panel,
                           uint64_t *words_count);
void post_panel_compare(struct post_reader *reader, const struct post_tensor *tensor,
                        uint32_t panel, struct post_faults *faults);
