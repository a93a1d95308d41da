/* SPDX-License-Identifier: MIT */
/*
 * Goal: a workflow gives the tokens that a client gets who sends every operator of every row as a
 * call of its own; equal greedy calls are executed once; whatever happens on the way.
 * Method: small and random graphs on the bench; a twin that composes each prompt by recursion and
 * asks the oracle of the fake engine; engines are lost, workflows cancelled.
 */
#include "selftest/unit/sched/bench.h"

#include "config/workflow/workflow.h"

enum { NODES = BENCH_NODES, ROWS = BENCH_FLOW_ROWS, PIECES = BENCH_PIECES, VALUES = BENCH_VALUES,
       FLOWS = 3, VALUE_MAX = 12, EOS = 3, BOS = 1 };

static struct bench *bench;
static struct workflow *flow;
static uint32_t index_of_flow;

static void start_with(struct sched_settings settings, uint32_t cache_entries)
{
    settings.workflow = (struct sched_workflow_settings){
        .workflows = FLOWS, .order = WORKFLOW_ORDER_HELIUM, .window = 6, .calls_spared = 4,
        .lambda_us = 50 * BENCH_UNIT, .cache_entries = cache_entries, .cache_tokens = 1024,
        .bos_id = BOS, .eos_id = EOS, .eot_id = CALL_NONE, .kv_tokens = 400, .share_min = 4,
        .secret = {7}};
    bench = bench_start(&settings, 200);
}

static void start(void)
{
    start_with(bench_settings(SCHED_PLAS), 64);
}

/* ---- a graph --------------------------------------------------------------------------------- */

static void open_flow(void)
{
    index_of_flow = workflow_take(&bench->workflows);
    assert_int_not_equal(index_of_flow, WORKFLOW_NONE);
    flow = &bench->workflows.workflows[index_of_flow];
    flow->domain = 5;
    flow->program_id[0] = (uint8_t)(index_of_flow + 1);
}

static uint32_t add(enum workflow_kind kind)
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

static void piece(struct workflow_piece what)
{
    assert_true(flow->pieces_count < PIECES);
    flow->pieces[flow->pieces_count++] = what;
    flow->nodes[flow->nodes_count - 1].pieces_count++;
}

static void say(uint32_t count, uint32_t seed)
{
    uint32_t first = flow->tokens_count;
    for (uint32_t i = 0; i < count; i++) {
        flow->tokens[flow->tokens_count++] = (seed * 5 + i) % BENCH_VOCAB;
    }
    piece((struct workflow_piece){.node = WORKFLOW_NONE, .tokens = {first, count}});
}

static void read_value(uint32_t node)
{
    piece((struct workflow_piece){.node = node});
}

static void output(uint32_t node)
{
    flow->nodes[node].is_output = true;
    flow->outputs[flow->outputs_count++] = node;
}

static void send(struct command command)
{
    command.workflow = index_of_flow;
    command.workflow_generation = flow->generation;
    exchange_command(&bench->exchange, &command);
    bench_intake(bench);
}

static void begin(void)
{
    flow->state = WORKFLOW_ORDERING;
    send((struct command){.kind = COMMAND_WORKFLOW_OPEN});
    for (uint32_t pass = 0; pass < 1000 && flow->state == WORKFLOW_ORDERING; pass++) {
        bench_intake(bench);
    }
    assert_int_equal(flow->state, WORKFLOW_OPEN);
}

/* Each column is one token, but for the first, which has as many as its number says. */
static uint32_t row(uint32_t number, const uint32_t *columns)
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

static struct value lambda_of(const struct value *argument)
{
    struct value value = {.count = 2};
    for (uint32_t i = 0; i < argument->count; i++) {
        value.tokens[0] = (value.tokens[0] * 3 + argument->tokens[i]) % BENCH_VOCAB;
    }
    value.tokens[1] = argument->count % BENCH_VOCAB;
    return value;
}

static struct value twin(uint32_t at, uint32_t node);

static struct value compose_twin(uint32_t at, uint32_t node, bool is_call)
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
                        prompt.count + value.count + VALUE_MAX > BENCH_CONTEXT;
        if (!prompt.failed) {
            memcpy(prompt.tokens + prompt.count, value.tokens, value.count * sizeof(uint32_t));
            prompt.count += value.count;
        }
    }
    return prompt;
}

static struct value twin(uint32_t at, uint32_t node)
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

static void check_row(uint32_t at)
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

static void answer_questions(void)
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

static void free_ended(void)
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
static bool pass(void)
{
    bool ran = bench_step(bench);
    bench_intake(bench);
    free_ended();
    answer_questions();
    free_ended();
    return ran;
}

static void run(void)
{
    uint32_t idle = 0;
    while (flow->rows_open > 0) {
        idle = pass() ? 0 : idle + 1;
        assert_true(idle < 5);
    }
}

static void end_flow(void)
{
    send((struct command){.kind = COMMAND_WORKFLOW_CLOSE});
    assert_int_equal(flow->state, WORKFLOW_DONE);
    workflow_release(&bench->workflows, index_of_flow);
    while (!ring_is_empty(&bench->exchange.news_ring)) {
        exchange_workflow_news_pop(&bench->exchange);
    }
}

/* ---- small graphs ---------------------------------------------------------------------------- */

static void test_a_value_is_read_by_the_next(void **state)
{
    (void)state;
    start();
    open_flow();
    uint32_t question = add(WORKFLOW_INPUT);
    uint32_t first = add(WORKFLOW_LLM);
    say(3, 1), read_value(question);
    uint32_t second = add(WORKFLOW_LLM);
    say(2, 2), read_value(first), say(1, 3);
    output(second);
    begin();
    uint32_t at = row(0, (uint32_t[]){17});
    run();
    check_row(at);
    assert_int_equal(flow->rows[at].calls, 2);
    end_flow();
}

static void test_rows_share_what_is_equal(void **state)
{
    (void)state;
    start();
    open_flow();
    uint32_t a = add(WORKFLOW_INPUT), b = add(WORKFLOW_INPUT);
    uint32_t of_a = add(WORKFLOW_LLM);
    say(3, 1), read_value(a);
    uint32_t of_none = add(WORKFLOW_LLM);
    say(4, 2);
    uint32_t of_all = add(WORKFLOW_LLM);
    read_value(of_a), read_value(of_none), read_value(b);
    output(of_all);
    begin();
    uint32_t rows[3] = {row(0, (uint32_t[]){10, 20}), row(1, (uint32_t[]){10, 21}),
                        row(2, (uint32_t[]){10, 21})};
    run();
    uint32_t calls = 0, shared = 0;
    for (uint32_t i = 0; i < 3; i++) {
        check_row(rows[i]);
        calls += flow->rows[rows[i]].calls;
        shared += flow->rows[rows[i]].shared;
    }
    assert_int_equal(calls, 4);                 /* of a, of none, of all for two rows */
    assert_int_equal(shared, 5);
    end_flow();
}

static void test_nothing_is_called_the_second_time(void **state)
{
    (void)state;
    start();
    for (uint32_t time = 0; time < 2; time++) {
        open_flow();
        uint32_t input = add(WORKFLOW_INPUT);
        uint32_t first = add(WORKFLOW_LLM);
        say(3, 1), read_value(input);
        uint32_t second = add(WORKFLOW_LLM);
        read_value(first), say(2, 2);
        output(second);
        begin();
        uint32_t at = row(0, (uint32_t[]){30});
        run();
        check_row(at);
        assert_int_equal(flow->rows[at].calls, time == 0 ? 2 : 0);
        assert_int_equal(flow->rows[at].fetched, time == 0 ? 0 : 2);
        end_flow();
    }
}

static void test_another_domain_fetches_nothing(void **state)
{
    (void)state;
    start();
    for (uint32_t time = 0; time < 2; time++) {
        open_flow();
        flow->domain = 100 + time;
        uint32_t only = add(WORKFLOW_LLM);
        say(3, 1);
        output(only);
        begin();
        uint32_t at = row(0, NULL);
        run();
        assert_int_equal(flow->rows[at].calls, 1);
        end_flow();
    }
}

static void test_a_lambda_is_asked_for(void **state)
{
    (void)state;
    start();
    open_flow();
    uint32_t input = add(WORKFLOW_INPUT);
    uint32_t first = add(WORKFLOW_LLM);
    say(3, 1), read_value(input);
    uint32_t lambda = add(WORKFLOW_LAMBDA);
    read_value(first), say(1, 2);
    uint32_t last = add(WORKFLOW_LLM);
    say(2, 3), read_value(lambda);
    output(lambda), output(last);
    begin();
    uint32_t at = row(0, (uint32_t[]){9});
    run();
    check_row(at);
    end_flow();
}

static void test_a_question_without_an_answer_fails_the_row(void **state)
{
    (void)state;
    start();
    open_flow();
    uint32_t lambda = add(WORKFLOW_LAMBDA);
    say(1, 2);
    uint32_t last = add(WORKFLOW_LLM);
    say(2, 3), read_value(lambda);
    output(last);
    begin();
    uint32_t at = row(0, NULL);
    assert_int_equal(workflow_instance(flow, at, lambda)->state, WORKFLOW_ASKED);
    assert_true(sched_next_us(&bench->sched, bench->now_us) <= bench->now_us + 50 * BENCH_UNIT);
    bench->now_us += 50 * BENCH_UNIT;
    bench_intake(bench);
    assert_int_equal(flow->rows[at].state, WORKFLOW_ROW_DONE);
    assert_status(STATUS_GONE_DEADLINE, flow->rows[at].status);
    end_flow();
}

static void test_a_prompt_that_is_too_long_fails_its_row_alone(void **state)
{
    (void)state;
    start();
    open_flow();
    uint32_t input = add(WORKFLOW_INPUT);
    uint32_t wide = add(WORKFLOW_LLM);
    say(BENCH_CONTEXT - VALUE_MAX, 1), read_value(input);
    uint32_t fine = add(WORKFLOW_LLM);
    say(2, 2), read_value(input);
    uint32_t after = add(WORKFLOW_LLM);
    read_value(wide), read_value(fine);
    output(fine), output(after);
    begin();
    uint32_t at = row(0, (uint32_t[]){4});
    run();
    check_row(at);
    assert_status(STATUS_BAD_PROMPT_LENGTH, flow->rows[at].status);
    end_flow();
}

static void test_the_window_holds(void **state)
{
    (void)state;
    start();
    open_flow();
    for (uint32_t i = 0; i < 12; i++) {
        uint32_t node = add(WORKFLOW_LLM);
        say(2, i);
        output(node);
    }
    begin();
    uint32_t at = row(0, NULL);
    while (flow->rows[at].state == WORKFLOW_ROW_OPEN) {
        assert_true(flow->open_calls <= 6);
        pass();
    }
    check_row(at);
    end_flow();
}

static void test_cancel_ends_every_row_once(void **state)
{
    (void)state;
    start();
    open_flow();
    uint32_t input = add(WORKFLOW_INPUT);
    uint32_t first = add(WORKFLOW_LLM);
    say(3, 1), read_value(input);
    output(first);
    begin();
    uint32_t one = row(0, (uint32_t[]){9}), two = row(1, (uint32_t[]){9});
    assert_true(bench_launch(bench));
    send((struct command){.kind = COMMAND_WORKFLOW_CANCEL});
    assert_int_equal(flow->state, WORKFLOW_CANCELLING);     /* a call is in a step */
    bench_compute(bench);
    bench_settle(bench, BENCH_UNIT);
    bench_intake(bench);
    free_ended();
    assert_int_equal(flow->state, WORKFLOW_DONE);
    assert_int_equal(flow->rows[one].state, WORKFLOW_ROW_DONE);
    assert_status(STATUS_GONE_CANCELLED, flow->rows[two].status);
    assert_true(sched_is_idle(&bench->sched));
    workflow_release(&bench->workflows, index_of_flow);
}

/* Two workflows want the same; the one that computes it is cancelled. */
static void test_who_waits_for_a_cancelled_call_calls_itself(void **state)
{
    (void)state;
    start();
    uint32_t at = 0, flows[2];
    for (uint32_t i = 0; i < 2; i++) {
        open_flow();
        uint32_t only = add(WORKFLOW_LLM);
        say(3, 1);
        output(only);
        begin();
        flows[i] = index_of_flow;
        at = row(0, NULL);
    }
    assert_int_equal(workflow_instance(flow, at, 0)->state, WORKFLOW_SHARED);
    index_of_flow = flows[0];
    flow = &bench->workflows.workflows[index_of_flow];
    send((struct command){.kind = COMMAND_WORKFLOW_CANCEL});
    free_ended();
    assert_int_equal(flow->state, WORKFLOW_DONE);
    index_of_flow = flows[1];
    flow = &bench->workflows.workflows[index_of_flow];
    run();
    check_row(at);
    assert_int_equal(flow->rows[at].calls, 1);
    end_flow();
}

static void test_shutdown_ends_all_rows(void **state)
{
    (void)state;
    start();
    open_flow();
    uint32_t first = add(WORKFLOW_LLM);
    say(3, 1);
    output(first);
    begin();
    uint32_t at = row(0, NULL);
    assert_false(sched_is_idle(&bench->sched));
    sched_fail_all(&bench->sched, STATUS_GONE_SHUTDOWN, bench->now_us);
    assert_int_equal(flow->rows[at].state, WORKFLOW_ROW_DONE);
    assert_status(STATUS_GONE_SHUTDOWN, flow->rows[at].status);
    assert_int_equal(flow->state, WORKFLOW_DONE);
}

/* ---- random graphs --------------------------------------------------------------------------- */

static uint64_t lot;
static uint32_t draw(uint32_t below)
{
    lot = lot * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(lot >> 33) % below;
}

static void random_flow(void)
{
    open_flow();
    uint32_t inputs = draw(3), count = 2 + draw(10);
    for (uint32_t i = 0; i < inputs; i++) {
        add(WORKFLOW_INPUT);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t before = flow->nodes_count, parts = 1 + draw(3);
        uint32_t node = add(draw(6) == 0 ? WORKFLOW_LAMBDA : WORKFLOW_LLM);
        flow->nodes[node].max_tokens = 2 + draw(VALUE_MAX - 2);
        for (uint32_t p = 0; p < parts; p++) {
            uint32_t first = draw(2) == 0 || before == 0;
            if (first) {
                say(1 + draw(5), draw(3));
            } else {
                read_value(draw(before));
            }
        }
    }
    for (uint32_t i = 0; i < 3; i++) {
        output(inputs + draw(count));
    }
    begin();
}

static void test_random_graphs(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 400; seed++) {
        lot = seed * 77 + 1;
        start_with(bench_settings(seed % 3 == 0 ? SCHED_FCFS : SCHED_PLAS), seed % 5 == 0 ? 0 : 64);
        random_flow();
        uint32_t rows[ROWS], count = 1 + draw(ROWS);
        for (uint32_t i = 0; i < count; i++) {
            rows[i] = row(i, (uint32_t[]){draw(3), draw(3), draw(3)});
            pass();
        }
        for (uint32_t passes = 0; flow->rows_open > 0; passes++) {
            assert_true(passes < 10000);
            if (draw(8) == 0 && bench_launch(bench)) {
                bench_lose(bench);
            }
            pass();
        }
        for (uint32_t i = 0; i < count; i++) {
            check_row(rows[i]);
        }
        end_flow();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_value_is_read_by_the_next),
        cmocka_unit_test(test_rows_share_what_is_equal),
        cmocka_unit_test(test_nothing_is_called_the_second_time),
        cmocka_unit_test(test_another_domain_fetches_nothing),
        cmocka_unit_test(test_a_lambda_is_asked_for),
        cmocka_unit_test(test_a_question_without_an_answer_fails_the_row),
        cmocka_unit_test(test_a_prompt_that_is_too_long_fails_its_row_alone),
        cmocka_unit_test(test_the_window_holds),
        cmocka_unit_test(test_cancel_ends_every_row_once),
        cmocka_unit_test(test_who_waits_for_a_cancelled_call_calls_itself),
        cmocka_unit_test(test_shutdown_ends_all_rows),
        cmocka_unit_test(test_random_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
