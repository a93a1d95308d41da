/* SPDX-License-Identifier: MIT */
/*
 * What: AIPerf's data sets `mooncake_trace` and `multi_turn`, JSON Lines:
 *
 *     {"session_id": "a", "timestamp": 0, "input_length": 900, "output_length": 5, "hash_ids": [1]}
 *     {"session_id": "a", "delay": 1500, "input_length": 80, "output_length": 20}
 *     {"session_id": "b", "turns": [{"text": "...", "output_length": 30}, ...]}
 *
 * A session is a program, and so is a row without one; its rows are calls, one after the other.
 * Times are milliseconds. After the first row of a session `input_length` and texts are what is
 * new, while `messages` are the whole conversation, unless the row says otherwise. Block ids mean
 * the same in the whole file.
 */
#include <stdio.h>
#include <string.h>

#include "tools/trace/forms/blocks.h"
#include "tools/trace/forms/forms.h"
#include "tools/trace/forms/messages.h"

#define BLOCK_TOKENS 512            /* of a block id, as Mooncake's traces and AIPerf have it */

struct rows {
    struct recording *recording;
    struct document *document;
    struct blocks blocks;
};

/* True when the field is `other`, false when it is not there, or is `usual`. */
static bool has_word(struct document *document, const json_t *row, const char *field,
                     const char *usual, const char *other)
{
    if (!document_has(row, field)) {
        return false;
    }
    const char *word = document_text(document, row, field);
    bool is_other = strcmp(word, other) == 0;
    if (!is_other && strcmp(word, usual) != 0) {
        char problem[96];
        snprintf(problem, sizeof problem, "%s or %s is needed", usual, other);
        document_blame(document, field, problem);
    }
    return is_other;
}

/* The prompt's tokens; `is_whole`: of all the conversation, not only of what is new. */
static uint32_t read_input(const struct rows *rows, const json_t *row, bool *is_whole)
{
    struct document *document = rows->document;
    *is_whole = false;
    if (document_has(row, "input_length")) {
        return (uint32_t)document_count(document, row, "input_length", TRACE_TOKENS_MAX);
    }
    if (document_has(row, "text_input") || document_has(row, "text")) {
        const char *field = document_has(row, "text_input") ? "text_input" : "text";
        return messages_text_tokens(document_text(document, row, field));
    }
    if (document_has(row, "messages")) {
        *is_whole = !has_word(document, row, "message_mode", "history", "delta");
        return messages_tokens(document_list(document, row, "messages"));
    }
    document_blame(document, "input_length", "it is needed, or text_input, text or messages");
    return 0;
}

/* Whether it counts the whole conversation: what the row says itself goes first. */
static bool read_mode(const struct rows *rows, const json_t *row, bool is_whole)
{
    return document_has(row, "context_mode")
               ? has_word(rows->document, row, "context_mode", "deltas_without_responses",
                          "message_array_with_responses")
               : is_whole;
}

/* When the row is sent: after a delay, or at its time, but not before the row before it. */
static uint64_t read_start(const struct rows *rows, const json_t *row, uint32_t program)
{
    const struct recording_program *owner = &rows->recording->programs[program];
    bool is_first = owner->first == RECORDING_NONE;
    uint64_t before_us = is_first ? 0 : owner->end_us;
    if (document_has(row, "delay") && !(is_first && document_has(row, "timestamp"))) {
        return before_us + document_us(rows->document, row, "delay", DOCUMENT_MILLISECOND);
    }
    if (!document_has(row, "timestamp")) {
        return before_us;
    }
    uint64_t at_us = document_us(rows->document, row, "timestamp", DOCUMENT_MILLISECOND);
    return at_us > before_us ? at_us : before_us;
}

static void read_row(struct rows *rows, const json_t *row, uint32_t program)
{
    struct document *document = rows->document;
    bool is_whole;
    if (rows->recording->failed) {
        return;
    }
    struct recording_call call = {.agent = rows->recording->programs[program].agent};
    call.in_tokens = read_input(rows, row, &is_whole);
    call.grows = !read_mode(rows, row, is_whole);
    call.start_us = call.end_us = read_start(rows, row, program);
    call.out_tokens =
        (uint32_t)document_count(document, row, "output_length", TRACE_TOKENS_MAX);
    blocks_read(&rows->blocks, document, row, &call);
    if (document->fault[0] == '\0') {
        recording_call(rows->recording, program, &call);
    }
}

static uint32_t find_program(const struct rows *rows, const json_t *row)
{
    if (!document_has(row, "session_id")) {
        return recording_program(rows->recording, "aiperf", rows->document->line);
    }
    const char *name = document_text(rows->document, row, "session_id");
    return recording_find(rows->recording, pair_of_text(name), "aiperf", rows->document->line);
}

static void read_record(struct rows *rows, const json_t *record)
{
    uint32_t program = find_program(rows, record);
    if (!document_has(record, "turns")) {
        read_row(rows, record, program);
        return;
    }
    const json_t *turns = document_list(rows->document, record, "turns");
    for (size_t i = 0; i < json_array_size(turns); i++) {
        document_at(rows->document, "turns[%zu]", i);
        read_row(rows, json_array_get(turns, i), program);
    }
}

void aiperf_read(struct recording *recording, struct document *document)
{
    struct rows rows = {.recording = recording, .document = document,
                        .blocks = {.recording = recording, .block_tokens = BLOCK_TOKENS,
                                   .scope = BLOCKS_GLOBAL}};
    json_t *record;
    while ((record = document_next(document)) != NULL) {
        read_record(&rows, record);
        json_decref(record);
    }
    blocks_free(&rows.blocks);
}
