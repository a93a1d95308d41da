/* SPDX-License-Identifier: MIT */
/*
 * What: the instances of a workflow, from the row that begins them to the value that ends them.
 *
 *   WAITING --its operands are known--> READY --release.c--> CALLED --------> KNOWN
 *      |                                  |  a lambda: ASKED ----ANSWER-----> or FAILED
 *      +--a row with equal columns--> SHARED -----------the value is copied-------^
 *
 * Rows that are equal in the columns that a node depends on share its instance: the first of them
 * has it, the others copy the value. A value lies in its own row, so rows end independently.
 *
 * Invariants: row.unknown counts the instances of the row that are neither KNOWN nor FAILED. An
 * instance that others wait for never waits itself, but for its call, its answer, or the cache.
 * Bounds: a value or a failure O(readers + rows), for each instance that it ends, and a failure
 * O(nodes) besides.
 */
#include "sched/workflow/instance.h"

#include <string.h>

#include "config/base/assert.h"
#include "config/base/fnv.h"
#include "sched/workflow/kept_end.h"
#include "sched/workflow/stage.h"

static bool is_over(const struct workflow_instance *instance)
{
    return instance->state == WORKFLOW_KNOWN || instance->state == WORKFLOW_FAILED;
}

/* ---- ends of rows ---------------------------------------------------------------------------- */

static enum status status_of_op(const struct workflow *flow, uint32_t row, uint32_t node)
{
    const struct workflow_instance *instance =
        workflow_instance(flow, row, flow->nodes[node].same_as);
    return instance->state == WORKFLOW_FAILED ? (enum status)instance->status : STATUS_OK;
}

/* Why the node has no value: its own reason, or that of the first that a text is composed of. */
static enum status status_of(const struct workflow *flow, uint32_t row, uint32_t node)
{
    const struct workflow_node *of = &flow->nodes[node];
    enum status status = STATUS_OK;
    if (of->kind == WORKFLOW_LLM || of->kind == WORKFLOW_LAMBDA) {
        return status_of_op(flow, row, node);
    }
    for (uint32_t i = 0; i < of->pieces_count && status == STATUS_OK; i++) {
        uint32_t operand = flow->pieces[of->pieces_first + i].node;
        bool is_op = operand != WORKFLOW_NONE && flow->nodes[operand].kind != WORKFLOW_INPUT;
        status = is_op ? status_of_op(flow, row, operand) : STATUS_OK;
    }
    return status;
}

/* Why the first output without a value has none. */
static enum status status_of_row(const struct workflow *flow, uint32_t row)
{
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < flow->outputs_count && status == STATUS_OK; i++) {
        status = status_of(flow, row, flow->outputs[i]);
    }
    return status;
}

static void end_row_if_known(struct sched *sched, struct workflow *flow, uint32_t index)
{
    struct workflow_row *row = &flow->rows[index];
    ASSERT(row->state == WORKFLOW_ROW_OPEN);
    if (row->unknown == 0) {
        row->status = status_of_row(flow, index);
        row->state = WORKFLOW_ROW_DONE;
        flow->calls += row->calls;
        flow->shared += row->shared;
        flow->fetched += row->fetched;
        flow->rows_open--;
        sched->stats->rows_done++;
        sched_workflow_news(sched, flow);
    }
}

/* ---- an instance is ready -------------------------------------------------------------------- */

/* The paper's Random takes any instance that is ready, whatever its operator and row. */
static uint64_t drawn_turn(struct sched_instance of)
{
    uint32_t index = sched_instance_index(of);
    return fnv_add(fnv_add(FNV_START, &of.flow->flow_id, sizeof of.flow->flow_id), &index,
                   sizeof index);
}

/* The least goes first: by the inner sequence, then by row and place or by place and row. */
static uint64_t turn_of(const struct sched *sched, struct sched_instance of)
{
    const struct workflow_order *order = &of.flow->order;
    const struct workflow_op *op = &order->ops[of.flow->nodes[of.node].op];
    uint64_t arrival = of.flow->rows[of.row].arrival;
    ASSERT(op->node == of.node);
    if (sched->workflows.settings.order == WORKFLOW_ORDER_RANDOM) {
        return drawn_turn(of);
    }
    if (sched->workflows.settings.order == WORKFLOW_ORDER_ARRIVAL) {
        return of.flow->turns++;
    }
    uint64_t inner = order->sequences[op->sequence].by_row ? arrival << 16 | op->place
                                                           : (uint64_t)op->place << 32 | arrival;
    return (uint64_t)op->sequence << 48 | inner;
}

void sched_instance_ready(struct sched *sched, struct sched_instance of, uint64_t now_us)
{
    struct workflow_instance *instance = sched_instance_at(of);
    if (of.flow->nodes[of.node].kind == WORKFLOW_LLM) {
        instance->state = WORKFLOW_READY;
        heap_set(&of.flow->ready, sched_instance_index(of), turn_of(sched, of));
        return;
    }
    instance->state = WORKFLOW_ASKED;
    instance->since_us = now_us;
    of.flow->asked_since_us = of.flow->asked++ == 0 ? now_us : of.flow->asked_since_us;
    of.flow->may_ask = true;
    sched_workflow_news(sched, of.flow);
}

/* ---- an instance is over --------------------------------------------------------------------- */

/* Whatever it waited for, it does no longer. */
static void leave(struct sched_instance of)
{
    struct workflow_instance *instance = sched_instance_at(of);
    ASSERT(!is_over(instance));
    of.flow->asked -= instance->state == WORKFLOW_ASKED;
    heap_remove(&of.flow->ready, sched_instance_index(of));
    of.flow->rows[of.row].unknown--;
}

/* Any value may be one: a node may be equal to an output, or part of a text that is one. */
static void stream(struct sched *sched, struct workflow *flow)
{
    if (flow->stream) {
        flow->may_stream = true;
        sched_workflow_news(sched, flow);
    }
}

static void know(struct sched *sched, struct sched_instance of, uint32_t value_tokens,
                 uint64_t now_us)
{
    struct workflow *flow = of.flow;
    const struct workflow_node *node = &flow->nodes[of.node];
    struct workflow_instance *instance = sched_instance_at(of);
    ASSERT(value_tokens <= node->max_tokens);
    leave(of);
    instance->state = WORKFLOW_KNOWN;
    instance->value_tokens = value_tokens;
    sched_kept_end_note(of);
    for (uint32_t i = 0; i < node->readers.count; i++) {
        struct sched_instance reader = {flow, of.row, flow->readers[node->readers.first + i]};
        struct workflow_instance *its = sched_instance_at(reader);
        if (its->state == WORKFLOW_WAITING) {
            ASSERT(its->missing > 0);
            if (--its->missing == 0) {
                sched_instance_ready(sched, reader, now_us);
            }
        }
    }
    stream(sched, flow);
    end_row_if_known(sched, flow, of.row);
}

static void copy_value(struct workflow *flow, uint32_t node, uint32_t from, uint32_t to)
{
    memcpy(workflow_value(flow, to, node), workflow_value(flow, from, node),
           workflow_instance(flow, from, node)->value_tokens * sizeof(uint32_t));
}

void sched_instance_known(struct sched *sched, struct sched_instance of, uint32_t value_tokens,
                          uint64_t now_us)
{
    struct workflow *flow = of.flow;
    uint32_t index = sched_instance_index(of);
    know(sched, of, value_tokens, now_us);
    for (uint32_t row = 0; row < flow->rows_max; row++) {
        struct sched_instance equal = {flow, row, of.node};
        if (flow->rows[row].state == WORKFLOW_ROW_OPEN &&
            sched_instance_at(equal)->state == WORKFLOW_SHARED &&
            sched_instance_at(equal)->owner == index) {
            copy_value(flow, of.node, of.row, row);
            know(sched, equal, value_tokens, now_us);
        }
    }
}

static void fail(struct sched_instance of, enum status status)
{
    struct workflow_instance *instance = sched_instance_at(of);
    leave(of);
    instance->state = WORKFLOW_FAILED;
    instance->status = (uint16_t)status;
    sched_kept_end_note(of);
}

/* The rows of `rows`, in which the node has failed, and those that waited for one of them. */
static uint64_t fail_equal(struct workflow *flow, uint32_t node, uint64_t rows)
{
    for (uint32_t row = 0; rows != 0 && row < flow->rows_max; row++) {
        struct sched_instance of = {flow, row, node};
        const struct workflow_instance *instance = sched_instance_at(of);
        if (flow->rows[row].state != WORKFLOW_ROW_OPEN || instance->state != WORKFLOW_SHARED ||
            instance->owner == WORKFLOW_NONE) {
            continue;
        }
        const struct sched_instance owner = sched_instance_of(flow, instance->owner);
        if ((rows >> owner.row & 1) != 0) {
            fail(of, (enum status)sched_instance_at(owner)->status);
            rows |= UINT64_C(1) << row;
        }
    }
    return rows;
}

/* Fails those that wait for the value of the node in this row, and notes the row with them. */
static void fail_readers(struct sched_instance of, uint64_t *failed)
{
    const struct workflow_span readers = of.flow->nodes[of.node].readers;
    enum status status = (enum status)sched_instance_at(of)->status;
    for (uint32_t i = 0; i < readers.count; i++) {
        uint32_t node = of.flow->readers[readers.first + i];
        struct sched_instance reader = {of.flow, of.row, node};
        if (sched_instance_at(reader)->state == WORKFLOW_WAITING) {
            fail(reader, status);
            failed[node] |= UINT64_C(1) << of.row;
        }
    }
}

/* Readers come after what they read, and an instance waits for an equal one of its own node: so
 * one walk over the nodes meets all that fails with this one. */
void sched_instance_fail(struct sched *sched, struct sched_instance of, enum status status)
{
    uint64_t failed[WORKFLOW_NODES_MAX] = {0};      /* rows, as bits */
    uint64_t touched = 0;
    ASSERT(status != STATUS_OK);
    fail(of, status);
    failed[of.node] = UINT64_C(1) << of.row;
    for (uint32_t n = of.node; n < of.flow->nodes_count; n++) {
        uint64_t rows = failed[n] != 0 ? fail_equal(of.flow, n, failed[n]) : 0;
        touched |= rows;
        for (; rows != 0; rows &= rows - 1) {
            uint32_t row = (uint32_t)__builtin_ctzll(rows);
            fail_readers((struct sched_instance){of.flow, row, n}, failed);
        }
    }
    for (; touched != 0; touched &= touched - 1) {
        end_row_if_known(sched, of.flow, (uint32_t)__builtin_ctzll(touched));
    }
}

void sched_instance_fail_row(struct sched *sched, struct workflow *flow, uint32_t row,
                             enum status status)
{
    for (uint32_t n = 0; n < flow->nodes_count; n++) {
        if (workflow_is_op(flow, n) && !is_over(workflow_instance(flow, row, n))) {
            fail((struct sched_instance){flow, row, n}, status);
        }
    }
    end_row_if_known(sched, flow, row);
}

void sched_instance_end_given(struct sched *sched, struct workflow *flow, uint32_t row,
                              enum status status)
{
    for (uint32_t n = 0; n < flow->nodes_count; n++) {
        *workflow_instance(flow, row, n) = (struct workflow_instance){
            .state = WORKFLOW_FAILED, .status = (uint16_t)status, .call = CALL_NONE,
            .owner = WORKFLOW_NONE, .cache_entry = PROMPT_CACHE_NONE, .wait_next = WORKFLOW_NONE};
    }
    flow->rows[row].state = WORKFLOW_ROW_DONE;
    flow->rows[row].status = status;
    sched->stats->rows_done++;
}

/* ---- a row begins ---------------------------------------------------------------------------- */

static bool has_values(const struct workflow_row *row)
{
    return row->state == WORKFLOW_ROW_OPEN || row->state == WORKFLOW_ROW_DONE ||
           row->state == WORKFLOW_ROW_SENT;
}

/* The rows whose column is equal to that of this row, as bits. */
static uint64_t equal_rows(const struct workflow *flow, uint32_t index, uint32_t column)
{
    const struct workflow_row *row = &flow->rows[index];
    const struct workflow_span own = row->columns[column];
    uint64_t equal = 0;
    for (uint32_t i = 0; i < flow->rows_max; i++) {
        const struct workflow_row *other = &flow->rows[i];
        const struct workflow_span span = other->columns[column];
        bool is_equal = i != index && has_values(other) && span.count == own.count &&
                        other->digests[column] == row->digests[column] &&
                        memcmp(flow->values + span.first, flow->values + own.first,
                               own.count * sizeof(uint32_t)) == 0;
        equal |= (uint64_t)is_equal << i;
    }
    return equal;
}

/* Gives the instance the value of a row in `rows`, or lets it wait for one; false: none will do. */
static bool share(struct sched_instance of, uint64_t rows)
{
    struct workflow_instance *instance = sched_instance_at(of);
    for (; rows != 0; rows &= rows - 1) {
        uint32_t row = (uint32_t)__builtin_ctzll(rows);
        const struct workflow_instance *other = workflow_instance(of.flow, row, of.node);
        if (other->state == WORKFLOW_FAILED) {
            continue;
        }
        if (other->state == WORKFLOW_KNOWN) {
            copy_value(of.flow, of.node, row, of.row);
            instance->state = WORKFLOW_KNOWN;
            instance->value_tokens = other->value_tokens;
            sched_kept_end_note(of);
            return true;
        }
        bool has_owner = other->state == WORKFLOW_SHARED && other->owner != WORKFLOW_NONE;
        instance->owner = has_owner ? other->owner
                                    : sched_instance_index((struct sched_instance){of.flow, row,
                                                                                   of.node});
        instance->state = WORKFLOW_SHARED;
        return true;
    }
    return false;
}

/* Gives the instance the value that it had before a death; false: it had none. */
static bool restore_value(struct sched_instance of)
{
    struct workflow_instance *instance = sched_instance_at(of);
    struct workflow_kept_end end;
    if (!of.flow->rows[of.row].goes_on || !sched_kept_end_read(of, &end) ||
        end.status != STATUS_OK) {
        return false;
    }
    instance->state = WORKFLOW_KNOWN;
    instance->value_tokens = end.value_tokens;
    return true;
}

/* Those that had failed before a death fail again, with what reads them. */
static void restore_failures(struct sched *sched, struct workflow *flow, uint32_t row)
{
    for (uint32_t n = 0; n < flow->nodes_count; n++) {
        struct sched_instance of = {flow, row, n};
        struct workflow_kept_end end;
        if (flow->rows[row].goes_on && workflow_is_op(flow, n) &&
            !is_over(sched_instance_at(of)) && sched_kept_end_read(of, &end) &&
            end.status != STATUS_OK) {
            sched_instance_fail(sched, of, (enum status)end.status);
        }
    }
    flow->rows[row].goes_on = false;
}

/* Each node that an output needs: WAITING, or what it shares with rows that came before. */
static void begin_instances(struct workflow *flow, uint32_t row, const uint64_t *equal)
{
    uint64_t others = 0;
    for (uint32_t i = 0; i < flow->rows_max; i++) {
        others |= (uint64_t)(i != row && has_values(&flow->rows[i])) << i;
    }
    for (uint32_t n = 0; n < flow->nodes_count; n++) {
        struct sched_instance of = {flow, row, n};
        uint64_t rows = others;
        *sched_instance_at(of) = (struct workflow_instance){
            .state = WORKFLOW_WAITING, .missing = flow->nodes[n].operands, .call = CALL_NONE,
            .owner = WORKFLOW_NONE, .cache_entry = PROMPT_CACHE_NONE, .wait_next = WORKFLOW_NONE};
        if (!workflow_is_op(flow, n) || restore_value(of)) {
            continue;
        }
        for (uint32_t i = 0; rows != 0 && i < flow->inputs_count; i++) {
            rows &= workflow_set_has(&flow->nodes[n].columns, i) ? equal[i] : rows;
        }
        flow->rows[row].shared += share(of, rows);
        flow->rows[row].unknown += sched_instance_at(of)->state != WORKFLOW_KNOWN;
    }
}

/* Values that are there already are not missing; what misses none is ready. */
static void start_instances(struct sched *sched, struct workflow *flow, uint32_t row,
                            uint64_t now_us)
{
    for (uint32_t n = 0; n < flow->nodes_count; n++) {
        const struct workflow_span readers = flow->nodes[n].readers;
        bool is_known = workflow_is_op(flow, n) &&
                        workflow_instance(flow, row, n)->state == WORKFLOW_KNOWN;
        for (uint32_t i = 0; is_known && i < readers.count; i++) {
            workflow_instance(flow, row, flow->readers[readers.first + i])->missing--;
        }
    }
    for (uint32_t n = 0; n < flow->nodes_count; n++) {
        const struct workflow_instance *instance = workflow_instance(flow, row, n);
        if (workflow_is_op(flow, n) && instance->state == WORKFLOW_WAITING &&
            instance->missing == 0) {
            sched_instance_ready(sched, (struct sched_instance){flow, row, n}, now_us);
        }
    }
}

void sched_instance_begin_row(struct sched *sched, struct workflow *flow, uint32_t row,
                              uint64_t now_us)
{
    uint64_t equal[WORKFLOW_INPUTS_MAX];
    ASSERT(flow->rows[row].state == WORKFLOW_ROW_GIVEN);
    for (uint32_t i = 0; i < flow->inputs_count; i++) {
        equal[i] = equal_rows(flow, row, i);
    }
    flow->rows[row].state = WORKFLOW_ROW_OPEN;
    flow->rows_open++;
    begin_instances(flow, row, equal);
    start_instances(sched, flow, row, now_us);
    stream(sched, flow);
    restore_failures(sched, flow, row);
    if (flow->rows[row].state == WORKFLOW_ROW_OPEN) {
        end_row_if_known(sched, flow, row);
    }
}
