/* SPDX-License-Identifier: MIT */
/*
 * What: the copies of a step beside its rounds; copies.h says what waits for what.
 */
#include "tools/lab/device/copies.h"

static double later(double a, double b)
{
    return a > b ? a : b;
}

static struct copies_times of_streams(const struct copies *c)
{
    double within_s = (c->within_fills_out ? c->out_s : 0) + c->within_s;
    double in_s = c->in_s + later(c->in_fills_out ? c->out_s : 0,
                                  c->in_fills_within ? within_s : 0);
    double rounds_s = later(c->within_s > 0 ? within_s : 0, c->in_s > 0 ? in_s : 0);
    rounds_s = later(rounds_s, c->rows_fill_out ? c->out_s : 0);
    return (struct copies_times){rounds_s, later(rounds_s, c->out_s)};
}

/* Where a block comes into the place of one that leaves, both lanes go on block by block. */
static struct copies_times of_needed(const struct copies *c)
{
    double rounds_s = later(c->out_needed_s, c->in_needed_s) + c->within_s;
    return (struct copies_times){rounds_s, later(rounds_s, later(c->out_s, c->in_s))};
}

struct copies_times copies_times(const struct copies *copies, enum cost_copies kind)
{
    double all_s = copies->out_s + copies->within_s + copies->in_s;
    switch (kind) {
    case COST_COPIES_STREAMS: return of_streams(copies);
    case COST_COPIES_NEEDED: return of_needed(copies);
    case COST_COPIES_SERIAL: break;
    }
    return (struct copies_times){all_s, all_s};
}
