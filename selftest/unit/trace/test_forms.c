/* SPDX-License-Identifier: MIT */
/*
 * Goal: each form of others gives the programs that docs/traces.md says; what is wrong in a file is
 * named with line, record and field.
 * Method: small files of each form, written by hand, beside the same programs in our own form. Two
 * traces are the same when all is equal but the keys of named texts, which stand for each other.
 */
#include "selftest/unit/folder.h"

#include "tools/trace/trace.h"

static void read_text(struct trace *trace, const char *text)
{
    char fault[TRACE_FAULT_BYTES] = "";
    const struct trace_source source = {.text = text, .bytes = strlen(text)};
    bool is_read = trace_read(trace, &source, fault);
    assert_string_equal(fault, "");
    assert_true(is_read);
}

static void assert_fault(const char *text, const char *form, const char *wanted)
{
    struct trace trace;
    char fault[TRACE_FAULT_BYTES] = "";
    const struct trace_source source = {.options.form = form, .text = text,
                                        .bytes = strlen(text)};
    assert_false(trace_read(&trace, &source, fault));
    assert_string_equal(fault, wanted);
}

/* Keys of named texts are equal in one where they are in the other. */
static void assert_same_names(const struct trace *a, const struct trace *b)
{
    for (uint32_t i = 0; i < a->parts_count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            assert_int_equal(a->parts[i].key == a->parts[j].key,
                             b->parts[i].key == b->parts[j].key);
        }
    }
}

static void assert_same_call(const struct trace *a, const struct trace *b, uint32_t index)
{
    const struct trace_call *one = &a->calls[index], *other = &b->calls[index];
    assert_int_equal(one->gap_us, other->gap_us);
    assert_int_equal(one->out_tokens, other->out_tokens);
    assert_int_equal(one->prompt_tokens, other->prompt_tokens);
    assert_int_equal(one->after_count, other->after_count);
    assert_int_equal(one->next_count, other->next_count);
    assert_int_equal(one->parts_count, other->parts_count);
    for (uint32_t i = 0; i < one->after_count; i++) {
        assert_int_equal(a->links[one->after_first + i], b->links[other->after_first + i]);
    }
    for (uint32_t i = 0; i < one->parts_count; i++) {
        const struct trace_part *part = &a->parts[one->parts_first + i];
        const struct trace_part *same = &b->parts[other->parts_first + i];
        assert_int_equal(part->kind, same->kind);
        assert_int_equal(part->call, same->call);
        assert_int_equal(part->tokens, same->tokens);
    }
}

static void assert_same(const char *text, const char *native)
{
    struct trace a, b;
    read_text(&a, text);
    read_text(&b, native);
    assert_int_equal(a.programs_count, b.programs_count);
    assert_int_equal(a.calls_count, b.calls_count);
    for (uint32_t i = 0; i < a.programs_count; i++) {
        assert_int_equal(a.programs[i].arrival_us, b.programs[i].arrival_us);
        assert_int_equal(a.programs[i].calls_count, b.programs[i].calls_count);
        assert_string_equal(a.classes[a.programs[i].class].name,
                            b.classes[b.programs[i].class].name);
    }
    for (uint32_t i = 0; i < a.calls_count; i++) {
        assert_same_call(&a, &b, i);
    }
    assert_same_names(&a, &b);
    trace_free(&a);
    trace_free(&b);
}

/* ---- AIPerf ---------------------------------------------------------------------------------- */

static void test_reads_rows_of_a_session_as_what_is_new(void **state)
{
    (void)state;
    assert_same("{\"session_id\":\"a\",\"timestamp\":250,\"input_length\":1100,"
                "\"output_length\":40,\"hash_ids\":[7,8,9]}\n"
                "{\"session_id\":\"b\",\"timestamp\":1250.5,\"input_length\":1030,"
                "\"output_length\":30,\"hash_ids\":[7,8,10]}\n"
                "{\"session_id\":\"a\",\"delay\":1500,\"input_length\":90,\"output_length\":0}\n",
                "agentix-trace 1\n"
                "program a 0 aiperf\n"
                "call 0 after=- gap=0 in=s:x:1100 out=40\n"
                "call 1 after=0 gap=1500000 in=p:0+o:0+u:90 out=1\n"
                "program b 1000500 aiperf\n"
                "call 0 after=- gap=0 in=s:x:1024+s:y:6 out=30\n");
}

static void test_reads_rows_without_a_session_as_programs(void **state)
{
    (void)state;
    assert_same("{\"timestamp\":0,\"input_length\":600,\"output_length\":5,\"hash_ids\":[1]}\n"
                "\n{\"timestamp\":20,\"text_input\":\"four five\",\"output_length\":6}\n",
                "agentix-trace 1\n"
                "program a 0 aiperf\ncall 0 after=- gap=0 in=s:x:512+u:88 out=5\n"
                "program b 20000 aiperf\ncall 0 after=- gap=0 in=u:3 out=6\n");
}

static void test_reads_messages_as_the_whole_conversation(void **state)
{
    (void)state;
    assert_same("{\"session_id\":\"a\",\"output_length\":2,\"messages\":["
                "{\"role\":\"user\",\"content\":\"12345678\"}]}\n"
                "{\"session_id\":\"a\",\"output_length\":3,\"messages\":["
                "{\"role\":\"user\",\"content\":\"12345678\"},"
                "{\"role\":\"assistant\",\"content\":\"1234\"},"
                "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"12345678\"}]}]}\n"
                "{\"session_id\":\"b\",\"output_length\":2,\"message_mode\":\"delta\","
                "\"messages\":[{\"role\":\"user\",\"content\":\"12345678\"}]}\n"
                "{\"session_id\":\"b\",\"output_length\":3,\"message_mode\":\"delta\","
                "\"messages\":[{\"role\":\"user\",\"content\":\"1234\"}]}\n",
                "agentix-trace 1\n"
                "program a 0 aiperf\n"
                "call 0 after=- gap=0 in=u:2 out=2\n"
                "call 1 after=0 gap=0 in=p:0+o:0+u:1 out=3\n"
                "program b 0 aiperf\n"
                "call 0 after=- gap=0 in=u:2 out=2\n"
                "call 1 after=0 gap=0 in=p:0+o:0+u:1 out=3\n");
}

static void test_reads_turns_and_modes_that_rows_name(void **state)
{
    (void)state;
    assert_same("{\"session_id\":\"a\",\"turns\":[{\"text\":\"12345678\",\"output_length\":4},"
                "{\"text\":\"1234\",\"delay\":2,\"output_length\":5}]}\n"
                "{\"session_id\":\"b\",\"context_mode\":\"message_array_with_responses\","
                "\"input_length\":100,\"output_length\":9}\n"
                "{\"session_id\":\"b\",\"context_mode\":\"message_array_with_responses\","
                "\"input_length\":105,\"output_length\":9}\n"
                "{\"session_id\":\"b\",\"context_mode\":\"message_array_with_responses\","
                "\"input_length\":99,\"output_length\":9}\n",
                "agentix-trace 1\n"
                "program a 0 aiperf\n"
                "call 0 after=- gap=0 in=u:2 out=4\n"
                "call 1 after=0 gap=2000 in=p:0+o:0+u:1 out=5\n"
                "program b 0 aiperf\n"
                "call 0 after=- gap=0 in=u:100 out=9\n"
                "call 1 after=0 gap=0 in=p:0+u:5 out=9\n"
                "call 2 after=1 gap=0 in=u:99 out=9\n");
}

/* ---- AgentX ---------------------------------------------------------------------------------- */

static const char session[] =
    "{\"id\":\"s\",\"models\":[\"m\"],\"block_size\":10,\"hash_id_scope\":\"local\","
    "\"requests\":[\n"
    "{\"type\":\"s\",\"t\":0,\"model\":\"m\",\"in\":30,\"out\":5,\"hash_ids\":[1,2,3],"
    "\"api_time\":2},\n"
    "{\"type\":\"subagent\",\"t\":3,\"agent_id\":\"x\",\"requests\":["
    "{\"type\":\"n\",\"t\":3,\"in\":25,\"out\":6,\"hash_ids\":[1,9,8],\"api_time\":4},"
    "{\"type\":\"n\",\"t\":8,\"in\":35,\"out\":7,\"hash_ids\":[1,9,7,6],\"api_time\":1}]},\n"
    "{\"type\":\"subagent\",\"t\":3.5,\"agent_id\":\"y\",\"requests\":["
    "{\"type\":\"n\",\"t\":3.5,\"in\":25,\"out\":8,\"hash_ids\":[1,9,8],\"api_time\":1}]},\n"
    "{\"type\":\"s\",\"t\":10,\"in\":52,\"out\":9,\"hash_ids\":[1,2,3,4,5],\"api_time\":1}]}\n";

static void test_reads_a_session_and_joins_its_subagents(void **state)
{
    (void)state;
    assert_same(session,
                "agentix-trace 1\n"
                "program s 0 agentx\n"
                "call 0 after=- gap=0 in=r:a:30 out=5\n"
                "call 1 after=0 gap=1000000 in=r:a:10+r:b:15 out=6\n"
                "call 2 after=0 gap=1500000 in=r:a:10+r:b:15 out=8\n"
                "call 3 after=1 gap=1000000 in=r:a:10+r:b:10+r:c:15 out=7\n"
                "call 4 after=3,2 gap=1000000 in=r:a:50+u:2 out=9\n");
}

static void test_takes_requests_that_overlap_for_parallel(void **state)
{
    (void)state;
    assert_same("{\"block_size\":64,\"requests\":["
                "{\"type\":\"n\",\"t\":0,\"in\":10,\"out\":1,\"api_time\":1},"
                "{\"type\":\"n\",\"t\":2,\"in\":20,\"out\":1,\"api_time\":5},"
                "{\"type\":\"n\",\"t\":3,\"in\":20,\"out\":1,\"api_time\":1},"
                "{\"type\":\"n\",\"t\":7,\"in\":22,\"out\":1}]}",
                "agentix-trace 1\n"
                "program s 0 agentx\n"
                "call 0 after=- gap=0 in=u:10 out=1\n"
                "call 1 after=0 gap=1000000 in=p:0+o:0+u:9 out=1\n"
                "call 2 after=0 gap=2000000 in=p:0+o:0+u:9 out=1\n"
                "call 3 after=2,1 gap=0 in=p:1+o:1+u:1 out=1\n");
}

static void test_takes_times_of_a_subagent_for_its_own_where_they_must_be(void **state)
{
    (void)state;
    assert_same("{\"block_size\":64,\"requests\":["
                "{\"type\":\"n\",\"t\":0,\"in\":10,\"out\":1,\"api_time\":1},"
                "{\"type\":\"subagent\",\"t\":3,\"requests\":["
                "{\"type\":\"n\",\"t\":0,\"in\":20,\"out\":1,\"api_time\":2},"
                "{\"type\":\"n\",\"t\":4,\"in\":30,\"out\":1,\"api_time\":2}]},"
                "{\"type\":\"n\",\"t\":10,\"in\":15,\"out\":1}]}",
                "agentix-trace 1\n"
                "program s 0 agentx\n"
                "call 0 after=- gap=0 in=u:10 out=1\n"
                "call 1 after=0 gap=2000000 in=u:20 out=1\n"
                "call 2 after=1 gap=2000000 in=p:1+o:1+u:9 out=1\n"
                "call 3 after=2 gap=1000000 in=p:0+o:0+u:4 out=1\n");
}

static void test_gives_every_session_texts_of_its_own(void **state)
{
    struct trace trace;
    char two[2 * sizeof session];
    (void)state;
    snprintf(two, sizeof two, "%s%s", session, session);
    read_text(&trace, two);
    assert_int_equal(trace.programs_count, 2);
    assert_true(trace.parts[trace.calls[0].parts_first].key !=
                trace.parts[trace.calls[5].parts_first].key);
    trace_free(&trace);
}

/* ---- SGLang ---------------------------------------------------------------------------------- */

static void test_reads_conversations_with_counts_or_texts(void **state)
{
    (void)state;
    assert_same("{\"metadata\":{},\"conversations\":[\n"
                "[{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"prompt_tokens\":900},"
                "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"prompt_tokens\":1200},"
                "{\"messages\":[]},"
                "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"prompt_tokens\":1300}],\n"
                "[{\"messages\":[{\"role\":\"user\",\"content\":\"12345\"}]},"
                "{\"messages\":[{\"role\":\"user\",\"content\":\"1234\"}]}], []]}",
                "agentix-trace 1\n"
                "program a 0 sglang\n"
                "call 0 after=- gap=0 in=u:900 out=220\n"
                "call 1 after=0 gap=0 in=p:0+o:0+u:80 out=220\n"
                "call 2 after=1 gap=0 in=p:1+u:100 out=220\n"
                "program b 0 sglang\n"
                "call 0 after=- gap=0 in=u:2 out=220\n"
                "call 1 after=0 gap=0 in=p:0+o:0+u:1 out=220\n");
}

/* ---- OTLP ------------------------------------------------------------------------------------ */

#define SPAN(id, parent, start, end, attributes)                                                 \
    "{\"traceId\":\"t1\",\"spanId\":\"" id "\",\"parentSpanId\":\"" parent "\",\"name\":\"x\","  \
    "\"startTimeUnixNano\":\"" start "000\",\"endTimeUnixNano\":\"" end "000\","                 \
    "\"attributes\":[" attributes "]}"
#define TEXT(key, value) "{\"key\":\"" key "\",\"value\":{\"stringValue\":\"" value "\"}}"
#define WHOLE(key, value) "{\"key\":\"" key "\",\"value\":{\"intValue\":\"" value "\"}}"
#define OPERATION(name) TEXT("gen_ai.operation.name", name)
#define USAGE(in, out)                                                                           \
    WHOLE("gen_ai.usage.input_tokens", in) "," WHOLE("gen_ai.usage.output_tokens", out)
#define CHAT(in, out) OPERATION("chat") "," USAGE(in, out)
#define AGENT(name) OPERATION("invoke_agent") "," TEXT("gen_ai.agent.name", name)
#define SPANS(spans) "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[" spans "]}]}]}\n"

static void test_reads_spans_and_takes_tools_for_gaps(void **state)
{
    (void)state;
    assert_same(SPANS(SPAN("a", "", "1000", "9000", AGENT("web search")) ","
                      SPAN("c", "a", "4000", "5000", CHAT("170", "7")) ","
                      SPAN("b", "a", "1000", "2000", CHAT("100", "20")) ","
                      SPAN("d", "a", "2000", "4000", OPERATION("execute_tool"))),
                "agentix-trace 1\n"
                "program p 0 web_search\n"
                "call 0 after=- gap=0 in=u:100 out=20\n"
                "call 1 after=0 gap=2000 in=p:0+o:0+u:50 out=7\n");
}

static void test_reads_agents_below_an_agent(void **state)
{
    (void)state;
    assert_same(SPANS(SPAN("r", "", "0", "90", AGENT("lead") "," USAGE("999", "999")) ","
                      SPAN("1", "r", "0", "10", CHAT("50", "5"))) "\n"
                SPANS(SPAN("x", "r", "12", "40", AGENT("help")) ","
                      SPAN("2", "x", "12", "20", CHAT("30", "3")) ","
                      SPAN("3", "x", "30", "40", CHAT("40", "4")) ","
                      SPAN("y", "r", "12", "25", AGENT("help")) ","
                      SPAN("4", "y", "13", "25", CHAT("35", "3")) ","
                      SPAN("5", "r", "50", "60", CHAT("40", "6"))),
                "agentix-trace 1\n"
                "program p 0 lead\n"
                "call 0 after=- gap=0 in=u:50 out=5\n"
                "call 1 after=0 gap=2 in=u:30 out=3\n"
                "call 2 after=0 gap=3 in=u:35 out=3\n"
                "call 3 after=1 gap=10 in=p:1+o:1+u:7 out=4\n"
                "call 4 after=3,2 gap=10 in=u:40 out=6\n");
}

static void test_reads_traces_of_a_conversation_as_one_program(void **state)
{
    (void)state;
    assert_same("{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":["
                "{\"traceId\":\"1\",\"spanId\":\"1\",\"startTimeUnixNano\":5000,"
                "\"endTimeUnixNano\":6000,\"attributes\":["
                TEXT("gen_ai.conversation.id", "c") "," USAGE("10", "2") "]},"
                "{\"traceId\":\"2\",\"spanId\":\"1\",\"startTimeUnixNano\":9000,"
                "\"endTimeUnixNano\":9500,\"attributes\":["
                TEXT("gen_ai.conversation.id", "c") "," USAGE("15", "2") "]},"
                "{\"traceId\":\"2\",\"spanId\":\"2\",\"startTimeUnixNano\":9000,"
                "\"endTimeUnixNano\":9500,\"status\":{\"code\":2},\"attributes\":["
                OPERATION("chat") "]}]}]}]}",
                "agentix-trace 1\n"
                "program p 0 otlp\n"
                "call 0 after=- gap=0 in=u:10 out=2\n"
                "call 1 after=0 gap=3 in=p:0+o:0+u:3 out=2\n");
}

static void test_leaves_out_programs_that_are_too_long(void **state)
{
    static const char text[] = "agentix-trace 1\n"
                               "program a 0 x\ncall 0 after=- gap=0 in=u:5 out=6\n"
                               "program b 1 y\ncall 0 after=- gap=0 in=u:5 out=5\n"
                               "call 1 after=0 gap=0 in=p:0 out=5\n"
                               "program c 2 x\ncall 0 after=- gap=0 in=u:1 out=1\n"
                               "call 1 after=0 gap=0 in=u:9 out=9\n";
    struct trace_source source = {.options.context_max = 10, .text = text,
                                  .bytes = sizeof text - 1};
    struct trace trace;
    char fault[TRACE_FAULT_BYTES];
    (void)state;
    assert_true(trace_read(&trace, &source, fault));
    assert_int_equal(trace.programs_count, 1);
    assert_int_equal(trace.programs[0].calls_count, 2);
    assert_int_equal(trace.programs[0].calls_first, 0);
    assert_int_equal(trace.calls_count, 2);
    assert_int_equal(trace.links[trace.calls[0].next_first], 1);
    assert_string_equal(trace.classes[trace.programs[0].class].name, "y");
    trace_free(&trace);
    source.options.context_max = 9;
    assert_false(trace_read(&trace, &source, fault));
    assert_string_equal(fault, "9: every program has a call that is too long");
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void test_names_line_record_and_field_of_a_fault(void **state)
{
    (void)state;
    assert_fault("{\"input_length\":1,\"output_length\":1}\n{\"input_length\":-1}", NULL,
                 "2: record 2: input_length: a whole number from 0 to 67108864 is needed");
    assert_fault("{\"input_length\":1}", NULL,
                 "1: record 1: output_length: a whole number from 0 to 67108864 is needed");
    assert_fault("{\"input_length\":1,\"output_length\":1,\"hash_ids\":7}", NULL,
                 "1: record 1: hash_ids: a list is needed");
    assert_fault("{\"input_length\":1,\"output_length\":1,\"hash_ids\":[1.5]}", NULL,
                 "1: record 1: hash_ids: a list of whole numbers is needed");
    assert_fault("{\"messages\":[],\"message_mode\":\"all\",\"output_length\":1}", NULL,
                 "1: record 1: message_mode: history or delta is needed");
    assert_fault("{\"session_id\":7,\"input_length\":1,\"output_length\":1}", NULL,
                 "1: record 1: session_id: a text is needed");
    assert_fault("{\"input_length\":1,\n\"output_length\":]", "aiperf",
                 "2: record 1: no JSON, or too deep, at column 17");
    assert_fault("{\"block_size\":9,\"requests\":[{\"type\":\"n\",\"t\":-1}]}", NULL,
                 "1: record 1, requests[0]: t: a time from 0 on is needed");
    assert_fault("{\"block_size\":9,\"requests\":[{\"type\":\"subagent\",\"t\":5,\"requests\":["
                 "{\"type\":\"n\",\"t\":4,\"in\":1}]}]}", NULL,
                 "1: record 1, requests[0].requests[0]: out: a whole number from 0 to 67108864 is "
                 "needed");
    assert_fault("{\"conversations\":[[{\"messages\":[1],\"prompt_tokens\":1.5}]]}", NULL,
                 "1: record 1, conversations[0][0]: prompt_tokens: a whole number from 0 to "
                 "67108864 is needed");
    assert_fault("{\"conversations\":[[{\"messages\":1}]]}", NULL,
                 "1: record 1, conversations[0][0]: messages: a list is needed");
    assert_fault(SPANS(SPAN("1", "", "5", "6", OPERATION("chat"))), NULL,
                 "1: record 1, resourceSpans[0].scopeSpans[0].spans[0]: "
                 "gen_ai.usage.input_tokens: it is needed");
    assert_fault(SPANS(SPAN("1", "", "6", "5", CHAT("1", "1"))), NULL,
                 "1: record 1, resourceSpans[0].scopeSpans[0].spans[0]: endTimeUnixNano: it is "
                 "before the start");
}

static void test_refuses_what_is_no_trace(void **state)
{
    (void)state;
    assert_fault("{\"x\":1}", NULL, "1: record 1: no field of a known form: resourceSpans, "
                 "requests, conversations, input_length, text_input, messages or turns");
    assert_fault("", "otlp", "1: the file is empty");
    assert_fault(" \n", "otlp", "1: no programs, or the last one has no calls");
    assert_fault("{\"conversations\":[[]]}", NULL,
                 "1: no programs, or the last one has no calls");
    assert_fault("[]", NULL, "1: the first line must be `agentix-trace 1`");
    assert_fault("[]", "sglang", "1: record 1: conversations: a list is needed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_rows_of_a_session_as_what_is_new),
        cmocka_unit_test(test_reads_rows_without_a_session_as_programs),
        cmocka_unit_test(test_reads_messages_as_the_whole_conversation),
        cmocka_unit_test(test_reads_turns_and_modes_that_rows_name),
        cmocka_unit_test(test_reads_a_session_and_joins_its_subagents),
        cmocka_unit_test(test_takes_requests_that_overlap_for_parallel),
        cmocka_unit_test(test_takes_times_of_a_subagent_for_its_own_where_they_must_be),
        cmocka_unit_test(test_gives_every_session_texts_of_its_own),
        cmocka_unit_test(test_reads_conversations_with_counts_or_texts),
        cmocka_unit_test(test_reads_spans_and_takes_tools_for_gaps),
        cmocka_unit_test(test_reads_agents_below_an_agent),
        cmocka_unit_test(test_reads_traces_of_a_conversation_as_one_program),
        cmocka_unit_test(test_leaves_out_programs_that_are_too_long),
        cmocka_unit_test(test_names_line_record_and_field_of_a_fault),
        cmocka_unit_test(test_refuses_what_is_no_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
