/* SPDX-License-Identifier: MIT */
#include "config/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config/base/assert.h"

/*
 * What: boot errors as one line of printable ASCII, `where: section.key = value: problem, allowed
 * range`.
 * Why stdio: boot errors contain numbers and are written before the seal. The core does not call
 * this file after boot; tools/symbols checks that.
 */

static void append(struct config_error *error, const char *format, va_list arguments)
{
    size_t length = strlen(error->text);
    ASSERT(length < sizeof error->text);
    (void)vsnprintf(error->text + length, sizeof error->text - length, format, arguments);
    for (; error->text[length] != '\0'; length++) {
        if (error->text[length] < 0x20 || error->text[length] > 0x7e) {
            error->text[length] = '?';      /* like a tab in a key, any byte in a path */
        }
    }
}

enum status config_error_add(struct config_error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append(error, format, arguments);
    va_end(arguments);
    return STATUS_CONFIG_OPTION;
}

enum status config_error_set(struct config_error *error, const char *format, ...)
{
    va_list arguments;
    error->text[0] = '\0';
    va_start(arguments, format);
    append(error, format, arguments);
    va_end(arguments);
    return STATUS_CONFIG_OPTION;
}

void config_error_begin(struct config_error *error, const struct options *options,
                        const struct option_row *row)
{
    char text[CONFIG_TEXT_BYTES];
    const struct option_value *value = config_value(options, row);
    uint32_t length = config_format(row, value, text, sizeof text);
    if (value->line == CONFIG_LINE_SET) {
        config_error_set(error, "--set: ");
    } else if (value->line == 0) {
        config_error_set(error, "default: ");
    } else {
        config_error_set(error, "%s:%u: ", options->source, value->line);
    }
    config_error_add(error, "%s.%s = %.*s: ", row->section, row->key, (int)length, text);
}

enum status config_error_of(const char *option, enum status status, struct config_error *error)
{
    if (status != STATUS_OK) {
        struct config_error said = *error;
        config_error_set(error, "%s = %s", option, said.text);
    }
    return status;
}
