/* SPDX-License-Identifier: MIT */
/*
 * What: digests of all that a core relies on when it takes up what another one has left.
 *
 *   layout   of the records in kept memory: the program's
 *   shape    how many there are, and the limits that calls were held against: they go on without
 *            being checked again
 *   model    the header of its file, and parts of its weights; all of these once they are read: the
 *            same tokens must follow
 *
 * What they may differ in: the binary, KV (which is computed again), engines, threads, times, who
 * may come in.
 */
#include "appliance/keeper/upgrade/likeness.h"

#include <string.h>
#include <sys/stat.h>

#include "appliance/log.h"
#include "config/base/fnv.h"
#include "net/net.h"

#define PART_BYTES 4096
#define SAMPLES    64u              /* other weights of the same shapes differ in all tensors */

/* Replies that this one has told are in that very file. */
static uint64_t add_replies_file(uint64_t digest, const struct boot *boot)
{
    struct stat stat;
    if (boot->replies_handle == 0 || fstat(boot->replies_handle, &stat) != 0) {
        return digest;
    }
    const uint64_t facts[] = {(uint64_t)stat.st_dev, (uint64_t)stat.st_ino};
    return fnv_add_words(digest, facts, sizeof facts);
}

static uint64_t shape_of(const struct boot *boot)
{
    const struct limits *limits = &boot->limits;
    const uint32_t facts[] = {
        limits->programs, limits->tenants, limits->calls, limits->connections,
        limits->calls_per_connection, limits->calls_per_program, limits->calls_per_key,
        limits->context_tokens, limits->vocab_tokens, limits->top_logprobs, limits->logprob_tokens,
        limits->frame_bytes, limits->send_bytes, limits->replies, limits->reply_tokens,
        limits->commands,
    };
    uint64_t digest = add_replies_file(fnv_add_words(FNV_START, facts, sizeof facts), boot);
    for (uint32_t i = 0; i < boot->plan.rows_count; i++) {
        const struct memory_plan_row *row = &boot->plan.rows[i];
        if (row->kind == MEMORY_KEPT) {
            digest = fnv_add(digest, row->owner, strlen(row->owner));
            digest = fnv_add_words(digest, &row->count, sizeof row->count);
            digest = fnv_add_words(digest, &row->size_bytes, sizeof row->size_bytes);
        }
    }
    return digest;
}

static enum status add_header(uint64_t *digest, const struct boot *boot,
                              struct config_error *error)
{
    uint8_t bytes[PART_BYTES];
    for (uint64_t at = 0; at < boot->gguf->data_offset; at += sizeof bytes) {
        uint64_t rest = boot->gguf->data_offset - at;
        uint64_t part = rest < sizeof bytes ? rest : sizeof bytes;
        TRY(gguf_read(&boot->source, at, bytes, part, error));
        *digest = fnv_add_words(*digest, bytes, part);
    }
    return STATUS_OK;
}

/* So that it is known before memory is reserved: the digest of all weights comes later. */
static enum status add_samples(uint64_t *digest, const struct boot *boot,
                               struct config_error *error)
{
    uint8_t bytes[PART_BYTES];
    uint64_t first = boot->gguf->data_offset, rest = boot->source.size_bytes - first;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint64_t at = rest / SAMPLES * i;
        uint64_t part = rest - at < sizeof bytes ? rest - at : sizeof bytes;
        TRY(gguf_read(&boot->source, first + at, bytes, part, error));
        *digest = fnv_add_words(*digest, bytes, part);
    }
    return STATUS_OK;
}

/* What tells a file from another one, and from what it was. */
static uint64_t digest_of(const struct stat *stat)
{
    const uint64_t facts[] = {(uint64_t)stat->st_dev, (uint64_t)stat->st_ino,
                              (uint64_t)stat->st_size, (uint64_t)stat->st_mtim.tv_sec,
                              (uint64_t)stat->st_mtim.tv_nsec};
    return fnv_add_words(FNV_START, facts, sizeof facts);
}

/* A GPU's workers read the weights, and no digest of them is known: the very same file then. */
static uint64_t file_of(const struct boot *boot)
{
    struct stat of_file;
    bool is_there = boot->source.memory == NULL && fstat(boot->source.fd, &of_file) == 0;
    return is_there ? digest_of(&of_file) : 0;
}

uint64_t upgrade_own_program(void)
{
    struct stat of_file;
    return stat("/proc/self/exe", &of_file) == 0 ? digest_of(&of_file) : 0;
}

static enum status add_all(uint64_t *digest, const struct boot *boot, struct config_error *error)
{
    const uint64_t arithmetic[] = {boot->engine.weights_as_bfloats, boot->engine.kv_type,
                                   boot->serves_by_gpu};
    TRY(add_header(digest, boot, error));
    TRY(add_samples(digest, boot, error));
    *digest = fnv_add_words(*digest, arithmetic, sizeof arithmetic);
    if (boot->serves_by_gpu) {
        const uint64_t file = file_of(boot);
        *digest = fnv_add_words(*digest, &file, sizeof file);
    }
    return STATUS_OK;
}

enum boot_exit upgrade_measure(struct boot *boot)
{
    struct config_error error = {.text = "unknown"};
    boot->model_digest = FNV_START;
    if (add_all(&boot->model_digest, boot, &error) != STATUS_OK) {
        log_event(LOG_ERROR, "boot failed: %s", error.text);
        return BOOT_EXIT_MODEL;
    }
    return BOOT_EXIT_OK;
}

void upgrade_likeness_fill(struct upgrade_likeness *likeness, const struct boot *boot)
{
    *likeness = (struct upgrade_likeness){
        .layout = net_kept_layout(), .shape = shape_of(boot), .model = boot->model_digest,
        .kept_bytes = memory_plan_bytes(&boot->plan, MEMORY_KEPT),
        .pockets = boot->pockets.count};
}

const char *upgrade_unlike(const struct upgrade_likeness *before,
                           const struct upgrade_likeness *after)
{
    if (before->layout != after->layout) {
        return "another form of calls and connections in memory";
    }
    if (before->model != after->model ||
        (before->weights != 0 && after->weights != 0 && before->weights != after->weights)) {
        return "another model, or other numbers to compute it in (kv.type, model.weights, "
               "engine.kind)";
    }
    if (before->shape != after->shape || before->kept_bytes != after->kept_bytes) {
        return "other limits (limits.*, net.send_bytes, what follows from them)";
    }
    if (before->pockets != after->pockets) {
        return "another number of descriptors (ulimit -n)";
    }
    return NULL;
}
