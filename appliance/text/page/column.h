/* SPDX-License-Identifier: MIT */
#pragma once
#include "config/base/text.h"

/* A right-aligned column and the space before it. */
static inline void text_add_column(struct text *page, uint64_t value, uint32_t width)
{
    text_add(page, " ");
    text_add_u64_padded(page, value, width, ' ');
}

static inline uint64_t text_elapsed_ms(uint64_t since_us, uint64_t now_us)
{
    return since_us < now_us ? (now_us - since_us) / 1000 : 0;
}
