/* SPDX-License-Identifier: MIT */
#pragma once
/* What: what the files of the naive scheduler share about a call. Private to naive_*.c. */
#include "selftest/fake/naive_sched.h"

uint64_t naive_quantum(const struct naive *m, uint32_t queue);
/* The call goes to the tail or the head of the queue, with the quantum of that queue. */
void naive_enter(struct naive *m, struct naive_call *call, uint32_t queue, bool head);
/* Adds up the call's waiting until now. */
void naive_accrue(struct naive *m, struct naive_call *call);
/* The call loses its blocks. */
void naive_drop(struct naive_call *call);
/* Writes the open calls in their order; returns their number. */
uint32_t naive_sort(const struct naive *m, uint32_t *sorted);
/* The call begins to run, with what it found cached. */
void naive_begin_row(struct naive_call *call);
