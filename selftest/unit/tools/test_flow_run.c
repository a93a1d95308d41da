/* SPDX-License-Identifier: MIT */
/*
 * Goal: a run of a workflow sends what the appliance's decoder takes, and every frame of the
 * appliance becomes one event or ends the session.
 * Method: a session in memory; answers by the encoders of net/wire.h.
 */
#include "selftest/unit/tools/sdk_rig.h"

static uint8_t memory[4096], bytes[1024];
static struct agx agx;
static struct agx_flow flow;
static struct agx_flow_run run;
static struct agx_event event;
static const uint32_t tokens[] = {3, 4, 5};

/* A workflow of an input, a lambda of it and a call; the call is its output, twice. */
static void build(void)
{
    agx_flow_init(&flow, memory, sizeof memory);
    uint32_t question = agx_flow_input(&flow, 0);
    const struct agx_piece asked[] = {AGX_VALUE(question)};
    uint32_t found = agx_flow_lambda(&flow, "find", asked, 1,
                                     &(struct agx_operator){.max_tokens = 8});
    const struct agx_piece said[] = {AGX_TEXT("Q: "), AGX_VALUE(question), AGX_VALUE(found),
                                     AGX_TEXT("Q: ")};
    uint32_t answer = agx_flow_llm(&flow, said, 4, &(struct agx_operator){.max_tokens = 8});
    agx_flow_output(&flow, answer);
    agx_flow_output(&flow, answer);
    assert_int_equal(AGX_OK, flow.result);
    assert_int_equal(3, flow.nodes_count);
    assert_int_equal(1, flow.texts_count);
}

static void begin(void)
{
    struct wire_flow_ok ok = {.flow_id = 9, .given = 2, .left = 2, .rows = 4};
    open_session(&agx);
    build();
    run = (struct agx_flow_run){.flow = &flow, .flow_id = 9, .keep = 1};
    assert_int_equal(AGX_OK, agx_session_flow_open(&agx, &run));
    feed(&agx, bytes, wire_flow_ok_encode(&ok, bytes, sizeof bytes));
    assert_int_equal(AGX_OK, agx_session_next(&agx, &event));
    assert_true(event.kind == AGX_FLOW && event.flow->kind == AGX_FLOW_OPENED);
    assert_true(event.flow->rows == 4 && event.flow->left == 2 && event.flow->run == &run);
}

static void open_row(uint32_t row)
{
    const struct agx_text columns[] = {{"why", 3}};
    assert_int_equal(AGX_OK, agx_session_flow_row(&agx, &run, row, columns, 1));
}

static void feed_value(uint32_t row, uint32_t output, uint32_t first, uint32_t count)
{
    const struct wire_flow_value value = {.flow_id = 9, .row = row, .output = output,
                                          .first_index = first, .tokens_count = count,
                                          .flags = WIRE_VALUE_LAST};
    feed(&agx, bytes, wire_flow_value_encode(&value, tokens + first, bytes, sizeof bytes));
}

static void feed_row_done(uint32_t row, uint64_t digest)
{
    const struct wire_flow_row_done done = {.flow_id = 9, .row = row, .calls = 1,
                                            .digest = digest};
    feed(&agx, bytes, wire_flow_row_done_encode(&done, bytes, sizeof bytes));
}

/* The frame that was queued last begins here. */
static const uint8_t *unsent(uint8_t type)
{
    uint32_t count;
    const uint8_t *at = agx_session_unsent(&agx, &count);
    struct wire_header header;
    struct wire_fault fault;
    for (;;) {
        assert_true(count >= WIRE_HEADER_BYTES);
        assert_status(STATUS_OK, wire_header_decode(at, 4096, &header, &fault));
        if (header.type == type) {
            return at;
        }
        at += WIRE_HEADER_BYTES + header.length_bytes;
        count -= WIRE_HEADER_BYTES + header.length_bytes;
    }
}

static void test_requests_are_what_the_decoder_takes(void **state)
{
    struct wire_flow_open open;
    struct wire_flow_row row;
    struct wire_flow_answer answer;
    struct wire_fault fault;
    begin();
    open_row(5);
    assert_int_equal(AGX_OK, agx_session_flow_answer(&agx, &run, &(struct agx_flow_answer){
                                 .row = 5, .node = 1, .text = {"found", 5}}));
    const uint8_t *at = unsent(WIRE_FLOW_OPEN);
    uint32_t length = at[8] | (uint32_t)at[9] << 8;
    assert_status(STATUS_OK, wire_flow_open_decode(at + 16, length, &open, &fault));
    assert_true(open.nodes_count == 3 && open.outputs_count == 2 && open.operands_count == 5);
    assert_int_equal(WIRE_FLOW_OPEN_KEEP, open.flags);
    at = unsent(WIRE_ROW);
    assert_status(STATUS_OK, wire_flow_row_decode(at + 16, at[8], &row, &fault));
    assert_true(row.row == 5 && row.columns_count == 1);
    assert_memory_equal("\3\0\0\0why", row.columns, 7);
    at = unsent(WIRE_ANSWER);
    assert_status(STATUS_OK, wire_flow_answer_decode(at + 16, at[8], &answer, &fault));
    assert_true(answer.text_bytes == 5 && answer.node == 1 && answer.failed == 0);
}

static void test_values_come_with_their_row_and_digest(void **state)
{
    begin();
    open_row(5);
    feed_value(5, 0, 0, 2);
    assert_int_equal(AGX_OK, agx_session_next(&agx, &event));
    assert_true(event.flow->kind == AGX_FLOW_VALUE && event.flow->tokens_count == 2);
    assert_memory_equal(tokens, event.flow->tokens, 2 * sizeof *tokens);
    feed_value(5, 0, 2, 1);
    assert_int_equal(AGX_OK, agx_session_next(&agx, &event));
    assert_int_equal(2, event.flow->first_index);
    feed_row_done(5, wire_digest(WIRE_DIGEST_START, tokens, 3));
    assert_int_equal(AGX_OK, agx_session_next(&agx, &event));
    assert_true(event.flow->kind == AGX_FLOW_ROW_DONE && event.flow->calls == 1);
    const struct wire_flow_done done = {
        .flow_id = 9, .rows = 1, .calls = 1,
        .digest = wire_row_digest(5, wire_digest(WIRE_DIGEST_START, tokens, 3))};
    feed(&agx, bytes, wire_flow_done_encode(&done, bytes, sizeof bytes));
    assert_int_equal(AGX_OK, agx_session_next(&agx, &event));
    assert_int_equal(AGX_FLOW_DONE, event.flow->kind);
    assert_null(agx.flows);
    assert_int_equal(AGX_ERROR_ARGUMENT, agx_session_flow_end(&agx, &run, 0));
}

static void test_a_gap_or_a_wrong_digest_ends_the_session(void **state)
{
    begin();
    open_row(5);
    feed_value(5, 0, 1, 1);
    expect_next(&agx, AGX_ERROR_INDEX);
    begin();
    open_row(5);
    feed_row_done(5, 1);
    expect_next(&agx, AGX_ERROR_DIGEST);
    begin();
    feed_row_done(5, WIRE_DIGEST_START);
    expect_next(&agx, AGX_ERROR_UNKNOWN_CALL);
    begin();
    open_row(5);
    feed_value(5, 2, 0, 1);
    expect_next(&agx, AGX_ERROR_UNKNOWN_CALL);
    begin();
    struct wire_flow_ok ok = {.flow_id = 9};
    feed(&agx, bytes, wire_flow_ok_encode(&ok, bytes, sizeof bytes));
    expect_next(&agx, AGX_ERROR_UNKNOWN_CALL);
}

static void test_an_argument_comes_in_parts(void **state)
{
    struct wire_flow_ask ask = {.flow_id = 9, .row = 5, .node = 1, .text_bytes = 3,
                                .text = (const uint8_t *)"abc"};
    begin();
    open_row(5);
    feed(&agx, bytes, wire_flow_ask_encode(&ask, bytes, sizeof bytes));
    assert_int_equal(AGX_OK, agx_session_next(&agx, &event));
    assert_true(event.flow->kind == AGX_FLOW_ASK && !event.flow->is_last);
    ask.first_byte = 3;
    ask.flags = WIRE_ASK_LAST;
    feed(&agx, bytes, wire_flow_ask_encode(&ask, bytes, sizeof bytes));
    assert_int_equal(AGX_OK, agx_session_next(&agx, &event));
    assert_true(event.flow->is_last && event.flow->node == 1 && event.flow->text.count == 3);
    ask.node = 2;                           /* no lambda */
    ask.first_byte = 0;
    feed(&agx, bytes, wire_flow_ask_encode(&ask, bytes, sizeof bytes));
    expect_next(&agx, AGX_ERROR_UNKNOWN_CALL);
}

static void test_a_busy_row_may_be_sent_again(void **state)
{
    const struct wire_error error = {
        .fault = {.status = STATUS_BUSY_ROWS, .field = WIRE_FIELD_ROW, .frame_type = WIRE_ROW,
                  .call_id = 9, .found = 5, .max = 4}, .text = "busy"};
    const struct agx_text columns[] = {{"why", 3}};
    begin();
    open_row(5);
    assert_int_equal(AGX_ERROR_ARGUMENT, agx_session_flow_row(&agx, &run, 5, columns, 1));
    feed(&agx, bytes, wire_error_encode(&error, bytes, sizeof bytes));
    assert_int_equal(AGX_OK, agx_session_next(&agx, &event));
    assert_true(event.kind == AGX_REFUSED && event.call_id == 9);
    open_row(5);
}

static void test_after_a_break_a_run_is_opened_again(void **state)
{
    begin();
    open_row(5);
    agx_session_reset(&agx);
    feed_welcome(&agx);
    assert_int_equal(AGX_OK, agx_session_welcome(&agx));
    assert_int_equal(AGX_OK, agx_session_flow_open(&agx, &run));
    open_row(5);
}

static void test_a_builder_keeps_its_first_error(void **state)
{
    const struct agx_piece later[] = {AGX_VALUE(3)};
    agx_flow_init(&flow, memory, sizeof memory);
    assert_int_equal(AGX_FLOW_NONE, agx_flow_text(&flow, later, 1));
    assert_int_equal(AGX_ERROR_ARGUMENT, flow.result);
    assert_int_equal(AGX_FLOW_NONE, agx_flow_input(&flow, 1));
    for (size_t room = 0; room < 400; room++) {     /* whatever the room, nothing beyond it */
        struct agx_piece pieces[] = {AGX_TEXT("abc"), AGX_TEXT("def"), AGX_TEXT("abc")};
        memset(memory, 0x5a, sizeof memory);
        agx_flow_init(&flow, memory, room);
        agx_flow_input(&flow, 1);
        agx_flow_text(&flow, pieces, 3);
        agx_flow_lambda(&flow, "f", pieces, 3, &(struct agx_operator){.max_tokens = 1});
        assert_true(flow.result == AGX_OK || flow.result == AGX_ERROR_SPACE);
        assert_int_equal(0x5a, memory[room]);
    }
    assert_int_equal(AGX_OK, flow.result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_are_what_the_decoder_takes),
        cmocka_unit_test(test_values_come_with_their_row_and_digest),
        cmocka_unit_test(test_a_gap_or_a_wrong_digest_ends_the_session),
        cmocka_unit_test(test_an_argument_comes_in_parts),
        cmocka_unit_test(test_a_busy_row_may_be_sent_again),
        cmocka_unit_test(test_after_a_break_a_run_is_opened_again),
        cmocka_unit_test(test_a_builder_keeps_its_first_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
