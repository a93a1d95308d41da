/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: synthetic tokens, s:NAME:N: N tokens of one content that only lengths matter of. Where the
 * client gives the tokens itself they are a marker, NAME:N; in the text of a piece; for a real
 * model they are words, of which most vocabularies make a token each.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct flow_synthetic_name { const char *name; uint32_t name_bytes, count; };

/* `text` is NAME:N without the s: before it. False: it is none. */
bool flow_synthetic_read(const char *text, size_t bytes, struct flow_synthetic_name *what);
/* The next of a text of markers, from *at; false: there is none. */
bool flow_synthetic_next(const char *text, size_t bytes, size_t *at,
                         struct flow_synthetic_name *what);
/* A blank and a word: a pure function of name and position. Returns its bytes, at most 16. */
size_t flow_synthetic_word(const struct flow_synthetic_name *what, uint32_t position,
                           char out[16]);
