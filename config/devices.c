/* SPDX-License-Identifier: MIT */
#include "config/devices.h"

#include "config/base/assert.h"
#include "config/error.h"
#include "config/options.h"

/*
 * What: a list of devices, `0, 1`: decimal numbers, a comma between two, blanks after a comma.
 * Why no ranges and no word for all: the list says how many engines there are and which device
 * engine 2 is, in the file that the operator reads when health names engine 2.
 */

/* Reads one number; false: there is none, or it is no device's. */
static bool take_number(const char **text, uint32_t *number)
{
    const char *at = *text;
    *number = 0;
    for (; *at >= '0' && *at <= '9' && *number < BOUND_DEVICES; at++) {
        *number = *number * 10 + (uint32_t)(*at - '0');
    }
    bool is_there = at != *text && *number < BOUND_DEVICES;
    *text = at;
    return is_there;
}

/* True at the end, or at the number after a comma. */
static bool take_comma(const char **text)
{
    bool is_comma = **text == ',';
    const char *at = *text + (is_comma ? 1 : 0);
    while (is_comma && *at == ' ') {
        at++;
    }
    *text = at;
    return is_comma == (*at != '\0');
}

static bool is_among(const struct config_devices *devices, uint32_t number)
{
    for (uint32_t i = 0; i < devices->count; i++) {
        if (devices->numbers[i] == number) {
            return true;
        }
    }
    return false;
}

/* NULL: the list is right. */
static const char *problem_of(struct config_devices *devices, const char *text)
{
    do {
        uint32_t number = 0;
        if (devices->count == BOUND_ENGINES) {
            return "more than 8 devices";
        }
        if (!take_number(&text, &number) || !take_comma(&text)) {
            return "not a list of devices";
        }
        if (is_among(devices, number)) {
            return "a device is named twice";
        }
        devices->numbers[devices->count++] = number;
    } while (*text != '\0');
    return NULL;
}

enum status config_devices_fill(struct config_devices *devices, const struct options *options,
                                struct config_error *error)
{
    *devices = (struct config_devices){.count = 0};
    const char *problem = problem_of(devices, options->engine_devices.text);
    if (problem == NULL) {
        return STATUS_OK;
    }
    const struct option_row *row = config_options_find("engine", "devices");
    ASSERT(row != NULL);
    config_error_begin(error, options, row);
    return config_error_add(error, "%s, allowed up to 8 different numbers, 0 .. 63, like 0, 1",
                            problem);
}
STATIC_ASSERT(BOUND_ENGINES == 8 && BOUND_DEVICES == 64, "the texts above say 8 and 63");
