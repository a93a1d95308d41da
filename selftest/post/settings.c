/* SPDX-License-Identifier: MIT */
/* What: the self-test's part of the command line. */
#include <string.h>
#include <sys/random.h>

#include "config/base/assert.h"
#include "config/value.h"
#include "selftest/post/post.h"

#define FLIPS_DEFAULT   10000u
#define MINUTES_DEFAULT 60u
#define MINUTES_MAX     (60u * 24 * 365)
#define MEMORY_MAX      (UINT64_C(1) << 48)     /* what a process can map at all */

struct level_word {
    const char *word;
    enum post_level level;
};
static const struct level_word words[] = {
    {"--selftest", POST_QUICK},
    {"--selftest=quick", POST_QUICK},
    {"--selftest=full", POST_FULL},
    {"--selftest=soak", POST_SOAK},
    {"--selftest-inject", POST_INJECT},
};

void post_settings_init(struct post_settings *settings)
{
    *settings = (struct post_settings){.minutes = MINUTES_DEFAULT, .flips = FLIPS_DEFAULT};
    (void)!getrandom(&settings->seed, sizeof settings->seed, 0);
}

void post_choose_engine(struct post_settings *settings, struct options *options)
{
    struct config_error error;
    switch (option_engine_kind(options)) {
    case OPTION_ENGINE_KIND_CPU:
        settings->gpu = POST_NO_GPU;
        break;
    case OPTION_ENGINE_KIND_CUDA:
        settings->gpu = POST_GPU;
        break;
    case OPTION_ENGINE_KIND_AUTO:
        settings->gpu = POST_GPU_IF_ANY;
        break;
    }
    bool is_set = config_set(options, "engine.kind=cpu", &error) == STATUS_OK;
    ASSERT(is_set);
}

static bool is_level(struct post_settings *settings, const char *word)
{
    for (uint32_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(word, words[i].word) == 0) {
            settings->level = words[i].level;
            return true;
        }
    }
    return false;
}

/* The grammar is that of options. */
static const char *read_number(const char *text, const struct option_row *row, uint64_t *number)
{
    struct option_value value = {.number = 0};
    const char *problem = NULL;
    if (config_value_parse(row, text, &value, &problem) != STATUS_OK) {
        return problem;
    }
    *number = value.number;
    return NULL;
}

bool post_settings_take(struct post_settings *settings, int argc, char **argv, int *at,
                        const char **problem)
{
    static const char inject[] = "--selftest-inject=";
    static const struct option_row flips = {.type = OPTION_COUNT, .min = 1, .max = UINT32_MAX};
    const struct {
        struct option_row row;
        uint64_t *number;
    } numbers[] = {
        {{.key = "--selftest-memory", .type = OPTION_BYTES, .min = 4096, .max = MEMORY_MAX},
         &settings->memory_bytes},
        {{.key = "--selftest-minutes", .type = OPTION_COUNT, .max = MINUTES_MAX},
         &settings->minutes},
        {{.key = "--seed", .type = OPTION_COUNT, .max = UINT64_MAX}, &settings->seed},
    };
    const char *word = argv[*at];
    *problem = NULL;
    if (is_level(settings, word)) {
        return true;
    }
    if (strncmp(word, inject, sizeof inject - 1) == 0) {
        settings->level = POST_INJECT;
        *problem = read_number(word + sizeof inject - 1, &flips, &settings->flips);
        return true;
    }
    for (uint32_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(word, numbers[i].row.key) == 0) {
            const char *text = *at + 1 < argc ? argv[++*at] : "";
            *problem = read_number(text, &numbers[i].row, numbers[i].number);
            return true;
        }
    }
    return false;
}
