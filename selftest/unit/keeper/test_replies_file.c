/* SPDX-License-Identifier: MIT */
/*
 * Goal: a file of replies that the appliance has made is its file at the next boot, whatever the
 * file system can do; what is another's, damaged, or has no room is refused and stays as it is.
 * Method: one boot after the other over a file in a folder of its own. The system calls that take
 * room fail when the test says so; a wait takes no time.
 */
#include "selftest/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "appliance/clock.h"
#include "appliance/log.h"
#include "net/net.h"
#include "selftest/unit/folder.h"

#define KEPT_BYTES (1u << 16)

static int fallocate_errno;         /* 0: it can */
static uint64_t disk_bytes;         /* beyond which no byte has room; UINT64_MAX: all have */
static uint32_t rests;
static char said[512];              /* the last line of the log */

static int scripted_fallocate(int handle, int mode, off_t from, off_t bytes)
{
    errno = fallocate_errno;
    return fallocate_errno != 0 ? -1 : fallocate(handle, mode, from, bytes);
}

static ssize_t scripted_pwrite(int handle, const void *bytes, size_t count, off_t from)
{
    errno = ENOSPC;
    return (uint64_t)from + count > disk_bytes ? -1 : pwrite(handle, bytes, count, from);
}

static void count_rest(uint64_t us)
{
    rests++;
}

static void note(enum log_level level, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(said, sizeof said, format, arguments);
    va_end(arguments);
}

#undef fail                         /* CMocka's */
#define fallocate  scripted_fallocate
#define pwrite     scripted_pwrite
#define clock_rest count_rest
#define log_event  note
#include "appliance/keeper/replies/file.c"
#undef fallocate
#undef pwrite
#undef clock_rest
#undef log_event

static char path[64], other[64];    /* of the file, and another name */
static _Alignas(ARENA_ALIGN_BYTES) uint8_t kept[KEPT_BYTES];

static int begin(void **state)
{
    snprintf(path, sizeof path, "%s/replies", test_folder());
    snprintf(other, sizeof other, "%s/other", test_folder());
    (void)unlink(path);
    (void)unlink(other);
    fallocate_errno = 0;
    disk_bytes = UINT64_MAX;
    rests = 0;
    return 0;
}

/* As at a start: kept memory is zeroed. */
static struct boot boot_of(void)
{
    struct boot boot = {.limits = {.replies = 5, .reply_tokens = 1000, .context_tokens = 100},
                        .model_digest = 7};
    memset(kept, 0, sizeof kept);
    arena_init(&boot.kept_arena, kept, sizeof kept);
    strcpy(boot.options.limits_replies_file.text, path);
    return boot;
}

static void close_all(struct boot *boot)
{
    replies_file_forget(boot, false);
    boot->replies_handle = 0;
}

/* Opens and loads; the file is closed again unless both succeed. */
static enum boot_exit start(struct boot *boot)
{
    *boot = boot_of();
    enum boot_exit exit_status = replies_file_open(boot);
    if (exit_status == BOOT_EXIT_OK) {
        exit_status = replies_file_load(boot);
    }
    if (exit_status != BOOT_EXIT_OK && boot->replies_handle > 0) {
        close_all(boot);
    }
    return exit_status;
}

static void expect_refused(const char *why)
{
    struct boot boot;
    assert_int_equal(start(&boot), BOOT_EXIT_CONFIG);
    assert_non_null(strstr(said, why));
}

static off_t size_now(void)
{
    struct stat file;
    assert_int_equal(stat(path, &file), 0);
    return file.st_size;
}

/* As the writer does: a byte in each page. */
static void write_pages_of(struct boot *boot)
{
    for (uint64_t at = 0; at < boot->replies.bytes; at += PAGES_BYTES) {
        boot->replies.base[at] = (uint8_t)(1 + at / PAGES_BYTES);
    }
    assert_int_equal(pwrite(boot->replies_handle, boot->replies.base, boot->replies.bytes,
                            PAGES_BYTES), (ssize_t)boot->replies.bytes);
}

/* The three boots of an appliance: a new file, replies, and the replies are there. */
static void serve_and_start_again(void)
{
    struct boot boot;
    assert_int_equal(start(&boot), BOOT_EXIT_OK);
    assert_true(boot.replies.bytes % PAGES_BYTES != 0);     /* else this tests nothing */
    assert_true((uint64_t)size_now() == PAGES_BYTES + boot.replies.bytes);
    write_pages_of(&boot);
    close_all(&boot);
    for (uint32_t boots = 0; boots < 2; boots++) {
        assert_int_equal(start(&boot), BOOT_EXIT_OK);
        for (uint64_t at = 0; at < boot.replies.bytes; at += PAGES_BYTES) {
            assert_int_equal(boot.replies.base[at], 1 + at / PAGES_BYTES);
        }
        close_all(&boot);
    }
}

/* ---- room ------------------------------------------------------------------------------------ */

static void test_a_file_that_was_allocated_is_taken_at_the_next_boot(void **state)
{
    serve_and_start_again();
}

static void test_a_file_that_zeros_made_is_taken_at_the_next_boot(void **state)
{
    fallocate_errno = EOPNOTSUPP;
    serve_and_start_again();
}

static void test_no_room_is_refused_with_figures_and_the_file_stays_new(void **state)
{
    fallocate_errno = ENOSPC;
    expect_refused("limits.reply_tokens");
    assert_int_equal(size_now(), 0);
    fallocate_errno = EOPNOTSUPP;
    for (disk_bytes = 0; disk_bytes < 3 * PAGES_BYTES; disk_bytes += PAGES_BYTES) {
        expect_refused("needs ");
        assert_int_equal(size_now(), 0);
    }
    disk_bytes = UINT64_MAX;
    serve_and_start_again();
}

/* The appliance ended between its allocation and its header. */
static void test_a_file_without_header_and_pages_is_new(void **state)
{
    struct boot boot;
    assert_int_equal(start(&boot), BOOT_EXIT_OK);
    const off_t bytes = size_now();
    assert_int_equal(ftruncate(boot.replies_handle, 0), 0);
    assert_int_equal(ftruncate(boot.replies_handle, bytes), 0);
    close_all(&boot);
    serve_and_start_again();
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* Else replies would be lost without a word. */
static void test_a_file_whose_header_alone_is_gone_is_refused(void **state)
{
    static const uint8_t zeros[PAGES_BYTES];
    struct boot boot;
    assert_int_equal(start(&boot), BOOT_EXIT_OK);
    boot.replies.base[boot.replies.bytes - 1] = 1;
    assert_int_equal(pwrite(boot.replies_handle, boot.replies.base, boot.replies.bytes,
                            PAGES_BYTES), (ssize_t)boot.replies.bytes);
    assert_int_equal(pwrite(boot.replies_handle, zeros, sizeof zeros, 0), sizeof zeros);
    close_all(&boot);
    expect_refused("no file of replies");
}

static void test_a_file_of_another_size_is_refused_and_stays(void **state)
{
    struct boot boot;
    assert_int_equal(start(&boot), BOOT_EXIT_OK);
    const off_t bytes = size_now(), sizes[] = {bytes - 1, bytes + 1, PAGES_BYTES, 100};
    close_all(&boot);
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_int_equal(truncate(path, sizes[i]), 0);
        expect_refused(sizes[i] < (off_t)PAGES_BYTES ? "no file of replies" : "another size");
        assert_int_equal(size_now(), sizes[i]);
    }
}

static void test_a_file_that_others_can_reach_is_refused(void **state)
{
    struct boot boot;
    assert_int_equal(start(&boot), BOOT_EXIT_OK);
    close_all(&boot);
    assert_int_equal(chmod(path, 0640), 0);
    expect_refused("0600");
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(link(path, other), 0);
    expect_refused("hard links");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("other", path), 0);
    expect_refused("symbolic link");
}

static void test_a_file_that_another_one_has_is_waited_for_and_refused(void **state)
{
    struct boot first, second;
    assert_int_equal(start(&first), BOOT_EXIT_OK);
    assert_int_equal(start(&second), BOOT_EXIT_SYSTEM);
    assert_non_null(strstr(said, "another appliance uses it"));
    assert_int_equal(rests, LOCK_TRIES);
    close_all(&first);
    serve_and_start_again();
}

/* ---- weights --------------------------------------------------------------------------------- */

static void test_weights_bind_the_file_once_they_are_known(void **state)
{
    static const uint64_t read[] = {0, 5, 5, 0, 6};     /* by one boot after the other */
    static const enum boot_exit expected[] = {BOOT_EXIT_OK, BOOT_EXIT_OK, BOOT_EXIT_OK,
                                              BOOT_EXIT_OK, BOOT_EXIT_CONFIG};
    for (uint32_t i = 0; i < sizeof read / sizeof read[0]; i++) {
        struct boot boot;
        union replies_page page;
        assert_int_equal(start(&boot), BOOT_EXIT_OK);
        assert_int_equal(replies_file_bind(&boot, read[i], &page), expected[i]);
        assert_int_equal(page.header.weights, i == 0 ? 0 : 5);
        close_all(&boot);
    }
    assert_non_null(strstr(said, "another model"));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, begin)
    const struct CMUnitTest tests[] = {
        T(test_a_file_that_was_allocated_is_taken_at_the_next_boot),
        T(test_a_file_that_zeros_made_is_taken_at_the_next_boot),
        T(test_no_room_is_refused_with_figures_and_the_file_stays_new),
        T(test_a_file_without_header_and_pages_is_new),
        T(test_a_file_whose_header_alone_is_gone_is_refused),
        T(test_a_file_of_another_size_is_refused_and_stays),
        T(test_a_file_that_others_can_reach_is_refused),
        T(test_a_file_that_another_one_has_is_waited_for_and_refused),
        T(test_weights_bind_the_file_once_they_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
