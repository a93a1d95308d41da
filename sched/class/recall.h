/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the last output of ended calls, from which drafts of later calls are guessed
 * (engine/draft.h). It is kept for each program and, where kv.sharing = domain, for each class.
 * Private to sched/. */
#include "sched/class/class.h"

/* The most texts that a call recalls, each of settings.recall_tokens. */
#define SCHED_RECALLS_MAX 2u

struct call;
struct sched_settings;

/* BOOT_ONLY */
void sched_recall_plan_memory(struct memory_plan *plan, const struct sched_settings *settings);
void sched_recall_init(struct sched *sched, struct arena *arena);
/* The most tokens that a call may recall. */
uint32_t sched_recall_most(const struct sched_settings *settings);

/* The call ends: its output becomes the newest of its program and of its class.
 * O(settings.recall_tokens). */
void sched_recall_note(struct sched *sched, const struct call *call);
/* Writes what the call recalls, the newest last; returns how many tokens that is, at most
 * sched_recall_most(). */
uint32_t sched_recall_copy(const struct sched *sched, const struct call *call, uint32_t *tokens);
