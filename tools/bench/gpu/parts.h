/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the parts of the benchmark, in the order in which they run. Each prints its rows. */
#include "tools/bench/gpu/timer.h"

/* The numbers of rows that are measured. */
struct rows_list {
    const uint32_t *rows;
    uint32_t count;
};

/* What the device and its link give; later parts have their floors from it. */
void ceilings_run(struct machine *machine);
/* Whole steps: decode, prefill, a step that ends early, swaps. */
void steps_run(struct machine *machine, const struct rows_list *list);
/* Products by their shape. */
void products_run(struct machine *machine, const struct rows_list *list);
/* The other kernels, each as it is in a step. */
void kernels_run_alone(struct machine *machine, const struct rows_list *list);
