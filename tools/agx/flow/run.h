/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the run of a workflow over rows, by one connection: rows go out as there is room for them,
 * lambdas run as commands, values are printed as their rows are done.
 */
#include "tools/agx/flow/lambda.h"
#include "tools/agx/flow/lengths.h"
#include "tools/flow/flow_file.h"

struct run_settings {
    const char *to, *inputs, *program, *profile;    /* the last three may be NULL */
    const struct argument_texts *lambdas;
    bool json, keep, progress;
    uint32_t tries_max;                     /* of a request that finds the appliance busy */
};

/* An exit code, after messages. */
int run_flow(const struct run_settings *settings, struct flow_file *file);
