/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a flow file as tokens, with their places. Private to tools/flow.
 *
 * A statement is a line and the lines after it that begin with a blank; `#` begins a comment.
 * Tokens point into the text, which must stay. A string is checked here, and decoded when it is
 * used.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/flow/flow_file.h"

enum flow_token_kind {
    FLOW_WORD, FLOW_STRING,
    FLOW_SIGN,                              /* one of = , [ ] { } * ! */
    FLOW_STATEMENT_END,                     /* where its last token ends */
    FLOW_FILE_END,
    FLOW_BYTE,                              /* that is no text; only in messages */
};
struct flow_token {
    enum flow_token_kind kind;
    const char *at;                         /* of a string: after the first quote */
    uint32_t bytes, line, column;           /* columns count bytes from 1 */
};

struct flow_lexer {
    const char *path, *text;
    size_t bytes, at, line_start;
    uint32_t line;
    bool in_statement;
    char *fault;                            /* [FLOW_FAULT_BYTES] */
};

void flow_lexer_init(struct flow_lexer *lexer, const char *path, const char *text, size_t bytes,
                     char fault[FLOW_FAULT_BYTES]);
/* False after a fault. After the end of the file it comes again and again. */
bool flow_lexer_next(struct flow_lexer *lexer, struct flow_token *token);

/* False, after the message that the token was found and something else expected. */
bool flow_refuse(const struct flow_lexer *lexer, const struct flow_token *found,
                 const char *expected);
bool flow_is_sign(const struct flow_token *token, char sign);
bool flow_is_word(const struct flow_token *token, const char *word);
bool flow_same_word(const struct flow_token *a, const struct flow_token *b);
/* Digits only, at most `max`. */
bool flow_number(const char *at, size_t bytes, uint64_t max, uint64_t *number);
/* Writes what a string says to `out`, which has room for token->bytes; returns its bytes. */
size_t flow_string(const struct flow_token *token, char *out);
