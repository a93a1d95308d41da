/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the record of tenants; tenant.h is what is done with it. */
#include <stdbool.h>
#include <stdint.h>

#include "sched/engine/engine.h"

#define SCHED_TENANT_NAME_BYTES 32
#define SCHED_COST_PARTS        1024u       /* of a microsecond */
#define SCHED_STEP_COST_MIN     (UINT64_C(1) << 20)     /* that plans deal with */
/* A trust domain, and what it has had of the engines (tenant.c). Costs are in 1/1024 us. */
struct sched_tenant {
    uint64_t domain;
    char name[SCHED_TENANT_NAME_BYTES];     /* empty: no key has it */
    uint32_t weight;
    uint32_t programs;              /* in the process table */
    uint64_t virtual_time;          /* the cost of all it has had, divided by its weight; */
    uint32_t remainder;             /* of that division */
    bool wants, wanted;             /* the last plan of an engine has refused it a row; that of the
                                       last step */
    struct sched_use use;           /* of the step that is being settled, */
    uint64_t paid;                  /* and its cost */
    uint64_t got, due;              /* lately */
};
struct sched_tenants {
    struct sched_tenant *of;        /* [settings.tenants] */
    uint32_t count;                 /* in use: the first ones */
    uint64_t floor;                 /* no virtual time is less */
    uint64_t lately_us;             /* time of steps in what tenants got lately */
};
