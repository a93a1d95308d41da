/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the memory plan. It is a function of options, model and machine (struct boot has all
 * three), and takes nothing: a change of an option is tried on a copy of struct boot.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/arena.h"
#include "config/config.h"

struct boot;

/* Once options, model, machine and declared prefixes are known, and the GPU where one is to serve:
 * derives limits and engine settings, chooses how many KV blocks there are, fills the plan. A
 * refusal is one of options; what does not fit is planned, too, with the least KV. */
MUST_CHECK enum status plan_make(struct boot *boot, struct config_error *error);
/* The same with the least KV: it fits if and only if the plan of plan_make() does. */
MUST_CHECK enum status plan_least(struct boot *boot, struct config_error *error);
/* The first part of plan_make(): limits and settings, with as much KV as calls could use. */
MUST_CHECK enum status plan_limits(struct boot *boot, struct config_error *error);
/* True when machine and GPU have what the plan needs. */
bool plan_fits(const struct boot *boot);

static inline double plan_mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}
/* That the machine and its control groups have left. */
uint64_t plan_available_bytes(const struct boot *boot);
/* Of one kind, of all engines; of MEMORY_DEVICE, of each. UINT64_MAX: more than 64 bits count. */
uint64_t plan_kind_bytes(const struct boot *boot, enum memory_kind kind);
/* Of the machine's own memory; UINT64_MAX: more than 64 bits count. */
uint64_t plan_total_bytes(const struct boot *boot);
/* Of the process that has the most of it: what memory.lock = yes locks. */
uint64_t plan_process_bytes(const struct boot *boot);
/* True when a core that dies has a successor, which waits with memory of its own. */
bool plan_has_next_core(const struct boot *boot);
/* Of KV, both tiers, of all engines, in the machine's memory. */
uint64_t plan_kv_bytes(const struct boot *boot);

/* The plan as a table: owner, count, size, tier, and sums; then where the memory goes. */
void plan_print(const struct boot *boot);
