/* SPDX-License-Identifier: MIT */
/*
 * What: the digest of the model (model_digest.h): its size, its header, samples of its weights, and
 * the numbers that it is computed in. All of its weights are read later, and by a GPU's worker
 * where one serves: so samples stand for them here.
 * Owner: the keeper, before it forks. BOOT_ONLY.
 */
#include "appliance/boot/model_digest.h"

#include "appliance/log.h"
#include "config/base/bounds.h"
#include "config/base/fnv.h"

#define PART_BYTES 4096
#define SAMPLES    64u              /* other weights of the same shapes differ in all tensors */

static enum status add_header(uint64_t *digest, const struct boot *boot,
                              struct config_error *error)
{
    uint8_t bytes[PART_BYTES];
    for (uint64_t at = 0; at < boot->gguf->data_offset; at += sizeof bytes) {
        uint64_t rest = boot->gguf->data_offset - at;
        uint64_t part = lesser(rest, sizeof bytes);
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
        uint64_t part = lesser(rest - at, sizeof bytes);
        TRY(gguf_read(&boot->source, first + at, bytes, part, error));
        *digest = fnv_add_words(*digest, bytes, part);
    }
    return STATUS_OK;
}

static enum status add_all(uint64_t *digest, const struct boot *boot, struct config_error *error)
{
    const uint64_t facts[] = {boot->source.size_bytes, boot->engine.weights_as_bfloats,
                              boot->engine.kv_type, boot->serves_by_gpu};
    TRY(add_header(digest, boot, error));
    TRY(add_samples(digest, boot, error));
    *digest = fnv_add_words(*digest, facts, sizeof facts);
    return STATUS_OK;
}

enum boot_exit model_digest_fill(struct boot *boot)
{
    struct config_error error = {.text = "unknown"};
    boot->model_digest = FNV_START;
    if (add_all(&boot->model_digest, boot, &error) != STATUS_OK) {
        log_event(LOG_ERROR, "boot failed: %s", error.text);
        return BOOT_EXIT_MODEL;
    }
    return BOOT_EXIT_OK;
}
