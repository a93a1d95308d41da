/* SPDX-License-Identifier: MIT */
/*
 * What: prompts of a replay. A prompt that contains an earlier prompt contains its parts, and so
 * on; the nesting is walked with a stack of its own, one entry for each call on the way down.
 *
 * Invariants: part_tokens() of the parts of a call add up to whole[call]; every id is in the
 * vocabulary and is neither BOS nor EOS (unless the vocabulary has no others).
 * Why not keep prompts: recorded coding sessions have prompts of 10^5 tokens and hundreds of calls;
 * lengths and hashes need no memory.
 */
#include "tools/trace/prompt.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/base/assert.h"
#include "tools/exit_code.h"

#define FIRST_PLAIN_ID 3        /* where vocabularies put unknown, BOS and EOS */

static uint32_t scaled(const struct prompt_book *book, uint32_t tokens)
{
    double count = round(tokens * book->limits.token_scale);
    return count < 1 ? 1 : count > TRACE_TOKENS_MAX ? TRACE_TOKENS_MAX : (uint32_t)count;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* `calls` starts with the program's call 0. */
static uint32_t part_tokens(const struct prompt_book *book, uint32_t calls_first,
                            const struct trace_part *part)
{
    if (part->kind == TRACE_SHARED || part->kind == TRACE_UNIQUE) {
        return scaled(book, part->tokens);
    }
    uint32_t call = calls_first + part->call;
    uint32_t whole = part->kind == TRACE_PROMPT ? book->whole[call] : book->out[call];
    return part->tokens == 0 ? whole : smaller(scaled(book, part->tokens), whole);
}

static void measure_call(struct prompt_book *book, uint32_t calls_first, uint32_t index)
{
    const struct trace_call *call = &book->trace->calls[index];
    uint64_t whole = 0;
    for (uint32_t i = 0; i < call->parts_count; i++) {
        whole += part_tokens(book, calls_first, &book->trace->parts[call->parts_first + i]);
    }
    book->whole[index] = whole < TRACE_TOKENS_MAX ? (uint32_t)whole : TRACE_TOKENS_MAX;
    /* Half of the context stays for the prompt, so a long output never pushes it out. */
    uint32_t half = book->limits.context_tokens / 2;
    book->out[index] = smaller(scaled(book, call->out_tokens), half > 0 ? half : 1);
}

int prompt_book_init(struct prompt_book *book, const struct trace *trace,
                     const struct prompt_limits *limits)
{
    *book = (struct prompt_book){.trace = trace, .limits = *limits};
    book->whole = calloc(trace->calls_count, sizeof *book->whole);
    book->out = calloc(trace->calls_count, sizeof *book->out);
    book->walk = calloc((size_t)trace->calls_of_program_max + 1, sizeof *book->walk);
    if (book->whole == NULL || book->out == NULL || book->walk == NULL) {
        fprintf(stderr, "agx: out of memory\n");
        return EXIT_SYSTEM;
    }
    for (uint32_t i = 0; i < trace->programs_count; i++) {
        const struct trace_program *program = &trace->programs[i];
        for (uint32_t n = 0; n < program->calls_count; n++) {
            measure_call(book, program->calls_first, program->calls_first + n);
        }
    }
    return EXIT_COMPLETE;
}

void prompt_book_free(struct prompt_book *book)
{
    free(book->whole);
    free(book->out);
    free(book->walk);
}

uint32_t prompt_tokens(const struct prompt_book *book, uint32_t call)
{
    uint32_t room = book->limits.context_tokens - book->out[call];
    return smaller(book->whole[call], smaller(room, book->limits.prompt_tokens_max));
}

/* ---- token ids ------------------------------------------------------------------------------- */

/* A well-mixed number of two (the finaliser of SplitMix64). */
static uint64_t mix(uint64_t key, uint64_t position)
{
    uint64_t z = key + (position + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint32_t plain_id(const struct prompt_limits *limits, uint64_t number)
{
    uint32_t first = limits->vocab_tokens > FIRST_PLAIN_ID + 2 ? FIRST_PLAIN_ID : 0;
    uint32_t span = limits->vocab_tokens - first;
    uint32_t id = first + (uint32_t)(number % span);
    for (uint32_t turn = 0; turn < 2 && (id == limits->bos_id || id == limits->eos_id); turn++) {
        id = id + 1 < limits->vocab_tokens ? id + 1 : first;
    }
    return id;
}

/* The tokens [from, to) of a part that has no parts of its own; returns where the next ones go. */
static uint32_t *write_leaf(const struct prompt_book *book, const struct prompt_source *source,
                            const struct prompt_walk *at, uint32_t from, uint32_t to,
                            uint32_t *ids)
{
    const struct trace_call *call = &book->trace->calls[source->program->calls_first + at->call];
    const struct trace_part *part = &book->trace->parts[call->parts_first + at->part];
    uint64_t own = mix(mix(source->run, at->call), at->part);
    uint64_t key = part->kind == TRACE_SHARED ? part->key : own;
    for (uint32_t i = from; i < to; i++) {
        *ids++ = part->kind == TRACE_OUTPUT ? source->outputs[part->call][i]
                                            : plain_id(&book->limits, mix(key, i));
    }
    return ids;
}

/* One part of the call on top of the walk; `position` is how many tokens of the prompt are behind,
 * `skip` how many are cut. Returns the depth of the walk afterwards. */
static uint32_t walk_part(struct prompt_book *book, const struct prompt_source *source,
                          uint32_t depth, uint32_t *position, uint32_t skip, uint32_t **ids)
{
    struct prompt_walk *at = &book->walk[depth - 1];
    uint32_t calls_first = source->program->calls_first;
    const struct trace_call *call = &book->trace->calls[calls_first + at->call];
    if (at->part == call->parts_count || at->left == 0) {
        return depth - 1;
    }
    const struct trace_part *part = &book->trace->parts[call->parts_first + at->part];
    uint32_t count = smaller(part_tokens(book, calls_first, part), at->left);
    bool is_cut = *position + count <= skip;
    if (!is_cut && part->kind != TRACE_PROMPT) {
        uint32_t from = skip > *position ? skip - *position : 0;
        *ids = write_leaf(book, source, at, from, count, *ids);
    }
    at->left -= count;
    at->part++;
    if (!is_cut && part->kind == TRACE_PROMPT) {
        ASSERT(depth <= book->trace->calls_of_program_max);     /* references go backwards */
        book->walk[depth] = (struct prompt_walk){.call = part->call, .left = count};
        return depth + 1;
    }
    *position += count;
    return depth;
}

void prompt_write(struct prompt_book *book, const struct prompt_source *source, uint32_t number,
                  uint32_t *ids)
{
    uint32_t index = source->program->calls_first + number;
    uint32_t whole = book->whole[index], count = prompt_tokens(book, index), position = 0;
    const uint32_t *end = ids + count;
    book->walk[0] = (struct prompt_walk){.call = number, .left = whole};
    for (uint32_t depth = 1; depth > 0;) {
        depth = walk_part(book, source, depth, &position, whole - count, &ids);
    }
    ASSERT(ids == end && position == whole);
}
