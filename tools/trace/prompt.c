/* SPDX-License-Identifier: MIT */
/*
 * What: prompts of a replay. A prompt that contains an earlier prompt contains its parts, and so
 * on. The walk has a stack of its own, with one entry for each call on the way down.
 *
 * Invariants: part_tokens() of the parts of a call add up to whole[call]; every id is in the
 * vocabulary and is neither BOS nor EOS (unless the vocabulary has no others).
 * Why not keep prompts: recorded coding sessions have prompts of 10^5 tokens and hundreds of calls;
 * lengths and hashes need no memory.
 */
#include "tools/trace/prompt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/base/assert.h"
#include "config/base/bounds.h"
#include "config/base/splitmix.h"
#include "tools/exit_code.h"

#define FIRST_PLAIN_ID 3        /* after unknown, BOS and EOS in most vocabularies */

static uint32_t scaled(const struct prompt_book *book, uint32_t tokens)
{
    double count = round(tokens * book->limits.token_scale);
    return count < 1 ? 1 : count > TRACE_TOKENS_MAX ? TRACE_TOKENS_MAX : (uint32_t)count;
}

/* `calls` starts with the program's call 0. */
static uint32_t part_tokens(const struct prompt_book *book, uint32_t calls_first,
                            const struct trace_part *part)
{
    if (part->kind != TRACE_PROMPT && part->kind != TRACE_OUTPUT) {
        return scaled(book, part->tokens);
    }
    uint32_t call = calls_first + part->call;
    uint32_t whole = part->kind == TRACE_PROMPT ? book->whole[call] : book->out[call];
    return part->tokens == 0 ? whole : lesser(scaled(book, part->tokens), whole);
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
    book->out[index] = lesser(scaled(book, call->out_tokens), half > 0 ? half : 1);
}

bool prompt_cuts_output(const struct prompt_book *book, uint32_t index)
{
    return book->out[index] < scaled(book, book->trace->calls[index].out_tokens);
}

int prompt_book_init(struct prompt_book *book, const struct trace *trace,
                     const struct prompt_limits *limits)
{
    *book = (struct prompt_book){.trace = trace, .limits = *limits};
    book->whole = calloc(trace->calls_count, sizeof *book->whole);
    book->out = calloc(trace->calls_count, sizeof *book->out);
    book->levels = calloc((size_t)trace->calls_of_program_max + 1, sizeof *book->levels);
    if (book->whole == NULL || book->out == NULL || book->levels == NULL) {
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
    free(book->levels);
}

uint32_t prompt_tokens(const struct prompt_book *book, uint32_t call)
{
    uint32_t room = book->limits.context_tokens - book->out[call];
    return lesser(book->whole[call], lesser(room, book->limits.prompt_tokens_max));
}

/* ---- the walk -------------------------------------------------------------------------------- */

void prompt_walk_begin(struct prompt_walk *walk, struct prompt_book *book,
                       const struct trace_program *program, uint32_t number)
{
    uint32_t index = program->calls_first + number, whole = book->whole[index];
    book->levels[0] = (struct prompt_level){.call = number, .left = whole};
    *walk = (struct prompt_walk){.book = book, .program = program, .depth = 1,
                                 .skip = whole - prompt_tokens(book, index)};
}

/* The next part of the call on top. False: the call has no more. A prompt becomes the new top, and
 * what is cut is passed over: then the piece is empty. */
static bool take_part(struct prompt_walk *walk, struct prompt_piece *piece)
{
    const struct prompt_book *book = walk->book;
    struct prompt_level *top = &book->levels[walk->depth - 1];
    const struct trace_call *call = &book->trace->calls[walk->program->calls_first + top->call];
    if (top->part == call->parts_count || top->left == 0) {
        return false;
    }
    *piece = (struct prompt_piece){.call = top->call, .part = top->part,
                                   .index = call->parts_first + top->part};
    const struct trace_part *part = &book->trace->parts[piece->index];
    uint32_t count = lesser(part_tokens(book, walk->program->calls_first, part), top->left);
    top->left -= count;
    top->part++;
    if (walk->position + count <= walk->skip) {
        walk->position += count;
    } else if (part->kind == TRACE_PROMPT) {
        ASSERT(walk->depth <= book->trace->calls_of_program_max);   /* references go backwards */
        book->levels[walk->depth++] = (struct prompt_level){.call = part->call, .left = count};
    } else {
        piece->from = walk->skip > walk->position ? walk->skip - walk->position : 0;
        piece->to = count;
        walk->position += count;
    }
    return true;
}

bool prompt_walk_next(struct prompt_walk *walk, struct prompt_piece *piece)
{
    while (walk->depth > 0) {
        if (!take_part(walk, piece)) {
            walk->depth--;
        } else if (piece->to > piece->from) {
            return true;
        }
    }
    return false;
}

/* ---- token ids ------------------------------------------------------------------------------- */

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

static uint32_t *write_piece(const struct prompt_book *book, const struct prompt_source *source,
                             const struct prompt_piece *piece, uint32_t *ids)
{
    const struct trace_part *part = &book->trace->parts[piece->index];
    uint64_t own = splitmix_at(splitmix_at(source->run, piece->call), piece->part);
    uint64_t key = part->kind == TRACE_SHARED ? part->key
                   : part->kind == TRACE_RUN ? splitmix_at(part->key, source->run) : own;
    for (uint32_t i = piece->from; i < piece->to; i++) {
        *ids++ = part->kind == TRACE_OUTPUT ? source->outputs[part->call][i]
                                            : plain_id(&book->limits, splitmix_at(key, i));
    }
    return ids;
}

void prompt_write(struct prompt_book *book, const struct prompt_source *source, uint32_t number,
                  uint32_t *ids)
{
    const uint32_t *end = ids + prompt_tokens(book, source->program->calls_first + number);
    struct prompt_walk walk;
    struct prompt_piece piece;
    prompt_walk_begin(&walk, book, source->program, number);
    while (prompt_walk_next(&walk, &piece)) {
        ids = write_piece(book, source, &piece, ids);
    }
    ASSERT(ids == end);
}
