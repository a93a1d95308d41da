/* SPDX-License-Identifier: MIT */
/*
 * What: the writer role (writer.h).
 *
 * Why a process of its own: a disk may take seconds. The core must not wait for one, by a page
 * fault neither: so it does not map the file, and a file that is cut, a disk that fails or a full
 * one costs it nothing. The keeper must not wait either: it watches the others.
 * Invariants: it reads no record, and writes nothing but this file. A page counts as written when
 * all of it was; numbers are published after the header and their pages, and after fdatasync()
 * where that is asked for. What another writer has counted as written counts for nothing: the
 * system says once that it has lost a page, and may have said so to that one. So a writer begins
 * with all.
 * Bounds: a round writes each page once. It wakes up when it is rung for.
 * Owner: one thread; the keeper forks it, and another one when it has died.
 */
#include "appliance/keeper/replies/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "appliance/clock.h"
#include "appliance/keeper/file_lock.h"
#include "appliance/log.h"
#include "appliance/seal/seal.h"
#include "config/base/bounds.h"

#define RUN_PAGES 64u               /* written at once, at most */
#define REST_US   1000000u          /* after a disk has refused */

struct writer {
    const struct boot *boot;
    const union replies_page *header;
    bool syncs;
    bool has_header;                /* the file has it, as far as this writer knows */
    bool has_failed;                /* the last round; the log says so once */
    bool is_cut;                    /* the file was shorter than it is made; the same */
    bool is_gone;                   /* it has no name any more; the same */
};

static bool is_due(const struct pages *pages, uint64_t page, uint32_t *changed)
{
    *changed = __atomic_load_n(&pages->marks[page].changed, __ATOMIC_ACQUIRE);
    return *changed != pages->marks[page].written;
}

/* So many pages from `first` on are due, at most RUN_PAGES; their counters. */
static uint64_t run_from(const struct pages *pages, uint64_t first, uint32_t *changed)
{
    uint64_t end = pages_count(pages->bytes), count = 0;
    while (first + count < end && count < RUN_PAGES &&
           is_due(pages, first + count, &changed[count])) {
        count++;
    }
    return count;
}

static bool write_whole(const struct boot *boot, const void *bytes, uint64_t count, uint64_t at)
{
    const uint8_t *from = bytes;
    while (count > 0) {
        ssize_t written = pwrite(boot->replies_handle, from, count, (off_t)at);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return false;
        }
        from += (uint64_t)written;
        at += (uint64_t)written;
        count -= (uint64_t)written;
    }
    return true;
}

static bool write_run(const struct boot *boot, uint64_t first, uint64_t count)
{
    const struct pages *pages = &boot->replies;
    uint64_t from = first * PAGES_BYTES, rest = pages->bytes - from;
    return write_whole(boot, pages->base + from, lesser(count * PAGES_BYTES, rest),
                       PAGES_BYTES + from);
}

/* Before pages: with pages and without it, the file would be no file of replies. */
static bool write_header(struct writer *writer)
{
    writer->has_header = writer->has_header ||
                         write_whole(writer->boot, writer->header, sizeof *writer->header, 0);
    return writer->has_header;
}

static bool write_pages(const struct boot *boot)
{
    const struct pages *pages = &boot->replies;
    uint32_t changed[RUN_PAGES];
    for (uint64_t page = 0; page < pages_count(pages->bytes);) {
        uint64_t count = run_from(pages, page, changed);
        if (count > 0 && !write_run(boot, page, count)) {
            return false;
        }
        for (uint64_t i = 0; i < count; i++) {
            pages->marks[page + i].written = changed[i];
        }
        page += count > 0 ? count : 1;
    }
    return true;
}

static void write_all_again(struct writer *writer)
{
    const struct pages *pages = &writer->boot->replies;
    writer->has_header = false;
    for (uint64_t page = 0; page < pages_count(pages->bytes); page++) {
        pages->marks[page].written = pages->marks[page].changed - 1;
    }
}

/* The system forgets what it could not write, and says so once: nothing of it counts. */
static bool sync_pages(struct writer *writer)
{
    if (fdatasync(writer->boot->replies_handle) == 0) {
        return true;
    }
    write_all_again(writer);
    return false;
}

/* It may have been cut: what was there is written again. Or it may have been removed. */
static void look_at_file(struct writer *writer)
{
    const struct pages *pages = &writer->boot->replies;
    struct stat stat;
    if (fstat(writer->boot->replies_handle, &stat) != 0) {
        return;
    }
    bool is_cut = (uint64_t)stat.st_size < PAGES_BYTES + pages->bytes;
    if (is_cut && !writer->is_cut) {
        log_event(LOG_ERROR, "limits.replies_file was cut to %llu bytes: it is written again",
                  (unsigned long long)stat.st_size);
    }
    if (is_cut) {
        write_all_again(writer);
    }
    writer->is_cut = is_cut;
    if (stat.st_nlink == 0 && !writer->is_gone) {
        writer->is_gone = true;
        log_event(LOG_ERROR, "limits.replies_file was removed: a restart will know no reply");
    }
}

/* False: the disk has refused. */
static bool write_round(struct writer *writer)
{
    const struct boot *boot = writer->boot;
    struct pages_numbers *numbers = boot->replies.numbers;
    uint64_t changed = __atomic_load_n(&numbers->changed, __ATOMIC_ACQUIRE);
    look_at_file(writer);
    bool is_done = write_header(writer) && write_pages(boot) &&
                   (!writer->syncs || sync_pages(writer));
    if (!is_done && !writer->has_failed) {
        log_event(LOG_ERROR, "limits.replies_file cannot be written: error %d: %s", errno,
                  writer->syncs ? "ends of calls wait" : "a restart will not know these replies");
    } else if (is_done && writer->has_failed) {
        log_event(LOG_INFO, "limits.replies_file is written again");
    }
    writer->has_failed = !is_done;
    if (is_done && numbers->written != changed) {
        __atomic_store_n(&numbers->written, changed, __ATOMIC_RELEASE);
        if (writer->syncs) {
            control_ring(boot->shared.control_bell);
        }
    }
    return is_done;
}

/* Until it is rung for; false: no process can any more. */
static bool await(const struct boot *boot)
{
    uint8_t rings[256];
    ssize_t count;
    do {
        count = read(boot->shared.replies_bell[0], rings, sizeof rings);
    } while (count < 0 && errno == EINTR);
    return count > 0;
}

/* It does not wait for ever for a disk that fails: nothing will be kept any more. */
static bool is_alone(const struct boot *boot)
{
    struct pollfd bell = {.fd = boot->shared.replies_bell[0], .events = POLLIN};
    uint8_t rings[256];
    while (poll(&bell, 1, 0) == 1 && (bell.revents & POLLIN) != 0) {
        (void)!read(bell.fd, rings, sizeof rings);
    }
    return (bell.revents & POLLHUP) != 0;
}

static void prepare(const struct boot *boot)
{
    prctl(PR_SET_NAME, "agentix-writer");
    log_role("writer");
    /* The keeper before this one, and its writer, have it until they end. */
    if (!file_lock(boot->replies_handle, F_OFD_SETLKW)) {
        log_event(LOG_ERROR, "limits.replies_file cannot be locked: error %d", errno);
        _exit(BOOT_EXIT_SYSTEM);
    }
    enum boot_exit sealed = seal_prepare(boot);
    if (sealed == BOOT_EXIT_OK) {
        sealed = seal_process(SEAL_WRITER, boot, -1);
    }
    if (sealed != BOOT_EXIT_OK) {
        _exit(sealed);
    }
}

static void begin(struct writer *writer, const struct boot *boot, const union replies_page *header)
{
    *writer = (struct writer){.boot = boot, .header = header,
                              .syncs = option_limits_replies_sync(&boot->options) ==
                                       OPTION_LIMITS_REPLIES_SYNC_YES};
    write_all_again(writer);
}

_Noreturn void replies_writer_run(const struct boot *boot, const union replies_page *header)
{
    struct writer writer;
    bool goes_on = true;
    prepare(boot);
    begin(&writer, boot, header);
    while (goes_on) {
        if (write_round(&writer)) {
            goes_on = await(boot);
        } else {
            clock_rest(REST_US);
            goes_on = !is_alone(boot);
        }
    }
    _exit(write_round(&writer) ? BOOT_EXIT_OK : BOOT_EXIT_SYSTEM);
}
