/* SPDX-License-Identifier: MIT
 *
 * What: speed of the tokenizers.
 *
 *     bench-vocab [--runs N] [--only TEXT] ENGLISH CODE VOCABULARY.gguf...
 *         for each vocabulary, MB/s from text to tokens (best, median) and bytes for each token:
 *           english, code    the two files
 *           utf8             random characters
 *           letters          one word of random letters
 *           ab               one word of a and b: many equal pairs
 *           digits, spaces, newlines, marks (combining), signs     nothing else
 *         and the cost of a byte in texts of a sixteenth of the length, as a part of its cost in
 *         the whole text: far below 1 means that the cost grows faster than the text
 *
 * Method: CPU time, since nothing here waits. Texts are those that a frame of 64 KiB can carry: a
 * longer file is cut into pieces of that length. The first run is dropped: it touches memory for
 * the first time.
 */
#include <string.h>

#include "config/vocab/vocab.h"
#include "tools/bench/model.h"
#include "tools/command_line.h"

#define PIECE_BYTES (64u << 10)
#define PART_BYTES  (PIECE_BYTES / 16)
#define FILE_BYTES  (4u << 20)
#define RUNS_MAX    100u

struct text {
    const char *name;
    char *bytes;
    uint32_t count;
};

static struct vocab vocab;
static struct vocab_scratch scratch;
static uint32_t tokens[4 * (PIECE_BYTES + 1)];
static uint32_t runs = 9;
static const char *only;

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void vocab_open(const char *path)
{
    static struct gguf gguf;
    static struct arena arena;
    struct gguf_source source;
    struct config_error error = {{0}};
    struct memory_plan plan = {0};
    if (gguf_source_open(&source, path, &error) != STATUS_OK ||
        gguf_scan(&gguf, &source, 1u << 30, &error) != STATUS_OK) {
        fail(error.text);
    }
    vocab_plan_memory(&plan, &gguf.vocab);
    arena_reserve(&arena, &plan, MEMORY_MODEL);
    double start = cpu_seconds();
    if (vocab_load(&vocab, &gguf, &source, &arena, &error) != STATUS_OK) {
        fail(error.text);
    }
    printf("\n%s: %u tokens, %.1f MiB, loaded in %.0f ms\n", path, vocab.info.tokens,
           (double)arena.size_bytes / 1048576.0, 1e3 * (cpu_seconds() - start));
    gguf_source_close(&source);
}

/* ---- texts ---- */

static struct text text_file(const char *name, const char *path)
{
    struct text text = {.name = name, .bytes = malloc(FILE_BYTES)};
    FILE *file = fopen(path, "rb");
    if (file == NULL || text.bytes == NULL) {
        fail(path);
    }
    text.count = (uint32_t)fread(text.bytes, 1, FILE_BYTES, file);
    fclose(file);
    if (text.count == 0) {
        fail("a text is empty");
    }
    return text;
}

static uint32_t random_below(uint32_t bound)
{
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)((state >> 33) % bound);
}

/* A code point of any length, but no surrogate. */
static uint32_t random_character(char *bytes)
{
    static const uint32_t ends[] = {0x80, 0x800, 0xd800, 0x110000};
    uint32_t length = 1 + random_below(4), first = length == 1 ? 0 : ends[length - 2];
    first = length == 4 ? 0x10000 : first;
    uint32_t code = first + random_below(ends[length - 1] - first);
    for (uint32_t i = length; i-- > 1; code >>= 6) {
        bytes[i] = (char)(0x80 | (code & 0x3f));
    }
    bytes[0] = (char)(length == 1 ? code : (0xf00u >> length) | code);
    return length;
}

static struct text text_of_characters(void)
{
    struct text text = {.name = "utf8", .bytes = malloc(PIECE_BYTES)};
    while (text.bytes != NULL && text.count + 4 <= PIECE_BYTES) {
        text.count += random_character(text.bytes + text.count);
    }
    return text;
}

/* A text of the words in `words`, each `bytes` long, in random order. */
static struct text text_of(const char *name, const char *words, uint32_t bytes)
{
    struct text text = {.name = name, .bytes = malloc(PIECE_BYTES)};
    uint32_t count = (uint32_t)strlen(words) / bytes;
    while (text.bytes != NULL && text.count + bytes <= PIECE_BYTES) {
        memcpy(text.bytes + text.count, words + bytes * random_below(count), bytes);
        text.count += bytes;
    }
    return text;
}

/* ---- runs ---- */

/* Seconds for the whole text in pieces of at most `piece` bytes. */
static double run(const struct text *text, uint32_t piece, uint64_t *tokens_total)
{
    double start = cpu_seconds();
    *tokens_total = 0;
    for (uint32_t at = 0; at < text->count;) {
        uint32_t left = text->count - at, bytes = left < piece ? left : piece;
        const struct vocab_input input = {.text = text->bytes + at, .bytes = bytes};
        struct vocab_output output = {.tokens = tokens, .max = sizeof tokens / sizeof tokens[0]};
        if (vocab_encode(&vocab, &scratch, &input, &output) != STATUS_OK) {
            fail("a text does not fit");
        }
        *tokens_total += output.count;
        at += bytes;
    }
    return cpu_seconds() - start;
}

static void measure(const struct text *text)
{
    double whole[RUNS_MAX], parts[RUNS_MAX];
    uint64_t count = 0, ignored;
    if (only != NULL && strcmp(only, text->name) != 0) {
        return;
    }
    (void)run(text, PIECE_BYTES, &ignored);
    for (uint32_t i = 0; i < runs; i++) {
        parts[i] = run(text, PART_BYTES, &ignored);
        whole[i] = run(text, PIECE_BYTES, &count);
    }
    sort(whole, runs);
    sort(parts, runs);
    double megabytes = text->count / 1e6;
    printf("  %-10s %8.1f %8.1f %8.2f %8.2f\n", text->name, megabytes / whole[0],
           megabytes / whole[runs / 2], (double)text->count / (double)count,
           parts[0] / whole[0]);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    uint32_t operands = 0;
    const struct argument rows[] = {
        {"--runs", "N", ARGUMENT_U32, &runs, 1, RUNS_MAX, "of each text"},
        {"--only", "TEXT", ARGUMENT_TEXT, &only, 0, 0, "this one alone"},
    };
    const struct command_line line = {
        .program = "bench-vocab", .usage = "[OPTION]... ENGLISH CODE VOCABULARY.gguf...",
        .purpose = "Megabytes of text to tokens in a second of CPU time.",
        .operands_count = &operands, .rows = rows, .rows_count = sizeof rows / sizeof rows[0]};
    int code = command_line_parse(&line, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    if (operands < 3) {
        fail("expected two files of text and vocabularies");
    }
    const struct text texts[] = {
        text_file("english", argv[1]),
        text_file("code", argv[2]),
        text_of_characters(),
        text_of("letters", "abcdefghijklmnopqrstuvwxyz", 1),
        text_of("ab", "ab", 1),
        text_of("digits", "0123456789", 1),
        text_of("spaces", " ", 1),
        text_of("newlines", "\n", 1),
        text_of("marks", "\xcc\x80\xcc\x81\xcc\x82\xcc\x83", 2),
        text_of("signs", "!#%(-./:;?@[", 1),
    };
    vocab_scratch_init(&scratch, malloc(vocab_scratch_bytes(PIECE_BYTES)), PIECE_BYTES);
    for (uint32_t i = 3; i <= operands; i++) {
        vocab_open(argv[i]);
        printf("  %-10s %8s %8s %8s %8s\n", "text", "MB/s", "median", "B/token", "part");
        for (uint32_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
            measure(&texts[t]);
        }
    }
    return 0;
}
