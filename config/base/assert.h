/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * ASSERT: our bug; on in every build, release too. Never on input, configuration or device results.
 * VERIFY: checks that cost O(n); only in test builds (-DAGENTIX_VERIFY).
 * STATIC_ASSERT: relations between limits, sizes of shared records.
 */
#define STATIC_ASSERT(condition, why) _Static_assert(condition, why)

#define ASSERT(condition)                                            \
    do {                                                             \
        if (__builtin_expect(!(condition), 0)) {                     \
            assert_failed(#condition, __FILE__, __LINE__);           \
        }                                                            \
    } while (0)

#ifdef AGENTIX_VERIFY
#define VERIFY(condition) ASSERT(condition)
#else
#define VERIFY(condition) ((void)0)
#endif

/* Writes "file:line: assertion failed: condition" to descriptor 2 and ends the process by SIGILL.
 * Unit tests replace it (selftest/unit/test.h) so that refusals by assertion are tested too. */
__attribute__((cold))               /* so that the code of failures lies apart from what runs */
_Noreturn void assert_failed(const char *condition, const char *file, int line);
