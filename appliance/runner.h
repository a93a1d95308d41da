/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what every worker does once its engine is there and it is sealed, whatever the engine: it
 * says that it is ready, and runs steps as they come.
 */
#include "appliance/control.h"

struct runner {
    struct control *control;
    const struct step *step;
    int bell;                           /* the engine's */
    uint32_t epoch;
    void *engine;
    /* False: the engine has failed, and nothing of the step counts. */
    bool (*run)(void *engine, const struct step *step);
};

/* Returns when the engine has failed. */
void runner_serve(const struct runner *runner);
