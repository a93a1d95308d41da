/* SPDX-License-Identifier: MIT */
/*
 * Goal: a number is published when the header and all that has it are in the file, whatever the
 * disk refuses or loses, and at whatever moment the file is cut or a writer dies.
 * Method: rounds of a writer over a file in a folder of its own. Its system calls do what the test
 * says: fail, change the memory, or kill it. A page that the system has lost is zeros in the file.
 */
#include "selftest/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "appliance/control.h"
#include "appliance/log.h"
#include "net/kept/pages.h"
#include "selftest/unit/folder.h"

#define MEMORY_BYTES (3 * PAGES_BYTES + 640)    /* a last page that is none */
#define PAGES        4u

static jmp_buf death;
static int64_t fails_at, dies_at;   /* the write at this place of the file fails, or kills; -1 */
static uint32_t syncs_fail, syncs_kill;
static uint32_t writes, syncs, told;

static void change(uint32_t page, uint8_t value);
static int64_t changes_at;          /* at this write its page changes, after it was read */

static ssize_t scripted_pwrite(int handle, const void *bytes, size_t count, off_t at)
{
    writes++;
    if (at == dies_at) {
        longjmp(death, 1);
    }
    if (at == fails_at) {
        errno = EIO;
        return -1;
    }
    ssize_t written = pwrite(handle, bytes, count, at);
    if (at == changes_at) {
        changes_at = -1;
        change((uint32_t)(at / PAGES_BYTES) - 1, 99);
    }
    return written;
}

/* What was written since the last one is lost, and that is said once. */
static int scripted_fdatasync(int handle)
{
    syncs++;
    if (syncs_fail == 0 && syncs_kill == 0) {
        return 0;
    }
    assert_int_equal(ftruncate(handle, 0), 0);
    assert_int_equal(ftruncate(handle, PAGES_BYTES + MEMORY_BYTES), 0);
    if (syncs_kill > 0) {
        syncs_kill--;
        longjmp(death, 1);
    }
    syncs_fail--;
    errno = EIO;
    return -1;
}

static void count_ring(int bell)
{
    told++;
}

void heap_seal(void)                /* the appliance's malloc is no test's */
{
}

#define pwrite       scripted_pwrite
#define fdatasync    scripted_fdatasync
#define control_ring count_ring
#include "appliance/keeper/replies/writer.c"
#undef pwrite
#undef fdatasync
#undef control_ring

static uint8_t memory[MEMORY_BYTES];
static struct pages_mark marks[PAGES];
static struct pages_numbers numbers;
static struct boot boot;
static union replies_page header;
static struct writer writer;

static void change(uint32_t page, uint8_t value)
{
    memory[page * PAGES_BYTES] = value;
    pages_change(&boot.replies, memory + page * PAGES_BYTES, 1);
    pages_number(&boot.replies, numbers.changed + 1);
}

static void begin_writer(void)
{
    begin(&writer, &boot, &header);
    writer.syncs = true;
}

static int setup(void **state)
{
    char path[64];
    snprintf(path, sizeof path, "%s/replies", test_folder());
    (void)unlink(path);
    memset(memory, 1, sizeof memory);
    memset(marks, 0, sizeof marks);
    numbers = (struct pages_numbers){0};
    boot = (struct boot){.replies = {.base = memory, .bytes = sizeof memory, .marks = marks,
                                     .numbers = &numbers}};
    boot.replies_handle = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(boot.replies_handle >= 0);
    assert_int_equal(ftruncate(boot.replies_handle, PAGES_BYTES + MEMORY_BYTES), 0);
    header = (union replies_page){.header = {.layout = 5}};
    replies_header_end(&header.header);
    fails_at = dies_at = changes_at = -1;
    syncs_fail = syncs_kill = writes = syncs = told = 0;
    begin_writer();
    return 0;
}

static int teardown(void **state)
{
    close(boot.replies_handle);
    return 0;
}

static bool file_is_equal(void)
{
    static uint8_t found[PAGES_BYTES + MEMORY_BYTES + 1];
    return pread(boot.replies_handle, found, sizeof found, 0) == sizeof found - 1 &&
           memcmp(found, header.bytes, PAGES_BYTES) == 0 &&
           memcmp(found + PAGES_BYTES, memory, MEMORY_BYTES) == 0;
}

static void expect_published(void)
{
    assert_true(file_is_equal());
    assert_true(numbers.written == numbers.changed && numbers.changed != 0);
}

/* A round that its writer does not outlive; another one begins. */
static void round_that_kills(void)
{
    if (setjmp(death) == 0) {
        (void)write_round(&writer);
        fail_msg("it lives");
    }
    dies_at = -1;
    assert_int_not_equal(numbers.written, numbers.changed);
    begin_writer();
}

static void test_what_has_changed_is_written_and_published(void **state)
{
    change(0, 7);
    assert_true(write_round(&writer));
    expect_published();
    assert_int_equal(told, 1);
    writes = 0;
    change(2, 8);
    assert_true(write_round(&writer));
    expect_published();
    assert_int_equal(writes, 1);
}

static void test_what_changes_while_it_is_written_is_written_again(void **state)
{
    change(0, 7);
    changes_at = PAGES_BYTES;
    assert_true(write_round(&writer));
    assert_int_equal(numbers.written, 1);       /* the other change is the next round's */
    assert_true(write_round(&writer));
    expect_published();
}

static void test_pages_that_a_sync_has_lost_are_written_again(void **state)
{
    change(1, 7);
    assert_true(write_round(&writer));
    change(3, 8);
    syncs_fail = 2;
    assert_false(write_round(&writer));
    assert_false(write_round(&writer));
    assert_int_equal(numbers.written, 1);
    assert_true(write_round(&writer));
    expect_published();
}

/* Its successor has the same open file, which has said already that pages are lost. */
static void test_a_writer_that_dies_of_a_failed_sync_leaves_nothing_as_written(void **state)
{
    change(1, 7);
    syncs_kill = 1;
    round_that_kills();
    assert_true(write_round(&writer));
    expect_published();
}

static void test_a_writer_that_dies_anywhere_leaves_all_to_its_successor(void **state)
{
    for (dies_at = 0; dies_at < PAGES_BYTES + MEMORY_BYTES; dies_at += PAGES_BYTES) {
        const int64_t at = dies_at;
        change((uint32_t)at / PAGES_BYTES % PAGES, 7);
        begin_writer();
        writer.has_header = at > 0;
        for (uint32_t page = 0; at > 0 && page < (uint32_t)at / PAGES_BYTES - 1; page++) {
            marks[page].written = marks[page].changed;      /* so that a run begins at the place */
        }
        round_that_kills();
        assert_true(write_round(&writer));
        expect_published();
        dies_at = at;
    }
}

/* ---- a file that is cut ---------------------------------------------------------------------- */

static void test_a_header_that_cannot_be_written_is_a_part_of_the_round(void **state)
{
    change(1, 7);
    assert_true(write_round(&writer));
    assert_int_equal(ftruncate(boot.replies_handle, 0), 0);
    change(2, 8);
    fails_at = 0;
    for (uint32_t rounds = 0; rounds < 3; rounds++) {
        assert_false(write_round(&writer));
        assert_int_equal(numbers.written, 1);
    }
    fails_at = -1;
    assert_true(write_round(&writer));
    expect_published();
}

static void test_a_file_that_was_cut_and_its_writer_killed_is_written_again(void **state)
{
    static const int64_t places[] = {0, PAGES_BYTES};
    for (uint32_t i = 0; i < 2; i++) {
        change(1, (uint8_t)(7 + i));
        assert_true(write_round(&writer));
        assert_int_equal(ftruncate(boot.replies_handle, 0), 0);
        change(2, (uint8_t)(8 + i));
        dies_at = places[i];
        round_that_kills();
        assert_true(write_round(&writer));
        expect_published();
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_what_has_changed_is_written_and_published),
        T(test_what_changes_while_it_is_written_is_written_again),
        T(test_pages_that_a_sync_has_lost_are_written_again),
        T(test_a_writer_that_dies_of_a_failed_sync_leaves_nothing_as_written),
        T(test_a_writer_that_dies_anywhere_leaves_all_to_its_successor),
        T(test_a_header_that_cannot_be_written_is_a_part_of_the_round),
        T(test_a_file_that_was_cut_and_its_writer_killed_is_written_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
