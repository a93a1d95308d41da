/* SPDX-License-Identifier: MIT */
/*
 * What: the stage of the workflows in a pass of the scheduler: what net asks for, the ends of
 * calls, the ordering of new workflows, rows that begin, releases, and the ends of workflows.
 *
 * Bounds of a pass: WORKFLOW_OPTIMISE_WORK, for one workflow; BUDGET_TOKENS of prompts that
 * release.c composes and of questions that fail; each end of a call and each new row once.
 */
#include <string.h>

#include "config/base/assert.h"
#include "sched/call.h"
#include "sched/key.h"
#include "sched/program.h"
#include "sched/workflow/optimise.h"
#include "sched/workflow/release.h"
#include "sched/workflow/stage.h"

#define BEGIN_INSTANCES 1024        /* that begin in a pass */
#define BUDGET_TOKENS  16384        /* that a pass composes and looks up */
#define FAILURE_TOKENS 16           /* of them, as which a question counts that fails */
#define SPARED_PART    4            /* of the call slots, that workflows leave to other calls */
STATIC_ASSERT((int)OPTION_WORKFLOW_ORDER_AUTO == WORKFLOW_ORDER_AUTO &&
              (int)OPTION_WORKFLOW_ORDER_RANDOM == WORKFLOW_ORDER_RANDOM, "one list of orders");

static const struct workflow_table no_workflows;

static const struct workflow_table *table_of(const struct sched *sched)
{
    return sched->workflows.table != NULL ? sched->workflows.table : &no_workflows;
}

void sched_workflow_settings_fill(struct sched_workflow_settings *settings,
                                  const struct options *options, const struct limits *limits)
{
    uint32_t window = (uint32_t)options->workflow_window.number;
    uint32_t spared = limits->calls / SPARED_PART;
    *settings = (struct sched_workflow_settings){
        .workflows = limits->workflow.workflows,
        .order = (enum workflow_order_kind)option_workflow_order(options),
        .window = window != 0 ? window : limits->batch_calls + limits->standby_calls,
        .calls_spared = spared,
        .lambda_us = options->workflow_lambda.number,
        .call_deadline_us = options->limits_call_deadline.number,
        .cache = {.entries = (uint32_t)options->workflow_cache.number,
                  .tokens = (uint32_t)options->workflow_cache_tokens.number},
        .bos_id = CALL_NONE, .eos_id = CALL_NONE, .eot_id = CALL_NONE,
        .kv_tokens = limits->kv_blocks * limits->kv_block_tokens,
        .share_min = limits->kv_block_tokens,
    };
}

void sched_workflow_plan_memory(struct memory_plan *plan, const struct sched_settings *settings)
{
    const struct sched_workflow_settings *own = &settings->workflow;
    if (own->workflows == 0) {
        return;
    }
    memory_plan_add(plan, MEMORY_CORE, "workflow ends", settings->calls, sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_CORE, "workflow prompt", settings->context_tokens,
                    sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_CORE, "workflow optimiser", 1, sizeof(struct workflow_optimiser));
    if (own->cache.entries > 0) {
        prompt_cache_plan_memory(plan, own->cache);
    }
}

void sched_workflow_init(struct sched *sched, struct workflow_table *table, struct arena *arena,
                         struct arena *kept)
{
    const struct sched_workflow_settings *own = &sched->settings.workflow;
    struct sched_workflows *workflows = &sched->workflows;
    *workflows = (struct sched_workflows){.settings = *own, .ordering = WORKFLOW_NONE};
    if (own->workflows == 0) {
        return;
    }
    ASSERT(table != NULL && table->limits.workflows == own->workflows);
    workflows->table = table;
    workflows->ended = arena_take(arena, sched->settings.calls, sizeof(uint32_t));
    workflows->prompt = arena_take(arena, sched->settings.context_tokens, sizeof(uint32_t));
    workflows->optimiser = arena_take(arena, 1, sizeof(struct workflow_optimiser));
    if (own->cache.entries > 0) {
        prompt_cache_init(&workflows->cache, own->cache, &own->source, arena, kept);
    }
}

/* ---- commands -------------------------------------------------------------------------------- */

static void cancel(struct sched *sched, struct workflow *flow, enum status status, uint64_t now_us)
{
    if (flow->state == WORKFLOW_CANCELLING || flow->state == WORKFLOW_DONE) {
        return;
    }
    flow->state = WORKFLOW_CANCELLING;
    flow->status = status;
    sched_release_cancel(sched, flow, now_us);
}

static void answer(struct sched *sched, struct workflow *flow, const struct command *command,
                   uint64_t now_us)
{
    struct sched_instance of = {flow, command->row, command->node};
    if (flow->rows[of.row].state != WORKFLOW_ROW_OPEN ||
        sched_instance_at(of)->state != WORKFLOW_ASKED) {
        return;                     /* it came too late */
    }
    if (command->failed) {
        sched_instance_fail(sched, of, STATUS_BAD_LAMBDA);
    } else {
        sched_instance_known(sched, of, command->tokens_count, now_us);
    }
}

void sched_workflow_command(struct sched *sched, const struct command *command, uint64_t now_us)
{
    struct workflow *flow = &sched->workflows.table->workflows[command->workflow];
    if (flow->generation != command->workflow_generation) {
        return;
    }
    switch (command->kind) {
    case COMMAND_WORKFLOW_OPEN:
        sched->stats->workflows_opened++;       /* and over, perhaps: with the engine */
        break;
    case COMMAND_WORKFLOW_ROW:
        break;                      /* it begins in its turn */
    case COMMAND_WORKFLOW_ANSWER:
        answer(sched, flow, command, now_us);
        break;
    case COMMAND_WORKFLOW_CLOSE:
        break;                      /* net has said so in the record, or has taken it back: another
                                       connection has the workflow by now */
    default:
        ASSERT(command->kind == COMMAND_WORKFLOW_CANCEL);
        cancel(sched, flow, STATUS_GONE_CANCELLED, now_us);
    }
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void take_ends(struct sched *sched, uint64_t now_us)
{
    struct sched_workflows *workflows = &sched->workflows;
    for (uint32_t i = 0; i < workflows->ended_count; i++) {
        sched_release_ended(sched, sched_call(sched, workflows->ended[i]), now_us);
    }
    workflows->ended_count = 0;
}

/* What a policy that goes by cost foresees of the program grows with each row that was given. */
static void foresee(struct sched *sched, const struct workflow *flow, uint64_t now_us)
{
    const struct sched_spent cost = sched_release_cost(sched, flow);
    uint32_t program = sched_program_find(sched, flow->domain, flow->program_id);
    if (program != SCHED_PROGRAM_NONE) {
        sched_key_foresee(sched, program, &cost, now_us);
    }
}

static uint32_t next_row(const struct workflow *flow)
{
    uint32_t row = 0;
    while (flow->rows[row].state != WORKFLOW_ROW_GIVEN ||
           flow->rows[row].arrival != flow->rows_begun) {
        row++;
        ASSERT(row < flow->rows_max);
    }
    return row;
}

/* Rows begin in the order in which they came, a bounded number of instances a pass. */
static void begin_rows(struct sched *sched, struct workflow *flow, uint64_t now_us)
{
    if (flow->rows_begun < flow->rows_given) {
        foresee(sched, flow, now_us);
    }
    while (flow->rows_begun < flow->rows_given) {
        if (sched->workflows.begun >= BEGIN_INSTANCES) {
            sched->workflows.more = true;
            return;
        }
        sched_instance_begin_row(sched, flow, next_row(flow), now_us);
        flow->rows_begun++;
        sched->workflows.begun += flow->nodes_count;
    }
}

static void ordered(struct sched *sched, struct workflow *flow)
{
    for (uint32_t i = 0; i < flow->order.ops_count; i++) {
        flow->nodes[flow->order.ops[i].node].op = i;
    }
    flow->state = WORKFLOW_OPEN;
    sched_workflow_news(sched, flow);
}

static uint32_t next_to_order(const struct workflow_table *table)
{
    for (uint32_t i = 0; i < table->limits.workflows; i++) {
        if (table->workflows[i].state == WORKFLOW_ORDERING) {
            return i;
        }
    }
    return WORKFLOW_NONE;
}

/* A few operators of one workflow. */
static void order(struct sched *sched, uint64_t now_us)
{
    struct sched_workflows *workflows = &sched->workflows;
    const struct workflow_optimise_params params = {
        .input_tokens = WORKFLOW_OPTIMISE_INPUT_TOKENS,
        .kv_tokens = workflows->settings.kv_tokens, .share_min = workflows->settings.share_min,
        .order = workflows->settings.order};
    if (workflows->ordering != WORKFLOW_NONE &&
        workflows->table->workflows[workflows->ordering].state != WORKFLOW_ORDERING) {
        workflows->ordering = WORKFLOW_NONE;        /* it was cancelled */
    }
    if (workflows->ordering == WORKFLOW_NONE) {
        workflows->ordering = next_to_order(workflows->table);
        if (workflows->ordering == WORKFLOW_NONE) {
            return;
        }
        workflows->more = true;
        struct workflow *first = &workflows->table->workflows[workflows->ordering];
        enum status status = workflow_optimise_begin(workflows->optimiser, first, &params);
        if (status != STATUS_OK) {
            workflows->ordering = WORKFLOW_NONE;    /* its place is another's by the next pass */
            cancel(sched, first, status, now_us);
            return;
        }
    }
    workflows->more = true;         /* another one may wait for its turn */
    struct workflow *flow = &workflows->table->workflows[workflows->ordering];
    if (workflow_optimise_step(workflows->optimiser, WORKFLOW_OPTIMISE_WORK)) {
        workflows->ordering = WORKFLOW_NONE;
        ordered(sched, flow);
    }
}

static void release_all(struct sched *sched, uint64_t now_us)
{
    struct sched_workflows *workflows = &sched->workflows;
    uint32_t count = workflows->table->limits.workflows;
    workflows->begun = 0;
    workflows->turn = (workflows->turn + 1) % count;
    for (uint32_t i = 0; i < count; i++) {
        struct workflow *flow = &workflows->table->workflows[(workflows->turn + i) % count];
        if (flow->state == WORKFLOW_OPEN) {
            begin_rows(sched, flow, now_us);
            sched_release(sched, flow, now_us);
        }
    }
}

/* Questions that the client has not answered in time fail, as many as the pass has budget for. */
static void expire_questions(struct sched *sched, struct workflow *flow, uint64_t now_us)
{
    uint64_t limit_us = sched->workflows.settings.lambda_us, oldest_us = UINT64_MAX;
    if (flow->asked == 0 || sched_elapsed_us(flow->asked_since_us, now_us) < limit_us) {
        return;
    }
    for (uint32_t i = 0; i < flow->rows_max * flow->nodes_count; i++) {
        struct sched_instance of = sched_instance_of(flow, i);
        const struct workflow_instance *instance = sched_instance_at(of);
        if (flow->rows[of.row].state != WORKFLOW_ROW_OPEN || instance->state != WORKFLOW_ASKED) {
            continue;
        }
        if (sched_elapsed_us(instance->since_us, now_us) >= limit_us) {
            if (sched->workflows.budget < FAILURE_TOKENS) {
                sched->workflows.more = true;
                return;
            }
            sched->workflows.budget -= FAILURE_TOKENS;
            sched_instance_fail(sched, of, STATUS_GONE_DEADLINE);
        } else {
            oldest_us = instance->since_us < oldest_us ? instance->since_us : oldest_us;
        }
    }
    flow->asked_since_us = oldest_us;
}

static void end_rows(struct sched *sched, struct workflow *flow)
{
    for (uint32_t i = 0; i < flow->rows_max; i++) {
        const struct workflow_row *row = &flow->rows[i];
        if (row->state == WORKFLOW_ROW_OPEN) {
            sched_instance_fail_row(sched, flow, i, flow->status);
        } else if (row->state == WORKFLOW_ROW_GIVEN) {
            sched_instance_end_given(sched, flow, i, flow->status);
        }
    }
}

/* A workflow whose client has said that no more rows come ends with its last row; where the
 * appliance drains, every workflow does. */
static void end_if_over(struct sched *sched, struct workflow *flow)
{
    bool is_over = flow->state == WORKFLOW_OPEN && flow->rows_open == 0 &&
                   flow->rows_begun == flow->rows_given && (flow->is_closed || sched->draining);
    if (flow->state == WORKFLOW_CANCELLING && flow->open_calls == 0) {
        end_rows(sched, flow);
        is_over = true;
    } else if (is_over) {
        flow->status = flow->is_closed ? STATUS_OK : STATUS_GONE_SHUTDOWN;
    }
    if (is_over) {
        ASSERT(flow->ready.count == 0 && flow->open_calls == 0 && flow->asked == 0);
        flow->state = WORKFLOW_DONE;
        sched_workflow_news(sched, flow);
    }
}

void sched_workflow_pass(struct sched *sched, uint64_t now_us)
{
    struct sched_workflows *workflows = &sched->workflows;
    if (workflows->table == NULL) {
        return;
    }
    workflows->more = false;
    workflows->budget = BUDGET_TOKENS;
    take_ends(sched, now_us);
    order(sched, now_us);
    for (uint32_t i = 0; i < workflows->table->limits.workflows; i++) {
        expire_questions(sched, &workflows->table->workflows[i], now_us);
    }
    release_all(sched, now_us);
    for (uint32_t i = 0; i < workflows->table->limits.workflows; i++) {
        end_if_over(sched, &workflows->table->workflows[i]);
    }
}

uint64_t sched_workflow_next_us(const struct sched *sched, uint64_t now_us)
{
    const struct workflow_table *table = table_of(sched);
    uint64_t next_us = sched->workflows.more ? now_us : UINT64_MAX;
    for (uint32_t i = 0; i < table->limits.workflows; i++) {
        const struct workflow *flow = &table->workflows[i];
        uint64_t due_us = sched_sum(flow->asked_since_us, sched->workflows.settings.lambda_us);
        next_us = flow->asked > 0 && due_us < next_us ? due_us : next_us;
    }
    return next_us;
}

bool sched_workflow_is_idle(const struct sched *sched)
{
    const struct workflow_table *table = table_of(sched);
    for (uint32_t i = 0; i < table->limits.workflows; i++) {
        enum workflow_state state = table->workflows[i].state;
        const struct workflow *flow = &table->workflows[i];
        if (state == WORKFLOW_ORDERING || state == WORKFLOW_CANCELLING || flow->rows_open > 0 ||
            (state == WORKFLOW_OPEN && flow->rows_begun < flow->rows_given)) {
            return false;
        }
    }
    return true;
}

void sched_workflow_fail_all(struct sched *sched, enum status status, uint64_t now_us)
{
    const struct workflow_table *table = table_of(sched);
    for (uint32_t i = 0; i < table->limits.workflows; i++) {
        enum workflow_state state = table->workflows[i].state;
        if (state != WORKFLOW_FREE && state != WORKFLOW_INTAKE) {
            cancel(sched, &table->workflows[i], status, now_us);
        }
    }
    sched_workflow_pass(sched, now_us);
}

static bool has_cache(const struct sched *sched)
{
    return sched->workflows.cache.entries_count > 0;
}

void sched_doubt_values(struct sched *sched)
{
    if (has_cache(sched)) {
        prompt_cache_doubt(&sched->workflows.cache);
    }
}

void sched_doubt_values_for(struct sched *sched, uint32_t damages)
{
    if (has_cache(sched)) {
        prompt_cache_doubt_for(&sched->workflows.cache, damages);
    }
}

/* ---- reporting ------------------------------------------------------------------------------- */

static void check_row(const struct workflow *flow, uint32_t row, uint32_t *called, uint32_t *asked)
{
    uint32_t unknown = 0;
    for (uint32_t n = 0; n < flow->nodes_count; n++) {
        const struct workflow_instance *instance = workflow_instance(flow, row, n);
        if (!workflow_is_op(flow, n)) {
            continue;
        }
        uint32_t index = row * flow->nodes_count + n;
        unknown += instance->state != WORKFLOW_KNOWN && instance->state != WORKFLOW_FAILED;
        *called += instance->state == WORKFLOW_CALLED;
        *asked += instance->state == WORKFLOW_ASKED;
        ASSERT(heap_has(&flow->ready, index) == (instance->state == WORKFLOW_READY));
        ASSERT(instance->state != WORKFLOW_WAITING || instance->missing > 0);
    }
    ASSERT(flow->rows[row].unknown == unknown && unknown > 0);
}

static void check_one(const struct workflow *flow)
{
    uint32_t called = 0, asked = 0, open = 0;
    for (uint32_t row = 0; row < flow->rows_max; row++) {
        if (flow->rows[row].state == WORKFLOW_ROW_OPEN) {
            check_row(flow, row, &called, &asked);
            open++;
        }
    }
    ASSERT(open == flow->rows_open && called == flow->open_calls && asked == flow->asked);
    ASSERT(flow->state != WORKFLOW_DONE || open == 0);
    heap_check(&flow->ready);
}

void sched_workflow_report(const struct sched *sched)
{
    const struct workflow_table *table = table_of(sched);
    struct stats *stats = sched->stats;
    stats->workflows_open = 0;
    for (uint32_t i = 0; i < table->limits.workflows; i++) {
        stats->workflows_open += table->workflows[i].state != WORKFLOW_FREE;
    }
    stats->values_cached = sched->workflows.cache.known;
    stats->value_tokens_cached =
        (uint64_t)sched->workflows.cache.used_chunks * PROMPT_CACHE_CHUNK;
}

void sched_workflow_check(const struct sched *sched)
{
    const struct workflow_table *table = table_of(sched);
    for (uint32_t i = 0; i < table->limits.workflows; i++) {
        if (table->workflows[i].state > WORKFLOW_INTAKE) {
            check_one(&table->workflows[i]);
        }
    }
    if (has_cache(sched)) {
        prompt_cache_check(&sched->workflows.cache);
    }
}
