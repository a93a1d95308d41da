/* SPDX-License-Identifier: MIT */
/*
 * What: the merge loop of both tokenizers. A word begins as single characters (SPM) or bytes (BPE);
 * the best pair of neighbours becomes one symbol, again and again, until no pair is a token.
 *
 * To change what "best" means, read pair_order(): SPM takes the pair whose token has the highest
 * score, BPE the pair whose merge has the lowest rank; of equals, the leftmost.
 *
 * Invariants: symbol 0 is the head of the list, because the left one of a pair survives. A pair is
 * stale when one of its symbols has changed; lengths only grow, so comparing the sum of the two
 * lengths finds every stale pair.
 *
 * Bounds: each symbol is merged at most once, each merge pops one pair and pushes at most two, so
 * the heap holds less than 2 * symbols pairs; O(n log n) also for one word of 64 KiB.
 */
#include "config/vocab_merge.h"

#include "appliance/base/assert.h"

static bool spm_order(const struct vocab *vocab, const struct vocab_word *word, uint32_t left,
                      uint32_t bytes, struct vocab_pair *pair)
{
    uint32_t token = vocab_find(vocab, word->text + word->symbols[left].first, bytes);
    if (token == GGUF_NO_TOKEN || !vocab_is_plain(vocab, token)) {
        return false;
    }
    pair->key = (uint64_t)vocab->orders[token] << 32 | left;
    pair->token = token;
    return true;
}

static bool bpe_order(const struct vocab *vocab, const struct vocab_word *word, uint32_t left,
                      uint32_t right, struct vocab_pair *pair)
{
    uint32_t left_token = word->symbols[left].token, right_token = word->symbols[right].token;
    uint32_t at = vocab_pair_hash(left_token, right_token) & vocab->merge_hash_mask;
    for (;; at = (at + 1) & vocab->merge_hash_mask) {
        uint32_t rank = vocab->merge_hash[at] - 1;
        if (rank == UINT32_MAX) {
            return false;
        }
        if (vocab->merge_left[rank] == left_token && vocab->merge_right[rank] == right_token) {
            pair->key = (uint64_t)rank << 32 | left;
            pair->token = vocab->merge_into[rank];
            return true;
        }
    }
}

static bool pair_order(const struct vocab *vocab, const struct vocab_word *word, uint32_t left,
                       uint32_t right, struct vocab_pair *pair)
{
    pair->bytes = word->symbols[left].bytes + word->symbols[right].bytes;
    return vocab->info.kind == VOCAB_SPM ? spm_order(vocab, word, left, pair->bytes, pair)
                                         : bpe_order(vocab, word, left, right, pair);
}

static void heap_push(struct vocab_word *word, struct vocab_pair pair)
{
    ASSERT(word->heap_count < 2 * word->symbols_count);
    uint32_t at = word->heap_count++;
    while (at > 0 && pair.key < word->heap[(at - 1) / 2].key) {
        word->heap[at] = word->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    word->heap[at] = pair;
}

static struct vocab_pair heap_pop(struct vocab_word *word)
{
    ASSERT(word->heap_count > 0);
    struct vocab_pair best = word->heap[0], last = word->heap[--word->heap_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= word->heap_count) {
            break;
        }
        if (child + 1 < word->heap_count && word->heap[child + 1].key < word->heap[child].key) {
            child++;
        }
        if (last.key <= word->heap[child].key) {
            break;
        }
        word->heap[at] = word->heap[child];
        at = child;
    }
    word->heap[at] = last;
    return best;
}

static void offer_pair(const struct vocab *vocab, struct vocab_word *word, uint32_t left,
                       uint32_t right)
{
    struct vocab_pair pair;
    if (left != VOCAB_END && right != VOCAB_END && pair_order(vocab, word, left, right, &pair)) {
        heap_push(word, pair);
    }
}

void vocab_merge(const struct vocab *vocab, struct vocab_word *word)
{
    struct vocab_symbol *symbols = word->symbols;
    word->heap_count = 0;
    for (uint32_t i = 1; i < word->symbols_count; i++) {
        offer_pair(vocab, word, i - 1, i);
    }
    while (word->heap_count > 0) {
        struct vocab_pair pair = heap_pop(word);
        uint32_t left = (uint32_t)pair.key, right = symbols[left].next;
        if (symbols[left].bytes == 0 || right == VOCAB_END ||
            symbols[left].bytes + symbols[right].bytes != pair.bytes) {
            continue;
        }
        symbols[left].bytes = pair.bytes;
        symbols[left].token = pair.token;
        symbols[left].next = symbols[right].next;
        symbols[right].bytes = 0;
        if (symbols[left].next != VOCAB_END) {
            symbols[symbols[left].next].prev = left;
        }
        offer_pair(vocab, word, symbols[left].prev, left);
        offer_pair(vocab, word, left, symbols[left].next);
    }
    ASSERT(symbols[0].bytes > 0);
}
