/* SPDX-License-Identifier: MIT */
#pragma once
/* What: what a program will cost, predicted when its first call comes, and what it has cost, learnt
 * when it ends. Private to sched/. */
#include "sched/sched.h"

/* Predicts what the call's program will cost. O(1) without a file. */
struct sched_prediction sched_class_predict(const struct sched *sched, const struct call *call);
/* A call has come. The first one of a program decides its class, unless it has one, and sets
 * program->predicted. */
void sched_class_foresee(struct sched *sched, const struct call *call);
/* The call of the program has ended: adds up what it has cost. */
void sched_class_spend(struct program *program, const struct call *call);
/* The program ends, or is forgotten: its class learns what it has cost. */
void sched_class_learn(struct sched *sched, const struct program *program);
/* For the lab: the class of this name learns of a program that ended before this boot. `ended` has
 * its trust domain, the number of its calls, and what they have cost. Its service on this machine
 * is unknown. */
void sched_class_teach(struct sched *sched, const struct program *ended, const char *name);
