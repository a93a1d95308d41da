/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: how each instance of an open row has ended, in memory that the core's successor takes up
 * with the values. A row that goes on after a death has its values at once: what was drawn, or
 * answered by a client, is not asked for again.
 *
 * Death: an end counts when its check word is right. That is of this row of this workflow alone and
 * of the value's tokens, so what the row before in this place has left does not count.
 */
#include "sched/workflow/instance.h"

/* The instance is KNOWN or FAILED. O(tokens of the value). */
void sched_keep_end(struct sched_instance of);
/* It has not ended: what an equal row has left in its place does not count. */
static inline void sched_forget_end(struct sched_instance of)
{
    of.flow->kept_ends[sched_instance_index(of)].check = 0;
}
/* How the instance had ended before a death; false: it had not, or what is there is torn. */
bool sched_recall_end(struct sched_instance of, struct workflow_kept_end *end);
