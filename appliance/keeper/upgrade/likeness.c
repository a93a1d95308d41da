/* SPDX-License-Identifier: MIT */
/*
 * What: digests of all that a core relies on when it takes up what another one has left.
 *
 *   layout   of the records in kept memory: the program's
 *   shape    how many there are, and the limits that calls were held against: they go on without
 *            being checked again
 *   model    its digest (appliance/boot/model_digest.h), and that of all weights once they are
 *            read; with a GPU the very same file: the same tokens must follow
 *
 * What they may differ in: the binary, KV (which is computed again), engines, threads, times, who
 * may come in.
 */
#include "appliance/keeper/upgrade/likeness.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "appliance/boot/model_digest.h"
#include "config/base/fnv.h"
#include "net/net.h"

/* Those that an operator sets, in the order in which they are named. */
#define COUNTS(COUNT) \
    COUNT(calls, "limits.calls") \
    COUNT(connections, "limits.connections") \
    COUNT(programs, "limits.programs") \
    COUNT(calls_per_connection, "limits.calls_per_connection") \
    COUNT(calls_per_program, "limits.calls_per_program") \
    COUNT(calls_per_key, "limits.calls_per_key") \
    COUNT(context_tokens, "limits.context_tokens") \
    COUNT(replies, "limits.replies") \
    COUNT(reply_tokens, "limits.reply_tokens") \
    COUNT(top_logprobs, "limits.logprobs") \
    COUNT(tenants, "limits.tenants") \
    COUNT(send_bytes, "net.send_bytes")

#define OPTION_OF(member, option) option,
static const char *const options[] = {COUNTS(OPTION_OF)};
STATIC_ASSERT(sizeof options / sizeof options[0] == UPGRADE_COUNTS, "a message has them all");

static void fill_counts(uint32_t counts[UPGRADE_COUNTS], const struct limits *limits)
{
#define MEMBER_OF(member, option) limits->member,
    const uint32_t all[UPGRADE_COUNTS] = {COUNTS(MEMBER_OF)};
    memcpy(counts, all, sizeof all);
}

/* Replies that this one has told are in that very file. */
static uint64_t replies_file_of(const struct boot *boot)
{
    struct stat stat;
    if (boot->replies_handle == 0 || fstat(boot->replies_handle, &stat) != 0) {
        return 0;
    }
    const uint64_t facts[] = {(uint64_t)stat.st_dev, (uint64_t)stat.st_ino};
    return fnv_add_words(FNV_START, facts, sizeof facts);
}

/* Of the counts, which `likeness` has, and of what follows from options and model. */
static uint64_t shape_of(const struct boot *boot, const struct upgrade_likeness *likeness)
{
    const struct limits *limits = &boot->limits;
    const uint32_t others[] = {limits->vocab_tokens, limits->logprob_tokens, limits->frame_bytes,
                               limits->commands};
    uint64_t digest = fnv_add_words(FNV_START, likeness->counts, sizeof likeness->counts);
    digest = fnv_add_words(digest, others, sizeof others);
    digest = fnv_add_words(digest, &likeness->replies_file, sizeof likeness->replies_file);
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

/* What tells a file from another one, and from what it was. */
static uint64_t digest_of(const struct stat *stat)
{
    const uint64_t facts[] = {(uint64_t)stat->st_dev, (uint64_t)stat->st_ino,
                              (uint64_t)stat->st_size, (uint64_t)stat->st_mtim.tv_sec,
                              (uint64_t)stat->st_mtim.tv_nsec};
    return fnv_add_words(FNV_START, facts, sizeof facts);
}

/* A GPU's workers read the weights, and no digest of them is known: the very same file then. Its
 * facts mean nothing after a restart of the machine. */
static uint64_t model_of(const struct boot *boot)
{
    struct stat of_file;
    bool is_there = boot->serves_by_gpu && boot->source.memory == NULL &&
                    fstat(boot->source.fd, &of_file) == 0;
    const uint64_t file = is_there ? digest_of(&of_file) : 0;
    return fnv_add_words(boot->model_digest, &file, sizeof file);
}

uint64_t upgrade_own_program(void)
{
    struct stat of_file;
    return stat("/proc/self/exe", &of_file) == 0 ? digest_of(&of_file) : 0;
}

void upgrade_likeness_fill(struct upgrade_likeness *likeness, const struct boot *boot)
{
    *likeness = (struct upgrade_likeness){
        .layout = net_kept_layout(), .model = model_of(boot),
        .kept_bytes = memory_plan_bytes(&boot->plan, MEMORY_KEPT),
        .replies_file = replies_file_of(boot), .pockets = boot->pockets.count};
    fill_counts(likeness->counts, &boot->limits);
    likeness->shape = shape_of(boot, likeness);
}

/* The options that differ, as far as there is room; others follow from them. */
static const char *name_limits(const struct upgrade_likeness *before,
                               const struct upgrade_likeness *after, char *text)
{
    int used = snprintf(text, UPGRADE_TEXT_BYTES, "other limits");
    const int bare = used;
    for (uint32_t i = 0; i < UPGRADE_COUNTS && used < UPGRADE_TEXT_BYTES - 64; i++) {
        if (before->counts[i] != after->counts[i]) {
            used += snprintf(text + used, UPGRADE_TEXT_BYTES - (size_t)used,
                             "%s %s was %u and is %u", used == bare ? ":" : ",", options[i],
                             before->counts[i], after->counts[i]);
        }
    }
    if (before->replies_file != after->replies_file && used < UPGRADE_TEXT_BYTES - 64) {
        used += snprintf(text + used, UPGRADE_TEXT_BYTES - (size_t)used,
                         "%s limits.replies_file is another file", used == bare ? ":" : ",");
    }
    if (used == bare) {
        snprintf(text + used, UPGRADE_TEXT_BYTES - (size_t)used,
                 " (limits.*, net.send_bytes, what follows from them)");
    }
    return text;
}

const char *upgrade_unlike(const struct upgrade_likeness *before,
                           const struct upgrade_likeness *after, char text[UPGRADE_TEXT_BYTES])
{
    if (before->layout != after->layout) {
        return "another form of calls and connections in memory";
    }
    if (model_digests_differ((struct model_digests){before->model, before->weights},
                             (struct model_digests){after->model, after->weights})) {
        return MODEL_DIGESTS_DIFFER;
    }
    if (before->shape != after->shape || before->kept_bytes != after->kept_bytes) {
        return name_limits(before, after, text);
    }
    if (before->pockets != after->pockets) {
        snprintf(text, UPGRADE_TEXT_BYTES, "another number of descriptors (ulimit -n): room for %u "
                 "connections was and %u is", before->pockets, after->pockets);
        return text;
    }
    return NULL;
}
