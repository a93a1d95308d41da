/* SPDX-License-Identifier: MIT */
/*
 * Goal: no bytes of a trace, in any form, make a reader read or write out of bounds, or give what
 * would break a player. A refusal is one line of printable ASCII that begins with a line number.
 * Programs that are too long are gone where that is asked for.
 * Method: the input is the file. What is accepted is walked: links and prompts go backwards, sizes
 * add up, arrivals are in order. libFuzzer passes a copy of the exact size.
 */
#include <stdlib.h>
#include <string.h>

#include "config/base/assert.h"
#include "selftest/fuzz/dictionary.h"
#include "tools/trace/trace.h"

#define CONTEXT_MAX 1000            /* of a second reading */

static void check_fault(const char *fault)
{
    size_t length = strnlen(fault, TRACE_FAULT_BYTES);
    ASSERT(length > 0 && length < TRACE_FAULT_BYTES && fault[0] >= '0' && fault[0] <= '9');
    for (size_t i = 0; i < length; i++) {
        ASSERT(fault[i] >= ' ' && fault[i] <= '~');
    }
}

static void check_prompt(const struct trace *trace, const struct trace_program *program,
                         uint32_t number)
{
    const struct trace_call *call = &trace->calls[program->calls_first + number];
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < call->parts_count; i++) {
        const struct trace_part *part = &trace->parts[call->parts_first + i];
        const struct trace_call *named = &trace->calls[program->calls_first + part->call];
        if (part->kind != TRACE_PROMPT && part->kind != TRACE_OUTPUT) {
            tokens += part->tokens;
            continue;
        }
        uint32_t whole = part->kind == TRACE_PROMPT ? named->prompt_tokens : named->out_tokens;
        ASSERT(part->call < number && part->tokens <= whole);
        tokens += part->tokens > 0 ? part->tokens : whole;
    }
    ASSERT(tokens == call->prompt_tokens && tokens > 0 && tokens <= TRACE_TOKENS_MAX);
    ASSERT(call->out_tokens > 0 && call->out_tokens <= TRACE_TOKENS_MAX);
}

static void check_program(const struct trace *trace, const struct trace_program *program)
{
    uint32_t waits = 0, followed = 0;
    ASSERT(program->calls_count > 0 && program->class < trace->classes_count);
    ASSERT(program->calls_count <= trace->calls_of_program_max);
    for (uint32_t n = 0; n < program->calls_count; n++) {
        const struct trace_call *call = &trace->calls[program->calls_first + n];
        for (uint32_t i = 0; i < call->after_count; i++) {
            ASSERT(trace->links[call->after_first + i] < n);
        }
        for (uint32_t i = 0; i < call->next_count; i++) {
            uint32_t next = trace->links[call->next_first + i];
            ASSERT(next > n && next < program->calls_count);
        }
        waits += call->after_count;
        followed += call->next_count;
        check_prompt(trace, program, n);
    }
    ASSERT(waits == followed);
}

static void check(const struct trace *trace, uint32_t context_max)
{
    uint64_t before_us = 0;
    for (uint32_t i = 0; i < trace->calls_count && context_max > 0; i++) {
        ASSERT(trace->calls[i].prompt_tokens + trace->calls[i].out_tokens <= context_max);
    }
    for (uint32_t i = 0; i < trace->programs_count; i++) {
        ASSERT(trace->programs[i].arrival_us >= before_us);
        before_us = trace->programs[i].arrival_us;
        check_program(trace, &trace->programs[i]);
    }
}

static bool read_and_check(const uint8_t *bytes, size_t count, uint32_t context_max)
{
    struct trace trace;
    char fault[TRACE_FAULT_BYTES];
    const struct trace_source source = {.options.context_max = context_max,
                                        .text = (const char *)bytes, .bytes = count};
    bool is_read = trace_read(&trace, &source, fault);
    if (is_read) {
        check(&trace, context_max);
        trace_free(&trace);
    } else {
        check_fault(fault);
    }
    return is_read;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (read_and_check(bytes, count, 0)) {
        (void)read_and_check(bytes, count, CONTEXT_MAX);
    }
    return 0;
}

void dictionary_write(void)
{
    static const char *const words[] = {
        "agentix-trace 1\n", "program p 0 x\n", "call 0 after=- gap=0 in=u:9 out=7\n", "+s:a:9",
        "+r:a:9", "+p:0", "+o:0", "\"session_id\":\"a\"", "\"timestamp\":", "\"delay\":",
        "\"input_length\":", "\"output_length\":", "\"hash_ids\":[1,2]", "\"text_input\":",
        "\"messages\":[", "\"content\":", "\"message_mode\":\"delta\"", "\"turns\":[", "\"text\":",
        "\"context_mode\":\"message_array_with_responses\"", "\"block_size\":", "\"requests\":[",
        "\"type\":\"subagent\"", "\"type\":\"n\"", "\"t\":", "\"in\":", "\"out\":", "\"api_time\":",
        "\"conversations\":[[", "\"prompt_tokens\":", "\"resourceSpans\":[", "\"scopeSpans\":[",
        "\"spans\":[", "\"traceId\":\"1\"", "\"spanId\":\"2\"", "\"parentSpanId\":\"3\"",
        "\"startTimeUnixNano\":\"1\"", "\"endTimeUnixNano\":\"2\"", "\"attributes\":[",
        "\"key\":", "\"value\":{\"stringValue\":", "\"value\":{\"intValue\":",
        "gen_ai.operation.name", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens",
        "gen_ai.conversation.id", "gen_ai.agent.name", "invoke_agent", "\"status\":{\"code\":2}"};
    for (uint32_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        dictionary_text(words[i]);
    }
}
