/* SPDX-License-Identifier: MIT */
/*
 * What: `agx tokenize`: prints the token ids of a text, separated by spaces, on one line. It reads
 * the vocabulary from a model file (vocabulary-only files too) with the appliance's own code, so
 * the ids are those that the appliance computes for a prompt of the same bytes, with or without the
 * flags ADD_BOS (--bos) and PARSE_SPECIAL (--special).
 *
 * The bytes of a file count as they are, including a newline at the end.
 *
 * Bounds: memory of about 50 bytes for each byte of text, most of it never touched.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/vocab/vocab.h"
#include "tools/agx/command.h"

#define HEADER_BYTES_MAX (UINT64_C(1) << 30)

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
        fprintf(stderr, "agx tokenize: %s: cannot be read into memory\n", path);
    }
    return complete;
}

static bool load_vocabulary(struct vocab *vocab, const char *path)
{
    static struct gguf gguf;
    struct gguf_source source;
    struct config_error error = {{0}};
    struct memory_plan plan = {0};
    struct arena arena;
    enum status status = gguf_source_open(&source, path, &error);
    if (status == STATUS_OK) {
        status = gguf_scan(&gguf, &source, HEADER_BYTES_MAX, &error);
    }
    if (status == STATUS_OK) {
        vocab_plan_memory(&plan, &gguf.vocab);
        status = arena_map(&arena, memory_plan_bytes(&plan, MEMORY_MODEL), false);
    }
    if (status == STATUS_OK) {
        status = vocab_load(vocab, &gguf, &source, &arena, &error);
    }
    gguf_source_close(&source);
    if (status != STATUS_OK) {
        fprintf(stderr, "agx tokenize: %s\n",
                error.text[0] != '\0' ? error.text : status_text(status));
    }
    return status == STATUS_OK;
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
    putchar('\n');
}

/* At worst each byte, and a space mark of three bytes before it, is a token. */
static bool print_tokens(const struct vocab *vocab, const struct text *text,
                         const struct arguments *arguments)
{
    uint64_t ids_max = 4 * ((uint64_t)text->count + 1);
    uint32_t first = arguments->bos && vocab->info.bos_id != GGUF_NO_TOKEN;
    void *memory = malloc(vocab_scratch_bytes(text->count));
    uint32_t *ids = ids_max < UINT32_MAX ? malloc((ids_max + 1) * sizeof *ids) : NULL;
    struct vocab_output output = {.tokens = ids != NULL ? ids + first : NULL,
                                  .max = (uint32_t)ids_max};
    bool fits = memory != NULL && ids != NULL && text->count <= VOCAB_TEXT_BYTES_MAX;
    if (fits) {
        struct vocab_scratch scratch;
        vocab_scratch_init(&scratch, memory, text->count);
        ids[0] = vocab->info.bos_id;
        const struct vocab_input input = {.text = text->bytes, .bytes = text->count,
                                          .parse_special = arguments->special};
        fits = vocab_encode(vocab, &scratch, &input, &output) == STATUS_OK;
    }
    if (fits) {
        print_ids(ids, first + output.count);
    } else {
        fprintf(stderr, "agx tokenize: not enough memory for %u bytes of text\n", text->count);
    }
    free(ids);
    free(memory);
    return fits;
}

int tokenize_main(const char *to, int argc, char **argv)
{
    (void)to;                           /* needs no appliance */
    static struct vocab vocab;
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
    bool done = load_vocabulary(&vocab, arguments.vocab) &&
                print_tokens(&vocab, &text, &arguments) && fflush(stdout) == 0;
    free(text.bytes);
    return done ? EXIT_COMPLETE : EXIT_SYSTEM;
}
