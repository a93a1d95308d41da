/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the first page of a file of replies: for which appliance it was made. A reply is valid for
 * the same model and arithmetic alone; and its place in the file follows from the limits.
 */
#include <stdbool.h>
#include <stdint.h>

#include "net/kept/pages.h"

struct replies_header {
    char magic[16];
    uint64_t layout;                    /* net_replies_layout() */
    uint64_t replies, reply_tokens;     /* limits */
    uint64_t bytes;                     /* of the pages after this one */
    uint64_t model;                     /* boot.model_digest: of the model's size, header and
                                           samples of weights, and the arithmetic */
    uint64_t weights;                   /* 0: not known yet, or a GPU's worker reads them */
    uint64_t check;                     /* digest of all above */
};
union replies_page {
    struct replies_header header;
    uint8_t bytes[PAGES_BYTES];
};

/* The rest is filled. */
void replies_header_end(struct replies_header *header);
/* True when the page is as it was allocated: the appliance ended before it wrote it. */
bool replies_page_is_new(const union replies_page *page);
/* What forbids to use a file with the header `found` by the appliance with the header `own`, for
 * the log; NULL: nothing. Weights count where both are known. */
const char *replies_header_unlike(const struct replies_header *found,
                                  const struct replies_header *own);
