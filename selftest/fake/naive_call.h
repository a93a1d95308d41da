/* SPDX-License-Identifier: MIT */
#pragma once
/* What: what the files of the naive scheduler share about a call. Private to naive_*.c. */
#include "selftest/fake/naive_sched.h"

uint64_t naive_quantum(const struct naive *m, uint32_t queue);
/* True when all open calls of a program are one job. */
bool naive_orders_programs(const struct naive *m);
/* True for an open call of the chosen engine. */
bool naive_is_here(const struct naive *m, const struct naive_call *call);
/* The KV of the chosen engine, and the record of its step. */
const struct kvmem *naive_kv(const struct naive *m);
const struct step *naive_step(const struct naive *m);
/* The job of the call. */
struct naive_job *naive_job_of(struct naive *m, const struct naive_call *call);
/* Jobs that may be promoted at once. */
uint32_t naive_turns_max(const struct naive *m);
/* The queue of the program's service. */
uint32_t naive_level(const struct naive *m, uint32_t program);
/* The call, which has come to its engine, begins a job, or joins that of its program. */
void naive_begin(struct naive *m, struct naive_call *call, bool held);
/* The job goes to the tail or the head of the queue, with the quantum of that queue. */
void naive_enter(struct naive *m, struct naive_job *job, uint32_t queue, bool head);
/* True when the job of the call goes before those that stand in this queue. */
bool naive_goes_to_head(struct naive *m, const struct naive_call *call, uint32_t queue);
/* Adds up the waiting of the call until `until`. */
void naive_accrue(struct naive_call *call, uint64_t until);
/* The same of a job that a step has, from then on. */
void naive_begin_job(struct naive_job *job, uint64_t from);
/* The call has had service: what that makes of its program's. */
void naive_credit(struct naive *m, const struct naive_call *call, uint64_t service);
/* The call loses its blocks. */
void naive_drop(struct naive_call *call);
/* Writes the open calls of the chosen engine in their order; returns their number. */
uint32_t naive_sort(struct naive *m, uint32_t *sorted);
/* ---- naive_tenant.c -------------------------------------------------------------------------- */

/* Tenants that are new to the table begin at the floor. */
void naive_meet_tenants(struct naive *m);
void naive_deal_begin(struct naive *m);
/* The next call in the order of tenants comes to this place of the order. False: there is none. */
bool naive_deal(struct naive *m, uint32_t *sorted, uint32_t count, uint32_t at);
/* The call has a row that feeds so many tokens. */
void naive_deal_row(struct naive *m, uint32_t index, uint32_t chunk);
/* What the real plan says of who wants more, which has to be possible. */
void naive_deal_end(struct naive *m);
/* The row had so much service of the step. */
void naive_use(struct naive *m, uint32_t row, uint64_t service);
void naive_charge(struct naive *m, uint64_t duration);

/* ---- */

/* The call begins to run, with what it found cached. */
void naive_begin_row(struct naive_call *call);

/* ---- keys and stages (naive_key.c) ----------------------------------------------------------- */

/* True when the queues are stages: residents, displaced, waiting. */
bool naive_has_stages(const struct naive *m);
/* What its queue is ordered by: first the key, then the tie. */
uint64_t naive_key(const struct naive *m, const struct naive_call *call);
uint64_t naive_tie(const struct naive *m, const struct naive_call *call);
/* The call goes to this stage, after the others that it is equal to; with SJF, in the order of
 * arrival. Free where there are none. */
void naive_stage(struct naive *m, struct naive_call *call, enum sched_stage stage);
void naive_key_arrive(struct naive *m, const struct naive_call *call);
/* A call has ended. */
void naive_key_ended(struct naive *m);
void naive_key_admit(struct naive *m, const struct naive_call *call);
void naive_key_charge(struct naive *m, const struct naive_call *call, uint32_t fed,
                      uint32_t produced);
void naive_key_advance(struct naive *m);
void naive_key_settle(struct naive *m, uint32_t program);
/* The program goes by its key as it is now. */
void naive_key_show(struct naive *m, uint32_t program);
/* Asserts that the accounts of the call's program, and the clock, are the real ones. */
void naive_key_compare(const struct naive *m, const struct naive_call *call);

/* ---- suspects (naive_suspicion.c) ------------------------------------------------------------ */

/* True when this plan has no row for the call: in a trial suspects get rows, each in no more
 * company than it may have; else the others. */
bool naive_is_left_out(const struct naive *m, const struct naive_call *call);
/* Rows that the plan may have, after those that it has. */
uint32_t naive_rows_max(const struct naive *m);
/* A worker has died of the step in which a call had this row. */
void naive_suspect(struct naive *m, uint32_t row);
