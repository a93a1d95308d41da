/* SPDX-License-Identifier: MIT */
/*
 * Goal: a flow file becomes the nodes that it says, with their indices expanded; any other file is
 * refused, with its place, what was found and what was expected.
 * Method: small files; the nodes are written out as NAME=PROMPT lines, with <NAME> for a value,
 * after they went through the builder and the composition that the appliance uses.
 */
#include "selftest/unit/test.h"

#include <stdio.h>

#include "sched/workflow/optimise.h"
#include "tools/flow/flow_file.h"
#include "tools/flow/record.h"

#define BEGIN "agentix-flow 1\n"

static char fault[FLOW_FAULT_BYTES], shown[8192];
static size_t used;
static struct flow_file file;
static struct flow_symbols symbols;

static bool parse_bytes(const char *text, size_t bytes)
{
    const struct flow_file_settings settings = {.synthetic = FLOW_SYNTHETIC_MARKER};
    const struct flow_file_text source = {"f", text, bytes};
    memset(fault, 0, sizeof fault);
    return flow_file_parse(&file, &source, &settings, fault);
}

static void show(const char *text)
{
    used += (size_t)snprintf(shown + used, sizeof shown - used, "%s", text);
}

static void show_tokens(const struct workflow *flow, struct workflow_span tokens)
{
    for (uint32_t i = 0; i < tokens.count; i++) {
        uint32_t token = flow->tokens[tokens.first + i];
        char byte[16] = {(char)token, '\0'};
        if (token > 255) {
            snprintf(byte, sizeof byte, "(%u.%u)", token >> 20, token & 0xfffff);
        }
        show(token == '\n' ? "|" : byte);
    }
}

static void show_node(const struct workflow *flow, uint32_t node)
{
    const struct workflow_node *of = &flow->nodes[node];
    show(file.names[node].name);
    show("=");
    for (uint32_t i = 0; i < of->pieces_count; i++) {
        const struct workflow_piece *piece = &flow->pieces[of->pieces_first + i];
        if (piece->node == WORKFLOW_NONE) {
            show_tokens(flow, piece->tokens);
        } else {
            show("<");
            show(file.names[piece->node].name);
            show(">");
        }
    }
    show(of->is_output ? "!\n" : "\n");
}

/* The file without its title gives these nodes. */
static void assert_flow(const char *text, const char *expected)
{
    char whole[4096];
    struct flow_record record;
    const struct workflow_encoder encoder = {flow_encode_symbols, &symbols};
    uint32_t node;
    int bytes = snprintf(whole, sizeof whole, BEGIN "%s", text);
    assert_true(bytes > 0 && (size_t)bytes < sizeof whole);
    if (!parse_bytes(whole, (size_t)bytes)) {
        fail_msg("%s", fault);
    }
    memset(&symbols, 0, sizeof symbols);
    assert_null(flow_record_fill(&record, &file.flow, &encoder, &node));
    used = 0;
    for (uint32_t i = 0; i < record.workflow->nodes_count; i++) {
        show_node(record.workflow, i);
    }
    assert_string_equal(expected, shown);
    flow_record_free(&record);
    flow_file_free(&file);
}

static void assert_refused(const char *text, const char *expected)
{
    assert_false(parse_bytes(text, strlen(text)));
    assert_string_equal(expected, fault);
}

/* ---- what a file means ----------------------------------------------------------------------- */

static void test_parse_the_example_of_the_specification(void **state)
{
    assert_flow("each round = 1..2\n"
                "each agent = anna bert carl\n"
                "input question=60\n"
                "llm   say[round,agent] max=128 est=90 = \"You are \" agent \".\\n\" question\n"
                "      {\"\\nYou said: \" say[round-1,agent]} {\"\\nAnother: \" "
                "say[round-1,!agent]} \"\\nAnswer:\"\n"
                "llm   verdict max=64 = question {\"\\nHeard: \" say[2,*]} \"\\nVerdict:\"\n"
                "output verdict\n",
                "question=\n"
                "say[1,anna]=You are anna.|<question>|Answer:\n"
                "say[1,bert]=You are bert.|<question>|Answer:\n"
                "say[1,carl]=You are carl.|<question>|Answer:\n"
                "say[2,anna]=You are anna.|<question>|You said: <say[1,anna]>|Another: "
                "<say[1,bert]>|Another: <say[1,carl]>|Answer:\n"
                "say[2,bert]=You are bert.|<question>|You said: <say[1,bert]>|Another: "
                "<say[1,anna]>|Another: <say[1,carl]>|Answer:\n"
                "say[2,carl]=You are carl.|<question>|You said: <say[1,carl]>|Another: "
                "<say[1,anna]>|Another: <say[1,bert]>|Answer:\n"
                "verdict=<question>|Heard: <say[2,anna]>|Heard: <say[2,bert]>|Heard: "
                "<say[2,carl]>|Verdict:!\n");
}

static void test_parse_lines_go_on_and_comments_are_none(void **state)
{
    assert_flow("# a comment\n\n  # another\n"
                "llm a max=1 =   # what follows\n"
                "\n"
                "  \"x # y\"\r\n"
                "\t\"z\\t\\\"\\\\\"\n"
                "output a  # done",
                "a=x # yz\t\"\\!\n");
}

static void test_parse_wildcards_of_a_group_go_together(void **state)
{
    assert_flow("each a = 1 2\neach b = x y\ninput p[a] q[b] r[a,b]\n"
                "llm zip max=1 = {p[*] r[*,x] \";\"}\n"
                "llm cross max=1 = {p[*] q[*] \";\"}\n"
                "llm all max=1 = r[*,*]\n"
                "llm less[a] max=1 = {p[*] p[!a] \";\"} a\n"
                "output zip cross all less[*]\n",
                "p[1]=\np[2]=\nq[x]=\nq[y]=\nr[1,x]=\nr[1,y]=\nr[2,x]=\nr[2,y]=\n"
                "zip=<p[1]><r[1,x]>;<p[2]><r[2,x]>;!\n"
                "cross=<p[1]><q[x]>;<p[1]><q[y]>;<p[2]><q[x]>;<p[2]><q[y]>;!\n"
                "all=<r[1,x]><r[1,y]><r[2,x]><r[2,y]>!\n"
                "less[1]=<p[2]><p[2]>;1!\n"
                "less[2]=<p[1]><p[1]>;2!\n");
}

static void test_parse_an_index_of_a_group_is_its_wildcards(void **state)
{
    assert_flow("each who = anna bert\nllm say[who] max=1 = who\n"
                "llm sum max=1 = {who \": \" say[*] \".\"}\noutput sum\n",
                "say[anna]=anna\nsay[bert]=bert\nsum=anna: <say[anna]>.bert: <say[bert]>.!\n");
}

static void test_parse_a_group_without_an_element_vanishes(void **state)
{
    assert_flow("each n = 1..3\neach one = solo\ninput o[one]\n"
                "llm a[n] max=1 = \"x\" {\" before: \" a[n-1]} {\" two: \" a[n-2] a[n-1]}\n"
                "llm b[one] max=1 = {\"never\" o[!one]} {\"none\"}\n"
                "output a[3] b[solo]\n",
                "o[solo]=\n"
                "a[1]=x\na[2]=x before: <a[1]>\na[3]=x before: <a[2]> two: <a[1]><a[2]>!\n"
                "b[solo]=none!\n");
}

static void test_parse_rounds_name_each_other_in_any_order(void **state)
{
    assert_flow("each n = 1..2\n"
                "llm draft[n] max=1 = \"d\" {critique[n-1]}\n"
                "llm critique[n] max=1 = draft[n]\n"
                "output critique[2]\n",
                "draft[1]=d\ncritique[1]=<draft[1]>\ndraft[2]=d<critique[1]>\n"
                "critique[2]=<draft[2]>!\n");
}

static void test_parse_texts_are_inlined_and_lambdas_named(void **state)
{
    assert_flow("each n = 1..2\ninput q\n"
                "text intro = \"Q: \" q \"\\n\"\n"
                "lambda search[n] = intro n\n"
                "llm a max=1 = intro \"A:\" search[*]\n"
                "output a\n",
                "q=\nintro=\nsearch[1]=Q: <q>|1\nsearch[2]=Q: <q>|2\n"
                "a=Q: <q>|A:<search[1]><search[2]>!\n");
}

static void test_parse_synthetic_tokens_are_markers(void **state)
{
    assert_flow("llm a max=1 = s:doc:2 \"x\" s:tool:1 s:doc:1\noutput a\n",
                "a=(1.0)(1.1)x(2.0)(1.0)!\n");
}

/* The sanitizers of MODE=asan see what is done with no bytes at all. */
static void test_parse_takes_a_file_that_says_nothing(void **state)
{
    assert_flow("llm a max=3 = \"\"\noutput a\n", "a=!\n");
    assert_flow("text t =\nllm a max=3 = t\noutput a\n", "t=\na=!\n");
}

static void test_parse_keeps_the_place_of_each_name(void **state)
{
    const char *text = BEGIN "each n = 1..2\noutput b[2]\nllm\n b[n] max=1 = a\ninput z  a\n";
    assert_true(parse_bytes(text, strlen(text)));
    assert_string_equal("f", file.path);
    assert_string_equal("z", file.names[0].name);
    assert_true(file.names[0].line == 6 && file.names[0].column == 7);
    assert_true(file.names[1].line == 6 && file.names[1].column == 10);
    assert_string_equal("b[2]", file.names[3].name);
    assert_true(file.names[3].line == 5 && file.names[3].column == 2);
    flow_file_free(&file);
}

/* ---- options --------------------------------------------------------------------------------- */

static void test_parse_options_reach_the_node(void **state)
{
    const char *text = BEGIN "llm a max=5 temp=0.5 top-k=3 top-p=0.9 min-p=0.1 repeat=1.5 "
                             "seed=18446744073709551615 ignore-eos=1 "
                             "stop=\"\\n\" stop=7 stop=\"b\" = \"x\"\n"
                             "input i=9 j\nlambda l est=4 = i\noutput a l\n";
    const struct workflow_encoder encoder = {flow_encode_symbols, &symbols};
    struct flow_record record;
    uint32_t at;
    assert_true(parse_bytes(text, strlen(text)));
    assert_null(flow_record_fill(&record, &file.flow, &encoder, &at));
    const struct workflow_node *node = record.workflow->nodes;
    const struct call_sampling *sampling = &node->call.sampling;
    assert_int_equal(5, node->max_tokens);
    assert_int_equal(5, node->est_tokens);
    assert_true(sampling->temperature == 0.5f && sampling->top_p == 0.9f);
    assert_true(sampling->min_p == 0.1f && sampling->repeat_penalty == 1.5f);
    assert_int_equal(3, sampling->top_k);
    assert_true(sampling->seed == UINT64_MAX && node->call.ignore_eos);
    assert_int_equal(1, sampling->stop_ids_count);
    assert_int_equal(7, sampling->stop_ids[0]);
    assert_int_equal(2, node->call.stop_texts_count);
    assert_int_equal(1, node->call.stop_texts[0].length_bytes);
    assert_int_equal('\n', node->call.stop_texts[0].bytes[0]);
    assert_int_equal(9, node[1].est_tokens);
    assert_int_equal(64, node[2].est_tokens);
    assert_string_equal("l", node[3].name);
    assert_true(node[3].max_tokens == 4 && node[3].est_tokens == 4);
    flow_record_free(&record);
    flow_file_free(&file);
}

static uint32_t know(void *self, const char *name)
{
    return strcmp(name, "a[2]") == 0 ? 17 : 0;
}

static void test_parse_takes_lengths_that_are_known(void **state)
{
    const char *text = BEGIN "each n = 1..2\nllm a[n] max=50 est=40 = n\noutput a[*]\n";
    const struct flow_file_settings settings = {.est = know};
    const struct flow_file_text source = {"f", text, strlen(text)};
    const struct workflow_encoder encoder = {flow_encode_symbols, &symbols};
    struct flow_record record;
    uint32_t at;
    assert_true(flow_file_parse(&file, &source, &settings, fault));
    assert_null(flow_record_fill(&record, &file.flow, &encoder, &at));
    assert_int_equal(40, record.workflow->nodes[0].est_tokens);
    assert_int_equal(17, record.workflow->nodes[1].est_tokens);
    flow_record_free(&record);
    flow_file_free(&file);
}

/* ---- what is no flow file -------------------------------------------------------------------- */

static void test_parse_refuses_with_place_found_and_expected(void **state)
{
    assert_refused("", "f:1:1: found the end of the file, expected agentix-flow 1");
    assert_refused("agentix-flow 2\n", "f:1:14: found '2', expected version 1");
    assert_refused(BEGIN, "f:2:1: found the end of the file, expected an output");
    assert_refused(BEGIN "llm a max=1 = \"x\n",
                   "f:2:15: found '\"', expected a string that ends on its line");
    assert_refused(BEGIN "llm a max=1 = \"x\\q\"\n",
                   "f:2:17: found '\\q', expected one of \\n \\t \\r \\\" \\\\");
    assert_refused(BEGIN "llm a = \"x\"\n", "f:2:7: found '=', expected max=N before it");
    assert_refused(BEGIN "llm a max=0 = \"x\"\n", "f:2:11: found '0', expected 1 .. 16777216");
    assert_refused(BEGIN "llm a max=1 = {\"x\"\n",
                   "f:2:19: found the end of the statement, expected }");
    assert_refused(BEGIN "llm a max=1 = {\"x\" {\n",
                   "f:2:20: found '{', expected }: a group holds no group");
    assert_refused(BEGIN "llm a max=1 = \"x\" }\n", "f:2:19: found '}', expected { before it");
    assert_refused(BEGIN "text a max=1 = \"x\"\n",
                   "f:2:8: found 'max', expected =, and then what it says");
    assert_refused(BEGIN "each a = 2..1\n",
                   "f:2:10: found '2..1', expected a range that goes upwards");
    assert_refused(BEGIN "each a = 1..257\n",
                   "f:2:10: found '1..257', expected at most 256 elements");
    assert_refused(BEGIN "each a = x x\n", "f:2:12: found 'x', expected each element once");
    assert_refused(BEGIN "input a a\n", "f:2:9: found 'a', expected a new name");
    assert_refused(BEGIN "input a[b]\n",
                   "f:2:9: found 'b', expected the name of an `each` above, once, and at most 8 of "
                   "them");
}

#define RANGE "expected a range A..B of two whole numbers, each 0 .. 2147483647, such as 1..4"

static void test_parse_refuses_two_dots_that_make_no_range(void **state)
{
    assert_flow("each n = 0..2 9 010..11\ninput i[n]\noutput i[11]\n",
                "i[0]=\ni[1]=\ni[2]=\ni[9]=\ni[10]=\ni[11]=!\n");
    assert_refused(BEGIN "each r = -1..1\n", "f:2:10: found '-1..1', " RANGE);
    assert_refused(BEGIN "each r = 1..100000000000\n",
                   "f:2:10: found '1..100000000000', " RANGE);
    assert_refused(BEGIN "each r = x 1..\n", "f:2:12: found '1..', " RANGE);
    assert_refused(BEGIN "each r = ..\n", "f:2:10: found '..', " RANGE);
    assert_refused(BEGIN "each r = 1...3\n", "f:2:10: found '1...3', " RANGE);
    assert_refused(BEGIN "each r = a..c\n", "f:2:10: found 'a..c', " RANGE);
}

static void test_parse_refuses_an_option_that_comes_twice(void **state)
{
    static const char *const twice[] = {"est=1 est=1", "temp=1 temp=0", "top-k=1 top-k=1",
                                        "top-p=1 top-p=1", "min-p=0 min-p=0", "repeat=1 repeat=1",
                                        "seed=0 seed=0", "ignore-eos=0 ignore-eos=0"};
    assert_refused(BEGIN "llm a max=3 max=4 = \"x\"\n",
                   "f:2:13: found 'max', expected each option once; only stop may be repeated");
    assert_refused(BEGIN "lambda a est=3 max=3 est=3 = \"x\"\n",
                   "f:2:22: found 'est', expected each option once; only stop may be repeated");
    for (uint32_t i = 0; i < sizeof twice / sizeof twice[0]; i++) {
        char text[128];
        snprintf(text, sizeof text, BEGIN "llm a max=1 %s = \"x\"\noutput a\n", twice[i]);
        assert_false(parse_bytes(text, strlen(text)));
        assert_non_null(strstr(fault, ", expected each option once"));
    }
}

static void test_parse_refuses_a_max_that_a_plan_would_cut(void **state)
{
    const char *text = BEGIN "llm a max=16777216 = \"x\"\nlambda f max=16777216 = a\noutput f\n";
    assert_int_equal(OP_OUT_MAX, FLOW_VALUE_TOKENS_MAX);
    assert_true(parse_bytes(text, strlen(text)));
    flow_file_free(&file);
    assert_refused(BEGIN "llm a max=16777217 = \"x\"\n",
                   "f:2:11: found '16777217', expected 1 .. 16777216");
    assert_refused(BEGIN "lambda f max=2147483647 = \"x\"\n",
                   "f:2:14: found '2147483647', expected 1 .. 16777216");
}

static void test_parse_names_the_line_on_which_a_statement_ends(void **state)
{
    assert_refused(BEGIN "each r =\n\n# no more\noutput r\n",
                   "f:2:9: found the end of the statement, expected an element or a range, such as "
                   "anna or 1..4");
    assert_refused(BEGIN "llm a max=1 = {\n  \"x\"  # open\noutput a\n",
                   "f:3:6: found the end of the statement, expected }");
    assert_refused("agentix-flow",
                   "f:1:13: found the end of the statement, expected version 1");
    assert_refused(BEGIN "output",
                   "f:2:7: found the end of the statement, expected a piece: \"text\", a name, "
                   "s:NAME:N or {");
    assert_refused(BEGIN "each\na = 1\n",
                   "f:2:5: found the end of the statement, expected a name: a letter or _, then "
                   "letters, digits, _ . -");
}

static void test_parse_refuses_names_that_mean_nothing(void **state)
{
    assert_refused(BEGIN "llm a max=1 = b\noutput a\n",
                   "f:2:15: found 'b', expected the name of a node, or an index of this one");
    assert_refused(BEGIN "each n = 1..2\nllm a[n] max=1 = n\noutput a\n",
                   "f:4:8: found 'a', expected as many indices as it was defined with");
    assert_refused(BEGIN "each n = 1..2\nllm a[n] max=1 = n\noutput a[3]\n",
                   "f:4:10: found '3', expected an index that has an element here, or an element");
    assert_refused(BEGIN "each n = 1..2\nllm a[n] max=1 = a[n-1]\noutput a[2]\n",
                   "f:3:18: found 'a', expected a name that has an element here: n-1 has none for "
                   "a[1]");
    assert_refused(BEGIN "each n = 1..2\neach m = x\nllm a[n,m] max=1 = {\"x\" a[n-1,m]} "
                         "a[n,!m]\noutput a[2,*]\n",
                   "f:4:35: found 'a', expected a name that has an element here: !m has none for "
                   "a[1,x]");
    assert_refused(BEGIN "each n = 1\nllm a[n] max=1 = n\noutput a[!1]\n",
                   "f:4:8: found 'a', expected a name that has an element here: !1 has none for "
                   "an output");
    assert_refused(BEGIN "each n = \xc3\xa4\nllm a[n] max=1 = a[n-1]\noutput a[*]\n",
                   "f:3:18: found 'a', expected a name that has an element here: n-1 has none for "
                   "a[?""?]");
    assert_refused(BEGIN "llm a max=1 = a\noutput a\n",
                   "f:2:5: found 'a', expected a node that does not need its own value");
    assert_refused(BEGIN "llm a max=1 = s:x:y\noutput a\n",
                   "f:2:15: found 's:x:y', expected s:NAME:N, N at most 1048576");
}

static void test_parse_refuses_a_few_bytes_that_ask_for_much(void **state)
{
    assert_refused(BEGIN "each a = 1..256\neach b = 1..2\ninput x[a,b]\noutput x[*,*]\n",
                   "f:4:7: found 'x', expected at most 256 nodes");
    char deep[4096];
    int at = snprintf(deep, sizeof deep, BEGIN "each a = 1..250\ninput x[a]\nllm y max=1 = {");
    for (uint32_t i = 0; i < 300; i++) {
        at += snprintf(deep + at, sizeof deep - (size_t)at, "x[*] ");
    }
    snprintf(deep + at, sizeof deep - (size_t)at, "}\noutput y\n");
    assert_refused(deep, "f:4:691: found 'x', expected less: expanded, the workflow is too large");
    assert_refused(BEGIN "each a = 1..10\neach b = 0..255\n"
                         "llm x max=1 = {s:markers-that-are-long:9 a b y[*] z[*] z[*]}\n"
                         "input y[a]\ntext z[b] = \"\"\noutput x\n",
                   "f:6:6: found 'z', expected at most 256 nodes");
}

static void test_parse_refuses_bytes_that_are_no_text(void **state)
{
    static const char zero[] = BEGIN "llm a max=1 = \"x\0\"\n";
    assert_false(parse_bytes(zero, sizeof zero - 1));
    assert_string_equal("f:2:17: found byte 0, expected text", fault);
    static const char escaped[] = BEGIN "llm a max=1 = \"x\\\0\"\n";
    assert_false(parse_bytes(escaped, sizeof escaped - 1));
    assert_string_equal("f:2:18: found byte 0, expected text", fault);
    static const char half[] = BEGIN "llm a max=1 = \"\xc3\"\noutput a";
    assert_false(parse_bytes(half, sizeof half - 1));
    assert_string_equal("f:2:15: found \"?\", expected UTF-8", fault);
    static const char bell[] = BEGIN "\alm";
    assert_false(parse_bytes(bell, sizeof bell - 1));
    assert_string_equal("f:2:1: found byte 7, expected text", fault);
    static const char delete[] = BEGIN "llm a\x7f";
    assert_false(parse_bytes(delete, sizeof delete - 1));
    assert_string_equal("f:2:6: found byte 127, expected text", fault);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_the_example_of_the_specification),
        cmocka_unit_test(test_parse_lines_go_on_and_comments_are_none),
        cmocka_unit_test(test_parse_wildcards_of_a_group_go_together),
        cmocka_unit_test(test_parse_an_index_of_a_group_is_its_wildcards),
        cmocka_unit_test(test_parse_a_group_without_an_element_vanishes),
        cmocka_unit_test(test_parse_rounds_name_each_other_in_any_order),
        cmocka_unit_test(test_parse_texts_are_inlined_and_lambdas_named),
        cmocka_unit_test(test_parse_synthetic_tokens_are_markers),
        cmocka_unit_test(test_parse_takes_a_file_that_says_nothing),
        cmocka_unit_test(test_parse_keeps_the_place_of_each_name),
        cmocka_unit_test(test_parse_options_reach_the_node),
        cmocka_unit_test(test_parse_takes_lengths_that_are_known),
        cmocka_unit_test(test_parse_refuses_with_place_found_and_expected),
        cmocka_unit_test(test_parse_refuses_two_dots_that_make_no_range),
        cmocka_unit_test(test_parse_refuses_an_option_that_comes_twice),
        cmocka_unit_test(test_parse_refuses_a_max_that_a_plan_would_cut),
        cmocka_unit_test(test_parse_names_the_line_on_which_a_statement_ends),
        cmocka_unit_test(test_parse_refuses_names_that_mean_nothing),
        cmocka_unit_test(test_parse_refuses_a_few_bytes_that_ask_for_much),
        cmocka_unit_test(test_parse_refuses_bytes_that_are_no_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
