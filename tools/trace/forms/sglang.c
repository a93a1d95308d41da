/* SPDX-License-Identifier: MIT */
/*
 * What: SGLang's agentic traces (the data set `agentic-trace` of its bench_serving):
 *
 *     {"conversations": [[{"messages": [...], "prompt_tokens": 73821}, ...], ...]}
 *
 * A conversation is a program, a turn a call. `messages` are the turn's own; `prompt_tokens` counts
 * the whole prompt. No output is recorded: SGLang asks for 220 tokens, and so do we. No time is.
 */
#include "tools/trace/forms/forms.h"
#include "tools/trace/forms/messages.h"

#define OUT_TOKENS 220

static void read_turn(struct recording *recording, struct document *document, uint32_t program,
                      const json_t *turn)
{
    const json_t *messages =
        document_has(turn, "messages") ? document_list(document, turn, "messages") : NULL;
    struct recording_call call = {.agent = recording->programs[program].agent,
                                  .out_tokens = OUT_TOKENS};
    if (json_array_size(messages) == 0) {
        return;                     /* as SGLang does */
    }
    call.grows = !document_has(turn, "prompt_tokens");
    call.in_tokens = call.grows ? messages_tokens(messages)
                                : (uint32_t)document_count(document, turn, "prompt_tokens",
                                                           TRACE_TOKENS_MAX);
    recording_call(recording, program, &call);
}

static void read_conversation(struct recording *recording, struct document *document,
                              const json_t *turns, size_t index)
{
    uint32_t program = recording_program(recording, "sglang", document->line);
    document_at(document, "conversations[%zu]", index);
    if (!json_is_array(turns)) {
        document_blame(document, "turns", "a list is needed");
    }
    for (size_t i = 0; i < json_array_size(turns) && !recording->failed; i++) {
        document_at(document, "conversations[%zu][%zu]", index, i);
        read_turn(recording, document, program, json_array_get(turns, i));
    }
}

void sglang_read(struct recording *recording, struct document *document)
{
    json_t *record;
    while ((record = document_next(document)) != NULL) {
        const json_t *conversations = document_list(document, record, "conversations");
        for (size_t i = 0; i < json_array_size(conversations); i++) {
            read_conversation(recording, document, json_array_get(conversations, i), i);
        }
        json_decref(record);
    }
}
