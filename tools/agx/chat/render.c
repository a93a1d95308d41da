/* SPDX-License-Identifier: MIT */
/*
 * What: `agx render`: the prompt that a chat format makes of a conversation, without an appliance:
 * to see what a model is asked, and to compare formats with the templates that they stand for.
 *
 * In: one JSON object for each conversation, one after the other. Out: one line of JSON for each,
 * {"text": ..., "parts": [...]} or {"refused": ...}; with --vocab also {"tokens": [...]}, and an
 * object {"text": ...} is only tokenized.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/agx/chat/conversation.h"
#include "tools/agx/command.h"
#include "tools/agx/printable.h"
#include "tools/agx/vocabulary.h"

#define TEXT_BYTES_MAX (4u << 20)
#define PARTS_MAX      (1u << 16)
#define NAME           "agx render"

struct render {
    const char *file, *format_name, *template, *vocab, *bos, *eos;
    bool as_text;
    struct chat_format format;
    bool has_vocab;
    struct vocabulary vocabulary;
    struct conversation conversation;
    struct chat_scratch scratch;
    uint32_t parts[PARTS_MAX];
    char text[TEXT_BYTES_MAX];
};

static int parse(struct render *r, int argc, char **argv)
{
    const struct argument rows[] = {
        {"--format", "NAME", ARGUMENT_TEXT, &r->format_name, 0, 0,
         "the format; `agx chat --help` lists them"},
        {"--template", "FILE", ARGUMENT_TEXT, &r->template, 0, 0,
         "the format that this template is"},
        {"--vocab", "MODEL.gguf", ARGUMENT_TEXT, &r->vocab, 0, 0,
         "its vocabulary, and, without the two above, its template"},
        {"--bos", "TEXT", ARGUMENT_TEXT, &r->bos, 0, 0,
         "the token BOS (default: the vocabulary's)"},
        {"--eos", "TEXT", ARGUMENT_TEXT, &r->eos, 0, 0, "the token EOS"},
        {"--text", "", ARGUMENT_FLAG, &r->as_text, 0, 0,
         "the text alone; to a pipe or a file as it is"},
    };
    const struct command_line line = {
        .program = "agx", .command = "render", .usage = "[OPTION]... FILE",
        .purpose = "Writes the prompt that a chat format makes of the conversations in FILE\n"
                   "(- is standard input): JSON objects with messages and tools.",
        .operand = &r->file, .rows = rows, .rows_count = sizeof rows / sizeof rows[0]};
    return command_line_parse(&line, argc, argv);
}

/* ---- the format ------------------------------------------------------------------------------ */

static bool recognise_template(struct render *r)
{
    FILE *file = fopen(r->template, "rb");
    char more;
    if (file == NULL) {
        fprintf(stderr, NAME ": %s: cannot be read: %s\n", r->template, strerror(errno));
        return false;
    }
    uint32_t bytes = (uint32_t)fread(r->scratch.source, 1, sizeof r->scratch.source, file);
    bool fits = fread(&more, 1, 1, file) == 0;
    fclose(file);
    if (!fits || chat_recognise(r->scratch.source, bytes, &r->scratch, &r->format) != CHAT_KNOWN) {
        fprintf(stderr, NAME ": %s: not a template that is known\n", r->template);
        return false;
    }
    return true;
}

static bool choose_format(struct render *r)
{
    if (r->template != NULL) {
        return recognise_template(r);
    }
    if (r->format_name == NULL && r->has_vocab) {
        r->format = r->vocabulary.chat->format;
        if (r->vocabulary.chat->verdict == CHAT_UNKNOWN) {
            fprintf(stderr, NAME ": %s: its template is not known; --format chooses\n", r->vocab);
        }
        return r->vocabulary.chat->verdict != CHAT_UNKNOWN;
    }
    r->format.id = r->format_name != NULL ? chat_format_find(r->format_name) : CHAT_PLAIN;
    if (r->format.id == CHAT_FORMATS) {
        fprintf(stderr, NAME ": --format: there is no format '%s'\n", r->format_name);
        return false;
    }
    return true;
}

static void set_token(const struct render *r, const char *given, uint32_t token, char *text)
{
    uint32_t bytes = 0;
    const char *own = r->has_vocab ? vocab_token_text(&r->vocabulary.vocab, token, &bytes) : NULL;
    snprintf(text, CHAT_TOKEN_BYTES, "%.*s", given != NULL ? (int)strlen(given) : (int)bytes,
             given != NULL ? given : own != NULL ? own : "");
}

/* ---- conversations --------------------------------------------------------------------------- */

static json_t *tokens_of(struct render *r, const struct chat_output *output)
{
    const struct vocab_input input = {
        .text = r->text, .bytes = output->text_bytes, .parse_special = true,
        .parts = (const uint8_t *)r->parts, .parts_count = output->parts_count};
    struct vocabulary_tokens tokens;
    json_t *list = json_array();
    if (vocabulary_encode(&r->vocabulary, &input, &tokens, NAME)) {
        for (uint32_t i = 0; i < tokens.count; i++) {
            json_array_append_new(list, json_integer(tokens.ids[i]));
        }
    }
    free(tokens.ids);
    return list;
}

static json_t *answer_of(struct render *r, const struct chat_output *output)
{
    json_t *answer = json_object(), *parts = json_array();
    for (uint32_t i = 0; i < output->parts_count; i++) {
        json_array_append_new(parts, json_integer(r->parts[i]));
    }
    json_object_set_new(answer, "text", json_stringn(r->text, output->text_bytes));
    json_object_set_new(answer, "parts", parts);
    if (r->has_vocab) {
        json_object_set_new(answer, "tokens", tokens_of(r, output));
    }
    return answer;
}

/* A text instead of a conversation is only tokenized, as one that a template wrote. */
static json_t *tokenize(struct render *r, const json_t *text)
{
    struct chat_output output = {.text_bytes = (uint32_t)json_string_length(text)};
    if (output.text_bytes > sizeof r->text) {
        return json_pack("{ss}", "refused", "the text is too long");
    }
    memcpy(r->text, json_string_value(text), output.text_bytes);
    return json_pack("{so}", "tokens", tokens_of(r, &output));
}

static void print_json(json_t *answer)
{
    json_dumpf(answer, stdout, JSON_ENSURE_ASCII);
    putchar('\n');
    json_decref(answer);
}

/* False: this is no conversation. */
static bool render(struct render *r, json_t *json)
{
    const json_t *text = json_object_get(json, "text");
    if (json_is_string(text) && r->has_vocab) {
        print_json(tokenize(r, text));
        return true;
    }
    struct chat_output output = {.text = r->text, .text_max = sizeof r->text, .parts = r->parts,
                                 .parts_max = PARTS_MAX};
    const char *problem = conversation_read(&r->conversation, json);
    enum chat_result result = CHAT_OK;
    if (problem == NULL) {
        result = chat_render(&r->format, &r->conversation.chat, &output);
    } else {
        fprintf(stderr, NAME ": %s\n", problem);
    }
    if (problem == NULL && r->as_text && result == CHAT_OK) {
        struct printable out;
        printable_begin(&out, stdout);
        printable_add(&out, r->text, output.text_bytes);
        printable_end(&out);
    } else if (problem == NULL) {
        print_json(result == CHAT_OK ? answer_of(r, &output)
                                     : json_pack("{ss}", "refused", chat_result_text(result)));
    }
    conversation_drop(&r->conversation);
    return problem == NULL;
}

static int render_all(struct render *r, FILE *file)
{
    json_error_t error = {.line = -1};
    for (;;) {
        int byte;
        while ((byte = getc(file)) == ' ' || byte == '\n') {
        }
        if (byte == EOF) {
            return fflush(stdout) == 0 ? EXIT_COMPLETE : EXIT_SYSTEM;
        }
        ungetc(byte, file);
        json_t *json = json_loadf(file, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, &error);
        if (json == NULL) {
            fprintf(stderr, NAME ": %s: line %d: %s\n", r->file, error.line, error.text);
            return EXIT_USAGE;
        }
        bool done = render(r, json);
        json_decref(json);
        if (!done) {
            return EXIT_USAGE;
        }
    }
}

int render_main(const char *to, int argc, char **argv)
{
    (void)to;                           /* needs no appliance */
    static struct render r;
    int code = parse(&r, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    r.has_vocab = r.vocab != NULL;
    if ((r.has_vocab && !vocabulary_load(&r.vocabulary, r.vocab, NAME)) || !choose_format(&r)) {
        return EXIT_USAGE;
    }
    set_token(&r, r.bos, r.vocabulary.vocab.info.bos_id, r.format.bos);
    set_token(&r, r.eos, r.vocabulary.vocab.info.eos_id, r.format.eos);
    FILE *file = strcmp(r.file, "-") == 0 ? stdin : fopen(r.file, "rb");
    if (file == NULL) {
        fprintf(stderr, NAME ": %s: cannot be read: %s\n", r.file, strerror(errno));
        return EXIT_SYSTEM;
    }
    code = render_all(&r, file);
    if (file != stdin) {
        fclose(file);
    }
    return code;
}
