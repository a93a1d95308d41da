/* SPDX-License-Identifier: MIT */
/*
 * What: `agx tokenize`: prints the token ids of a text, separated by spaces, on one line. It reads
 * the vocabulary from a model file (vocabulary-only files too) with the appliance's own code, so
 * the ids are those that the appliance computes for a prompt of the same bytes, with or without the
 * flags ADD_BOS (--bos) and PARSE_SPECIAL (--special).
 *
 * The bytes of a file count as they are, including a newline at the end.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/agx/command.h"
#include "tools/agx/vocabulary.h"

struct arguments {
    const char *vocab, *file, *text;
    bool bos, special;
};

struct text {
    char *bytes;
    uint32_t count;
};

/* Reads the command line; as command_line_parse(). Every word after `--` is text. */
static int parse(struct arguments *arguments, int argc, char **argv)
{
    const struct argument rows[] = {
        {"--vocab", "MODEL.gguf", ARGUMENT_TEXT, &arguments->vocab, 0, 0,
         "the model, or a file of its vocabulary only"},
        {"--file", "FILE", ARGUMENT_TEXT, &arguments->file, 0, 0, "the bytes of this file"},
        {"--bos", "", ARGUMENT_FLAG, &arguments->bos, 0, 0, "BOS before them"},
        {"--special", "", ARGUMENT_FLAG, &arguments->special, 0, 0,
         "special tokens are tokens; otherwise they are plain text"},
    };
    const struct command_line line = {
        AGX_COMMAND("tokenize"),
        .usage = "--vocab MODEL.gguf [--bos] [--special] (--file FILE | [--] TEXT)",
        .purpose = "The token ids of a text, on one line.",
        .operand = &arguments->text, .operand_may_lack = true,
        .rows = rows, .rows_count = sizeof rows / sizeof rows[0]};
    int code = command_line_parse(&line, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    if (arguments->vocab == NULL) {
        fprintf(stderr, "agx tokenize: --vocab is missing\n");
        return EXIT_USAGE;
    }
    if ((arguments->file == NULL) == (arguments->text == NULL)) {
        fprintf(stderr, "agx tokenize: either --file or TEXT is expected\n");
        return EXIT_USAGE;
    }
    return ARGUMENT_GO_ON;
}

/* The whole file, even one without a size, such as a pipe. */
static bool read_file(struct text *text, const char *path)
{
    FILE *file = fopen(path, "rb");
    uint64_t room = 1 << 16, count = 0;
    char *bytes = file != NULL ? malloc(room) : NULL;
    size_t got = 1;
    while (bytes != NULL && got > 0) {
        got = fread(bytes + count, 1, room - count, file);
        count += got;
        if (count == room) {
            room *= 2;
            char *grown = room <= UINT32_MAX ? realloc(bytes, room) : NULL;
            if (grown == NULL) {
                free(bytes);
            }
            bytes = grown;
        }
    }
    bool complete = bytes != NULL && !ferror(file);
    if (file != NULL) {
        fclose(file);
    }
    *text = (struct text){.bytes = bytes, .count = (uint32_t)count};
    if (!complete) {
        fprintf(stderr, "agx tokenize: %s: cannot be read into memory: %s\n", path,
                room > UINT32_MAX ? "it is too large" : strerror(errno));
    }
    return complete;
}

/* printf() would take longer than the tokenizer. */
static void print_ids(const uint32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char digits[12];
        uint32_t at = sizeof digits, id = ids[i];
        do {
            digits[--at] = (char)('0' + id % 10);
            id /= 10;
        } while (id > 0);
        if (i > 0) {
            putchar(' ');
        }
        fwrite(digits + at, 1, sizeof digits - at, stdout);
    }
}

static bool print_tokens(const struct vocabulary *vocabulary, const struct text *text,
                         const struct arguments *arguments)
{
    const struct vocab_input input = {.text = text->bytes, .bytes = text->count,
                                      .parse_special = arguments->special};
    struct vocabulary_tokens tokens;
    uint32_t bos_id = vocabulary->vocab.info.bos_id;
    bool encoded = vocabulary_encode(vocabulary, &input, &tokens, "agx tokenize");
    if (encoded) {
        if (arguments->bos && bos_id != GGUF_NO_TOKEN) {
            print_ids(&bos_id, 1);
            fputs(tokens.count > 0 ? " " : "", stdout);
        }
        print_ids(tokens.ids, tokens.count);
        putchar('\n');
    }
    free(tokens.ids);
    return encoded;
}

int tokenize_main(const char *to, int argc, char **argv)
{
    (void)to;                           /* needs no appliance */
    static struct vocabulary vocabulary;
    struct arguments arguments = {0};
    struct text text = {0};
    int code = parse(&arguments, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    if (arguments.text != NULL) {
        text = (struct text){.bytes = strdup(arguments.text),
                             .count = (uint32_t)strlen(arguments.text)};
    }
    if (text.bytes == NULL && (arguments.file == NULL || !read_file(&text, arguments.file))) {
        return EXIT_SYSTEM;
    }
    bool done = vocabulary_load(&vocabulary, arguments.vocab, "agx tokenize") &&
                print_tokens(&vocabulary, &text, &arguments) && fflush(stdout) == 0;
    free(text.bytes);
    return done ? EXIT_COMPLETE : EXIT_SYSTEM;
}
