/* SPDX-License-Identifier: MIT */
/*
 * Goal: the lists in the frames of workflows can be made and walked through, and what one field
 * cannot say alone is judged. The bytes themselves are in selftest/vectors/frames.txt.
 * Method: a graph is put together by the calls that the client library uses, decoded, and walked.
 */
#include "selftest/unit/test.h"

#include "net/wire.h"

static uint8_t frame_bytes[4096], node_bytes[2048], text_bytes[512];

static struct wire_flow_node llm_node(const uint32_t *operands, uint32_t count)
{
    return (struct wire_flow_node){.kind = WIRE_NODE_LLM, .max_tokens = 8,
                                   .operands_count = count, .sampling.top_p = 1.0f,
                                   .sampling.repeat_penalty = 1.0f,
                                   .operands = (const uint8_t *)operands};
}

/* An input, a lambda over it and a text, an LLM node over both. */
static uint32_t make_flow(void)
{
    static const uint32_t of_lambda[] = {0, WIRE_IS_TEXT | 1}, of_llm[] = {WIRE_IS_TEXT, 1};
    static const uint32_t outputs[] = {2, 0};
    struct bytes nodes = bytes_writer(node_bytes, sizeof node_bytes);
    struct bytes texts = bytes_writer(text_bytes, sizeof text_bytes);
    struct wire_flow_node lambda = {.kind = WIRE_NODE_LAMBDA, .max_tokens = 5, .name = "search",
                                    .operands_count = 2, .operands = (const uint8_t *)of_lambda};
    struct wire_flow_node llm = llm_node(of_llm, 2);
    llm.sampling.stop_ids_count = 1;
    llm.sampling.stop_ids[0] = 77;
    llm.stop_texts_count = 1;
    llm.stop_texts[0] = (struct call_stop_text){.length_bytes = 3, .bytes = "end"};
    assert_true(wire_flow_node_put(&nodes, &(struct wire_flow_node){.kind = WIRE_NODE_INPUT}));
    assert_true(wire_flow_node_put(&nodes, &lambda));
    assert_true(wire_flow_node_put(&nodes, &llm));
    assert_true(wire_flow_text_put(&texts, &(struct wire_flow_text){"<s>hi", 5, true}));
    assert_true(wire_flow_text_put(&texts, &(struct wire_flow_text){"", 0, false}));
    const struct wire_flow_open open = {
        .flow_id = 5, .nodes_count = 3, .operands_count = 4, .outputs_count = 2, .texts_count = 2,
        .nodes = node_bytes, .nodes_bytes = nodes.at, .texts = text_bytes, .texts_bytes = texts.at,
        .outputs = (const uint8_t *)outputs};
    return wire_flow_open_encode(&open, frame_bytes, sizeof frame_bytes);
}

static void test_walk_over_nodes_gives_what_was_put(void **state)
{
    struct wire_fault fault;
    struct wire_flow_open open;
    struct wire_flow_node node;
    uint32_t count = make_flow(), operand;
    assert_status(STATUS_OK, wire_flow_open_decode(frame_bytes + WIRE_HEADER_BYTES,
                                                   count - WIRE_HEADER_BYTES, &open, &fault));
    struct bytes nodes = bytes_reader(open.nodes, open.nodes_bytes);
    wire_flow_node_next(&nodes, &node);
    assert_int_equal(node.kind, WIRE_NODE_INPUT);
    wire_flow_node_next(&nodes, &node);
    assert_string_equal(node.name, "search");
    memcpy(&operand, node.operands + 4, sizeof operand);
    assert_int_equal(operand, WIRE_IS_TEXT | 1);
    wire_flow_node_next(&nodes, &node);
    assert_int_equal(node.max_tokens, 8);
    assert_int_equal(node.sampling.stop_ids[0], 77);
    assert_memory_equal(node.stop_texts[0].bytes, "end", 3);
    assert_true(bytes_at_end(&nodes));
}

static void test_walk_over_texts_gives_what_was_put(void **state)
{
    struct wire_fault fault;
    struct wire_flow_open open;
    struct wire_flow_text text;
    uint32_t count = make_flow();
    assert_status(STATUS_OK, wire_flow_open_decode(frame_bytes + WIRE_HEADER_BYTES,
                                                   count - WIRE_HEADER_BYTES, &open, &fault));
    struct bytes texts = bytes_reader(open.texts, open.texts_bytes);
    wire_flow_text_next(&texts, &text);
    assert_true(text.is_special && text.count == 5);
    assert_memory_equal(text.bytes, "<s>hi", 5);
    wire_flow_text_next(&texts, &text);
    assert_true(!text.is_special && text.count == 0);
    assert_true(bytes_at_end(&texts));
}

static void test_column_of_more_than_2_gib_cannot_be_put(void **state)
{
    struct bytes columns = bytes_writer(text_bytes, sizeof text_bytes);
    assert_false(wire_flow_column_put(&columns,
                                      &(struct wire_flow_text){.count = UINT32_C(1) << 31}));
}

static void test_put_without_room_says_so(void **state)
{
    struct wire_flow_node node = {.kind = WIRE_NODE_INPUT};
    for (uint32_t max = 0; max < 44; max++) {
        struct bytes nodes = bytes_writer(node_bytes, max);
        assert_false(wire_flow_node_put(&nodes, &node));
    }
    struct bytes nodes = bytes_writer(node_bytes, 44);
    assert_true(wire_flow_node_put(&nodes, &node));
}

/* Two of the three ways to name a node: itself, a later one. The sum of operands is right. */
static void test_operand_that_is_no_earlier_node_is_refused(void **state)
{
    static const uint32_t outputs[] = {0};
    for (uint32_t operand = 0; operand < 3; operand++) {
        struct bytes nodes = bytes_writer(node_bytes, sizeof node_bytes);
        struct wire_flow_node llm = llm_node(&operand, 1);
        struct wire_flow_open open = {.nodes_count = 1, .operands_count = 1, .outputs_count = 1,
                                      .nodes = node_bytes, .outputs = (const uint8_t *)outputs};
        struct wire_fault fault;
        assert_true(wire_flow_node_put(&nodes, &llm));
        open.nodes_bytes = nodes.at;
        uint32_t count = wire_flow_open_encode(&open, frame_bytes, sizeof frame_bytes);
        assert_status(STATUS_BAD_FIELD,
                      wire_flow_open_decode(frame_bytes + WIRE_HEADER_BYTES,
                                            count - WIRE_HEADER_BYTES, &open, &fault));
        assert_int_equal(fault.field, WIRE_FIELD_OPERANDS);
        assert_int_equal(fault.found, operand);
    }
}

static void test_digest_of_a_row_depends_on_row_and_tokens(void **state)
{
    assert_true(wire_row_digest(1, 2) != wire_row_digest(2, 1));
    assert_true(wire_row_digest(1, 2) == wire_row_digest(1, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walk_over_nodes_gives_what_was_put),
        cmocka_unit_test(test_walk_over_texts_gives_what_was_put),
        cmocka_unit_test(test_column_of_more_than_2_gib_cannot_be_put),
        cmocka_unit_test(test_put_without_room_says_so),
        cmocka_unit_test(test_operand_that_is_no_earlier_node_is_refused),
        cmocka_unit_test(test_digest_of_a_row_depends_on_row_and_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
