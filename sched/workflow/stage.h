/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: sched's side of the workflows (config/workflow/workflow.h has the record). A workflow is
 * one row of the process table, and what it calls are calls of that program like any others.
 *
 *   FLOW_OPEN -> prune, merge -> tree -> order, a few operators a pass -> OPEN
 *   ROW -> instances -> ready heap -> call slot -> queues -> step -> settle: value -> its readers
 *                          | ^ prompt cache, an equal one, the client's ANSWER
 *
 * The order of a workflow's calls lies in their release, not in the queues: at most `window` calls
 * are open, and each end releases the next best. Private to sched/.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/workflow/workflow.h"
#include "sched/workflow/prompt_cache.h"

struct sched;
struct call;
struct workflow_optimiser;

struct sched_workflow_settings {
    uint32_t workflows;             /* open at once; 0: there are none */
    enum workflow_order_kind order;
    uint32_t window;                /* calls of one workflow that are open at once */
    uint32_t calls_spared;          /* slots of calls that workflows leave to others */
    uint64_t lambda_us;             /* a client answers within this time */
    uint64_t call_deadline_us;      /* of each call; 0: none */
    struct prompt_cache_counts cache;
    uint32_t bos_id, eos_id, eot_id;        /* of the model; CALL_NONE: it has none */
    struct prompt_cache_source source;      /* of the values in the prompt cache */
    uint32_t kv_tokens, share_min;  /* of the cost model: an engine's KV, and a block of it */
};

struct sched_workflows {
    struct workflow_table *table;   /* NULL: there are none */
    /* private: only sched/workflow/ */
    struct sched_workflow_settings settings;
    uint32_t *ended;                /* [calls] slots of calls that have ended since the last look */
    uint32_t ended_count;
    uint32_t *prompt;               /* [context_tokens] the prompt that is composed */
    struct prompt_cache cache;
    struct workflow_optimiser *optimiser;
    uint32_t ordering;              /* the workflow that is being ordered, or WORKFLOW_NONE */
    uint32_t turn;                  /* whose release is first in the next pass */
    uint32_t begun;                 /* instances of rows, in this pass */
    uint32_t budget;                /* tokens that it may still compose */
    bool more;                      /* work was left for the next pass */
};

struct command;
struct sched_settings;

struct options;
struct limits;
/* BOOT_ONLY. All that options say; `source` and the model's tokens are the caller's to add. */
void sched_workflow_settings_fill(struct sched_workflow_settings *settings,
                                  const struct options *options, const struct limits *limits);
void sched_workflow_plan_memory(struct memory_plan *plan, const struct sched_settings *settings);
void sched_workflow_init(struct sched *sched, struct workflow_table *table, struct arena *arena,
                         struct arena *kept);
/* What net asks for. */
void sched_workflow_command(struct sched *sched, const struct command *command, uint64_t now_us);
/* A call of a workflow has ended, however; the next pass looks at it. O(1). */
static inline void sched_workflow_ended(struct sched_workflows *workflows, uint32_t slot)
{
    workflows->ended[workflows->ended_count++] = slot;
}
/* After the commands of a pass: takes values, orders, releases, ends. */
void sched_workflow_pass(struct sched *sched, uint64_t now_us);
/* When the pass must run even if nothing happens. UINT64_MAX: never. */
uint64_t sched_workflow_next_us(const struct sched *sched, uint64_t now_us);
/* True when no row is open. */
bool sched_workflow_is_idle(const struct sched *sched);
/* All workflows end with this status, after all calls have ended. */
void sched_workflow_fail_all(struct sched *sched, enum status status, uint64_t now_us);
/* Fills the gauges that are workflows'. */
void sched_workflow_report(const struct sched *sched);
void sched_workflow_check(const struct sched *sched);
