/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a made-up vocabulary like SentencePiece's: <unk> <s> </s>, 256 byte tokens, printable
 * ASCII, frequent English pieces, then made-up syllables. Each piece is the concatenation of two
 * others, so that merges reach it.
 */
#include <stdint.h>

#include "tools/command_line.h"
#include "tools/mkmodel/writer.h"

enum { TOKEN_NORMAL = 1, TOKEN_UNKNOWN = 2, TOKEN_CONTROL = 3, TOKEN_BYTE = 6 };

struct token {
    char text[40];
    uint32_t kind;
};
struct vocabulary {
    struct token *tokens;           /* [count] */
    uint32_t count;
    /* private: only vocabulary.c */
    uint32_t room, pieces_end;      /* made-up tokens begin at pieces_end */
};

/* Ends the program if it cannot make so many. */
void vocabulary_build(struct vocabulary *vocabulary, uint32_t count);
/* The last tokens become control tokens of these texts, in this order. */
void vocabulary_control(struct vocabulary *vocabulary, const struct argument_texts *texts);
void vocabulary_put(const struct vocabulary *vocabulary, struct writer *writer);
