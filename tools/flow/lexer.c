/* SPDX-License-Identifier: MIT */
/*
 * What: the lexer of flow files, and the message of every fault of one: place, found, expected.
 *
 * Bounds: linear; no memory of its own.
 */
#include "tools/flow/lexer.h"

#include <stdio.h>
#include <string.h>

#include "net/utf8.h"

#define FOUND_BYTES_MAX 40                  /* of a token, in a message */
#define SIGNS           "=,[]{}*!"

#define SHOWN_BYTES     (FOUND_BYTES_MAX + 8)

static void show(const struct flow_token *found, char shown[SHOWN_BYTES])
{
    uint32_t bytes = found->bytes < FOUND_BYTES_MAX ? found->bytes : FOUND_BYTES_MAX;
    const char *quote = found->kind == FLOW_STRING ? "\"" : "'";
    switch (found->kind) {
    case FLOW_STATEMENT_END:
        snprintf(shown, SHOWN_BYTES, "the end of the statement");
        break;
    case FLOW_FILE_END:
        snprintf(shown, SHOWN_BYTES, "the end of the file");
        break;
    case FLOW_BYTE:
        snprintf(shown, SHOWN_BYTES, "byte %u", (unsigned)(uint8_t)found->at[0]);
        break;
    default:
        snprintf(shown, SHOWN_BYTES, "%s%.*s%s%s", quote, (int)bytes, found->at,
                 bytes < found->bytes ? "..." : "", quote);
    }
}

bool flow_refuse(const struct flow_lexer *lexer, const struct flow_token *found,
                 const char *expected)
{
    char shown[SHOWN_BYTES];
    show(found, shown);
    int place = snprintf(lexer->fault, FLOW_FAULT_BYTES, "%.60s:%u:%u: ", lexer->path,
                         (unsigned)found->line, (unsigned)found->column);
    snprintf(lexer->fault + place, FLOW_FAULT_BYTES - (size_t)place, "found %s, expected %s",
             shown, expected);
    for (char *at = lexer->fault + place; *at != '\0'; at++) {
        *at = *at < ' ' || *at > '~' ? '?' : *at;   /* a terminal may show it */
    }
    return false;
}

bool flow_is_sign(const struct flow_token *token, char sign)
{
    return token->kind == FLOW_SIGN && token->at[0] == sign;
}

bool flow_is_word(const struct flow_token *token, const char *word)
{
    return token->kind == FLOW_WORD && token->bytes == strlen(word) &&
           memcmp(token->at, word, token->bytes) == 0;
}

bool flow_same_word(const struct flow_token *a, const struct flow_token *b)
{
    return a->bytes == b->bytes && memcmp(a->at, b->at, a->bytes) == 0;
}

bool flow_number(const char *at, size_t bytes, uint64_t max, uint64_t *number)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) {
        uint64_t digit = (uint64_t)(uint8_t)at[i] - '0';
        if (digit > 9 || value > (max - digit) / 10) {
            return false;
        }
        value = 10 * value + digit;
    }
    *number = value;
    return bytes > 0 && value <= max;
}

/* ---- strings --------------------------------------------------------------------------------- */

static const char escapes[][2] = {{'n', '\n'}, {'t', '\t'}, {'r', '\r'}, {'"', '"'}, {'\\', '\\'}};

/* What a backslash and this byte mean; 0: nothing. */
static char escape(char byte)
{
    for (size_t i = 0; i < sizeof escapes / sizeof escapes[0]; i++) {
        if (escapes[i][0] == byte) {
            return escapes[i][1];
        }
    }
    return 0;
}

size_t flow_string(const struct flow_token *token, char *out)
{
    size_t used = 0;
    for (uint32_t i = 0; i < token->bytes; i++) {
        bool escaped = token->at[i] == '\\';
        out[used++] = escaped ? escape(token->at[++i]) : token->at[i];
    }
    return used;
}

/* A part of the text as a token, where it stands. */
static struct flow_token token_at(const struct flow_lexer *lexer, size_t at, size_t bytes)
{
    return (struct flow_token){FLOW_WORD, lexer->text + at, (uint32_t)bytes, lexer->line,
                               (uint32_t)(at - lexer->line_start) + 1};
}

static bool refuse_byte(const struct flow_lexer *lexer, size_t at)
{
    struct flow_token found = token_at(lexer, at, 1);
    found.kind = FLOW_BYTE;
    return flow_refuse(lexer, &found, "text");
}

/* lexer->at is its first quote. Byte 0 ends the loop, too: strchr() finds it. */
static bool take_string(struct flow_lexer *lexer, struct flow_token *token)
{
    size_t first = lexer->at + 1, at = first;
    *token = token_at(lexer, lexer->at, 1);
    while (at < lexer->bytes && strchr("\"\n", lexer->text[at]) == NULL) {
        if (lexer->text[at] == '\\') {
            at++;
            if (at < lexer->bytes && lexer->text[at] == '\0') {
                break;
            }
            if (at >= lexer->bytes || escape(lexer->text[at]) == 0) {
                struct flow_token found = token_at(lexer, at - 1, at < lexer->bytes ? 2 : 1);
                return flow_refuse(lexer, &found, "one of \\n \\t \\r \\\" \\\\");
            }
        }
        at++;
    }
    if (at < lexer->bytes && lexer->text[at] == '\0') {
        return refuse_byte(lexer, at);
    }
    if (at >= lexer->bytes || lexer->text[at] != '"') {
        return flow_refuse(lexer, token, "a string that ends on its line");
    }
    token->kind = FLOW_STRING;
    token->at = lexer->text + first;
    token->bytes = (uint32_t)(at - first);
    lexer->at = at + 1;
    return utf8_is_valid(token->at, token->bytes) || flow_refuse(lexer, token, "UTF-8");
}

/* ---- tokens ---------------------------------------------------------------------------------- */

void flow_lexer_init(struct flow_lexer *lexer, const char *path, const char *text, size_t bytes,
                     char fault[FLOW_FAULT_BYTES])
{
    *lexer = (struct flow_lexer){.path = path, .text = text, .bytes = bytes, .line = 1,
                                 .fault = fault};
}

/* To the next byte that means something. */
static void skip(struct flow_lexer *lexer)
{
    bool in_comment = false;
    for (; lexer->at < lexer->bytes; lexer->at++) {
        char byte = lexer->text[lexer->at];
        if (byte == '\n') {
            lexer->line++;
            lexer->line_start = lexer->at + 1;
            in_comment = false;
        } else if (byte == '#') {
            in_comment = true;
        } else if (!in_comment && byte != ' ' && byte != '\t' && byte != '\r') {
            return;
        }
    }
}

static bool is_word_byte(char byte)
{
    return (uint8_t)byte > ' ' && byte != 0x7f && byte != '"' && byte != '#' &&
           strchr(SIGNS, byte) == NULL;
}

static bool take_word(struct flow_lexer *lexer, struct flow_token *token)
{
    size_t first = lexer->at;
    while (lexer->at < lexer->bytes && is_word_byte(lexer->text[lexer->at])) {
        lexer->at++;
    }
    *token = token_at(lexer, first, lexer->at - first);
    if (token->bytes == 0) {
        return refuse_byte(lexer, first);
    }
    return utf8_is_valid(token->at, token->bytes) || flow_refuse(lexer, token, "UTF-8");
}

bool flow_lexer_next(struct flow_lexer *lexer, struct flow_token *token)
{
    const struct flow_token behind = token_at(lexer, lexer->at, 0);     /* the last token */
    skip(lexer);
    bool at_end = lexer->at == lexer->bytes;
    *token = token_at(lexer, lexer->at, at_end ? 0 : 1);
    if (lexer->in_statement && (at_end || token->column == 1) && lexer->at > 0) {
        lexer->in_statement = false;
        *token = behind;
        token->kind = FLOW_STATEMENT_END;
        return true;
    }
    if (at_end) {
        token->kind = FLOW_FILE_END;
        return true;
    }
    lexer->in_statement = true;
    if (lexer->text[lexer->at] == '"') {
        return take_string(lexer, token);
    }
    if (lexer->text[lexer->at] != '\0' && strchr(SIGNS, lexer->text[lexer->at]) != NULL) {
        token->kind = FLOW_SIGN;
        lexer->at++;
        return true;
    }
    return take_word(lexer, token);
}
