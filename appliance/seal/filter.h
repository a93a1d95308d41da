/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a filter of system calls: a table of rules, written out as a classic BPF program. The first
 * rule that fits says what becomes of the call, and one verdict what becomes of all others.
 * docs/decisions/0024 says why there is one.
 */
#include <stdint.h>

#include "config/base/status.h"

#define FILTER_CHECKS_MAX 3

enum filter_verdict {
    FILTER_ALLOW,
    FILTER_KILL,                        /* the process ends by SIGSYS */
    FILTER_NO_CALL,                     /* as on a kernel that has no such call: ENOSYS */
};

/* The kernel reads 32 bits of each argument that is checked: all are of type int, or flags. */
struct filter_check {
    enum {
        FILTER_NONE,
        FILTER_VALUE,                   /* it is `value` */
        FILTER_KNOWN,                   /* it is values[value], known when the filter is loaded */
        FILTER_BITS,                    /* it has one of these bits */
    } kind;
    uint32_t argument;                  /* 0: the first */
    uint32_t value;
};

struct filter_rule {
    uint32_t call;
    struct filter_check checks[FILTER_CHECKS_MAX];  /* all of them */
    enum filter_verdict verdict;
};

struct filter {
    const struct filter_rule *rules;
    uint32_t rules_count;
    enum filter_verdict otherwise;
};

/* For every thread of this process, for ever. Not STATUS_OK: errno says why. */
MUST_CHECK enum status filter_load(const struct filter *filter, const int *values);
/* Different calls that rules name; the rules of one stand together. */
uint32_t filter_calls_count(const struct filter *filter);
