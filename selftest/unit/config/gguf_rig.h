/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a model file in memory, read by the product's reader, and refusals with their words. */
#define TEST_ARENA_BYTES (128u << 10)
#include "selftest/unit/folder.h"

#include "config/model/gguf.h"
#include "config/vocab/vocab.h"
#include "selftest/fake/gguf_file.h"

static struct gguf_file file;
static struct gguf gguf;
static struct vocab vocab;
static struct config_error error;

static inline enum status scan(void)
{
    struct gguf_source source;
    gguf_source_memory(&source, file.bytes, file.count, "test");
    return gguf_scan(&gguf, &source, 1 << 20, &error);
}

static inline enum status scan_and_load(void)
{
    struct gguf_source source;
    struct memory_plan plan = {0};
    gguf_source_memory(&source, file.bytes, file.count, "test");
    TRY(gguf_scan(&gguf, &source, 1 << 20, &error));
    vocab_plan_memory(&plan, &gguf.vocab);
    struct arena *arena = test_arena();
    enum status status = vocab_load(&vocab, &gguf, &source, arena, &error);
    assert_true(arena->used_bytes == memory_plan_bytes(&plan, MEMORY_MODEL));
    return status;
}

/* The file is refused, and the message has the name, an offset and these words. */
static inline void assert_refused(const char *words)
{
    memset(&error, 0, sizeof error);
    assert_status(STATUS_CONFIG_MODEL, scan_and_load());
    if (strstr(error.text, words) == NULL) {
        print_error("expected '%s' in '%s'\n", words, error.text);
        fail();
    }
    assert_true(strncmp(error.text, "test: offset ", 13) == 0);
}

static inline void set_u32(uint8_t *at, uint32_t value) { memcpy(at, &value, sizeof value); }
static inline void set_u64(uint8_t *at, uint64_t value) { memcpy(at, &value, sizeof value); }
