/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the instances of a workflow: what each operator is for each row. Private to sched/. */
#include "sched/sched.h"

/* An instance of some workflow. */
struct sched_instance {
    struct workflow *flow;
    uint32_t row, node;
};
static inline struct workflow_instance *sched_instance_at(struct sched_instance of)
{
    return workflow_instance(of.flow, of.row, of.node);
}
static inline struct sched_instance sched_instance_of(struct workflow *flow, uint32_t index)
{
    return (struct sched_instance){flow, index / flow->nodes_count, index % flow->nodes_count};
}
static inline uint32_t sched_instance_index(struct sched_instance of)
{
    return of.row * of.flow->nodes_count + of.node;
}

/* net will look at the workflow. */
static inline void sched_workflow_news(struct sched *sched, const struct workflow *flow)
{
    exchange_workflow_news(sched->exchange,
                           (uint32_t)(flow - sched->workflows.table->workflows));
}

/* A row that net has given: its instances begin. */
void sched_instance_begin_row(struct sched *sched, struct workflow *flow, uint32_t row,
                              uint64_t now_us);
/* The value lies in its place: the instances that read it, or are equal to it, go on. */
void sched_instance_known(struct sched *sched, struct sched_instance of, uint32_t value_tokens,
                          uint64_t now_us);
/* It has no value and never will; nor have those that read it. */
void sched_instance_fail(struct sched *sched, struct sched_instance of, enum status status);
/* It waits for its turn (again). */
void sched_instance_ready(struct sched *sched, struct sched_instance of, uint64_t now_us);
/* Every instance of the row without a value fails. */
void sched_instance_fail_row(struct sched *sched, struct workflow *flow, uint32_t row,
                             enum status status);
/* A row that has not begun ends. Its instances still are those of the row that had its place
 * before, of whatever client: they lose their values. */
void sched_instance_end_given(struct sched *sched, struct workflow *flow, uint32_t row,
                              enum status status);
