/* SPDX-License-Identifier: MIT */
#include "sched/workflow/kept_end.h"

#include "config/base/assert.h"
#include "config/base/fnv.h"

/* Never 0. */
static uint64_t check_of(struct sched_instance of, const struct workflow_kept_end *end)
{
    const struct workflow_row *row = &of.flow->rows[of.row];
    const uint64_t words[] = {of.flow->domain, of.flow->request, row->life, of.node,
                              (uint64_t)end->status << 32 | end->value_tokens};
    uint64_t digest = fnv_add_words(FNV_START, words, sizeof words);
    return fnv_add_words(digest, workflow_value(of.flow, of.row, of.node),
                         (uint64_t)end->value_tokens * sizeof(uint32_t)) | 1;
}

void sched_kept_end_note(struct sched_instance of)
{
    const struct workflow_instance *instance = sched_instance_at(of);
    struct workflow_kept_end end = {0};
    ASSERT(instance->state == WORKFLOW_KNOWN || instance->state == WORKFLOW_FAILED);
    if (instance->state == WORKFLOW_KNOWN) {
        end.value_tokens = instance->value_tokens;
    } else {
        end.status = instance->status;
    }
    end.check = check_of(of, &end);
    of.flow->kept_ends[sched_instance_index(of)] = end;
}

bool sched_kept_end_read(struct sched_instance of, struct workflow_kept_end *end)
{
    *end = of.flow->kept_ends[sched_instance_index(of)];
    return end->value_tokens <= of.flow->nodes[of.node].max_tokens &&
           end->status < STATUS_COUNT && (end->status == STATUS_OK || end->value_tokens == 0) &&
           end->check == check_of(of, end);
}
