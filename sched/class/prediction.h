/* SPDX-License-Identifier: MIT */
#pragma once
/* What: what a program will cost, said when its first call comes, and what it has cost, learnt when
 * it ends. Private to sched/. */
#include "sched/sched.h"

/* What the call's program will cost, as far as is known. O(1) without a file. */
struct sched_prediction sched_class_predict(const struct sched *sched, const struct call *call);
/* A call has come: the first one of a program decides about its class, if that is still open, and
 * about program->predicted. */
void sched_class_foresee(struct sched *sched, const struct call *call);
/* The call of the program has ended. */
void sched_class_spend(struct program *program, const struct call *call);
/* The program ends, or is forgotten: its class learns what it was. */
void sched_class_learn(struct sched *sched, const struct program *program);
/* The class of this name learns of a program that ended before this boot: `ended` has its trust
 * domain, its number of calls, and what they have cost; its service on this machine is not known.
 * For the lab. */
void sched_class_teach(struct sched *sched, const struct program *ended, const char *name);
