/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the one status type. Fallible functions return `enum status`, out-parameters last.
 * errno ends at the system call wrapper; text lives in status.def.
 */
#include <stdint.h>

#define MUST_CHECK __attribute__((warn_unused_result))

enum status {
#define STATUS(name, class, wire, text) STATUS_##name,
#include "config/base/status.def"
#undef STATUS
    STATUS_COUNT
};

enum status_class {
    STATUS_CLASS_OK, STATUS_CLASS_BUSY, STATUS_CLASS_BAD,
    STATUS_CLASS_GONE, STATUS_CLASS_DEVICE, STATUS_CLASS_CONFIG
};

/* Return early from a function that itself returns a status. */
#define TRY(expression)                                 \
    do {                                                \
        enum status try_status_ = (expression);         \
        if (try_status_ != STATUS_OK) {                 \
            return try_status_;                         \
        }                                               \
    } while (0)

const char *status_text(enum status status);   /* a fixed string, never NULL */
const char *status_name(enum status status);   /* "BUSY_CALLS" */
enum status_class status_class(enum status status);
uint16_t status_wire(enum status status);      /* 0 for statuses that never travel */
enum status status_from_wire(uint16_t code);   /* unknown codes become DEVICE_FAILED */
