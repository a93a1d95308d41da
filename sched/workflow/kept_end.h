/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: how each instance of an open row has ended, in memory that the core's successor takes up
 * with the values. A row that goes on after a death has its values at once: what was drawn, or
 * answered by a client, is not asked for again.
 *
 * Death: an end counts when its check word is right. That is of this row alone, not of an equal one
 * that was in its place before, and of the value's tokens.
 */
#include "sched/workflow/instance.h"

/* The instance is KNOWN or FAILED. O(tokens of the value). */
void sched_keep_end(struct sched_instance of);
/* How the instance had ended before a death; false: it had not, or what is there is torn. */
bool sched_recall_end(struct sched_instance of, struct workflow_kept_end *end);
