/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the life of a worker after its start, whatever its engine is: it reports that it is ready
 * and runs steps as they come.
 */
#include "appliance/control.h"

#define RUNNER_GAP_US 4000          /* the bell for a round rings no sooner after the last one */

struct runner {
    struct control_engine *control;
    const struct step *step;
    int bell;                           /* engine_bell of struct shared */
    uint32_t epoch;
    void *engine;
    /* False when the engine has failed: nothing of the step counts. */
    bool (*run)(void *engine, const struct step *step);
    uint64_t rung_us;                   /* private: when the bell last rang */
};

/* Returns when the engine has failed. */
void runner_serve(struct runner *runner);
/* A round has ended, and the step goes on: rings the bell, unless that has just rung. */
void runner_tell_round(void *runner);
