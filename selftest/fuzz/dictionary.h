/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the words that a fuzz target gives to libFuzzer. Each target defines dictionary_write(),
 * which takes the words from the product's tables, so that they are always current. `fuzz_x
 * --dictionary` prints them in libFuzzer's format and ends.
 */
#include <stddef.h>
#include <stdint.h>

#define DICTIONARY_WORD_BYTES_MAX 64    /* libFuzzer drops longer ones */

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* Defined by each target. */
void dictionary_write(void);
/* Each writes one word. */
void dictionary_word(const void *bytes, uint32_t count);
void dictionary_text(const char *text);
void dictionary_join(const char *before, const char *name, const char *after);
void dictionary_number(uint64_t value, uint32_t bytes);     /* little-endian */
