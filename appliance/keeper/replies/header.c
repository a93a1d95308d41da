/* SPDX-License-Identifier: MIT */
/* What: the header of a file of replies (header.h). */
#include "appliance/keeper/replies/header.h"

#include <stddef.h>
#include <string.h>

#include "appliance/boot/model_digest.h"
#include "config/base/assert.h"
#include "config/base/fnv.h"

static const char magic[16] = "agentix replies";

STATIC_ASSERT(offsetof(struct replies_header, check) % 8 == 0, "no padding in what is digested");

static uint64_t check_of(const struct replies_header *header)
{
    return fnv_add_words(FNV_START, header, offsetof(struct replies_header, check));
}

void replies_header_end(struct replies_header *header)
{
    memcpy(header->magic, magic, sizeof magic);
    header->check = check_of(header);
}

bool replies_page_is_new(const union replies_page *page)
{
    uint8_t bits = 0;
    for (uint32_t i = 0; i < sizeof page->bytes; i++) {
        bits |= page->bytes[i];
    }
    return bits == 0;
}

const char *replies_header_unlike(const struct replies_header *found,
                                  const struct replies_header *own)
{
    if (memcmp(found->magic, magic, sizeof magic) != 0) {
        return "it is no file of replies";
    }
    if (found->check != check_of(found)) {
        return "its header is damaged";
    }
    if (found->layout != own->layout) {
        return "another version has written it, which keeps replies in another form";
    }
    if (found->replies != own->replies || found->reply_tokens != own->reply_tokens ||
        found->bytes != own->bytes) {
        return "it has other limits.replies or limits.reply_tokens";
    }
    if (model_digests_differ((struct model_digests){found->model, found->weights},
                             (struct model_digests){own->model, own->weights})) {
        return "it is of " MODEL_DIGESTS_DIFFER;
    }
    return NULL;
}
