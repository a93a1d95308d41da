/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what the naive scheduler may see of the real one between two of its verbs. Only
 * sched_view.c knows how sched/ is built; the naive scheduler reads shared records besides.
 */
#include "sched/sched.h"

const struct call *sched_view_call(const struct sched *sched, uint32_t call);
/* The job of the call. */
const struct sched_job *sched_view_job(const struct sched *sched, uint32_t call);
const struct kvmem *sched_view_kv(const struct sched *sched, uint32_t engine);
/* The record of the step that was planned last. */
const struct step *sched_view_step(const struct sched *sched, uint32_t engine);
/* Number of calls that the last plan of the engine has passed over because what they need is being
 * moved. */
uint32_t sched_view_move_waits(const struct sched *sched, uint32_t engine);
/* True when the last plan of the engine was for suspects alone. */
bool sched_view_is_trial(const struct sched *sched, uint32_t engine);
/* True when the last plan had a row left for one more call. */
bool sched_view_has_room(const struct sched *sched, uint32_t engine);
/* The call of the tenant that the last plan of the engine kept out of the KV, or CALL_NONE. */
uint32_t sched_view_kept_out(const struct sched *sched, uint32_t engine, uint32_t tenant);
/* True when the last plan looked at the call. */
bool sched_view_was_visited(const struct sched *sched, uint32_t engine, uint32_t call);
/* The program of a call that has been admitted. */
const struct program *sched_view_program(const struct sched *sched, uint32_t call);
/* What the class of the call's program says that a program needs which has had this service;
 * UINT64_MAX: nothing. */
uint64_t sched_view_remaining_us(const struct sched *sched, uint32_t call, uint64_t service_us);
/* True when the program is in the active set of the engine. */
bool sched_view_is_active(const struct sched *sched, uint32_t engine,
                          const struct program *program);
/* Number of tenants, and the account of one. */
uint32_t sched_view_tenants(const struct sched *sched);
const struct sched_tenant *sched_view_tenant(const struct sched *sched, uint32_t tenant);

/* True when the engine's last plan has refused the tenant a row. */
bool sched_view_wants(const struct sched *sched, uint32_t engine, uint32_t tenant);

/* ---- engines --------------------------------------------------------------------------------- */

bool sched_view_serves(const struct sched *sched, uint32_t engine);
/* Number of positions of the call's tokens that are found there; of a call that has not been
 * admitted, that would be. */
uint32_t sched_view_found(const struct sched *sched, uint32_t engine, const struct call *call);
/* Whose turn it is. */
uint32_t sched_view_turn(const struct sched *sched);
/* The engine that the program of this entry is assigned to; `none`: it is assigned to none. */
uint32_t sched_view_assigned(const struct sched *sched, uint32_t program, uint32_t none);
bool sched_view_misses(const struct sched *sched, uint32_t program);

/* ---- queues ---------------------------------------------------------------------------------- */

struct sched_view_place {
    uint32_t tenant, queue;
    bool held;
};
/* Writes the calls of a queue of a tenant, or the held ones of its level, in their order, at most
 * `max`; returns their number. */
uint32_t sched_view_queue(const struct sched *sched, uint32_t engine,
                          const struct sched_view_place *place, uint32_t *calls, uint32_t max);
