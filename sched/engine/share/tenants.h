/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the record of tenants; tenant.h is what is done with it. */
#include <stdbool.h>
#include <stdint.h>

#include "sched/engine/engine.h"

#define SCHED_TENANT_NAME_BYTES 32
#define SCHED_COST_PARTS        1024u       /* costs count in 1/1024 us of an engine */
#define SCHED_STEP_COST_MIN     (UINT64_C(1) << 20)     /* plans assume no less for a step */
/* A trust domain, and how much of the engines it has received (tenant.c). */
struct sched_tenant {
    uint64_t domain;
    char name[SCHED_TENANT_NAME_BYTES];     /* empty: no key has it */
    uint32_t weight;
    uint32_t programs;              /* in the process table */
    uint64_t virtual_time;          /* the cost of all it has received, divided by its weight; */
    uint32_t remainder;             /* of that division */
    bool wants, wanted;             /* the last plan of an engine has refused it a row; the same of
                                       the last step */
    struct sched_use use;           /* of the step that is being settled, */
    uint64_t paid;                  /* and what it pays for that */
    uint64_t got, due;              /* cost received lately; what would have been its share */
};
struct sched_tenants {
    struct sched_tenant *of;        /* [settings.tenants] */
    uint32_t count;                 /* in use: the first ones */
    uint64_t floor;                 /* no virtual time is less */
    uint64_t lately_us;             /* time of the steps that count as lately */
};
