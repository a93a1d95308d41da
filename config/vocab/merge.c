/* SPDX-License-Identifier: MIT */
/*
 * What: the merge loop of both tokenizers. A word begins as single characters (SPM) or bytes (BPE);
 * the best pair of neighbours becomes one symbol, again and again, until no pair is a token.
 *
 * To change what "best" means, read pair_order(): SPM takes the pair whose token has the highest
 * score, BPE the pair whose merge has the lowest rank; of equals, the leftmost.
 *
 * Each symbol has the order of the pair that it begins, or NO_PAIR. The least order is found in a
 * tree of eight branches, whose nodes are the least of their children; level by level in an array:
 *
 *     | orders of n symbols | least of each 8 of them | least of each 8 of those | ... at most 8 |
 *
 * Why not a heap: it holds pairs that are no more until they come to its top, so it needs two
 * entries for each symbol, and each of its many levels is another cache line. Here the usual word
 * is one level of one line, and what a merge changes are neighbours in the array.
 *
 * Invariant: symbol 0 is the head of the list, because the left one of a pair survives.
 *
 * Bounds: each symbol is merged at most once, a merge changes three orders: O(n log n) also for one
 * word of 64 KiB.
 */
#include "config/vocab/merge.h"

#include "config/base/assert.h"

#define NO_PAIR    UINT32_MAX       /* no rank, and no order of a finite score */
#define BRANCHES   8u
#define LEVELS_MAX 11               /* for 2^32 symbols */

/* ---- the tree of orders ---------------------------------------------------------------------- */

struct tree {
    uint32_t *levels[LEVELS_MAX];   /* the first is the symbols' */
    uint32_t top, top_count;        /* the last level, and how many orders it has */
};

/* A level that has another one above it is filled up: its nodes have eight children each. */
static uint32_t level_room(uint32_t count) { return (count + BRANCHES - 1) / BRANCHES * BRANCHES; }

uint64_t vocab_orders_count(uint32_t symbols)
{
    uint64_t count = 0;
    while (symbols > BRANCHES) {
        count += level_room(symbols);
        symbols = level_room(symbols) / BRANCHES;
    }
    return count + symbols;
}

static uint32_t least_of(const uint32_t *orders)
{
    uint32_t least = orders[0];
    for (uint32_t i = 1; i < BRANCHES; i++) {
        least = orders[i] < least ? orders[i] : least;
    }
    return least;
}

/* Builds the upper levels over the orders of `count` symbols. */
static void tree_init(struct tree *tree, uint32_t *orders, uint32_t count)
{
    tree->top = 0;
    while (count > BRANCHES) {
        uint32_t room = level_room(count);
        for (uint32_t i = count; i < room; i++) {
            orders[i] = NO_PAIR;
        }
        count = room / BRANCHES;
        for (uint32_t i = 0; i < count; i++) {
            orders[room + i] = least_of(orders + i * BRANCHES);
        }
        tree->levels[tree->top++] = orders;
        orders += room;
    }
    tree->levels[tree->top] = orders;
    tree->top_count = count;
}

/* What a symbol's order has changed in the levels above. */
static void tree_raise(struct tree *tree, uint32_t index)
{
    for (uint32_t level = 1; level <= tree->top; level++) {
        index /= BRANCHES;
        uint32_t least = least_of(tree->levels[level - 1] + index * BRANCHES);
        if (tree->levels[level][index] == least) {
            return;
        }
        tree->levels[level][index] = least;
    }
}

static inline void tree_set(struct tree *tree, uint32_t index, uint32_t order)
{
    if (tree->levels[0][index] != order) {
        tree->levels[0][index] = order;
        tree_raise(tree, index);
    }
}

/* The leftmost symbol of the least order; false: no pair is left. */
static bool tree_least(const struct tree *tree, uint32_t *symbol)
{
    const uint32_t *top = tree->levels[tree->top];
    uint32_t least = NO_PAIR, index = 0;
    for (uint32_t i = 0; i < tree->top_count; i++) {
        index = top[i] < least ? i : index;
        least = top[i] < least ? top[i] : least;
    }
    for (uint32_t level = tree->top; least != NO_PAIR && level-- > 0;) {
        index *= BRANCHES;
        while (tree->levels[level][index] != least) {
            index++;
        }
    }
    *symbol = index;
    return least != NO_PAIR;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

static uint32_t spm_order(const struct vocab *vocab, const struct vocab_word *word,
                          struct vocab_symbol *left)
{
    uint32_t end = vocab_symbol_end(word, &word->symbols[left->next]);
    uint32_t token = vocab_find(vocab, word->text + left->first, end - left->first);
    if (token == GGUF_NO_TOKEN || !vocab_is_plain(vocab, token)) {
        return NO_PAIR;
    }
    left->into = token;
    return vocab->orders[token];
}

static uint32_t bpe_order(const struct vocab *vocab, const struct vocab_word *word,
                          struct vocab_symbol *left)
{
    uint32_t right_token = word->symbols[left->next].token;
    uint32_t at = vocab_pair_hash(left->token, right_token) & vocab->merge_hash_mask;
    for (;; at = (at + 1) & vocab->merge_hash_mask) {
        if (vocab->merge_hash[at] == 0) {
            return NO_PAIR;
        }
        uint32_t rank = vocab->merge_hash[at] - 1;
        const struct vocab_rule *rule = &vocab->rules[rank];
        if (rule->left == left->token && rule->right == right_token) {
            left->into = rule->into;
            return rank;
        }
    }
}

/* The order of the pair that a symbol begins. */
static uint32_t pair_order(const struct vocab *vocab, const struct vocab_word *word, uint32_t left)
{
    struct vocab_symbol *symbol = &word->symbols[left];
    if (symbol->next == VOCAB_END) {
        return NO_PAIR;
    }
    return vocab->info.kind == VOCAB_SPM ? spm_order(vocab, word, symbol)
                                         : bpe_order(vocab, word, symbol);
}

void vocab_merge(const struct vocab *vocab, struct vocab_word *word)
{
    struct vocab_symbol *symbols = word->symbols;
    struct tree tree;
    uint32_t left = 0;
    if (word->symbols_count == 1) {
        return;
    }
    for (uint32_t i = 0; i < word->symbols_count; i++) {
        word->orders[i] = pair_order(vocab, word, i);
    }
    tree_init(&tree, word->orders, word->symbols_count);
    while (tree_least(&tree, &left)) {
        uint32_t right = symbols[left].next, after = symbols[right].next;
        symbols[left].token = symbols[left].into;
        symbols[left].next = after;
        if (after != VOCAB_END) {
            symbols[after].prev = left;
        }
        tree_set(&tree, right, NO_PAIR);
        tree_set(&tree, left, pair_order(vocab, word, left));
        if (left > 0) {
            uint32_t before = symbols[left].prev;
            tree_set(&tree, before, pair_order(vocab, word, before));
        }
    }
}
