/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: workflows on the bench: graphs that a test writes piece by piece, rows, what net and the
 * client do, and a twin that composes each prompt by recursion and asks the oracle of the fake
 * engine.
 */
#include "selftest/unit/sched/bench.h"

#include "config/workflow/workflow.h"

enum { NODES = BENCH_NODES, ROWS = BENCH_FLOW_ROWS, PIECES = BENCH_PIECES, VALUES = BENCH_VALUES,
       FLOWS = 3, VALUE_MAX = 12, EOS = 3, BOS = 1 };

static struct bench *bench;
static struct workflow *flow;
static uint32_t index_of_flow;

static inline void start_with(struct sched_settings settings, uint32_t cache_entries)
{
    settings.workflow = (struct sched_workflow_settings){
        .workflows = FLOWS, .order = WORKFLOW_ORDER_HELIUM, .window = 6, .calls_spared = 4,
        .lambda_us = 50 * BENCH_UNIT, .cache = {cache_entries, 8192},
        .bos_id = BOS, .eos_id = EOS, .eot_id = CALL_NONE, .kv_tokens = 400, .share_min = 4,
        .source = {.secret = {7}}};
    bench = bench_start(&settings, 200);
}

static inline void start(void)
{
    start_with(bench_settings(SCHED_PLAS), 64);
}

/* ---- a graph --------------------------------------------------------------------------------- */

static inline void open_flow(void)
{
    index_of_flow = workflow_take(&bench->workflows, 0);
    assert_int_not_equal(index_of_flow, WORKFLOW_NONE);
    flow = &bench->workflows.workflows[index_of_flow];
    flow->domain = 5;
    flow->program_id[0] = (uint8_t)(index_of_flow + 1);
}

static inline uint32_t add(enum workflow_kind kind)
{
    uint32_t node = flow->nodes_count++;
    assert_true(node < NODES);
    flow->nodes[node] = (struct workflow_node){
        .kind = kind, .pieces_first = flow->pieces_count,
        .max_tokens = kind == WORKFLOW_INPUT ? 0 : VALUE_MAX, .est_tokens = 8,
        .call.sampling.repeat_penalty = 1.0f, .call.sampling.top_p = 1.0f};
    if (kind == WORKFLOW_INPUT) {
        flow->inputs[flow->inputs_count++] = node;
    }
    return node;
}

static inline void piece(struct workflow_piece what)
{
    assert_true(flow->pieces_count < PIECES);
    flow->pieces[flow->pieces_count++] = what;
    flow->nodes[flow->nodes_count - 1].pieces_count++;
}

static inline void say(uint32_t count, uint32_t seed)
{
    uint32_t first = flow->tokens_count;
    for (uint32_t i = 0; i < count; i++) {
        flow->tokens[flow->tokens_count++] = (seed * 5 + i) % BENCH_VOCAB;
    }
    piece((struct workflow_piece){.node = WORKFLOW_NONE, .tokens = {first, count}});
}

static inline void read_value(uint32_t node)
{
    piece((struct workflow_piece){.node = node});
}

static inline void output(uint32_t node)
{
    flow->nodes[node].is_output = true;
    flow->outputs[flow->outputs_count++] = node;
}

static inline void send(struct command command)
{
    command.workflow = index_of_flow;
    command.workflow_generation = flow->generation;
    exchange_command(&bench->exchange, &command);
    bench_intake(bench);
}

static inline void begin(void)
{
    flow->state = WORKFLOW_ORDERING;
    send((struct command){.kind = COMMAND_WORKFLOW_OPEN});
    for (uint32_t pass = 0; pass < 1000 && flow->state == WORKFLOW_ORDERING; pass++) {
        bench_intake(bench);
    }
    assert_int_equal(flow->state, WORKFLOW_OPEN);
}

/* Each column is one token, but for the first, which has as many as its number says. */
static inline uint32_t row(uint32_t number, const uint32_t *columns)
{
    uint32_t at = 0;
    while (flow->rows[at].state != WORKFLOW_ROW_FREE) {
        at++;
        assert_true(at < ROWS);
    }
    uint32_t room = VALUES / ROWS, next = at * room;
    struct workflow_row *its = &flow->rows[at];
    *its = (struct workflow_row){.state = WORKFLOW_ROW_GIVEN, .number = number,
                                 .arrival = flow->rows_given++, .values = {next, room}};
    for (uint32_t i = 0; i < flow->inputs_count; i++) {
        its->columns[i] = its->heads[i] = (struct workflow_span){next, 1};
        its->digests[i] = columns[i];
        flow->values[next++] = columns[i];
    }
    its->nodes_first = next;
    send((struct command){.kind = COMMAND_WORKFLOW_ROW, .row = at});
    return at;
}

/* ---- the twin -------------------------------------------------------------------------------- */

struct value { bool failed; uint32_t count, tokens[BENCH_CONTEXT]; };

static inline struct value lambda_of(const struct value *argument)
{
    struct value value = {.count = 2};
    for (uint32_t i = 0; i < argument->count; i++) {
        value.tokens[0] = (value.tokens[0] * 3 + argument->tokens[i]) % BENCH_VOCAB;
    }
    value.tokens[1] = argument->count % BENCH_VOCAB;
    return value;
}

static inline struct value twin(uint32_t at, uint32_t node);

static inline struct value compose_twin(uint32_t at, uint32_t node, bool is_call)
{
    const struct workflow_node *of = &flow->nodes[node];
    struct value prompt = {0};
    if (is_call) {
        prompt.tokens[prompt.count++] = BOS;
    }
    for (uint32_t i = 0; i < of->pieces_count; i++) {
        const struct workflow_piece *part = &flow->pieces[of->pieces_first + i];
        struct value value = {.count = part->tokens.count};
        if (part->node != WORKFLOW_NONE) {
            value = twin(at, part->node);
        } else {
            memcpy(value.tokens, flow->tokens + part->tokens.first,
                   value.count * sizeof(uint32_t));
        }
        prompt.failed = prompt.failed || value.failed ||
                        prompt.count + value.count + of->max_tokens > BENCH_CONTEXT;
        if (!prompt.failed) {
            memcpy(prompt.tokens + prompt.count, value.tokens, value.count * sizeof(uint32_t));
            prompt.count += value.count;
        }
    }
    return prompt;
}

static inline struct value twin(uint32_t at, uint32_t node)
{
    const struct workflow_node *of = &flow->nodes[node];
    if (of->kind == WORKFLOW_INPUT) {
        const struct workflow_span span = flow->rows[at].columns[workflow_column(flow, node)];
        return (struct value){.count = 1, .tokens = {flow->values[span.first]}};
    }
    struct value value = compose_twin(at, node, of->kind == WORKFLOW_LLM);
    if (value.failed || of->kind == WORKFLOW_TEXT) {
        return value;
    }
    if (of->kind == WORKFLOW_LAMBDA) {
        return lambda_of(&value);
    }
    static const struct fake_engine oracle = {.vocab_tokens = BENCH_VOCAB};
    uint32_t known = value.count, made;
    made = fake_engine_oracle(&oracle, value.tokens, known, of->max_tokens, &of->call.sampling);
    memmove(value.tokens, value.tokens + known, made * sizeof(uint32_t));
    value.count = 0;
    while (value.count < made && value.tokens[value.count] != EOS) {
        value.count++;
    }
    return value;
}

static inline void check_row(uint32_t at)
{
    bool failed = false;
    assert_int_equal(flow->rows[at].state, WORKFLOW_ROW_DONE);
    for (uint32_t i = 0; i < flow->outputs_count; i++) {
        uint32_t node = flow->outputs[i], same = flow->nodes[node].same_as;
        struct value expected = twin(at, node);
        failed = failed || expected.failed;
        if (flow->nodes[node].kind == WORKFLOW_TEXT || flow->nodes[node].kind == WORKFLOW_INPUT) {
            continue;
        }
        const struct workflow_instance *instance = workflow_instance(flow, at, same);
        assert_int_equal(instance->state, expected.failed ? WORKFLOW_FAILED : WORKFLOW_KNOWN);
        if (!expected.failed) {
            assert_int_equal(instance->value_tokens, expected.count);
            assert_memory_equal(workflow_value(flow, at, node), expected.tokens,
                                expected.count * sizeof(uint32_t));
        }
    }
    assert_int_equal(flow->rows[at].status != STATUS_OK, failed);
}

/* ---- the client and net ---------------------------------------------------------------------- */

static inline void answer_questions(void)
{
    for (uint32_t at = 0; at < ROWS; at++) {
        for (uint32_t n = 0; n < flow->nodes_count; n++) {
            struct workflow_instance *instance = workflow_instance(flow, at, n);
            if (flow->rows[at].state != WORKFLOW_ROW_OPEN || !workflow_is_op(flow, n) ||
                instance->state != WORKFLOW_ASKED) {
                continue;
            }
            struct value argument = {0};
            argument.count = workflow_splice(flow, at, n, argument.tokens, BENCH_CONTEXT);
            struct value value = lambda_of(&argument);
            memcpy(workflow_value(flow, at, n), value.tokens, value.count * sizeof(uint32_t));
            send((struct command){.kind = COMMAND_WORKFLOW_ANSWER, .row = at, .node = n,
                                  .tokens_count = value.count});
        }
    }
}

static inline void free_ended(void)
{
    bench_drain(bench);
    for (uint32_t i = 0; i < BENCH_CALLS; i++) {
        if (bench_at(bench, i)->state == CALL_FINISHED) {
            assert_true(bench_at(bench, i)->workflow != CALL_NONE);
            call_release(&bench->calls, i);
        }
    }
}

/* One pass; false when nothing was done. */
static inline bool pass(void)
{
    bool ran = bench_step(bench);
    bench_intake(bench);
    free_ended();
    answer_questions();
    free_ended();
    return ran;
}

static inline void run(void)
{
    uint32_t idle = 0;
    while (flow->rows_open > 0) {
        idle = pass() ? 0 : idle + 1;
        assert_true(idle < 5);
    }
}

static inline void end_flow(void)
{
    flow->is_closed = true;
    send((struct command){.kind = COMMAND_WORKFLOW_CLOSE});
    assert_int_equal(flow->state, WORKFLOW_DONE);
    workflow_release(&bench->workflows, index_of_flow);
    while (!ring_is_empty(&bench->exchange.news_ring)) {
        exchange_workflow_news_pop(&bench->exchange);
    }
}
