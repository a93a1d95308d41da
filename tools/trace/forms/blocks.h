/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the block ids of prompts (`hash_ids`), as named texts. Two prompts have in common what
 * their lists of ids have in common from the start, and no more: an id means the text up to it.
 *
 *     [1 2 3 4]  a:4            the first stretch, a
 *     [1 2 5 6]  a:2 b:2        what branches off is a stretch of its own
 *     [1 2 3 4 7]  a:5          what goes on belongs to it
 */
#include "tools/trace/forms/document.h"
#include "tools/trace/forms/recording.h"

#define BLOCKS_GLOBAL UINT32_MAX    /* as scope: ids mean the same in all programs */
#define BLOCK_TOKENS_MAX 65536

struct blocks {
    struct recording *recording;
    uint32_t block_tokens, scope;   /* the program within which ids mean the same, or GLOBAL */
    /* private: only blocks.c */
    struct pairs nodes;             /* (the block before, id) */
    struct block { uint32_t stretch; bool goes_on; } *blocks;   /* [nodes.count] */
    uint32_t blocks_room;
};

void blocks_free(struct blocks *blocks);
/* Gives the call the texts of the object's `hash_ids`, if it has some, as far as its in_tokens go.
 * A fault of the document where they are no whole numbers. */
void blocks_read(struct blocks *blocks, struct document *document, const json_t *object,
                 struct recording_call *call);
