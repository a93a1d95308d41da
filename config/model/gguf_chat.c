/* SPDX-License-Identifier: MIT */
/*
 * What: the chat template of a model file, read whole, and told from others (config/chat).
 *
 * A template can be any bytes: what cannot be read or recognised is CHAT_UNKNOWN, and the model
 * serves all the same. Bounds: at most CHAT_TEMPLATE_BYTES_MAX are read.
 */
#include "config/model/gguf_keys.h"

#include <string.h>

#include "config/vocab/unicode.h"

enum status gguf_chat_derive(struct gguf_chat *chat, const struct gguf_keys *keys,
                             const struct gguf_source *source, struct config_error *error)
{
    const struct gguf_span *span = &keys->chat_template;
    chat->verdict = span->key.present ? CHAT_UNKNOWN : CHAT_ABSENT;
    chat->template_bytes = span->bytes < UINT32_MAX ? (uint32_t)span->bytes : UINT32_MAX;
    chat->format = (struct chat_format){.id = CHAT_PLAIN};
    if (span->bytes == 0 || span->bytes > sizeof chat->scratch.source) {
        return STATUS_OK;
    }
    TRY(gguf_read(source, span->key.offset, chat->scratch.source, span->bytes, error));
    chat->verdict = chat_recognise(chat->scratch.source, (uint32_t)span->bytes, &chat->scratch,
                                   &chat->format);
    const char *system = chat->format.system;
    if (!unicode_is_valid((const uint8_t *)system, strlen(system))) {
        chat->verdict = CHAT_UNKNOWN;
        chat->format = (struct chat_format){.id = CHAT_PLAIN};
    }
    return STATUS_OK;
}
