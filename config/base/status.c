/* SPDX-License-Identifier: MIT */
#include "config/base/status.h"

#include "config/base/assert.h"

struct status_row {
    const char *name;
    const char *text;
    enum status_class class;
    uint16_t wire;
};

static const struct status_row rows[STATUS_COUNT] = {
#define STATUS(name, class, wire, text) {#name, text, STATUS_CLASS_##class, wire},
#include "config/base/status.def"
#undef STATUS
};

const char *status_text(enum status status)
{
    ASSERT(status < STATUS_COUNT);
    return rows[status].text;
}

const char *status_name(enum status status)
{
    ASSERT(status < STATUS_COUNT);
    return rows[status].name;
}

enum status_class status_class(enum status status)
{
    ASSERT(status < STATUS_COUNT);
    return rows[status].class;
}

uint16_t status_wire(enum status status)
{
    ASSERT(status < STATUS_COUNT);
    return rows[status].wire;
}

enum status status_from_wire(uint16_t code)
{
    if (code == 0) {
        return STATUS_OK;
    }
    for (uint32_t i = 0; i < STATUS_COUNT; i++) {
        if (rows[i].wire == code) {
            return (enum status)i;
        }
    }
    return STATUS_DEVICE_FAILED;
}
