/* SPDX-License-Identifier: MIT */
/*
 * What: the tokenizer's scratch memory, stated and laid out. Its size depends on the longest text
 * only, not on the vocabulary.
 *
 *     for n = text_bytes_max:  symbols n+1 | orders 8/7 (n+1) | spans n+1 | text 3(n+1)
 *
 * One more than n because of the space prefix; 3 because a space becomes three bytes.
 */
#include "config/base/assert.h"
#include "config/vocab/merge.h"

struct layout {
    uint64_t orders, spans, text, end;      /* offsets; symbols lie at 0 */
};

/* In 64 bits: for the longest text this is less than 2^37. */
static struct layout layout_of(uint32_t text_bytes_max)
{
    uint64_t count = (uint64_t)text_bytes_max + 1;
    struct layout layout = {.orders = count * sizeof(struct vocab_symbol)};
    layout.spans = layout.orders + vocab_orders_count((uint32_t)count) * sizeof(uint32_t);
    layout.text = layout.spans + count * sizeof(uint32_t);
    layout.end = layout.text + 3 * count;
    STATIC_ASSERT(sizeof(struct vocab_symbol) % _Alignof(uint32_t) == 0, "aligned");
    return layout;
}

uint64_t vocab_scratch_bytes(uint32_t text_bytes_max) { return layout_of(text_bytes_max).end; }

void vocab_scratch_init(struct vocab_scratch *scratch, void *memory, uint32_t text_bytes_max)
{
    ASSERT(memory != NULL);
    ASSERT(text_bytes_max <= VOCAB_TEXT_BYTES_MAX);
    ASSERT((uintptr_t)memory % _Alignof(struct vocab_symbol) == 0);
    *scratch = (struct vocab_scratch){.text_bytes_max = text_bytes_max, .memory = memory,
                                      .memory_bytes = vocab_scratch_bytes(text_bytes_max)};
}

void vocab_work_init(struct vocab_work *work, const struct vocab_scratch *scratch)
{
    struct layout layout = layout_of(scratch->text_bytes_max);
    uint8_t *base = scratch->memory;
    ASSERT(layout.end == scratch->memory_bytes);
    *work = (struct vocab_work){
        .symbols = (struct vocab_symbol *)(void *)base,
        .orders = (uint32_t *)(void *)(base + layout.orders),
        .spans = (uint32_t *)(void *)(base + layout.spans),
        .text = base + layout.text,
    };
}
