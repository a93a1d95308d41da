/* SPDX-License-Identifier: MIT */
/*
 * What: the model is read twice, once to pack it and once for its digest alone; both digests must
 * agree, and every weight must be finite (the loader checks).
 */
#include <stdio.h>

#include "appliance/base/fnv.h"
#include "selftest/post/post.h"

static bool digest_tensor(const struct boot *boot, const struct gguf_tensor *tensor,
                          uint64_t *digest)
{
    static uint8_t buffer[65536];
    struct config_error error;
    for (uint64_t at = 0; at < tensor->bytes; at += sizeof buffer) {
        uint64_t count = tensor->bytes - at;
        count = count < sizeof buffer ? count : sizeof buffer;
        if (gguf_read(&boot->source, tensor->offset + at, buffer, count, &error) != STATUS_OK) {
            printf("model: %s\n", error.text);
            return false;
        }
        *digest = fnv_add(*digest, buffer, count);
    }
    return true;
}

bool post_model(struct boot *boot)
{
    static struct boot_load load;
    uint64_t again = FNV_START;
    for (uint32_t i = 0; i < boot->gguf->tensors_count; i++) {
        if (!digest_tensor(boot, &boot->gguf->tensors[i], &again)) {
            return false;
        }
    }
    if (boot_load_begin(boot, &load) != BOOT_EXIT_OK) {
        return false;
    }
    while (!boot_load_is_done(&load)) {
        if (boot_load_next(&load, NULL) != BOOT_EXIT_OK) {
            return false;
        }
    }
    boot_load_end(boot, &load);
    uint64_t loaded = load.loading.digest;
    printf("model: digest %016llx, again %016llx\n", (unsigned long long)loaded,
           (unsigned long long)again);
    return loaded == again;
}
