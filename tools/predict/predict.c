/* SPDX-License-Identifier: MIT */
/*
 * What: `agentix-predict`: reads a predictor as the appliance does and predicts samples with the
 * appliance's own code. A line for each sample on standard output: class, cost, prediction. The
 * error of each class goes to standard error, so the lines can be read by a program.
 *
 * The prompts of samples are read by jansson; docs/predictor.md has their format.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "sched/class/predictor.h"
#include "tools/command_line.h"

#define LINE_BYTES_MAX (64u << 20)

static struct {
    const char *file, *samples;
} words;

static const struct argument rows[] = {
    {"--samples", "FILE", ARGUMENT_TEXT, &words.samples, 0, 0,
     "programs that have ended, a line of JSON each: docs/predictor.md"},
};
static const struct command_line line = {
    .program = "agentix-predict", .usage = "FILE.gguf [--samples FILE]",
    .purpose = "Checks a predictor as the appliance does, and predicts samples with it: a line of\n"
               "class, cost and prediction for each.",
    .operand = &words.file, .rows = rows, .rows_count = sizeof rows / sizeof rows[0]};

struct errors {                     /* of a class: sums of |predicted - C| / C */
    double sum;
    uint64_t count;
};

struct reading {
    const struct predictor *predictor;
    struct errors *errors;          /* [classes] */
    uint32_t *tokens;               /* of the sample */
    size_t room;
    uint64_t number;                /* of the line */
    uint64_t unknown;               /* samples whose class the predictor has not */
};

static int fail(const struct reading *r, const char *problem)
{
    fprintf(stderr, "agentix-predict: %s:%" PRIu64 ": %s\n", words.samples, r->number, problem);
    return EXIT_USAGE;
}

static int out_of_memory(void)
{
    fprintf(stderr, "agentix-predict: out of memory\n");
    return EXIT_SYSTEM;
}

/* ---- the predictor --------------------------------------------------------------------------- */

static int load(struct predictor *predictor)
{
    static struct gguf scratch;
    struct gguf_source source;
    struct config_error error = {.text = ""};
    struct memory_plan plan = {0};
    struct arena arena;
    if (gguf_source_open(&source, words.file, &error) != STATUS_OK ||
        predictor_measure(predictor, &source, &scratch, &error) != STATUS_OK) {
        fprintf(stderr, "agentix-predict: %s\n", error.text);
        return EXIT_USAGE;
    }
    predictor_plan_memory(&plan, predictor);
    if (arena_map(&arena, memory_plan_bytes(&plan, MEMORY_MODEL), false) != STATUS_OK) {
        return out_of_memory();
    }
    if (predictor_load(predictor, &source, &arena, &error) != STATUS_OK) {
        fprintf(stderr, "agentix-predict: %s\n", error.text);
        return EXIT_USAGE;
    }
    gguf_source_close(&source);
    fprintf(stderr, "%s: %u classes, %u samples\n", words.file, predictor->count,
            predictor->samples);
    return EXIT_COMPLETE;
}

/* ---- samples --------------------------------------------------------------------------------- */

static int take_tokens(struct reading *r, const json_t *tokens)
{
    size_t count = json_array_size(tokens);
    if (count == 0 || count > UINT32_MAX) {
        return fail(r, "tokens: expected a list of token ids, at least one");
    }
    if (count > r->room) {
        free(r->tokens);
        r->room = count * 2;
        r->tokens = malloc(r->room * sizeof *r->tokens);
        if (r->tokens == NULL) {
            return out_of_memory();
        }
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *token = json_array_get(tokens, i);
        json_int_t id = json_integer_value(token);
        if (!json_is_integer(token) || id < 0 || id >= UINT32_MAX) {
            return fail(r, "tokens: expected token ids");
        }
        r->tokens[i] = (uint32_t)id;
    }
    return EXIT_COMPLETE;
}

static int predict(struct reading *r, const json_t *sample)
{
    const json_t *name = json_object_get(sample, "class");
    const json_t *tokens = json_object_get(sample, "tokens");
    json_int_t cost = json_integer_value(json_object_get(sample, "cost"));
    if (!json_is_string(name) || cost < 1) {
        return fail(r, "expected class, tokens and cost");
    }
    int code = take_tokens(r, tokens);
    const struct predictor_class *class = sched_predictor_find(
        r->predictor, json_string_value(name), (uint32_t)json_string_length(name));
    if (code != EXIT_COMPLETE || class == NULL) {
        r->unknown += code == EXIT_COMPLETE;
        return code;
    }
    uint64_t predicted = sched_predictor_cost(class, r->tokens, (uint32_t)json_array_size(tokens));
    struct errors *errors = &r->errors[class - r->predictor->classes];
    double off = (double)predicted - (double)cost;
    errors->sum += (off < 0 ? -off : off) / (double)cost;
    errors->count++;
    printf("%s %" JSON_INTEGER_FORMAT " %" PRIu64 "\n", json_string_value(name), cost, predicted);
    return EXIT_COMPLETE;
}

static int predict_line(struct reading *r, const char *text, size_t bytes)
{
    json_t *sample = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    r->number++;
    if (sample == NULL || bytes > LINE_BYTES_MAX) {
        json_decref(sample);
        return fail(r, "expected a line of JSON");
    }
    int code = predict(r, sample);
    json_decref(sample);
    return code;
}

static void report(const struct reading *r)
{
    for (uint32_t i = 0; i < r->predictor->count; i++) {
        const struct predictor_class *class = &r->predictor->classes[i];
        if (r->errors[i].count > 0) {
            fprintf(stderr, "%.*s: %" PRIu64 " samples, off by %.0f %% in the mean\n",
                    (int)class->name_bytes, class->name, r->errors[i].count,
                    100 * r->errors[i].sum / (double)r->errors[i].count);
        }
    }
    if (r->unknown > 0) {
        fprintf(stderr, "%" PRIu64 " samples are of classes that the predictor has not\n",
                r->unknown);
    }
}

static int predict_all(const struct predictor *predictor)
{
    struct reading r = {.predictor = predictor};
    FILE *file = fopen(words.samples, "r");
    char *text = NULL;
    size_t room = 0;
    ssize_t bytes = 0;
    int code = EXIT_COMPLETE;
    r.errors = calloc(predictor->count, sizeof *r.errors);
    if (file == NULL || r.errors == NULL) {
        perror(words.samples);
        return EXIT_SYSTEM;
    }
    while (code == EXIT_COMPLETE && (bytes = getline(&text, &room, file)) > 0) {
        code = predict_line(&r, text, (size_t)bytes);
    }
    if (code == EXIT_COMPLETE) {
        report(&r);
    }
    free(text);
    free(r.tokens);
    free(r.errors);
    fclose(file);
    return code;
}

int main(int argc, char **argv)
{
    struct predictor predictor;
    int code = command_line_parse(&line, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    code = load(&predictor);
    if (code == EXIT_COMPLETE && words.samples != NULL) {
        code = predict_all(&predictor);
    }
    return code == EXIT_COMPLETE && (fflush(stdout) != 0 || ferror(stdout)) ? EXIT_SYSTEM : code;
}
