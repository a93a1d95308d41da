/* SPDX-License-Identifier: MIT */
#pragma once
/* What: when the tokens of a call may be sent. Private to sched/. */
#include "sched/call.h"

/* The first `tokens` generated tokens of the call may be sent: notes the time for those that are
 * new. */
void sched_progress_note(struct sched *sched, struct call *call, uint32_t tokens, uint64_t now_us);
