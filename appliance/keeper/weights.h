/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the keeper's weights, which CPU workers inherit: read at boot, scrubbed from then on, and
 * read again when they have changed. All workers share the pages, and none can write to them, so
 * the keeper sees what the workers compute with, and need not ask them.
 *
 *   WHOLE      a slice is compared each second; one that has changed: DAMAGED
 *   SUSPECTED  a worker was wrong: all slices are compared; then WHOLE, or DAMAGED
 *   DAMAGED    all workers have to end; when none is left: LOADING
 *   LOADING    they are read as at boot; every slice is as it was then: WHOLE, else LOST
 *
 * Where a GPU serves the keeper has none, and they count as whole.
 */
#include "appliance/boot/boot.h"
#include "appliance/keeper/scrub.h"

enum weights_state {
    WEIGHTS_WHOLE, WEIGHTS_SUSPECTED, WEIGHTS_DAMAGED, WEIGHTS_LOADING, WEIGHTS_LOST
};

struct weights {
    struct boot *boot;
    enum weights_state state;
    /* private: only weights.c */
    bool is_scrubbed;
    uint64_t scrubbed_us;           /* when a slice was last looked at */
    uint32_t unseen;                /* SUSPECTED: slices that are left to look at */
    struct boot_load load;
    struct scrub scrub;
    uint64_t digest;                /* of the boot's; 0: a GPU has them */
};

static inline uint64_t weights_digest(const struct weights *weights)
{
    return weights->digest;
}

/* Boot: begins to read them, one tensor at each weights_next(). OK with nothing left to read: there
 * are none to read. */
enum boot_exit weights_begin(struct weights *weights, struct boot *boot);
bool weights_are_read(const struct weights *weights);
enum boot_exit weights_next(struct weights *weights);
/* They are read: nothing writes them from now on. */
void weights_end(struct weights *weights);
/* A worker has computed wrongly: before the next one starts, all slices are looked at. */
void weights_suspect(struct weights *weights);
/* Call it every now and then: looks at a slice when its time has come, or goes on with what has to
 * be done. `are_used`: there are workers. Takes WEIGHTS_BUDGET_US, and the time of a tensor. */
#define WEIGHTS_BUDGET_US UINT64_C(200000)
void weights_tick(struct weights *weights, bool are_used, uint64_t now_us);
