/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the words that a fuzz target teaches libFuzzer. Each target defines dictionary_write() and
 * takes its words from the product's tables, so they are always up to date; `fuzz_x --dictionary`
 * prints them in libFuzzer's form and ends.
 */
#include <stddef.h>
#include <stdint.h>

#define DICTIONARY_WORD_BYTES_MAX 64    /* libFuzzer drops longer ones */

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* The target's. */
void dictionary_write(void);
/* One word each. */
void dictionary_word(const void *bytes, uint32_t count);
void dictionary_text(const char *text);
void dictionary_number(uint64_t value, uint32_t bytes);     /* little-endian */
