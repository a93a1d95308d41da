/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the swap of KV blocks to the host and back, by the engine's own moves. Every block holds a
 * content: words that encode the content's number and their place in it.
 *
 *   fill       all blocks, each with a new content
 *   out        moves a list of device blocks to a list of host blocks, in one step
 *   scrub      gives the device blocks new contents, so that a missing copy shows
 *   in         moves the same host blocks to the same device blocks, in another order
 *
 * After each of these, blocks are compared with the contents that they must have.
 */
#include "kernels/round/piece.h"
#include "selftest/post/check.h"

enum post_order {
    POST_ASCENDING, POST_DESCENDING, POST_ODDS_FIRST, POST_SHUFFLED, POST_ORDERS
};

struct post_swap {
    struct kernels *kernels;
    struct step step;
    uint64_t heartbeat;
    uint64_t seed;
    uint32_t device_blocks, host_blocks;
    uint32_t lists_max;             /* moves in one step */
    uint64_t contents_made;
    uint64_t *contents;             /* number of each block's content */
    uint32_t *device_list, *host_list;
};

void post_swap_plan_memory(struct memory_plan *plan, const struct kernels_settings *settings,
                    const struct model_shape *shape);
struct post_swap *post_swap_init(struct arena *arena, const struct kernels_settings *settings,
                                 const struct kernels_weights *weights, uint64_t seed);

void post_swap_fill(struct post_swap *swap);
/* Puts the first `count` blocks of each tier into its list. */
void post_swap_list(struct post_swap *swap, uint32_t count, enum post_order device,
                    enum post_order host);
void post_swap_out(struct post_swap *swap, uint32_t count);
void post_swap_scrub(struct post_swap *swap, uint32_t count);
void post_swap_in(struct post_swap *swap, uint32_t count);
/* The words of a piece of a block of either tier (kernels/round/piece.h). */
struct post_words {
    uint64_t *at, count;
};
struct post_words post_swap_piece(const struct post_swap *swap, uint32_t block, uint32_t index);
void post_swap_compare(const struct post_swap *swap, const uint32_t *blocks, uint32_t count,
                       struct post_faults *faults);
