/* SPDX-License-Identifier: MIT */
/*
 * What: what a value in the prompt cache is found by: a keyed digest with 128 bits. Two prompts
 * with one key would get one value: no client can find such a pair without the secret, which is
 * drawn at boot.
 */
#include <bearssl/bearssl_hmac.h>
#include <string.h>

#include "config/base/assert.h"
#include "sched/workflow/prompt_cache.h"

/* All that the value of a greedy call depends on. Stop ids and stop texts in their order. */
struct prompt_cache_key prompt_cache_key(const struct prompt_cache *cache, uint64_t domain,
                                         const struct workflow_node *node, const uint32_t *prompt,
                                         uint32_t prompt_tokens)
{
    const struct call_sampling *sampling = &node->call.sampling;
    struct prompt_cache_key key;
    uint8_t mac[32];
    br_hmac_key_context with;
    br_hmac_context hmac;
    ASSERT(sampling->temperature == 0);
    br_hmac_key_init(&with, &br_sha256_vtable, cache->head->secret, sizeof cache->head->secret);
    br_hmac_init(&hmac, &with, 0);
    br_hmac_update(&hmac, &domain, sizeof domain);
    br_hmac_update(&hmac, &node->max_tokens, sizeof node->max_tokens);
    br_hmac_update(&hmac, &node->call.ignore_eos, sizeof node->call.ignore_eos);
    br_hmac_update(&hmac, &sampling->repeat_penalty, sizeof sampling->repeat_penalty);
    br_hmac_update(&hmac, &sampling->stop_ids_count, sizeof sampling->stop_ids_count);
    br_hmac_update(&hmac, sampling->stop_ids,
                   sampling->stop_ids_count * sizeof *sampling->stop_ids);
    br_hmac_update(&hmac, &node->call.stop_texts_count, sizeof node->call.stop_texts_count);
    for (uint32_t i = 0; i < node->call.stop_texts_count; i++) {
        const struct call_stop_text *text = &node->call.stop_texts[i];
        br_hmac_update(&hmac, &text->length_bytes, sizeof text->length_bytes);
        br_hmac_update(&hmac, text->bytes, text->length_bytes);
    }
    br_hmac_update(&hmac, prompt, prompt_tokens * sizeof *prompt);
    br_hmac_out(&hmac, mac);
    memcpy(key.bytes, mac, sizeof key.bytes);
    return key;
}
