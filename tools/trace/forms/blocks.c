/* SPDX-License-Identifier: MIT */
/*
 * What: a tree of the blocks of all prompts. A stretch is a path in it that was new at its time;
 * its name is the number of its first block, and its text is a function of that name.
 * Invariants: a block belongs to the stretch of the block before it, or begins one; so a prompt
 * enters a stretch at its start only.
 * Bounds: O(1) for each id.
 */
#include "tools/trace/forms/blocks.h"

#include <stdlib.h>

#include "config/base/fnv.h"
#include "tools/trace/array.h"

#define NO_BLOCK UINT32_MAX

void blocks_free(struct blocks *blocks)
{
    pairs_free(&blocks->nodes);
    free(blocks->blocks);
    *blocks = (struct blocks){0};
}

/* The block with this id behind the block `before`; NO_BLOCK: no memory. */
static uint32_t find_block(struct blocks *blocks, uint32_t before, uint64_t id)
{
    uint64_t place = before == NO_BLOCK ? (uint64_t)blocks->scope << 32 | NO_BLOCK : before;
    uint32_t known = blocks->nodes.count;
    uint32_t at = pairs_number(&blocks->nodes, (struct pair){place, id});
    struct block *moved = at == PAIRS_NONE ? NULL
                                           : array_grown(blocks->blocks, at, &blocks->blocks_room,
                                                         sizeof *blocks->blocks);
    if (moved == NULL) {
        blocks->recording->failed = true;
        return NO_BLOCK;
    }
    blocks->blocks = moved;
    if (at < known) {
        return at;
    }
    bool goes_on = before != NO_BLOCK && !moved[before].goes_on;
    moved[at] = (struct block){.stretch = goes_on ? moved[before].stretch : at};
    if (goes_on) {
        moved[before].goes_on = true;
    }
    return at;
}

static void add_text(struct blocks *blocks, struct recording_call *call, uint32_t stretch,
                     uint32_t tokens)
{
    struct trace_part text = {.kind = blocks->scope == BLOCKS_GLOBAL ? TRACE_SHARED : TRACE_RUN,
                              .tokens = tokens,
                              .key = fnv_add(FNV_START, &stretch, sizeof stretch)};
    recording_text(blocks->recording, text);
    call->texts_count++;
}

void blocks_read(struct blocks *blocks, struct document *document, const json_t *object,
                 struct recording_call *call)
{
    const json_t *ids =
        document_has(object, "hash_ids") ? document_list(document, object, "hash_ids") : NULL;
    uint32_t left = call->in_tokens, tokens = 0, before = NO_BLOCK;
    call->texts_first = blocks->recording->texts_count;
    for (size_t i = 0; i < json_array_size(ids) && left > 0; i++) {
        const json_t *id = json_array_get(ids, i);
        if (!json_is_integer(id)) {
            document_blame(document, "hash_ids", "a list of whole numbers is needed");
            return;
        }
        uint32_t at = find_block(blocks, before, (uint64_t)json_integer_value(id));
        if (at == NO_BLOCK) {
            return;
        }
        uint32_t more = left < blocks->block_tokens ? left : blocks->block_tokens;
        if (before != NO_BLOCK && blocks->blocks[at].stretch != blocks->blocks[before].stretch) {
            add_text(blocks, call, blocks->blocks[before].stretch, tokens);
            tokens = 0;
        }
        tokens += more;
        left -= more;
        before = at;
    }
    if (tokens > 0) {
        add_text(blocks, call, blocks->blocks[before].stretch, tokens);
    }
}
