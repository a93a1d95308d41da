/* SPDX-License-Identifier: MIT */
/*
 * Goal: the process's own malloc serves boot, and after the seal any call of the family ends the
 * process, libc's own calls included. Method: this test runs on that malloc itself (it is compiled
 * in, so the linker takes it for all); what must die does so in a child.
 */
#include "selftest/unit/test.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "appliance/seal/heap.c"

#ifdef AGENTIX_NO_TRAP
static void test_sanitizers_bring_their_own_malloc(void **state)
{
    print_message("skipped: this build has the sanitizer's malloc\n");
    skip();
}
#else

static void *volatile sink;

static void call_malloc(void) { sink = malloc(10); }
static void call_calloc(void) { sink = calloc(3, 5); }
static void call_realloc(void) { sink = realloc(sink, 100); }
static void call_free(void) { free(sink); }
static void call_aligned(void) { sink = aligned_alloc(64, 64); }

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, 1);
}

/* libc sorts large arrays in memory that it allocates. */
static void call_qsort(void)
{
    static char bytes[65536];
    qsort(bytes, sizeof bytes / 16, 16, compare);
}

/* What the child said when it died of `work` after the seal; false: it lived. */
static bool dies_saying(void (*work)(void), const char *expected)
{
    int pipes[2], status = 0;
    char said[256] = {0};
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGILL, SIG_DFL);
        dup2(pipes[1], STDERR_FILENO);
        heap_seal();
        work();
        _exit(0);
    }
    close(pipes[1]);
    for (size_t at = 0; at < sizeof said - 1;) {
        ssize_t got = read(pipes[0], said + at, sizeof said - 1 - at);
        if (got <= 0) {
            break;
        }
        at += (size_t)got;
    }
    close(pipes[0]);
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGILL && strstr(said, expected) != NULL;
}

static void test_every_call_after_the_seal_dies_by_name(void **state)
{
    sink = malloc(10);
    assert_true(dies_saying(call_malloc, "allocation after the seal: malloc(10)"));
    assert_true(dies_saying(call_calloc, "allocation after the seal: calloc(15)"));
    assert_true(dies_saying(call_realloc, "allocation after the seal: realloc(100)"));
    assert_true(dies_saying(call_free, "allocation after the seal: free("));
    assert_true(dies_saying(call_aligned, "allocation after the seal: aligned_alloc(64)"));
}

static void test_libc_dies_too(void **state)
{
    assert_true(dies_saying(call_qsort, "allocation after the seal: malloc("));
}

static void test_blocks_are_aligned_apart_and_kept_by_realloc(void **state)
{
    uint8_t *small = malloc(3), *page = aligned_alloc(4096, 5000);
    assert_int_equal((uintptr_t)small % 16, 0);
    assert_int_equal((uintptr_t)page % 4096, 0);
    memcpy(small, "abc", 3);
    memset(page, 0xff, 5000);
    assert_memory_equal(small, "abc", 3);
    small = realloc(small, 3000);
    assert_memory_equal(small, "abc", 3);
    assert_int_equal(malloc_usable_size(small), 3000);
    const uint8_t *zeroed = calloc(7, 9);
    for (uint32_t i = 0; i < 63; i++) {
        assert_int_equal(zeroed[i], 0);
    }
}

static void test_what_is_given_back_is_zero_when_it_is_taken_again(void **state)
{
    uint64_t mark = heap_used_bytes();
    uint8_t *first = malloc(100);
    memset(first, 0x77, 100);
    heap_rewind(mark);
    assert_int_equal(heap_used_bytes(), mark);
    const uint8_t *second = calloc(10, 10);
    assert_ptr_equal(first, second);
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(second[i], 0);
    }
}

static void test_too_much_is_refused_not_fatal(void **state)
{
    uint64_t used = heap_used_bytes();
    void *volatile none = malloc(BOOT_HEAP_BYTES);
    assert_null(none);
    volatile size_t huge = SIZE_MAX / 2;
    none = calloc(huge, 3);
    assert_null(none);
    assert_int_equal(heap_used_bytes(), used);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef AGENTIX_NO_TRAP
        cmocka_unit_test(test_sanitizers_bring_their_own_malloc),
#else
        cmocka_unit_test(test_every_call_after_the_seal_dies_by_name),
        cmocka_unit_test(test_libc_dies_too),
        cmocka_unit_test(test_blocks_are_aligned_apart_and_kept_by_realloc),
        cmocka_unit_test(test_what_is_given_back_is_zero_when_it_is_taken_again),
        cmocka_unit_test(test_too_much_is_refused_not_fatal),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
