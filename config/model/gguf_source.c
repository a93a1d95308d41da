/* SPDX-License-Identifier: MIT */
/*
 * What: where a model's bytes come from, a regular file or memory (the embedded model, tests).
 *
 * Owner: boot opens it, and closes it once weights and vocabulary are read.
 *
 * Why not mmap: a file that is cut while it is mapped kills the process with SIGBUS. What is read
 * is ours, and a file that shrinks between two reads is an error message.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/assert.h"
#include "config/model/gguf_cursor.h"

static enum status open_regular(struct gguf_source *source, struct config_error *error)
{
    struct stat stat;
    if (fstat(source->fd, &stat) != 0) {
        return gguf_error(source, GGUF_WHOLE, error, "cannot be examined: %s", strerror(errno));
    }
    if (!S_ISREG(stat.st_mode)) {
        return gguf_error(source, GGUF_WHOLE, error, "is not a regular file");
    }
    source->size_bytes = (uint64_t)stat.st_size;
    return STATUS_OK;
}

enum status gguf_source_open(struct gguf_source *source, const char *path,
                             struct config_error *error)
{
    *source = (struct gguf_source){.fd = -1, .name = path};
    /* Without O_NONBLOCK, opening a FIFO would wait for ever. */
    source->fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (source->fd < 0) {
        return gguf_error(source, GGUF_WHOLE, error, "cannot be opened: %s", strerror(errno));
    }
    enum status status = open_regular(source, error);
    if (status != STATUS_OK) {
        gguf_source_close(source);
    }
    return status;
}

void gguf_source_memory(struct gguf_source *source, const void *bytes, uint64_t count,
                        const char *name)
{
    ASSERT(bytes != NULL || count == 0);
    ASSERT(name != NULL);
    *source = (struct gguf_source){.fd = -1, .memory = bytes, .size_bytes = count, .name = name};
}

void gguf_source_close(struct gguf_source *source)
{
    if (source->fd >= 0) {
        close(source->fd);
    }
    *source = (struct gguf_source){.fd = -1, .name = source->name};
}

static enum status read_file(const struct gguf_source *source, uint64_t offset, uint8_t *bytes,
                             uint64_t count, struct config_error *error)
{
    while (count > 0) {
        size_t part = count < (1u << 30) ? (size_t)count : 1u << 30;
        ssize_t got = pread(source->fd, bytes, part, (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return gguf_error(source, offset, error, "cannot be read: %s", strerror(errno));
        }
        if (got == 0) {
            return gguf_error(source, offset, error, "the file became shorter while it was read");
        }
        bytes += got;
        offset += (uint64_t)got;
        count -= (uint64_t)got;
    }
    return STATUS_OK;
}

enum status gguf_read(const struct gguf_source *source, uint64_t offset, void *bytes,
                      uint64_t count, struct config_error *error)
{
    if (offset > source->size_bytes || count > source->size_bytes - offset) {
        return gguf_error(source, offset, error, "%llu bytes wanted, expected at most %llu",
                          (unsigned long long)count,
                          offset > source->size_bytes
                              ? 0ull
                              : (unsigned long long)(source->size_bytes - offset));
    }
    if (source->fd >= 0) {
        return read_file(source, offset, bytes, count, error);
    }
    if (count > 0) {
        memcpy(bytes, source->memory + offset, count);
    }
    return STATUS_OK;
}
