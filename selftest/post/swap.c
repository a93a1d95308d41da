/* SPDX-License-Identifier: MIT */
/*
 * What: the swap path, tested with the step record and the moves of the engine that serves.
 * Invariants: contents[block] is the number of the content that the block must hold; a move copies
 * it. Why contents and no checksums: the words can be computed, so in the same time every bit is
 * compared and a wrong one is named.
 */
#include "selftest/post/swap.h"

#include <stdio.h>

#include "config/base/bounds.h"

#define COMPARED_WORDS 512u
#define COUNTS_EACH 16u             /* every count of moves up to here, then doubled */

static struct step_layout layout_of(const struct kernels_settings *settings)
{
    struct step_layout layout;
    uint32_t smaller = settings->kv_blocks < settings->kv_host_blocks ? settings->kv_blocks
                                                                      : settings->kv_host_blocks;
    layout = (struct step_layout){
        .rows_max = settings->batch_calls + settings->standby_calls,
        .steps_max = settings->steps_per_plan, .tokens_max = settings->step_tokens,
        .blocks_per_call = settings->blocks_per_call, .moves_max = smaller};
    step_layout_init(&layout);
    return layout;
}

static uint64_t blocks_of(const struct kernels_settings *settings)
{
    return (uint64_t)settings->kv_blocks + settings->kv_host_blocks;
}

void post_swap_plan_memory(struct memory_plan *plan, const struct kernels_settings *settings,
                    const struct model_shape *shape)
{
    struct step_layout layout = layout_of(settings);
    memory_plan_add(plan, MEMORY_SELFTEST, "swap", 1, sizeof(struct post_swap));
    memory_plan_add(plan, MEMORY_SELFTEST, "swap step", 1, layout.total_bytes);
    memory_plan_add(plan, MEMORY_SELFTEST, "swap contents", blocks_of(settings), sizeof(uint64_t));
    memory_plan_add(plan, MEMORY_SELFTEST, "swap device list", layout.moves_max, sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_SELFTEST, "swap host list", layout.moves_max, sizeof(uint32_t));
    kernels_plan_memory(plan, settings, shape);
}

struct post_swap *post_swap_init(struct arena *arena, const struct kernels_settings *settings,
                                 const struct kernels_weights *weights, uint64_t seed)
{
    struct post_swap *swap = arena_take(arena, 1, sizeof *swap);
    swap->step.layout = layout_of(settings);
    swap->step.base = arena_take(arena, 1, swap->step.layout.total_bytes);
    swap->seed = seed;
    swap->device_blocks = settings->kv_blocks;
    swap->host_blocks = settings->kv_host_blocks;
    swap->lists_max = swap->step.layout.moves_max;
    swap->contents = arena_take(arena, blocks_of(settings), sizeof *swap->contents);
    swap->device_list = arena_take(arena, swap->lists_max, sizeof *swap->device_list);
    swap->host_list = arena_take(arena, swap->lists_max, sizeof *swap->host_list);
    enum status status =
        kernels_init(&swap->kernels, settings, weights, arena, &swap->heartbeat);
    if (status != STATUS_OK) {
        return NULL;
    }
    swap->kernels->phase_work_min = 0;      /* all threads, even for a small block */
    return swap;
}

/* ---- contents ---- */

struct post_words post_swap_piece(const struct post_swap *swap, uint32_t block, uint32_t index)
{
    struct kernels_piece piece = kernels_piece(swap->kernels, block, index);
    return (struct post_words){(uint64_t *)(void *)piece.at, piece.bytes / sizeof(uint64_t)};
}

/* The words of a content from `first` on. */
static void fill_words(const struct post_swap *swap, uint64_t content, uint64_t first,
                       struct post_words words)
{
    uint64_t key = splitmix_at(swap->seed, content);
    for (uint64_t i = 0; i < words.count; i++) {
        words.at[i] = key ^ (first + i);
    }
}

static void fill_block(struct post_swap *swap, uint32_t block)
{
    uint64_t first = 0;
    swap->contents[block] = swap->contents_made++;
    for (uint32_t i = 0; i < kernels_pieces(swap->kernels); i++) {
        struct post_words words = post_swap_piece(swap, block, i);
        fill_words(swap, swap->contents[block], first, words);
        first += words.count;
    }
}

void post_swap_fill(struct post_swap *swap)
{
    for (uint32_t i = 0; i < swap->device_blocks + swap->host_blocks; i++) {
        fill_block(swap, i);
    }
}

/* The words of a block that begin at its word `first`: COMPARED_WORDS at most. */
static void compare_words(const struct post_swap *swap, uint32_t block, uint64_t first,
                          struct post_words words, struct post_faults *faults)
{
    uint64_t expected[COMPARED_WORDS];
    struct post_pair pair = {.found = words.at, .expected = expected, .count = words.count};
    bool device = block < swap->device_blocks;
    fill_words(swap, swap->contents[block], first, (struct post_words){expected, words.count});
    while (post_pair_differs(&pair)) {
        post_fault_word(faults, &pair, "%s block %u, word %llu", device ? "device" : "host",
                        device ? block : block - swap->device_blocks,
                        (unsigned long long)(first + post_pair_at(&pair)));
    }
}

static void compare_block(const struct post_swap *swap, uint32_t block, struct post_faults *faults)
{
    uint64_t first = 0;
    for (uint32_t i = 0; i < kernels_pieces(swap->kernels); i++) {
        struct post_words left = post_swap_piece(swap, block, i);
        while (left.count > 0) {
            struct post_words words = {left.at, lesser(left.count, COMPARED_WORDS)};
            compare_words(swap, block, first, words, faults);
            first += words.count;
            left.at += words.count;
            left.count -= words.count;
        }
    }
}

void post_swap_compare(const struct post_swap *swap, const uint32_t *blocks, uint32_t count,
                       struct post_faults *faults)
{
    for (uint32_t i = 0; i < count; i++) {
        compare_block(swap, blocks[i], faults);
    }
}

/* ---- moves ---- */

static void shuffle(uint32_t *list, uint32_t count, uint64_t seed)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = (uint32_t)(splitmix_at(seed, i) % i);
        uint32_t kept = list[i - 1];
        list[i - 1] = list[other];
        list[other] = kept;
    }
}

static void list_fill(uint32_t *list, uint32_t first, uint32_t count, enum post_order order,
                      uint64_t seed)
{
    uint32_t odds = count / 2;
    for (uint32_t i = 0; i < count; i++) {
        list[i] = first + i;
        if (order == POST_DESCENDING) {
            list[i] = first + count - 1 - i;
        } else if (order == POST_ODDS_FIRST) {
            list[i] = first + (i < odds ? 2 * i + 1 : 2 * (i - odds));
        }
    }
    if (order == POST_SHUFFLED) {
        shuffle(list, count, seed);
    }
}

void post_swap_list(struct post_swap *swap, uint32_t count, enum post_order device,
                    enum post_order host)
{
    ASSERT(count <= swap->lists_max);
    list_fill(swap->device_list, 0, count, device, splitmix_at(swap->seed, count));
    list_fill(swap->host_list, swap->device_blocks, count, host, splitmix_at(swap->seed, ~count));
}

static void run_moves(struct post_swap *swap, const uint32_t *from, const uint32_t *to,
                      uint32_t count)
{
    struct step_header *header = step_header(&swap->step);
    *header = (struct step_header){.moves_count = count};
    for (uint32_t i = 0; i < count; i++) {
        step_moves(&swap->step)[i] = (struct step_move){.from = from[i], .to = to[i]};
        swap->contents[to[i]] = swap->contents[from[i]];
    }
    kernels_run(swap->kernels, &swap->step);
}

void post_swap_out(struct post_swap *swap, uint32_t count)
{
    run_moves(swap, swap->device_list, swap->host_list, count);
}

void post_swap_scrub(struct post_swap *swap, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        fill_block(swap, swap->device_list[i]);
    }
}

/* Reversed, so that only the middle block returns to its place. */
void post_swap_in(struct post_swap *swap, uint32_t count)
{
    for (uint32_t i = 0; i < count / 2; i++) {
        uint32_t kept = swap->device_list[i];
        swap->device_list[i] = swap->device_list[count - 1 - i];
        swap->device_list[count - 1 - i] = kept;
    }
    run_moves(swap, swap->host_list, swap->device_list, count);
}

/* ---- the check ---- */

static void plan_swap(const struct post *post, struct memory_plan *plan)
{
    post_swap_plan_memory(plan, &post->boot->engine, &post->boot->gguf->shape);
}

static void *init_swap(const struct post *post, struct arena *arena)
{
    return post_swap_init(arena, &post->boot->engine, post->boot->weights, post->settings.seed);
}

static void there_and_back(struct post_swap *swap, uint32_t count, uint32_t orders,
                           struct post_faults *faults)
{
    post_swap_list(swap, count, (enum post_order)(orders / POST_ORDERS),
                   (enum post_order)(orders % POST_ORDERS));
    post_swap_out(swap, count);
    post_swap_compare(swap, swap->host_list, count, faults);
    post_swap_scrub(swap, count);
    post_swap_in(swap, count);
    post_swap_compare(swap, swap->device_list, count, faults);
}

/* Blocks that no move named must be unchanged. */
static void compare_all(const struct post_swap *swap, struct post_faults *faults)
{
    for (uint32_t i = 0; i < swap->device_blocks + swap->host_blocks; i++) {
        compare_block(swap, i, faults);
    }
}

static uint32_t count_after(uint32_t count, uint32_t max)
{
    uint32_t next = count < COUNTS_EACH ? count + 1 : count * 2;
    return count < max && next > max ? max : next;
}

static void run_swap(void *state, const struct post *post, uint32_t variant,
                     struct post_outcome *outcome)
{
    struct post_swap *swap = state;
    uint64_t blocks = 0;
    post_swap_fill(swap);
    for (uint32_t path = 0; path < 2; path++) {
        /* Through the caches, then past them. */
        swap->kernels->cached_bytes_max = path == 0 ? UINT64_MAX : 0;
        for (uint32_t n = 1; n <= swap->lists_max; n = count_after(n, swap->lists_max)) {
            for (uint32_t orders = 0; orders < POST_ORDERS * POST_ORDERS; orders++) {
                there_and_back(swap, n, orders, &outcome->faults);
                blocks += n;
            }
        }
        compare_all(swap, &outcome->faults);
    }
    snprintf(outcome->amount, sizeof outcome->amount, "%llu blocks%s", (unsigned long long)blocks,
             swap->host_blocks == 0 ? ": no host tier" : "");
}

const struct post_check post_swap = {plan_swap, init_swap, run_swap};
