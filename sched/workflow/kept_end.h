/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: how each instance of an open row has ended, in memory that outlives the core together with
 * the values. A row that goes on in the next core has these values at once: nothing is sampled
 * again, and no client is asked again.
 *
 * Death: an end counts only when its check word is right. The word covers the value's tokens and
 * the identity of the row, so that the end of an earlier row in the same place does not count.
 */
#include "sched/workflow/instance.h"

/* Notes how the instance, which is KNOWN or FAILED, has ended. O(tokens of the value). */
void sched_kept_end_note(struct sched_instance of);
/* How the instance ended before a death. False: it had not ended, or what is there is torn. */
bool sched_kept_end_read(struct sched_instance of, struct workflow_kept_end *end);
