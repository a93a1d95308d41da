/* SPDX-License-Identifier: MIT */
/*
 * Goal: no body, no answer of a model and no lack of memory makes the door read or write out of
 * bounds, say half of something, or keep memory.
 * Method: the unit tests' door without sockets. Four bytes are an endpoint, an allowance, and what
 * the appliance says; the rest is the body, which most often begins as one of the corpus.
 */
#include "selftest/unit/door/door_rig.h"

#include "selftest/fuzz/dictionary.h"

#define HEAD_BYTES     4
#define ALLOWANCE_UNIT 96u          /* of a byte's value; 255: as much as there is */

static const char *const paths[] = {
    "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages",
    "/v1/messages/count_tokens", "/tokenize", "/detokenize"};
static const char *const texts[] = {
    "Bees ", "\xc3\xa9", "\n", "<tool_call>\n{\"name\": \"f\", \"arg", "uments\": {\"a\": 1}}",
    "\n</tool_call>", "<think>", "</think>"};

/* What the appliance says, two bits at a time. */
static void answer(struct request *request, uint32_t script)
{
    bool was_waiting = request->state == REQUEST_WAITING;
    for (uint32_t i = 0; was_waiting && i < request->choices_count; i++) {
        struct choice *choice = request->choices[i];
        const char *said[5] = {NULL};
        for (uint32_t n = 0; n < 4; n++) {
            said[n] = texts[(script >> (3 * n)) & 7];
        }
        rig_say(choice, said, (script >> 12) % 2 == 0 ? AGX_FINISH_EOS : AGX_FINISH_LENGTH);
    }
}

/* A whole answer is JSON, an event is whole. */
static void check_said(const struct request *request)
{
    bool is_cut = request->has_left || request->constant != NULL;
    ASSERT(request->state == REQUEST_ANSWERED || request->state == REQUEST_STREAMING);
    if (request->state == REQUEST_ANSWERED && !is_cut) {
        ASSERT(request->status == 200 || request->status >= 400);
        json_t *json = json_loadb(request->out.at, request->out.count, JSON_ALLOW_NUL,
                                  NULL);
        ASSERT(json_is_object(json));
        json_decref(json);
    } else if (!is_cut) {
        ASSERT(request->is_complete && request->out.count >= 2);
        ASSERT(memcmp(request->out.at + request->out.count - 2, "\n\n", 2) == 0);
    }
}

static void forget(struct request *request)
{
    for (uint32_t i = 0; i < request->choices_count; i++) {
        rig_close(request->choices[i]);
    }
    request_free(request);
    for (uint32_t i = 0; i < rig.door.responses->count; i++) {
        responses_forget(&rig.door.responses->ring[i]);
    }
    rig.door.responses->kept = 0;
    ASSERT(memory_taken_bytes() == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static bool has_begun;
    if (!has_begun) {
        has_begun = true;
        rig_begin();
    }
    if (count < HEAD_BYTES) {
        return 0;
    }
    rig_connect();
    memory_begin(bytes[1] == UINT8_MAX ? RIG_MEMORY : bytes[1] * ALLOWANCE_UNIT);
    struct request *request = rig_take(paths[bytes[0] % (sizeof paths / sizeof paths[0])]);
    (void)request_receive(request, bytes + HEAD_BYTES, count - HEAD_BYTES);
    request_judge(request);
    answer(request, bytes[2] | (uint32_t)bytes[3] << 8);
    memory_begin(RIG_MEMORY);
    check_said(request);
    forget(request);
    return 0;
}

void dictionary_write(void)
{
    static const char *const words[] = {
        "\"messages\":[", "\"role\":\"user\"", "\"role\":\"assistant\"", "\"role\":\"tool\"",
        "\"role\":\"system\"", "\"content\":", "\"type\":\"text\"", "\"text\":\"", "\"tools\":[",
        "\"tool_calls\":[", "\"function\":{", "\"name\":\"", "\"arguments\":", "\"parameters\":",
        "\"type\":\"function\"", "\"tool_choice\":", "\"stream\":true", "\"n\":", "\"stop\":[",
        "\"max_tokens\":", "\"temperature\":", "\"seed\":", "\"input\":[", "\"instructions\":",
        "\"type\":\"function_call\"", "\"type\":\"function_call_output\"", "\"call_id\":",
        "\"previous_response_id\":", "\"type\":\"tool_use\"", "\"type\":\"tool_result\"",
        "\"input_schema\":{", "\"system\":", "\"thinking\":{", "\"prompt\":", "\"tokens\":[",
        "\"prompt\":[[1,2],\"a\"]", "\"include_usage\":true", "\\u0000", "\\ud83d\\ude00",
        "1e308", "-1", "null", "}]"};
    for (uint32_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        dictionary_text(words[i]);
    }
}
