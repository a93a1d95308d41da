/* SPDX-License-Identifier: MIT
 *
 * What: the engine's probabilities of given tokens, for comparison with another engine on the same
 * model file (tools/bench/llamacpp.cpp has the same interface):
 *
 *     bench-scores MODEL.gguf score [--threads N]       log-probabilities of the given ids
 *         [--kv f32|f16|q8] [--keep FILE] [--expect FILE]
 *     bench-scores MODEL.gguf greedy N [--threads N]    the next N ids, the likeliest each time
 *     bench-scores MODEL.gguf sample N [--threads N]    the next N ids, drawn at temperature 1
 *
 * Each line of standard input is a JSON list of ids; its answer is a line
 *
 *     score           {"logprob": [...], "gap": [...], "expected": [...]}, for every id but the
 *                     first: the log-probability of the id; by how much the largest logit exceeds
 *                     the second; the expected log-probability, see below
 *     greedy, sample  [...], the new ids
 *
 * --keep writes probabilities, floats, (ids but the first of each line, vocabulary). --expect reads
 * such a file: the expected log-probability is the mean over all ids, weighted with the file's
 * probabilities; without the file, all ids have the same weight. That tells engines apart with far
 * fewer tokens than the ids of a text.
 *
 * Method: up to CALLS_MAX lines at once, a row each. `score` feeds one token a step to every row,
 * as decoding does; `greedy` and `sample` feed prompts whole. So both paths through the engine are
 * compared, in batches.
 */
#include <math.h>
#include <unistd.h>

#include "tools/bench/engine.h"
#include "tools/command_line.h"

#define CALLS_MAX     32u
#define BLOCK_TOKENS  16u
#define STEPS         8u            /* decode steps of a plan */
#define LINE_BYTES    (1u << 20)
#define THREADS_MAX   64u

enum verb { SCORE, GREEDY, SAMPLE };

struct line {
    uint32_t *ids;
    uint32_t count;
    uint32_t made;                  /* of those, made by the engine */
    uint64_t first_position;        /* of all lines' */
    double *logprob, *gap, *expected;   /* (count - 1) */
};

struct scores {
    struct engine engine;
    enum verb verb;
    uint32_t wanted;                /* ids to make, whole plans */
    uint32_t call_blocks;
    struct line *lines;
    uint32_t lines_count;
    uint32_t longest, vocab_tokens;
    uint64_t positions;
    FILE *keep, *expect;            /* NULL: not given */
    float *chances;                 /* (vocab_tokens) */
};
static struct scores scores;

static void *take(size_t count, size_t size)
{
    void *memory = calloc(count > 0 ? count : 1, size);
    if (memory == NULL) {
        fail("no memory");
    }
    return memory;
}

/* ---- input ---- */

/* Digits are ids; all other bytes separate them. */
static void read_ids(struct line *line, const char *text)
{
    for (const char *at = text; *at != 0;) {
        if (*at < '0' || *at > '9') {
            at++;
            continue;
        }
        char *end;
        unsigned long id = strtoul(at, &end, 10);
        if (id >= scores.vocab_tokens) {
            fail("an id is not in the vocabulary");
        }
        line->ids[line->count++] = (uint32_t)id;
        at = end;
    }
    if (line->count == 0) {
        fail("a line without ids");
    }
}

static void add_line(const char *text)
{
    scores.lines = realloc(scores.lines, (scores.lines_count + 1) * sizeof *scores.lines);
    if (scores.lines == NULL) {
        fail("no memory");
    }
    struct line *line = &scores.lines[scores.lines_count++];
    size_t most = strlen(text) / 2 + 1 + scores.wanted;     /* an id and a separator */
    *line = (struct line){.ids = take(most, sizeof *line->ids)};
    read_ids(line, text);
    line->logprob = take(line->count, sizeof *line->logprob);
    line->gap = take(line->count, sizeof *line->gap);
    line->expected = take(line->count, sizeof *line->expected);
    line->first_position = scores.positions;
    scores.positions += line->count - 1;
    scores.longest = line->count > scores.longest ? line->count : scores.longest;
}

static void read_lines(void)
{
    char *text = take(LINE_BYTES, 1);
    while (fgets(text, LINE_BYTES, stdin) != NULL) {
        add_line(text);
    }
    free(text);
    if (scores.lines_count == 0) {
        fail("no lines");
    }
}

static void start(uint32_t threads, enum kernels_kv_type kv_type)
{
    uint32_t context = scores.longest + scores.wanted + 1;
    scores.call_blocks = (context + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
    struct kernels_settings settings = {
        .simd = kernels_simd_best(), .threads = threads, .batch_calls = CALLS_MAX,
        .steps_per_plan = STEPS, .step_tokens = CALLS_MAX * scores.longest,
        .context_tokens = scores.call_blocks * BLOCK_TOKENS, .kv_block_tokens = BLOCK_TOKENS,
        .kv_blocks = CALLS_MAX * scores.call_blocks, .blocks_per_call = scores.call_blocks,
        .kv_type = kv_type,
    };
    engine_start(&scores.engine, &settings, 0);
}

/* ---- scores ---- */

static void seek(FILE *file, uint64_t position)
{
    if (fseeko(file, (off_t)(position * scores.vocab_tokens * sizeof *scores.chances), SEEK_SET)) {
        fail("a file of probabilities cannot be sought");
    }
}

static void keep(const float *logits, double log_sum, uint64_t position)
{
    for (uint32_t i = 0; i < scores.vocab_tokens; i++) {
        scores.chances[i] = (float)exp((double)logits[i] - log_sum);
    }
    seek(scores.keep, position);
    if (fwrite(scores.chances, sizeof *scores.chances, scores.vocab_tokens, scores.keep) !=
        scores.vocab_tokens) {
        fail("probabilities cannot be written");
    }
}

/* Probabilities are rounded and need not add up to one. */
static double expect(const float *logits, uint64_t position)
{
    double sum = 0, all = 0;
    if (scores.expect != NULL) {
        seek(scores.expect, position);
        if (fread(scores.chances, sizeof *scores.chances, scores.vocab_tokens, scores.expect) !=
            scores.vocab_tokens) {
            fail("too few probabilities");
        }
    }
    for (uint32_t i = 0; i < scores.vocab_tokens; i++) {
        double chance = scores.expect != NULL ? (double)scores.chances[i] : 1;
        sum += chance * (double)logits[i];
        all += chance;
    }
    return sum / all;
}

/* Scores the id after `at` of a line by the logits. */
static void judge(const float *logits, struct line *line, uint32_t at)
{
    double largest = -INFINITY, second = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < scores.vocab_tokens; i++) {
        double logit = (double)logits[i];
        second = logit > largest ? largest : logit > second ? logit : second;
        largest = logit > largest ? logit : largest;
    }
    for (uint32_t i = 0; i < scores.vocab_tokens; i++) {
        sum += exp((double)logits[i] - largest);
    }
    double log_sum = largest + log(sum);
    line->logprob[at] = (double)logits[line->ids[at + 1]] - log_sum;
    line->gap[at] = largest - second;
    line->expected[at] = expect(logits, line->first_position + at) - log_sum;
    if (scores.keep != NULL) {
        keep(logits, log_sum, line->first_position + at);
    }
}

/* Feeds position `at` of every line that goes on after it. */
static uint32_t score_position(struct line *lines, uint32_t count, uint32_t at)
{
    struct line *fed[CALLS_MAX];
    uint32_t rows = 0;
    engine_step_begin(&scores.engine);
    for (uint32_t i = 0; i < count; i++) {
        if (at + 1 < lines[i].count) {
            struct engine_row row = {.tokens_count = 1, .first_position = at, .decode_steps = 1,
                                     .blocks_first = i * scores.call_blocks,
                                     .sampling = {.top_p = 1, .repeat_penalty = 1}};
            *engine_row_add(&scores.engine, &row) = lines[i].ids[at];
            fed[rows++] = &lines[i];
        }
    }
    if (rows > 0) {
        engine_run(&scores.engine);
    }
    for (uint32_t r = 0; r < rows; r++) {
        judge(kernels_logits(scores.engine.kernels, r), fed[r], at);
    }
    return rows;
}

static void print_numbers(const char *name, const double *values, uint32_t count)
{
    printf("\"%s\": [", name);
    for (uint32_t i = 0; i < count; i++) {
        printf("%s%.7f", i == 0 ? "" : ", ", values[i]);
    }
    printf("]");
}

static void score(struct line *lines, uint32_t count)
{
    for (uint32_t at = 0; score_position(lines, count, at) > 0; at++) {
    }
    for (uint32_t i = 0; i < count; i++) {
        printf("{");
        print_numbers("logprob", lines[i].logprob, lines[i].count - 1);
        printf(", ");
        print_numbers("gap", lines[i].gap, lines[i].count - 1);
        printf(", ");
        print_numbers("expected", lines[i].expected, lines[i].count - 1);
        printf("}\n");
    }
}

/* ---- new ids ---- */

/* First the prompts, then the last token of each plan. */
static void extend_plan(struct line *lines, uint32_t count)
{
    engine_step_begin(&scores.engine);
    for (uint32_t i = 0; i < count; i++) {
        struct line *line = &lines[i];
        uint32_t tokens = line->made == 0 ? line->count : 1;
        struct engine_row row = {
            .tokens_count = tokens, .first_position = line->count - tokens,
            .decode_steps = STEPS, .blocks_first = i * scores.call_blocks,
            .sampling = {.temperature = scores.verb == SAMPLE ? 1 : 0, .top_p = 1,
                         .repeat_penalty = 1, .seed = (uint64_t)(line - scores.lines)}};
        memcpy(engine_row_add(&scores.engine, &row), line->ids + line->count - tokens,
               tokens * sizeof *line->ids);
    }
    engine_run(&scores.engine);
    for (uint32_t i = 0; i < count; i++) {
        if (step_out(&scores.engine.step, i)->produced != STEPS) {
            fail("the engine gave up a row");
        }
        memcpy(lines[i].ids + lines[i].count, step_out_tokens(&scores.engine.step, i),
               STEPS * sizeof *lines[i].ids);
        lines[i].count += STEPS;
        lines[i].made += STEPS;
    }
}

static void extend(struct line *lines, uint32_t count, uint32_t wanted)
{
    while (lines[0].made < wanted) {
        extend_plan(lines, count);
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t *made = lines[i].ids + lines[i].count - lines[i].made;
        for (uint32_t n = 0; n < wanted; n++) {
            printf("%s%u", n == 0 ? "[" : ", ", made[n]);
        }
        printf("]\n");
    }
}

static FILE *open_file(const char *path, const char *mode)
{
    FILE *file = fopen(path, mode);
    if (file == NULL) {
        fail("a file of probabilities cannot be opened");
    }
    return file;
}

struct words {
    const char *model, *keep, *expect;
    struct argument_choice weights, kv;
    uint32_t threads, wanted;
};

static uint32_t number(const char *text, uint32_t max)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*end != 0 || end == text || value == 0 || value > max) {
        fail("a number is out of range");
    }
    return (uint32_t)value;
}

/* After the model: `score`, or another verb and a number. */
static int parse_verb(const struct command_line *line, struct words *words, uint32_t count,
                      char **operands)
{
    static const char *const verbs[] = {"score", "greedy", "sample"};
    for (scores.verb = SCORE; count > 1 && scores.verb <= SAMPLE; scores.verb++) {
        if (strcmp(operands[1], verbs[scores.verb]) == 0) {
            break;
        }
    }
    if (count < 2 || scores.verb > SAMPLE || count != (scores.verb == SCORE ? 2 : 3)) {
        command_line_help(line, stderr);
        return EXIT_USAGE;
    }
    words->model = operands[0];
    if (scores.verb != SCORE) {
        words->wanted = number(operands[2], 1u << 16);
        scores.wanted = (words->wanted + STEPS - 1) / STEPS * STEPS;
    }
    return ARGUMENT_GO_ON;
}

static int parse(struct words *words, int argc, char **argv)
{
    uint32_t operands = 0;
    const struct argument rows[] = {
        {"--threads", "N", ARGUMENT_U32, &words->threads, 1, THREADS_MAX, "(default: all CPUs)"},
        {"--weights", "KIND", ARGUMENT_CHOICE, &words->weights, 0, 0,
         "file (default), or bf16: of these numbers alone"},
        {"--kv", "TYPE", ARGUMENT_CHOICE, &words->kv, 0, 0, "f32 (default), f16 or q8"},
        {"--keep", "FILE", ARGUMENT_TEXT, &words->keep, 0, 0, "write probabilities"},
        {"--expect", "FILE", ARGUMENT_TEXT, &words->expect, 0, 0, "read such a file"},
    };
    const struct command_line line = {
        .program = "bench-scores", .usage = "MODEL.gguf score|greedy N|sample N [OPTION]...",
        .purpose = "What the engine makes of the lists of ids on standard input.",
        .operands_count = &operands, .rows = rows, .rows_count = sizeof rows / sizeof rows[0]};
    int code = command_line_parse(&line, argc, argv);
    return code == ARGUMENT_GO_ON ? parse_verb(&line, words, operands, argv + 1) : code;
}

static void answer_lines(uint32_t wanted)
{
    for (uint32_t first = 0; first < scores.lines_count; first += CALLS_MAX) {
        uint32_t left = scores.lines_count - first, here = left < CALLS_MAX ? left : CALLS_MAX;
        if (scores.verb == SCORE) {
            score(scores.lines + first, here);
        } else {
            extend(scores.lines + first, here, wanted);
        }
    }
}

int main(int argc, char **argv)
{
    struct words words = {.weights.words = (const char *const[]){"file", "bf16", NULL},
                          .kv.words = (const char *const[]){"f32", "f16", "q8", NULL},
                          .threads = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN)};
    int code = parse(&words, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    scores.keep = words.keep != NULL ? open_file(words.keep, "wb") : NULL;
    scores.expect = words.expect != NULL ? open_file(words.expect, "rb") : NULL;
    model_load(&scores.engine.model, words.model, words.weights.chosen == 1);
    scores.vocab_tokens = scores.engine.model.gguf.shape.vocab_tokens;
    scores.chances = take(scores.vocab_tokens, sizeof *scores.chances);
    read_lines();
    start(words.threads, (enum kernels_kv_type)words.kv.chosen);
    answer_lines(words.wanted);
    kernels_stop(scores.engine.kernels);
    if (scores.keep != NULL && fclose(scores.keep) != 0) {
        fail("probabilities cannot be written");
    }
    return 0;
}
