/* SPDX-License-Identifier: MIT */
#pragma once
/* What: what ended calls have said last: drafts of later ones are guessed from it (engine/draft.h).
 * A text lies with its program, and where kv.sharing is domain with its class, too. Private to
 * sched/. */
#include "sched/class/class.h"

/* Texts that a call recalls at most, each of settings.recall_tokens. */
#define SCHED_RECALLS_MAX 2u

struct call;
struct sched_settings;

/* BOOT_ONLY */
void sched_recall_plan_memory(struct memory_plan *plan, const struct sched_settings *settings);
void sched_recall_init(struct sched *sched, struct arena *arena);
/* Tokens that a call may recall at most. */
uint32_t sched_recall_most(const struct sched_settings *settings);

/* The call ends: its output is what calls of its program, and of its class, have said last.
 * O(settings.recall_tokens). */
void sched_recall_note(struct sched *sched, const struct call *call);
/* Writes what the call recalls, the newest last; returns how many tokens that is, at most
 * sched_recall_most(). */
uint32_t sched_recall_copy(const struct sched *sched, const struct call *call, uint32_t *tokens);
