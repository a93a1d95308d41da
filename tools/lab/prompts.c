/* SPDX-License-Identifier: MIT */
/*
 * What: prompts for the lab.
 *
 * Why not prompt_write() of tools/trace: it makes every id anew, about 7 ns each; 20,000 calls a
 * second of 6,000 ids are more than a hundred million ids. Here the text that calls share (function
 * documents, system prompts) is made once and copied.
 * Invariants: every id is below vocab_tokens.
 * Bounds: linear in what is written and in the parts that are passed over. Memory: each shared text
 * once.
 */
#include "tools/lab/prompts.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/assert.h"
#include "config/base/splitmix.h"
#include "tools/exit_code.h"
#include "tools/trace/pairs.h"

#define RUN_TEXT UINT32_MAX       /* in place of a part */

static uint32_t id_at(uint32_t key, uint32_t index, uint32_t vocab_tokens)
{
    uint32_t x = (index + 1) * UINT32_C(0x9e3779b1) ^ key;
    x = (x ^ x >> 16) * UINT32_C(0x85ebca6b);
    x = (x ^ x >> 13) * UINT32_C(0xc2b2ae35);
    return (uint32_t)((uint64_t)(x ^ x >> 16) * vocab_tokens >> 32);
}

static void write_ids(uint32_t *ids, uint32_t key, uint32_t from, uint32_t to, uint32_t vocab)
{
    for (uint32_t i = from; i < to; i++) {
        *ids++ = id_at(key, i, vocab);
    }
}

/* ---- shared text ----------------------------------------------------------------------------- */

/* Lists every shared text once, with its greatest length; false: no memory. */
static bool find_shared(struct prompts *prompts)
{
    const struct trace *trace = prompts->trace;
    struct pairs names = {0};
    bool taken = true;
    for (uint32_t i = 0; i < trace->parts_count && taken; i++) {
        const struct trace_part *part = &trace->parts[i];
        if (part->kind != TRACE_SHARED) {
            continue;
        }
        uint32_t at = pairs_number(&names, (struct pair){part->key, 0});
        taken = at != PAIRS_NONE;
        if (!taken) {
            continue;
        }
        struct prompts_shared *text = &prompts->shared[at];
        text->key = part->key;
        text->count = part->tokens > text->count ? part->tokens : text->count;
        prompts->shared_of_part[i] = at;
        prompts->shared_count = names.count;
    }
    pairs_free(&names);
    return taken;
}

static bool write_shared(struct prompts *prompts)
{
    for (uint32_t i = 0; i < prompts->shared_count; i++) {
        struct prompts_shared *text = &prompts->shared[i];
        text->ids = calloc(text->count, sizeof *text->ids);
        if (text->ids == NULL) {
            return false;
        }
        write_ids(text->ids, (uint32_t)splitmix_at(text->key, 0), 0, text->count,
                  prompts->book.limits.vocab_tokens);
    }
    return true;
}

int prompts_init(struct prompts *prompts, const struct trace *trace, uint32_t context_tokens,
                 uint32_t vocab_tokens, uint64_t seed)
{
    const struct prompt_limits limits = {
        .token_scale = 1, .context_tokens = context_tokens, .prompt_tokens_max = context_tokens,
        .vocab_tokens = vocab_tokens, .bos_id = UINT32_MAX, .eos_id = UINT32_MAX};
    *prompts = (struct prompts){.trace = trace, .seed = seed};
    int code = prompt_book_init(&prompts->book, trace, &limits);
    if (code != EXIT_COMPLETE) {
        return code;
    }
    prompts->shared = calloc((size_t)trace->parts_count + 1, sizeof *prompts->shared);
    prompts->shared_of_part = calloc(trace->parts_count, sizeof *prompts->shared_of_part);
    bool taken = prompts->shared != NULL && prompts->shared_of_part != NULL;
    if (taken) {
        taken = find_shared(prompts) && write_shared(prompts);
    }
    if (!taken) {
        fprintf(stderr, "agentix-lab: out of memory\n");
        return EXIT_SYSTEM;
    }
    return EXIT_COMPLETE;
}

void prompts_free(struct prompts *prompts)
{
    for (uint32_t i = 0; i < prompts->shared_count; i++) {
        free(prompts->shared[i].ids);
    }
    free(prompts->shared);
    free(prompts->shared_of_part);
    prompt_book_free(&prompts->book);
}

/* ---- ids of a prompt ------------------------------------------------------------------------- */

static uint32_t own_key(const struct prompts *prompts, uint64_t run, uint32_t number,
                        uint32_t part)
{
    return (uint32_t)splitmix_at(splitmix_at(splitmix_at(prompts->seed, run), number), part);
}

uint32_t prompts_output_key(const struct prompts *prompts, uint64_t run, uint32_t number)
{
    return own_key(prompts, run, number, UINT32_MAX);
}

uint32_t prompts_output_token(const struct prompts *prompts, uint32_t key, uint32_t index)
{
    return id_at(key, index, prompts->book.limits.vocab_tokens);
}

static void write_piece(const struct prompts *prompts, uint64_t run,
                        const struct prompt_piece *piece, uint32_t *ids)
{
    const struct trace_part *part = &prompts->trace->parts[piece->index];
    uint32_t from = piece->from, to = piece->to, vocab = prompts->book.limits.vocab_tokens;
    if (part->kind == TRACE_SHARED) {
        const struct prompts_shared *text = &prompts->shared[prompts->shared_of_part[piece->index]];
        ASSERT(to <= text->count);
        memcpy(ids, text->ids + from, (size_t)(to - from) * sizeof *ids);
    } else if (part->kind == TRACE_OUTPUT) {
        write_ids(ids, prompts_output_key(prompts, run, part->call), from, to, vocab);
    } else if (part->kind == TRACE_RUN) {
        uint64_t own = splitmix_at(splitmix_at(prompts->seed, run), part->key);
        uint32_t key = (uint32_t)splitmix_at(own, RUN_TEXT);
        write_ids(ids, key, from, to, vocab);
    } else {
        write_ids(ids, own_key(prompts, run, piece->call, piece->index), from, to, vocab);
    }
}

void prompts_write(struct prompts *prompts, const struct trace_program *program, uint64_t run,
                   uint32_t number, uint32_t *ids)
{
    const uint32_t *end = ids + prompt_tokens(&prompts->book, program->calls_first + number);
    struct prompt_walk walk;
    struct prompt_piece piece;
    prompt_walk_begin(&walk, &prompts->book, program, number);
    while (prompt_walk_next(&walk, &piece)) {
        write_piece(prompts, run, &piece, ids);
        ids += piece.to - piece.from;
    }
    ASSERT(ids == end);
}
