/* SPDX-License-Identifier: MIT */
/*
 * What: prints a target's words when the switch --dictionary asks for them. libFuzzer calls
 * LLVMFuzzerInitialize() before it reads the arguments.
 */
#include "selftest/fuzz/dictionary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/assert.h"
#include "config/base/text.h"

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    if (*count == 2 && strcmp((*arguments)[1], "--dictionary") == 0) {
        dictionary_write();
        exit(fflush(stdout) == 0 ? 0 : 1);
    }
    return 0;
}

void dictionary_word(const void *bytes, uint32_t count)
{
    ASSERT(count > 0 && count <= DICTIONARY_WORD_BYTES_MAX);
    putchar('"');
    for (uint32_t i = 0; i < count; i++) {
        printf("\\x%02x", ((const uint8_t *)bytes)[i]);
    }
    puts("\"");
}

void dictionary_text(const char *text)
{
    dictionary_word(text, (uint32_t)strlen(text));
}

void dictionary_number(uint64_t value, uint32_t bytes)
{
    uint8_t word[8];
    ASSERT(bytes <= sizeof word);
    for (uint32_t i = 0; i < bytes; i++) {
        word[i] = (uint8_t)(value >> (8 * i));
    }
    dictionary_word(word, bytes);
}

void dictionary_join(const char *before, const char *name, const char *after)
{
    char bytes[DICTIONARY_WORD_BYTES_MAX];
    struct text text;
    text_init(&text, bytes, sizeof bytes);
    text_add(&text, before);
    text_add(&text, name);
    text_add(&text, after);
    ASSERT(!text.cut);
    dictionary_word(bytes, text.length);
}
