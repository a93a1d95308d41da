/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a filter of system calls: a table of rules that is compiled to classic BPF. The first rule
 * that fits gives the verdict on the call; one verdict holds for all other calls.
 * docs/decisions/0024 says why there is a filter.
 */
#include <stdint.h>

#include "config/base/status.h"

#define FILTER_CHECKS_MAX 3

enum filter_verdict {
    FILTER_ALLOW,
    FILTER_KILL,                        /* the process ends by SIGSYS */
    FILTER_NO_CALL,                     /* as on a kernel that has no such call: ENOSYS */
    FILTER_REFUSE,                      /* EACCES */
    FILTER_TRAP,                        /* SIGSYS, for a handler that says which call it was; it
                                           ends a process whose thread blocks that signal */
};

/* The kernel reads 32 bits of each argument that is checked: all are of type int, or flags. */
struct filter_check {
    enum {
        FILTER_NONE,
        FILTER_VALUE,                   /* equal to `value` */
        FILTER_KNOWN,                   /* equal to values[value], known at the load; */
        FILTER_FROM,                    /* no less than that; */
        FILTER_BELOW,                   /* less */
        FILTER_BITS,                    /* has one of the bits of `value` */
    } kind;
    uint32_t argument;                  /* 0: the first */
    uint32_t value;
};

struct filter_rule {
    uint32_t call;
    struct filter_check checks[FILTER_CHECKS_MAX];  /* all must pass */
    enum filter_verdict verdict;
};

struct filter {
    const struct filter_rule *rules;
    uint32_t rules_count;
    enum filter_verdict otherwise;
};

/* Binds every thread of this process, for ever. If the result is not OK, errno says why. */
MUST_CHECK enum status filter_load(const struct filter *filter, const int *values);
/* The same for this thread, and those that it will start. Of several filters that have a verdict
 * on a call, the stricter one holds: KILL, TRAP, REFUSE and NO_CALL, ALLOW. */
MUST_CHECK enum status filter_load_own(const struct filter *filter, const int *values);
/* Number of different calls that rules name; the rules of one call stand together. */
uint32_t filter_calls_count(const struct filter *filter);
