/* SPDX-License-Identifier: MIT */
#pragma once
/* What: deaths of cores, and upgrades: one core follows another. */
#include <stdbool.h>
#include <stdint.h>

struct sim;

/* deaths/core.c */
/* Called wherever the core may die: at each call of the world. It dies there, or not. */
void sim_core_may_die(struct sim *sim);
/* Called before the core does something: it dies at a store to kept memory, or not. */
void sim_core_may_die_at_a_store(struct sim *sim);
_Noreturn void sim_core_dies(struct sim *sim);
/* Another one takes over. */
void sim_core_again(struct sim *sim);
/* Of `so_far` successions, another one is allowed. */
bool sim_core_may_follow(const struct sim *sim, uint32_t so_far);
/* The parts of a succession: one core has gone; then, what the next one meets may be changed; then
 * that takes over. */
void sim_core_leave(struct sim *sim);
void sim_core_take_over(struct sim *sim);
/* What each program has had, as the core dies; another one has taken over and must say the same. */
void sim_programs_leave(struct sim *sim);
void sim_programs_meet(struct sim *sim);

/* deaths/upgrade.c */
/* Called before each pass: the core may be told to yield to that of another appliance. */
void sim_may_upgrade(struct sim *sim);
/* Called after each pass: that one takes over, or not yet. */
void sim_core_may_yield(struct sim *sim);

/* deaths/store.c */
/* The core will die before a store to kept memory, if there are as many before the trap is disarmed
 * (selftest/fake/store_trap.h). */
void sim_stores_arm(struct sim *sim);

/* deaths/garble.c */
void sim_may_garble(struct sim *sim);

/* deaths/writer.c */
/* The writer has all that is marked on its disk, in this moment or a later one. */
void sim_write_replies(struct sim *sim);
