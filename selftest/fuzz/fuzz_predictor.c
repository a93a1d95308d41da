/* SPDX-License-Identifier: MIT */
/*
 * Goal: no bytes of a predictor's file break its reader, and no accepted predictor and prompt break
 * a prediction. A refusal is one line of printable ASCII that names an offset in the file. Of an
 * accepted class every number is in its range, it is found by its name, and its predictions lie in
 * its range.
 * Method: the input is the beginning of the file; zeros follow, enough for the weights of some
 * classes. The prompt is the same bytes. The table of keys is private to its source, which is
 * therefore included.
 */
#include <math.h>
#include <stdlib.h>

#include "config/model/gguf_keys.c"
#include "config/model/predictor.h"
#include "sched/class/predictor.h"
#include "selftest/fuzz/dictionary.h"
#include "selftest/fuzz/message.h"

#define INPUT_BYTES_MAX 4096
#define CLASSES_MAX     4
#define FILE_BYTES      (INPUT_BYTES_MAX + CLASSES_MAX * sizeof(struct predictor_class))
#define NAME            "fuzz.gguf"

static _Alignas(ARENA_ALIGN_BYTES) uint8_t memory[FILE_BYTES + ARENA_ALIGN_BYTES];
static uint8_t file[FILE_BYTES];
static struct gguf gguf;

static void check_place(const struct config_error *error)
{
    static const char start[] = NAME ": offset ";
    char *end = NULL;
    message_check(error);
    ASSERT(strncmp(error->text, start, sizeof start - 1) == 0);
    ASSERT(strtoull(error->text + sizeof start - 1, &end, 10) <= sizeof file);
    ASSERT(end[0] == ':' && end[1] == ' ');
}

static void check_class(const struct predictor *predictor, const struct predictor_class *class)
{
    const uint32_t *prompt = (const uint32_t *)(const void *)file;
    const uint32_t counts[] = {0, 1, 2, 77, INPUT_BYTES_MAX / 4, UINT32_MAX};
    ASSERT(class->samples > 0 && class->low >= 0 && class->high <= PREDICTOR_LOG_MAX);
    ASSERT(class->low <= class->mean && class->mean <= class->high);
    ASSERT(sched_predictor_find(predictor, class->name, class->name_bytes) == class);
    double low = exp((double)class->low) * (1 - 1e-9) - 1;
    double high = exp((double)class->high) * (1 + 1e-9) + 1;
    for (uint32_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        double cost = (double)sched_predictor_cost(class, prompt, counts[i]);
        ASSERT(cost >= 1 && cost >= low && cost <= high);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct gguf_source source;
    struct predictor predictor;
    struct memory_plan plan = {0};
    struct config_error error = {{0}};
    if (count > INPUT_BYTES_MAX) {
        return 0;
    }
    memset(file, 0, sizeof file);
    memcpy(file, bytes, count);
    gguf_source_memory(&source, file, sizeof file, NAME);
    if (predictor_measure(&predictor, &source, &gguf, &error) != STATUS_OK) {
        check_place(&error);
        return 0;
    }
    predictor_plan_memory(&plan, &predictor);
    struct arena arena = {.base = memory, .size_bytes = memory_plan_bytes(&plan, MEMORY_MODEL)};
    ASSERT(arena.size_bytes <= sizeof memory);
    ASSERT(predictor_load(&predictor, &source, &arena, &error) == STATUS_OK);
    ASSERT(arena.used_bytes == arena.size_bytes);
    for (uint32_t i = 0; i < predictor.count; i++) {
        check_class(&predictor, &predictor.classes[i]);
    }
    return 0;
}

/* The keys of a predictor, with the lengths before them. */
void dictionary_write(void)
{
    static const char family[] = "predictor.";
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t word[DICTIONARY_WORD_BYTES_MAX];
        uint64_t length = strlen(rows[i].key);
        if (strncmp(rows[i].key, family, sizeof family - 1) == 0) {
            ASSERT(sizeof length + length <= sizeof word);
            memcpy(word, &length, sizeof length);
            memcpy(word + sizeof length, rows[i].key, length);
            dictionary_word(word, (uint32_t)(sizeof length + length));
        }
    }
    const float numbers[] = {PREDICTOR_LOG_MAX, 1, NAN, INFINITY};
    for (uint32_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        dictionary_word(&numbers[i], sizeof numbers[i]);
    }
    dictionary_number(PREDICTOR_WEIGHTS, 8);
    dictionary_number(CALL_CLASS_BYTES, 8);
    dictionary_number(UINT64_MAX, 8);
}
