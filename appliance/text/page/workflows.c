/* SPDX-License-Identifier: MIT */
#include "appliance/text/page/workflows.h"

#include "appliance/text/page/column.h"
#include "config/base/assert.h"

static const char *state_name(const struct workflow *flow)
{
    static const char *const names[] = {
        [WORKFLOW_FREE] = "free      ", [WORKFLOW_INTAKE] = "intake    ",
        [WORKFLOW_ORDERING] = "ordering  ", [WORKFLOW_OPEN] = "open      ",
        [WORKFLOW_CANCELLING] = "cancelling", [WORKFLOW_DONE] = "done      "};
    ASSERT(flow->state <= WORKFLOW_DONE);
    if (flow->state == WORKFLOW_OPEN && flow->connection == CALL_NONE) {
        return "away      ";        /* it goes on while its client is away */
    }
    return flow->state == WORKFLOW_OPEN && flow->is_closed ? "closing   " : names[flow->state];
}

void textpage_workflows(struct text *page, const struct textport_view *view, uint64_t now_us)
{
    const struct workflow_table *table = view->sched->workflows.table;
    uint32_t count = table != NULL ? table->limits.workflows : 0;
    (void)now_us;
    text_add(page, "   slot flow_id          state      given pruned merged ops   rows  open calls "
                   "ready asked    called    shared   fetched\n");
    for (uint32_t i = 0; i < count; i++) {
        const struct workflow *flow = &table->workflows[i];
        if (flow->state == WORKFLOW_FREE) {
            continue;
        }
        text_add_u64_padded(page, i, 7, ' ');
        text_add(page, " ");
        text_add_hex(page, (const uint8_t *)&flow->flow_id, sizeof flow->flow_id);
        text_add(page, " ");
        text_add(page, state_name(flow));
        text_add_column(page, flow->order.given, 5);
        text_add_column(page, flow->order.pruned, 6);
        text_add_column(page, flow->order.merged, 6);
        text_add_column(page, flow->order.ops_count, 3);
        text_add_column(page, flow->rows_given, 6);
        text_add_column(page, flow->rows_open, 5);
        text_add_column(page, flow->open_calls, 5);
        text_add_column(page, flow->ready.count, 5);
        text_add_column(page, flow->asked, 5);
        text_add_column(page, flow->calls, 9);
        text_add_column(page, flow->shared, 9);
        text_add_column(page, flow->fetched, 9);
        text_add(page, "\n");
    }
}
