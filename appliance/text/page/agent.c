/* SPDX-License-Identifier: MIT */
/*
 * What: the share of new sessions that a box should get.
 * Invariants: a box that serves has at least 1 %, so that a fleet whose boxes are all full does not
 * turn away; the share is in quarters of the free calls, because each change of a weight moves keys
 * to other boxes.
 * Bounds: O(1).
 */
#include "appliance/text/page/agent.h"

#include "config/base/assert.h"

#define QUARTERS 4

/* In quarters, rounded up. */
static uint32_t free_percent(const struct textport_view *view)
{
    uint64_t calls = view->calls->count, open = view->stats->calls_open;
    ASSERT(calls > 0);
    uint64_t left = open < calls ? calls - open : 0;
    return (uint32_t)((left * QUARTERS + calls - 1) / calls) * (100 / QUARTERS);
}

static uint32_t share_percent(const struct textport_view *view)
{
    const struct health *health = view->health;
    ASSERT(health->engines_serving <= health->engines_count && health->engines_count > 0);
    uint32_t share = free_percent(view) * health->engines_serving / health->engines_count;
    return share > 0 ? share : 1;
}

static void add_up(struct text *page, uint32_t percent)
{
    text_add(page, "up ");
    text_add_u64(page, percent);
    text_add(page, "%");
}

void textpage_agent(struct text *page, const struct textport_view *view, uint64_t now_us)
{
    const struct health *health = view->health;
    const char *reason = health->reason;
    (void)now_us;
    switch (health->state) {
    case HEALTH_READY:
    case HEALTH_DEGRADED:
        add_up(page, share_percent(view));
        break;
    case HEALTH_DRAINING:
        add_up(page, 0);
        reason = "draining";
        break;
    default:
        text_add(page, "down");
        reason = reason != NULL ? reason : health_name(health->state);
    }
    if (reason != NULL) {
        text_add(page, " #");
        text_add(page, reason);
    }
    text_add(page, "\n");
}
