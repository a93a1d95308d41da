/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: trained models, for tests of what a model says: the embedded one, and one of others where
 * it lies beside the repository.
 */
#include "selftest/unit/test.h"

#include <unistd.h>

#include "config/vocab/vocab.h"
#include "selftest/unit/kernels/tiny_model.h"

#define TRAINED_EMBEDDED "appliance/embedded.gguf"
#define TRAINED_STORIES  "../shared/models/stories260K.gguf"

static struct gguf trained_gguf;

/* `vocab` may be NULL. */
static inline struct kernels_weights *trained_load(const char *path, struct vocab *vocab,
                                                   struct arena *arena)
{
    struct gguf_source source;
    struct config_error error;
    static struct kernels_loading loading;
    assert_status(STATUS_OK, gguf_source_open(&source, path, &error));
    assert_status(STATUS_OK, gguf_scan(&trained_gguf, &source, 1 << 20, &error));
    if (vocab != NULL) {
        assert_status(STATUS_OK, vocab_load(vocab, &trained_gguf, &source, arena, &error));
    }
    kernels_loading_begin(&loading, &trained_gguf, &source, false, arena);
    assert_status(STATUS_OK, kernels_loading_finish(&loading, NULL, &error));
    gguf_source_close(&source);
    return loading.weights;
}

/* Ends the test where the model is not there, and says so. */
static inline void trained_need(const char *path)
{
    if (access(path, R_OK) != 0) {
        print_message("skipped: no %s: only a model of others can prove this\n", path);
        skip();
    }
}
