/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the calls of a trace as this appliance can serve them: token counts scaled and cut to its
 * context, and the token ids of any prompt, made on demand.
 *
 * Shared text is a pure function of (name, position), a run's text of (run, name, position), own
 * text of (run, call, part, position): two programs that name the same shared text send the same
 * tokens, in every replay. Outputs are the tokens
 * that the appliance generated.
 */
#include <stdbool.h>
#include <stdint.h>

#include "tools/trace/trace.h"

struct prompt_limits {
    double token_scale;
    uint32_t context_tokens;        /* prompt and output together */
    uint32_t prompt_tokens_max;     /* of one frame */
    uint32_t vocab_tokens, bos_id, eos_id;
};
struct prompt_book {
    const struct trace *trace;
    struct prompt_limits limits;
    uint32_t *whole;                /* [calls] tokens of the prompt, scaled, before cutting */
    uint32_t *out;                  /* [calls] tokens to generate, scaled and cut */
    /* private: only prompt.c */
    struct prompt_level { uint32_t call, part, left; } *levels; /* [calls_of_program_max + 1] */
};

/* 0, or EXIT_SYSTEM after a message. */
int prompt_book_init(struct prompt_book *book, const struct trace *trace,
                     const struct prompt_limits *limits);
void prompt_book_free(struct prompt_book *book);
/* Number of tokens of the prompt of `call` (index in trace->calls) that are sent: those that fit
 * before its output. The rest is cut at the front, where conversations are oldest. */
uint32_t prompt_tokens(const struct prompt_book *book, uint32_t call);

/* A walk over a prompt, piece by piece. A piece has no parts of its own: it is shared text, a
 * call's own text, or an output. The walk leaves out what is cut at the front. */
struct prompt_walk {
    struct prompt_book *book;       /* one walk at a time */
    const struct trace_program *program;
    uint32_t depth, position, skip; /* of the whole prompt: tokens passed, tokens that are cut */
};
struct prompt_piece {
    uint32_t call, part;            /* which part of which call of the program */
    uint32_t index;                 /* of the part, in trace->parts */
    uint32_t from, to;              /* its tokens */
};
void prompt_walk_begin(struct prompt_walk *walk, struct prompt_book *book,
                       const struct trace_program *program, uint32_t number);
/* False: that was all. Linear in the parts that are passed over. */
bool prompt_walk_next(struct prompt_walk *walk, struct prompt_piece *piece);

struct prompt_source {              /* one run of a program */
    const struct trace_program *program;
    uint64_t run;                   /* makes its own text its own */
    uint32_t *const *outputs;       /* [calls_count] generated tokens of each call */
};
/* Writes prompt_tokens() ids of the program's call `number`. */
void prompt_write(struct prompt_book *book, const struct prompt_source *source, uint32_t number,
                  uint32_t *ids);
/* True when the call has fewer tokens of output than the trace says: half the context at most. */
bool prompt_cuts_output(const struct prompt_book *book, uint32_t index);
