/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the life of a worker after its start, whatever its engine is: it reports that it is ready
 * and runs steps as they come.
 */
#include "appliance/control.h"

struct runner {
    struct control_engine *control;
    const struct step *step;
    int bell;                           /* engine_bell of struct shared */
    uint32_t epoch;
    void *engine;
    /* False when the engine has failed: nothing of the step counts. */
    bool (*run)(void *engine, const struct step *step);
};

/* Returns when the engine has failed. */
void runner_serve(const struct runner *runner);
