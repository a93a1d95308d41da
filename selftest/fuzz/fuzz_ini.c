/* SPDX-License-Identifier: MIT */
/*
 * Goal: no bytes of an INI file break the parser: no crash, no message that is not one line of
 * printable ASCII, no value outside its row's range, and the relations and limits of what loads are
 * refused or hold.
 * Method: the input is the file; what it does not name has its default. Seeds lie in corpus/ini.
 */
#include <stdlib.h>
#include <string.h>

#include "appliance/base/assert.h"
#include "config/config.h"
#include "config/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check_message(const struct config_error *error)
{
    size_t length = strnlen(error->text, sizeof error->text);
    ASSERT(length > 0 && length < sizeof error->text);
    for (size_t i = 0; i < length; i++) {
        ASSERT(error->text[i] >= 0x20 && error->text[i] <= 0x7e);
    }
}

static void check_values(const struct options *options)
{
    for (uint32_t i = 0; i < config_option_rows_count; i++) {
        const struct option_row *row = &config_option_rows[i];
        const struct option_value *value = config_value(options, row);
        char text[CONFIG_TEXT_BYTES];
        ASSERT(config_format(row, value, text, sizeof text) < sizeof text);
        if (row->type == OPTION_TEXT || row->type == OPTION_CHOICE) {
            ASSERT(strnlen(value->text, sizeof value->text) < sizeof value->text);
        } else {
            ASSERT(value->number >= row->min && value->number <= row->max);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct options options;
    static const struct model_shape shape = {.vocab_tokens = 512, .context_tokens = 4096};
    struct config_error error = {{0}};
    struct limits limits;
    config_defaults(&options);
    if (config_load_bytes(&options, "fuzz.ini", (const char *)bytes, count, &error) != STATUS_OK) {
        check_message(&error);
        check_values(&options);
        return 0;
    }
    check_values(&options);
    if (config_check(&options, &error) != STATUS_OK ||
        config_limits(&limits, &options, &shape, 4, &error) != STATUS_OK) {
        check_message(&error);
    }
    return 0;
}
