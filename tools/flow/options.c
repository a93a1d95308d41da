/* SPDX-License-Identifier: MIT */
/*
 * What: the options of an operator in a flow file, as a table: which kinds have it, its range, and
 * where it goes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/flow/syntax.h"

#define LLM    (1u << AGX_NODE_LLM)
#define LAMBDA (1u << AGX_NODE_LAMBDA)
#define NUMBER_BYTES_MAX 40
#define LAMBDA_TOKENS    64                 /* of its value, where the file does not say */

enum option_type { OPTION_U32, OPTION_U64, OPTION_F32, OPTION_FLAG, OPTION_STOP };
static const struct option {
    const char *name;
    enum option_type type;
    uint32_t kinds;
    size_t offset;                          /* in struct agx_operator */
    double min, max;
    const char *expected;
} options[] = {
#define OPTION(type, member, kinds) type, kinds, offsetof(struct agx_operator, member)
    {"max", OPTION(OPTION_U32, max_tokens, LLM | LAMBDA), 1, FLOW_VALUE_TOKENS_MAX,
     "1 .. 16777216"},
    {"est", OPTION(OPTION_U32, est_tokens, LLM | LAMBDA), 1, 1u << 20, "1 .. 1048576"},
    {"temp", OPTION(OPTION_F32, temperature, LLM), 0, 100, "0, or 0.01 .. 100"},
    {"top-k", OPTION(OPTION_U32, top_k, LLM), 0, INT32_MAX, "0 .. 2147483647"},
    {"top-p", OPTION(OPTION_F32, top_p, LLM), 0, 1, "0 .. 1"},
    {"min-p", OPTION(OPTION_F32, min_p, LLM), 0, 0.999999, "0 .. 1"},
    {"repeat", OPTION(OPTION_F32, repeat_penalty, LLM), 0, 10, "0, or 0.1 .. 10"},
    {"seed", OPTION(OPTION_U64, seed, LLM), 0, 0, "0 .. 18446744073709551615"},
    {"ignore-eos", OPTION(OPTION_FLAG, ignore_eos, LLM), 0, 1, "0 or 1"},
    {"stop", OPTION(OPTION_STOP, stop_ids, LLM), 0, 0,
     "\"text\" of 1 .. 64 bytes, or the id of a token"},
#undef OPTION
};
#define OPTIONS_COUNT (sizeof options / sizeof options[0])

static bool refuse(const struct flow_syntax *s, const char *expected)
{
    return flow_refuse(&s->lexer, &s->token, expected);
}

/* Digits with at most one point. */
static bool read_decimal(const struct flow_token *token, double *value)
{
    char digits[NUMBER_BYTES_MAX];
    uint32_t points = 0;
    if (token->bytes >= sizeof digits) {
        return false;
    }
    for (uint32_t i = 0; i < token->bytes; i++) {
        points += token->at[i] == '.';
        if (token->at[i] != '.' && (token->at[i] < '0' || token->at[i] > '9')) {
            return false;
        }
    }
    memcpy(digits, token->at, token->bytes);
    digits[token->bytes] = '\0';
    *value = strtod(digits, NULL);
    return points <= 1 && token->bytes > points;
}

static bool set_number(const struct flow_syntax *s, const struct option *option, void *at)
{
    uint64_t whole = 0;
    double value = 0;
    if (option->type == OPTION_U64) {
        if (!flow_number(s->token.at, s->token.bytes, UINT64_MAX, &whole)) {
            return refuse(s, option->expected);
        }
        memcpy(at, &whole, sizeof whole);
        return true;
    }
    bool good = option->type == OPTION_F32
                    ? read_decimal(&s->token, &value)
                    : flow_number(s->token.at, s->token.bytes, UINT32_MAX, &whole);
    value = option->type == OPTION_F32 ? value : (double)whole;
    if (!good || value < option->min || value > option->max) {
        return refuse(s, option->expected);
    }
    float number = (float)value;
    uint32_t count = (uint32_t)whole;
    memcpy(at, option->type == OPTION_F32 ? (void *)&number : (void *)&count, sizeof count);
    return true;
}

static bool add_stop(struct flow_syntax *s, struct flow_family *family, const char *expected)
{
    struct agx_operator *how = &family->how;
    uint64_t id;
    if (s->token.kind == FLOW_STRING) {
        if (how->stop_texts_count == AGX_STOP_TEXTS_MAX || s->token.bytes == 0 ||
            s->token.bytes > 64) {
            return refuse(s, "at most 4 texts of 1 .. 64 bytes");
        }
        char *text = family->stop_texts[how->stop_texts_count++];
        text[flow_string(&s->token, text)] = '\0';
        return true;
    }
    if (s->token.kind != FLOW_WORD || !flow_number(s->token.at, s->token.bytes, INT32_MAX, &id)) {
        return refuse(s, expected);
    }
    if (how->stop_ids_count == AGX_STOP_IDS_MAX) {
        return refuse(s, "at most 15 stop ids");
    }
    family->stop_ids[how->stop_ids_count++] = (uint32_t)id;
    return true;
}

/* The value is the next token. */
static bool set_option(struct flow_syntax *s, struct flow_family *family,
                       const struct option *option)
{
    if (option->type == OPTION_STOP) {
        return add_stop(s, family, option->expected);
    }
    return s->token.kind == FLOW_WORD ? set_number(s, option, (char *)&family->how + option->offset)
                                      : refuse(s, option->expected);
}

static const struct option *find(const struct flow_token *name, enum agx_node kind)
{
    for (uint32_t i = 0; i < OPTIONS_COUNT; i++) {
        if (flow_is_word(name, options[i].name) && (options[i].kinds >> kind & 1) != 0) {
            return &options[i];
        }
    }
    return NULL;
}

static const char *const allowed[] = {
    [AGX_NODE_TEXT] = "=, and then what it says",
    [AGX_NODE_LLM] = "=, or an option: max est temp top-k top-p min-p repeat seed ignore-eos stop",
    [AGX_NODE_LAMBDA] = "=, or an option: max est",
};

bool flow_options_read(struct flow_syntax *s, struct flow_family *family)
{
    uint32_t given = 0;                     /* a bit for each option */
    while (!flow_is_sign(&s->token, '=')) {
        const struct option *option = find(&s->token, family->kind);
        if (option == NULL) {
            return refuse(s, allowed[family->kind]);
        }
        uint32_t bit = 1u << (option - options);
        if ((given & bit) != 0 && option->type != OPTION_STOP) {
            return refuse(s, "each option once; only stop may be repeated");
        }
        given |= bit;
        if (!flow_advance(s)) {
            return false;
        }
        if (!flow_is_sign(&s->token, '=')) {
            return refuse(s, "=");
        }
        if (!flow_advance(s) || !set_option(s, family, option) || !flow_advance(s)) {
            return false;
        }
    }
    if (family->kind == AGX_NODE_LAMBDA && family->how.max_tokens == 0) {
        uint32_t est = family->how.est_tokens;
        family->how.max_tokens = est != 0 ? est : LAMBDA_TOKENS;
    }
    return family->kind != AGX_NODE_LLM || family->how.max_tokens != 0 ||
           refuse(s, "max=N before it");
}
