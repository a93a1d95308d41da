/* SPDX-License-Identifier: MIT */
/*
 * What: opens, locks, allocates, compares and reads the file of replies (file.h).
 *
 * Invariants: a file that was made for another model, other limits or another version is refused,
 * and not changed. What is of this size and was never written counts as new: the header is written
 * after all room is there. The file is regular, of the appliance's own user and readable by no
 * other; its last name in the path is no link.
 * Owner: the keeper, before it forks. BOOT_ONLY.
 */
#include "appliance/keeper/replies/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "appliance/clock.h"
#include "appliance/keeper/file_lock.h"
#include "appliance/log.h"
#include "config/base/assert.h"
#include "config/base/bounds.h"
#include "net/net.h"

#define LOCK_TRIES    50            /* for a writer that ends: */
#define LOCK_PAUSE_US 100000u       /* 5 s in all */
#define PUBLIC_MODES  077

static enum boot_exit fail(const struct boot *boot, enum boot_exit exit_status, const char *why)
{
    log_event(LOG_ERROR, "boot failed: limits.replies_file = %s: %s",
              boot->options.limits_replies_file.text, why);
    return exit_status;
}

/* What another try may change: a service manager makes one. */
static enum boot_exit fail_errno(const struct boot *boot, const char *what)
{
    char why[160];
    bool is_named_wrong = errno == ENOENT || errno == ENOTDIR || errno == EACCES ||
                          errno == EISDIR || errno == EROFS || errno == ENAMETOOLONG;
    snprintf(why, sizeof why, "%s: %s", what, strerror(errno));
    return fail(boot, is_named_wrong ? BOOT_EXIT_CONFIG : BOOT_EXIT_SYSTEM, why);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* What forbids to write outcomes there; NULL: nothing. */
static const char *fault_of(int handle)
{
    struct stat stat;
    if (fstat(handle, &stat) != 0 || !S_ISREG(stat.st_mode)) {
        return "not a regular file";
    }
    if (stat.st_uid != geteuid()) {
        return "it belongs to another user than the appliance runs as";
    }
    if ((stat.st_mode & PUBLIC_MODES) != 0) {
        return "others may read or write it, allowed mode 0600";
    }
    return stat.st_nlink == 1 ? NULL : "it has several names (hard links), allowed one";
}

/* So that a name that was made outlives a crash of the machine. */
static bool sync_folder(const char *path)
{
    char folder[CONFIG_TEXT_BYTES];
    const char *end = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", end == NULL ? 1 : (int)(end - path) + 1,
             end == NULL ? "." : path);
    int handle = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_done = handle >= 0 && fsync(handle) == 0;
    if (handle >= 0) {
        close(handle);
    }
    return is_done;
}

static bool lock(int handle)
{
    for (uint32_t i = 0; i < LOCK_TRIES; i++) {
        if (file_lock(handle, F_OFD_SETLK)) {
            return true;
        }
        clock_rest(LOCK_PAUSE_US);          /* the writer of one that was killed has not ended */
    }
    return false;
}

/* The core rings and never waits: the writer reads. */
static bool open_bell(int *ends)
{
    return pipe2(ends, O_CLOEXEC) == 0 && fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0;
}

enum boot_exit replies_file_open(struct boot *boot)
{
    const char *path = boot->options.limits_replies_file.text;
    if (path[0] == '\0') {
        return BOOT_EXIT_OK;
    }
    int handle = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                      S_IRUSR | S_IWUSR);
    if (handle < 0) {
        return errno == ELOOP ? fail(boot, BOOT_EXIT_CONFIG, "a symbolic link, allowed a file")
                              : fail_errno(boot, "cannot be opened or made");
    }
    const char *fault = fault_of(handle);
    if (fault != NULL) {
        return fail(boot, BOOT_EXIT_CONFIG, fault);
    }
    if (!sync_folder(path)) {
        return fail_errno(boot, "its folder");
    }
    if (!boot->is_upgrade && !lock(handle)) {
        return fail(boot, BOOT_EXIT_SYSTEM, "another appliance uses it");
    }
    if (!open_bell(boot->shared.replies_bell)) {
        return fail_errno(boot, "pipe");
    }
    boot->replies_handle = handle;
    return BOOT_EXIT_OK;
}

void replies_file_forget(const struct boot *boot, bool is_core)
{
    if (boot->replies_handle > 0) {
        close(boot->replies_handle);
        close(boot->shared.replies_bell[0]);
        if (!is_core) {
            close(boot->shared.replies_bell[1]);
        }
    }
}

/* ---- room ------------------------------------------------------------------------------------ */

static uint64_t size_of(const struct replies_header *header)
{
    return PAGES_BYTES + header->bytes;
}

static enum boot_exit fail_room(const struct boot *boot, uint64_t needed)
{
    struct statfs disk;
    char why[160];
    int error = errno;
    uint64_t free = fstatfs(boot->replies_handle, &disk) == 0
                        ? (uint64_t)disk.f_bavail * (uint64_t)disk.f_bsize : 0;
    snprintf(why, sizeof why, "needs %llu bytes, %llu are free there: %s (limits.replies, "
             "limits.reply_tokens)", (unsigned long long)needed, (unsigned long long)free,
             strerror(error));
    return fail(boot, BOOT_EXIT_CONFIG, why);
}

/* Where the file system cannot promise room: zeros take it. The last page is a part of one, so that
 * the file gets the size that it has by fallocate(). */
static bool write_zeros(int handle, uint64_t bytes)
{
    static const uint8_t zeros[PAGES_BYTES];
    for (uint64_t at = 0; at < bytes; at += sizeof zeros) {
        uint64_t part = lesser(bytes - at, sizeof zeros);
        if (pwrite(handle, zeros, part, (off_t)at) != (ssize_t)part) {
            return false;
        }
    }
    return true;
}

/* All that it will ever need. */
static enum boot_exit allocate(const struct boot *boot, uint64_t bytes, bool is_new)
{
    int handle = boot->replies_handle;
    signal(SIGXFSZ, SIG_IGN);               /* a limit of file sizes is an error like another */
    bool is_there = fallocate(handle, 0, 0, (off_t)bytes) == 0 ||
                    (errno == EOPNOTSUPP && (!is_new || write_zeros(handle, bytes)));
    if (is_there) {
        return BOOT_EXIT_OK;
    }
    enum boot_exit exit_status = fail_room(boot, bytes);
    if (is_new) {
        (void)!ftruncate(handle, 0);        /* so that it stays new */
    }
    return exit_status;
}

/* ---- header and replies ---------------------------------------------------------------------- */

static enum boot_exit write_header(const struct boot *boot, union replies_page *page)
{
    replies_header_end(&page->header);
    if (pwrite(boot->replies_handle, page->bytes, sizeof page->bytes, 0) !=
            (ssize_t)sizeof page->bytes || fdatasync(boot->replies_handle) != 0) {
        return fail_errno(boot, "its header cannot be written");
    }
    return BOOT_EXIT_OK;
}

static bool read_whole(const struct boot *boot, void *to, uint64_t bytes, uint64_t from)
{
    uint8_t *at = to;
    while (bytes > 0) {
        ssize_t count = pread(boot->replies_handle, at, bytes, (off_t)from);
        if (count <= 0) {
            return false;
        }
        at += count;
        from += (uint64_t)count;
        bytes -= (uint64_t)count;
    }
    return true;
}

static enum boot_exit fail_unlike(const struct boot *boot, const char *unlike)
{
    char why[320];
    snprintf(why, sizeof why, "%s. Its replies are no use here: serve as before, or name another "
             "file, or remove this one: calls that ended are then executed when they come again",
             unlike);
    return fail(boot, BOOT_EXIT_CONFIG, why);
}

static struct replies_header header_of(const struct boot *boot)
{
    return (struct replies_header){
        .layout = net_replies_layout(), .replies = boot->limits.replies,
        .reply_tokens = boot->limits.reply_tokens, .bytes = boot->replies.bytes,
        .model = boot->model_digest};
}

/* True when no page was ever written: a header that is not there is damage else, and with it a file
 * that was cut while a machine crashed. */
static bool is_all_new(const struct boot *boot, uint64_t bytes)
{
    bool is_new = true;
    for (uint64_t at = 0; is_new && at < bytes; at += PAGES_BYTES) {
        union replies_page page = {.bytes = {0}};
        uint64_t part = lesser(bytes - at, PAGES_BYTES);
        is_new = read_whole(boot, page.bytes, part, at) && replies_page_is_new(&page);
    }
    return is_new;
}

/* One of the right size, or a new one. */
static enum boot_exit compare(const struct boot *boot, const struct replies_header *own,
                              bool *is_new)
{
    union replies_page page = {.bytes = {0}};
    struct stat stat;
    if (fstat(boot->replies_handle, &stat) != 0) {
        return fail_errno(boot, "fstat");
    }
    *is_new = stat.st_size == 0;
    if (*is_new) {
        return BOOT_EXIT_OK;
    }
    if ((uint64_t)stat.st_size < sizeof page ||
        !read_whole(boot, page.bytes, sizeof page.bytes, 0)) {
        return fail_unlike(boot, "it is no file of replies");
    }
    *is_new = (uint64_t)stat.st_size == size_of(own) && is_all_new(boot, size_of(own));
    const char *unlike = *is_new ? NULL : replies_header_unlike(&page.header, own);
    if (unlike == NULL && (uint64_t)stat.st_size != size_of(own)) {
        unlike = "it has another size than its header says";
    }
    return unlike == NULL ? BOOT_EXIT_OK : fail_unlike(boot, unlike);
}

static enum boot_exit load(struct boot *boot)
{
    const struct replies_header own = header_of(boot);
    bool is_new = false;
    enum boot_exit exit_status = compare(boot, &own, &is_new);
    if (exit_status == BOOT_EXIT_OK) {
        exit_status = allocate(boot, size_of(&own), is_new);
    }
    if (exit_status == BOOT_EXIT_OK && is_new) {
        union replies_page page = {.bytes = {0}};
        page.header = own;
        exit_status = write_header(boot, &page);
    }
    /* An upgrade takes kept memory as it is. What is in a new file was not made for this model. */
    if (exit_status == BOOT_EXIT_OK && !boot->is_upgrade && !is_new &&
        !read_whole(boot, boot->replies.base, boot->replies.bytes, PAGES_BYTES)) {
        exit_status = fail_errno(boot, "cannot be read");
    }
    return exit_status;
}

enum boot_exit replies_file_load(struct boot *boot)
{
    struct arena kept = boot->kept_arena;
    net_replies_take(&boot->replies, &boot->limits, &kept);
    if (boot->replies_handle == 0) {
        return BOOT_EXIT_OK;
    }
    enum boot_exit exit_status = load(boot);
    if (exit_status == BOOT_EXIT_OK) {
        log_event(LOG_INFO, "replies file=%s bytes=%llu", boot->options.limits_replies_file.text,
                  (unsigned long long)(PAGES_BYTES + boot->replies.bytes));
    }
    return exit_status;
}

enum boot_exit replies_file_bind(const struct boot *boot, uint64_t weights,
                                 union replies_page *page)
{
    if (boot->replies_handle == 0) {
        return BOOT_EXIT_OK;
    }
    if (!read_whole(boot, page->bytes, sizeof page->bytes, 0)) {
        return fail_errno(boot, "cannot be read");
    }
    struct replies_header own = page->header;
    own.weights = weights;
    const char *unlike = replies_header_unlike(&page->header, &own);
    if (unlike != NULL) {
        return fail_unlike(boot, unlike);
    }
    if (weights == 0 || page->header.weights == weights) {
        return BOOT_EXIT_OK;
    }
    page->header.weights = weights;
    return write_header(boot, page);
}
