/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the header of every unit test: CMocka, a static arena, assert_status(), and assertions that
 * a test can expect (expect_assert_failure).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/arena.h"
#include "config/base/assert.h"
#include "config/base/status.h"

#ifndef TEST_ARENA_BYTES
#define TEST_ARENA_BYTES (16u << 20)
#endif

/* Makes the ASSERT of the code under test CMocka's, so that expect_assert_failure() catches it. The
 * linker takes this definition, not the library's. */
_Noreturn void assert_failed(const char *condition, const char *file, int line)
{
    mock_assert(0, condition, file, line);
    abort();
}

static _Alignas(ARENA_ALIGN_BYTES) uint8_t test_arena_memory[TEST_ARENA_BYTES];

/* A fresh, zeroed arena; all that was taken before is gone. */
static inline struct arena *test_arena(void)
{
    static struct arena arena;
    arena_init(&arena, test_arena_memory, sizeof test_arena_memory);
    return &arena;
}

#define assert_status(expected, call)                                                     \
    do {                                                                                  \
        enum status test_status_ = (call);                                                \
        if (test_status_ != (expected)) {                                                 \
            print_error("%s:%d: %s: got %s, expected %s\n", __FILE__, __LINE__, #call,    \
                        status_name(test_status_), status_name(expected));                \
            fail();                                                                       \
        }                                                                                 \
    } while (0)
