/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a refusal in the words of the command line: the option for the field of a frame. */
#include <stdio.h>

#include "tools/sdk/agx.h"

/* Writes what was refused, why, what was found and what is allowed, as one line. */
void refusal_write(const struct agx_fault *fault, FILE *out);
