/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the token ids of traced prompts, written in place and fast. Lengths are those of
 * tools/trace/prompt.h. Text that programs share is made once and copied; the rest is a cheap hash.
 *
 * Ids are pure functions: shared text of (name, position), a run's text of (run, name, position),
 * own text of (run, call, part, position), outputs of (run, call, position); the virtual engine
 * "generates" the last ones.
 */
#include "tools/trace/prompt.h"

struct prompts_shared {             /* one text that calls share */
    uint64_t key;
    uint32_t *ids, count;
};
struct prompts {
    const struct trace *trace;
    struct prompt_book book;        /* lengths, after cutting */
    uint64_t seed;
    /* private: only prompts.c */
    struct prompts_shared *shared;
    uint32_t shared_count;
    uint32_t *shared_of_part;       /* [parts] index in shared */
};

/* 0, or an exit code after a message. */
int prompts_init(struct prompts *prompts, const struct trace *trace, uint32_t context_tokens,
                 uint32_t vocab_tokens, uint64_t seed);
void prompts_free(struct prompts *prompts);
/* Names the output of call `number` of run `run`; then its token at `index`. */
uint32_t prompts_output_key(const struct prompts *prompts, uint64_t run, uint32_t number);
uint32_t prompts_output_token(const struct prompts *prompts, uint32_t key, uint32_t index);
/* Writes prompt_tokens() ids of call `number` of this program as run `run`. */
void prompts_write(struct prompts *prompts, const struct trace_program *program, uint64_t run,
                   uint32_t number, uint32_t *ids);
