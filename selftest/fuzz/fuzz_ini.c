/* SPDX-License-Identifier: MIT */
/*
 * Goal: no bytes of an INI file break the parser. A refusal is one line of printable ASCII that
 * names a place in the input. Every value is in its row's range. Options that load are the same
 * when they are printed and loaded again, from a file and by --set. Relations and limits hold or
 * are refused.
 * Method: the input is the file; options that it does not name have their defaults. An input of one
 * short line is also an argument of --set.
 */
#include <stdlib.h>
#include <string.h>

#include "config/model/gguf.h"
#include "selftest/fuzz/message.h"
#include "selftest/fuzz/option_words.h"

#define NAME        "fuzz.ini"
#define PRINT_BYTES 32768

static struct options defaults;

struct place {
    unsigned long line, column;     /* 0: not named */
};

static struct place place_of(const struct config_error *error)
{
    struct place place = {0};
    char *end = NULL;
    ASSERT(strncmp(error->text, NAME ":", sizeof NAME) == 0);
    if (error->text[sizeof NAME] == ' ') {
        return place;               /* the file as a whole */
    }
    place.line = strtoul(error->text + sizeof NAME, &end, 10);
    ASSERT(*end == ':');
    if (end[1] != ' ') {
        place.column = strtoul(end + 1, &end, 10);
        ASSERT(*end == ':' && place.column > 0);
    }
    ASSERT(place.line > 0);
    return place;
}

/* The line is one of the input; the column is one of its bytes, or one after them. */
static void check_place(const struct config_error *error, const uint8_t *bytes, size_t count)
{
    struct place place = place_of(error);
    const uint8_t *start = bytes, *end = bytes + count;
    for (unsigned long line = 1; line < place.line; line++) {
        start = memchr(start, '\n', (size_t)(end - start));
        ASSERT(start != NULL);
        start++;
    }
    const uint8_t *newline = memchr(start, '\n', (size_t)(end - start));
    ASSERT(place.column <= (size_t)((newline != NULL ? newline : end) - start) + 1);
}

static void check_values(const struct options *options)
{
    for (uint32_t i = 0; i < config_option_rows_count; i++) {
        const struct option_row *row = &config_option_rows[i];
        const struct option_value *value = config_value(options, row);
        if (row->type == OPTION_TEXT) {
            ASSERT(strnlen(value->text, sizeof value->text) < sizeof value->text);
        } else {
            ASSERT(value->number >= row->min && value->number <= row->max);
        }
    }
}

static void check_equal(const struct options *options, const struct options *again)
{
    for (uint32_t i = 0; i < config_option_rows_count; i++) {
        const struct option_value *one = config_value(options, &config_option_rows[i]);
        const struct option_value *other = config_value(again, &config_option_rows[i]);
        ASSERT((one->line == 0) == (other->line == 0));
        ASSERT(one->number == other->number && strcmp(one->text, other->text) == 0);
    }
}

static void check_set(const struct option_row *row, const struct option_value *value,
                      struct options *again)
{
    char bytes[2 * CONFIG_TEXT_BYTES];
    struct config_error error;
    struct text text;
    text_init(&text, bytes, sizeof bytes);
    text_add(&text, row->section);
    text_add(&text, ".");
    (void)option_words_assign(&text, row, value);
    text_add_bytes(&text, "", 1);
    ASSERT(!text.cut && config_set(again, bytes, &error) == STATUS_OK);
}

/* Options that are written as a file and as --set load as they were. */
static void check_round_trip(const struct options *options)
{
    static char bytes[PRINT_BYTES];
    static struct options by_file, by_set;
    struct config_error error;
    struct text text;
    text_init(&text, bytes, sizeof bytes);
    by_file = by_set = defaults;
    for (uint32_t i = 0; i < config_option_rows_count; i++) {
        const struct option_row *row = &config_option_rows[i];
        const struct option_value *value = config_value(options, row);
        if (value->line == 0) {
            continue;
        }
        text_add(&text, "[");
        text_add(&text, row->section);
        text_add(&text, "]\n");
        ASSERT(option_words_assign(&text, row, value) <= CONFIG_LINE_BYTES_MAX);
        text_add(&text, "\n");
        check_set(row, value, &by_set);
    }
    ASSERT(!text.cut);
    if (text.length > 0) {
        ASSERT(config_load_bytes(&by_file, NAME, bytes, text.length, &error) == STATUS_OK);
    }
    check_equal(options, &by_file);
    check_equal(options, &by_set);
}

static void check_relations(const struct options *options)
{
    static const struct model_shape shape = {.vocab_tokens = 512, .context_tokens = 4096};
    static const struct config_machine machine = {.cpus = 4};
    struct config_error error = {{0}};
    struct limits limits;
    if (config_check(options, &error) != STATUS_OK ||
        config_limits(&limits, options, &shape, &machine, &error) != STATUS_OK) {
        message_check(&error);
    }
}

static void set_line(const uint8_t *bytes, size_t count)
{
    static struct options options;
    struct config_error error = {{0}};
    char line[CONFIG_LINE_BYTES_MAX + 1];
    if (count >= sizeof line || memchr(bytes, '\n', count) != NULL) {
        return;
    }
    memcpy(line, bytes, count);
    line[count] = '\0';
    options = defaults;
    if (config_set(&options, line, &error) != STATUS_OK) {
        message_check(&error);
    }
    check_values(&options);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct options options;
    static bool ready;
    struct config_error error = {{0}};
    if (!ready) {
        config_defaults(&defaults);
        ready = true;
    }
    options = defaults;
    set_line(bytes, count);
    if (config_load_bytes(&options, NAME, (const char *)bytes, count, &error) != STATUS_OK) {
        message_check(&error);
        check_place(&error, bytes, count);
        check_values(&options);
        return 0;
    }
    check_values(&options);
    check_round_trip(&options);
    check_relations(&options);
    return 0;
}

void dictionary_write(void)
{
    option_words_write();
}
