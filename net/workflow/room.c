/* SPDX-License-Identifier: MIT */
/*
 * What: the places of rows in workflow.values. A row has one stretch: its columns, then room for
 * the values of all nodes. So a slow reader stops nothing: what a row can ever need is there before
 * the row is accepted.
 *
 * How: the rows are looked at in the order of their places, and the largest gap is taken: its
 * beginning becomes the new row's, whose length is known when its columns are tokens.
 * Bounds: O(rows^2) for at most WORKFLOW_ROWS_MAX rows.
 */
#include "net/workflow/workflow.h"

/* The first place at or after `from`; the end of values where there is none. */
static struct workflow_span next_place(const struct workflow *flow, uint32_t from,
                                       uint32_t value_tokens)
{
    struct workflow_span next = {value_tokens, 0};
    for (uint32_t i = 0; i < flow->rows_max; i++) {
        const struct workflow_span *place = &flow->rows[i].values;
        if (flow->rows[i].state != WORKFLOW_ROW_FREE && place->count > 0 && place->first >= from &&
            place->first < next.first) {
            next = *place;
        }
    }
    return next;
}

struct workflow_span net_flow_room(const struct workflow *flow, uint32_t value_tokens)
{
    struct workflow_span largest = {0, 0};
    uint32_t at = 0;
    while (at < value_tokens) {
        const struct workflow_span next = next_place(flow, at, value_tokens);
        ASSERT(next.first >= at && next.first <= value_tokens);
        if (next.first - at > largest.count) {
            largest = (struct workflow_span){at, next.first - at};
        }
        at = next.first + next.count;
        if (next.count == 0) {
            break;
        }
    }
    return largest;
}
