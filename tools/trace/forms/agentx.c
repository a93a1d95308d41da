/* SPDX-License-Identifier: MIT */
/*
 * What: the agentic coding traces of AgentX (AIPerf's `weka_trace`), a session a record:
 *
 *     {"id": "...", "block_size": 64, "hash_id_scope": "local", "requests": [
 *       {"type": "s", "t": 0, "in": 900, "out": 50, "hash_ids": [1, 2], "api_time": 2.5},
 *       {"type": "subagent", "t": 3, "requests": [...]}, ...]}
 *
 * A session is a program. A request is a call, from `t` to `t` + `api_time` seconds; a sub-agent is
 * an agent of it. Block ids mean the same within the session. `t` is on the session's clock, but in
 * early corpora that of a sub-agent's requests is on its own: where a request would begin before
 * its sub-agent, all of the session's are taken so.
 */
#include <string.h>

#include "tools/trace/forms/blocks.h"
#include "tools/trace/forms/forms.h"

#define CLOCK_ERROR_S 1e-6          /* of times that were added up */

struct session {
    struct recording *recording;
    struct document *document;
    struct blocks blocks;
    uint32_t program;
    bool is_relative;               /* sub-agents have clocks of their own */
};

static void read_request(struct session *session, const json_t *request, uint32_t agent,
                         uint64_t since_us)
{
    struct document *document = session->document;
    struct recording_call call = {.agent = agent};
    call.start_us = since_us + document_us(document, request, "t", DOCUMENT_SECOND);
    call.end_us = call.start_us;
    if (document_has(request, "api_time")) {
        call.end_us += document_us(document, request, "api_time", DOCUMENT_SECOND);
    }
    call.in_tokens = (uint32_t)document_count(document, request, "in", TRACE_TOKENS_MAX);
    call.out_tokens = (uint32_t)document_count(document, request, "out", TRACE_TOKENS_MAX);
    blocks_read(&session->blocks, document, request, &call);
    if (document->fault[0] == '\0') {
        recording_call(session->recording, session->program, &call);
    }
}

static void read_subagent(struct session *session, const json_t *entry, size_t index)
{
    uint64_t since_us = document_us(session->document, entry, "t", DOCUMENT_SECOND);
    const json_t *requests = document_list(session->document, entry, "requests");
    if (session->recording->failed) {
        return;
    }
    uint32_t agent = recording_agent(session->recording,
                                     session->recording->programs[session->program].agent);
    for (size_t i = 0; i < json_array_size(requests); i++) {
        document_at(session->document, "requests[%zu].requests[%zu]", index, i);
        read_request(session, json_array_get(requests, i), agent,
                     session->is_relative ? since_us : 0);
    }
}

static void read_entry(struct session *session, const json_t *entry, size_t index)
{
    document_at(session->document, "requests[%zu]", index);
    const char *type = document_text(session->document, entry, "type");
    if (strcmp(type, "subagent") == 0) {
        read_subagent(session, entry, index);
    } else if (strcmp(type, "n") != 0 && strcmp(type, "s") != 0) {
        document_blame(session->document, "type", "n, s or subagent is needed");
    } else if (!session->recording->failed) {
        read_request(session, entry, session->recording->programs[session->program].agent, 0);
    }
}

/* True when a request of a sub-agent would begin before it on the session's clock. */
static bool has_own_clocks(const json_t *entries)
{
    for (size_t i = 0; i < json_array_size(entries); i++) {
        const json_t *entry = json_array_get(entries, i);
        const json_t *inner = json_object_get(entry, "requests");
        double since = json_number_value(json_object_get(entry, "t"));
        for (size_t r = 0; r < json_array_size(inner); r++) {
            const json_t *at = json_object_get(json_array_get(inner, r), "t");
            if (json_is_number(at) && json_number_value(at) < since - CLOCK_ERROR_S) {
                return true;
            }
        }
    }
    return false;
}

static void read_session(struct session *session, const json_t *record)
{
    struct document *document = session->document;
    const json_t *requests = document_list(document, record, "requests");
    uint64_t block_tokens = document_count(document, record, "block_size", BLOCK_TOKENS_MAX);
    if (block_tokens == 0) {
        document_blame(document, "block_size", "a number of tokens is needed");
        return;
    }
    session->program = recording_program(session->recording, "agentx", document->line);
    session->blocks.block_tokens = (uint32_t)block_tokens;
    session->blocks.scope = session->program;
    session->is_relative = has_own_clocks(requests);
    if (document_has(record, "hash_id_scope") &&
        strcmp(document_text(document, record, "hash_id_scope"), "local") != 0) {
        document_blame(document, "hash_id_scope", "no other scope than local is known");
    }
    for (size_t i = 0; i < json_array_size(requests) && document->fault[0] == '\0'; i++) {
        read_entry(session, json_array_get(requests, i), i);
    }
}

void agentx_read(struct recording *recording, struct document *document)
{
    struct session session = {.recording = recording, .document = document,
                              .blocks = {.recording = recording}};
    json_t *record;
    while ((record = document_next(document)) != NULL) {
        read_session(&session, record);
        json_decref(record);
    }
    blocks_free(&session.blocks);
}
