/* SPDX-License-Identifier: MIT */
/*
 * Goal: nodes compose what the client said, whatever texts it was divided into; each literal is
 * encoded once, as one text; no graph makes composing long or takes more than there is.
 * Method: small graphs, written as operands, and an encoder that gives a token for each byte and
 * keeps count; a lead gets a token before it, a special byte a token of its own.
 */
#include "selftest/unit/test.h"

#include <stdio.h>

#include "config/workflow/compose.h"

#define LEAD    1000u
#define SPECIAL 2000u

static struct workflow_table table;
static struct workflow *flow;
static struct workflow_operand operands[WORKFLOW_NODES_MAX * 4];
static struct workflow_text texts[WORKFLOW_NODES_MAX];
static struct workflow_source source;
static uint32_t encoded, at_node;

static uint32_t encode(void *self, const struct workflow_literal *literal, uint32_t *tokens,
                       uint32_t max)
{
    uint32_t count = 0;
    encoded++;
    if (literal->leads && count < max) {
        tokens[count++] = LEAD;
    }
    for (uint32_t p = 0; p < literal->parts_count; p++) {
        const struct workflow_text *part = &literal->parts[p];
        for (uint32_t i = 0; i < part->count; i++, count++) {
            if (count >= max) {
                return UINT32_MAX;
            }
            tokens[count] = (uint8_t)part->bytes[i] + (part->parse_special ? SPECIAL : 0);
        }
    }
    return count;
}

static void begin(uint32_t pieces, uint32_t tokens)
{
    const struct workflow_limits limits = {.workflows = 1, .nodes = WORKFLOW_NODES_MAX,
                                           .pieces = pieces, .tokens = tokens, .rows = 1,
                                           .value_tokens = 16384};
    workflow_table_init(&table, &limits, test_arena(), test_arena());
    flow = &table.workflows[workflow_take(&table, 0)];
    source = (struct workflow_source){.operands = operands, .texts = texts,
                                      .lists = flow->values,
                                      .lists_bytes = limits.value_tokens * sizeof(uint32_t)};
    encoded = 0;
}

static uint32_t text(const char *bytes, bool parse_special)
{
    texts[source.texts_count] = (struct workflow_text){bytes, (uint32_t)strlen(bytes),
                                                       parse_special};
    return source.texts_count++;
}

static uint32_t node(enum workflow_kind kind)
{
    source.of_node[flow->nodes_count] = (struct workflow_span){source.operands_count, 0};
    flow->nodes[flow->nodes_count] = (struct workflow_node){.kind = kind};
    return flow->nodes_count++;
}

/* To the last node. */
static void say(const char *bytes)
{
    operands[source.operands_count++] = (struct workflow_operand){WORKFLOW_NONE,
                                                                  text(bytes, false)};
    source.of_node[flow->nodes_count - 1].count++;
}

static void name(uint32_t value)
{
    operands[source.operands_count++] = (struct workflow_operand){value, WORKFLOW_NONE};
    source.of_node[flow->nodes_count - 1].count++;
}

static enum status compose(void)
{
    const struct workflow_encoder encoder = {encode, NULL};
    return workflow_compose(flow, &table.limits, &source, &encoder, &at_node);
}

/* What a node composes: ^ for a lead, <i> for the value of node i. */
static void assert_composed(uint32_t index, const char *expected)
{
    char all[256];
    uint32_t used = 0;
    for (uint32_t p = 0; p < flow->nodes[index].pieces_count; p++) {
        const struct workflow_piece *piece =
            &flow->pieces[flow->nodes[index].pieces_first + p];
        if (piece->node != WORKFLOW_NONE) {
            used += (uint32_t)sprintf(all + used, "<%u>", piece->node);
        }
        for (uint32_t t = 0; piece->node == WORKFLOW_NONE && t < piece->tokens.count; t++) {
            uint32_t token = flow->tokens[piece->tokens.first + t];
            all[used++] = token == LEAD ? '^' : (char)(token % SPECIAL);
        }
    }
    all[used] = 0;
    assert_string_equal(expected, all);
}

/* ---- what is composed ------------------------------------------------------------------------ */

static void test_compose_joins_neighbours_and_inlines_texts(void **state)
{
    begin(64, 256);
    uint32_t question = node(WORKFLOW_INPUT), role = node(WORKFLOW_TEXT);
    say("You are ");
    say("anna");
    say(".\n");
    uint32_t all = node(WORKFLOW_TEXT);
    name(role);
    name(question);
    say("\nThink");
    uint32_t first = node(WORKFLOW_LLM);
    name(all);
    say(", please.");
    uint32_t second = node(WORKFLOW_LLM);
    name(first);
    name(first);
    name(role);
    assert_status(STATUS_OK, compose());
    assert_composed(question, "");
    assert_composed(role, "");
    assert_composed(all, "");
    assert_composed(first, "^You are anna.\n<0>\nThink, please.");
    assert_composed(second, "<3><3>You are anna.\n");
    assert_int_equal(3, encoded);
}

static void test_compose_gives_equal_literals_the_same_tokens(void **state)
{
    begin(64, 256);
    uint32_t input = node(WORKFLOW_INPUT);
    uint32_t whole = node(WORKFLOW_LLM);
    say("abc");
    name(input);
    say("abc");
    uint32_t divided = node(WORKFLOW_LLM);
    say("a");
    say("");
    say("bc");
    name(input);
    say("ab");
    say("c");
    assert_status(STATUS_OK, compose());
    const struct workflow_piece *a = &flow->pieces[flow->nodes[whole].pieces_first];
    const struct workflow_piece *b = &flow->pieces[flow->nodes[divided].pieces_first];
    assert_memory_equal(a, b, 3 * sizeof *a);
    assert_int_not_equal(a[0].tokens.first, a[2].tokens.first);     /* one leads, one does not */
    assert_int_equal(2, encoded);
    assert_int_equal(7, flow->tokens_count);
}

static void test_compose_tells_what_may_be_special_apart(void **state)
{
    begin(64, 256);
    node(WORKFLOW_LLM);
    say("ab");
    node(WORKFLOW_LLM);
    say("ab");
    texts[source.texts_count - 1].parse_special = true;
    node(WORKFLOW_LLM);
    say("a");
    say("b");
    texts[source.texts_count - 1].parse_special = true;
    assert_status(STATUS_OK, compose());
    assert_int_equal(3, encoded);
    assert_int_equal(9, flow->tokens_count);
    assert_int_equal('a' + SPECIAL, flow->tokens[4]);
    assert_int_equal('a', flow->tokens[7]);
    assert_int_equal('b' + SPECIAL, flow->tokens[8]);
}

static void test_compose_of_nothing_has_no_pieces(void **state)
{
    begin(64, 256);
    node(WORKFLOW_LLM);
    uint32_t empty = node(WORKFLOW_LLM);
    say("");
    say("");
    assert_status(STATUS_OK, compose());
    assert_composed(empty, "");
    assert_int_equal(0, flow->pieces_count);
    assert_int_equal(0, encoded);
}

static void test_compose_of_an_output_that_is_text_has_pieces(void **state)
{
    begin(64, 256);
    uint32_t llm = node(WORKFLOW_LLM), shown = node(WORKFLOW_TEXT), lambda;
    say("= ");
    name(llm);
    flow->nodes[shown].is_output = true;
    lambda = node(WORKFLOW_LAMBDA);
    name(shown);
    say("!");
    assert_status(STATUS_OK, compose());
    assert_composed(shown, "= <0>");
    assert_composed(lambda, "= <0>!");      /* no lead: it is no prompt */
}

static void test_inputs_that_lead_and_follow_are_told(void **state)
{
    begin(64, 256);
    uint32_t first = node(WORKFLOW_INPUT), both = node(WORKFLOW_INPUT), last = node(WORKFLOW_INPUT);
    uint32_t shown = node(WORKFLOW_INPUT), asked = node(WORKFLOW_INPUT);
    uint32_t quoted = node(WORKFLOW_TEXT);
    name(both);
    node(WORKFLOW_LLM);
    name(first);
    name(both);
    node(WORKFLOW_LLM);
    name(quoted);
    name(last);
    node(WORKFLOW_LAMBDA);
    name(asked);
    flow->nodes[shown].is_output = true;
    assert_status(STATUS_OK, compose());
    assert_true(workflow_input_leads(flow, first) && !workflow_input_follows(flow, first));
    assert_true(workflow_input_leads(flow, both) && workflow_input_follows(flow, both));
    assert_true(!workflow_input_leads(flow, last) && workflow_input_follows(flow, last));
    assert_true(!workflow_input_leads(flow, shown) && workflow_input_follows(flow, shown));
    assert_true(!workflow_input_leads(flow, asked) && workflow_input_follows(flow, asked));
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* Node i says node i - 1 twice; the first says `bytes`. The last is an LLM node. */
static void double_texts(const char *bytes, uint32_t depth)
{
    uint32_t last = node(WORKFLOW_TEXT);
    say(bytes);
    for (uint32_t i = 0; i < depth; i++) {
        uint32_t next = node(i + 1 < depth ? WORKFLOW_TEXT : WORKFLOW_LLM);
        name(last);
        name(last);
        last = next;
    }
}

static void test_compose_of_texts_that_explode_ends(void **state)
{
    begin(1024, 256);
    double_texts("", 200);
    assert_status(STATUS_BUSY_SPACE, compose());
    assert_int_equal(200, at_node);
    begin(1024, 256);
    double_texts("x", 200);
    assert_status(STATUS_BUSY_SPACE, compose());
    begin(1024, 256);
    double_texts("x", 6);
    assert_status(STATUS_OK, compose());
    assert_int_equal(65, flow->tokens_count);
}

static void test_compose_of_a_deep_chain_needs_no_recursion(void **state)
{
    begin(64, 256);
    uint32_t last = node(WORKFLOW_TEXT);
    say("x");
    while (flow->nodes_count < WORKFLOW_NODES_MAX) {
        uint32_t next = node(flow->nodes_count + 1 < WORKFLOW_NODES_MAX ? WORKFLOW_TEXT
                                                                        : WORKFLOW_LLM);
        name(last);
        last = next;
    }
    assert_status(STATUS_OK, compose());
    assert_composed(last, "^x");
}

static void test_compose_stays_within_each_limit(void **state)
{
    begin(2, 256);
    uint32_t input = node(WORKFLOW_INPUT), llm = node(WORKFLOW_LLM);
    say("a");
    name(input);
    assert_status(STATUS_OK, compose());
    say("b");
    assert_status(STATUS_BUSY_SPACE, compose());
    assert_int_equal(llm, at_node);
    begin(64, 4);
    node(WORKFLOW_LLM);
    say("abc");
    assert_status(STATUS_OK, compose());
    say("d");
    assert_status(STATUS_BUSY_SPACE, compose());
}

/* Two parts of 16 bytes and a literal of 32. */
static void test_compose_needs_room_for_its_lists(void **state)
{
    begin(64, 256);
    for (uint32_t values = 0; values < 64; values++) {
        source.lists_bytes = values * sizeof(uint32_t);
        memset(flow->values, 0x5a, 256);
        source.texts_count = source.operands_count = flow->nodes_count = 0;
        node(WORKFLOW_LLM);
        say("a");
        say("b");
        enum status status = compose();
        assert_true(status == (values >= 16 ? STATUS_OK : STATUS_BUSY_SPACE));
        assert_int_equal(0x5a5a5a5a, flow->values[values]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compose_joins_neighbours_and_inlines_texts),
        cmocka_unit_test(test_compose_gives_equal_literals_the_same_tokens),
        cmocka_unit_test(test_compose_tells_what_may_be_special_apart),
        cmocka_unit_test(test_compose_of_nothing_has_no_pieces),
        cmocka_unit_test(test_compose_of_an_output_that_is_text_has_pieces),
        cmocka_unit_test(test_inputs_that_lead_and_follow_are_told),
        cmocka_unit_test(test_compose_of_texts_that_explode_ends),
        cmocka_unit_test(test_compose_of_a_deep_chain_needs_no_recursion),
        cmocka_unit_test(test_compose_stays_within_each_limit),
        cmocka_unit_test(test_compose_needs_room_for_its_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
