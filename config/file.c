/* SPDX-License-Identifier: MIT */
#include "config/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/error.h"

/*
 * What: open, examine, read. The file is examined through its descriptor, so the file that was
 * examined is the one that is read. Links, FIFOs and devices are refused before a byte is read.
 */

static enum status check_plain(const struct stat *stat, const char *path,
                               struct config_error *error)
{
    if ((stat->st_mode & S_IWOTH) != 0) {
        return config_error_set(error, "%.200s: mode %04o: all users may write it, need 0644 or "
                                "less", path, (unsigned)(stat->st_mode & 07777));
    }
    return STATUS_OK;
}

static enum status check_secret(const struct stat *stat, const char *path,
                                struct config_error *error)
{
    if ((stat->st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return config_error_set(error, "%.200s: mode %04o, need 0600", path,
                                (unsigned)(stat->st_mode & 07777));
    }
    if (stat->st_uid != 0 && stat->st_uid != geteuid()) {
        return config_error_set(error, "%.200s: belongs to user %u, need %u or root", path,
                                (unsigned)stat->st_uid, (unsigned)geteuid());
    }
    return STATUS_OK;
}

static enum status check_file(int fd, const char *path, enum config_file_kind kind,
                              struct config_error *error)
{
    struct stat stat;
    if (fstat(fd, &stat) != 0) {
        return config_error_set(error, "%.200s: cannot be examined: %s", path, strerror(errno));
    }
    if (!S_ISREG(stat.st_mode)) {
        return config_error_set(error, "%.200s: not a regular file", path);
    }
    return kind == CONFIG_FILE_SECRET ? check_secret(&stat, path, error)
                                      : check_plain(&stat, path, error);
}

enum status config_file_next(int fd, const char *path, struct config_file_bytes *bytes,
                             struct config_error *error)
{
    bytes->count = 0;
    while (bytes->count < bytes->max) {
        ssize_t got = read(fd, bytes->bytes + bytes->count, bytes->max - bytes->count);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return config_error_set(error, "%.200s: cannot be read: %s", path, strerror(errno));
        }
        if (got == 0) {
            break;
        }
        bytes->count += (size_t)got;
    }
    return STATUS_OK;
}

/* Root may be refused, too: it has no capabilities by then. */
static enum status refuse_unopened(const char *path, int cause, struct config_error *error)
{
    struct stat of;
    if (cause == EACCES && stat(path, &of) == 0) {
        return config_error_set(error, "%.200s: cannot be opened: %s: it belongs to user %u and "
                                "has mode %04o", path, strerror(cause), (unsigned)of.st_uid,
                                (unsigned)(of.st_mode & 07777));
    }
    return config_error_set(error, "%.200s: cannot be opened: %s", path,
                            cause == ELOOP ? "it is a symbolic link" : strerror(cause));
}

enum status config_file_open(const char *path, enum config_file_kind kind, int *file,
                             struct config_error *error)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return refuse_unopened(path, errno, error);
    }
    enum status status = check_file(fd, path, kind, error);
    if (status != STATUS_OK) {
        (void)close(fd);
        return status;
    }
    *file = fd;
    return STATUS_OK;
}

enum status config_file_read(const char *path, enum config_file_kind kind,
                             struct config_file_bytes *bytes, struct config_error *error)
{
    int fd = -1;
    TRY(config_file_open(path, kind, &fd, error));
    enum status status = config_file_next(fd, path, bytes, error);
    (void)close(fd);
    return status;
}
