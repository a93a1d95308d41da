/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the answer of a chat model, read while it comes: what it says, what it thinks, and which
 * tools it calls. The reverse of chat_render(), for every format.
 *
 *     chat_answer_init(&answer, &format, &chat, memory, bytes);
 *     for each text:      chat_answer_feed();  while (chat_answer_next(&answer, &piece)) ...
 *     after the last one: chat_answer_end();   while (chat_answer_next(&answer, &piece)) ...
 *
 * A call is given out when it is whole: its JSON parses, and it names a tool. What looks like a
 * call and is none, is cut off, or is longer than the memory, is content, as the model wrote it:
 * nothing of it can be taken back once a client has it. An answer without marks comes out byte for
 * byte; with marks, these and the spaces around them are left out. The pieces, joined, do not
 * depend on how the text was divided.
 */
#include "config/chat/form.h"
#include "config/chat/json.h"

#define CHAT_ANSWER_BYTES_MIN   1024u   /* the least memory of a reader: the longest call */
#define CHAT_CALL_NAME_BYTES    128u    /* the longest name or id of a call */
#define CHAT_CALL_LINE_BYTES    512u    /* the longest argument that is no JSON */

enum chat_piece_kind { CHAT_PIECE_CONTENT, CHAT_PIECE_REASONING, CHAT_PIECE_CALL };

/* Its texts are valid until the next function of the reader. */
struct chat_piece {
    enum chat_piece_kind kind;
    struct chat_text text;          /* whole characters; of a call: its arguments, a JSON object */
    struct chat_text name, id;      /* of a call; printable, without quotes; the id may be empty */
};

struct chat_span { uint32_t first, count; };    /* bytes of what is held, after its start */

struct chat_answer {
    uint32_t calls_count;           /* so far */
    bool is_cut;                    /* at the end: it ended within a thought or a call */
    /* private */
    const struct chat_form *form;
    const struct chat *chat;
    char *memory;
    uint32_t memory_bytes, start, end;      /* [start, end) is held */
    bool has_ended, in_thought, in_call;
    bool at_start;                  /* nothing but spaces and calls so far */
    bool skips_spaces;              /* after a mark */
    bool after_call;                /* nothing but spaces since a call */
    char last;                      /* the byte before start */
    uint32_t step, step_first, at;  /* the call in progress; from start on, as are the spans */
    struct chat_json json;
    struct chat_span name, body, calls;     /* calls: those that are not given out yet */
    char arguments[6 * CHAT_CALL_LINE_BYTES + CHAT_CALL_NAME_BYTES + 8];
};

/* The reader of the answer to that conversation. Without tools in it nothing is a call. `chat` and
 * the memory stay the caller's, and in place. */
void chat_answer_init(struct chat_answer *answer, const struct chat_format *format,
                      const struct chat *chat, char *memory, uint32_t bytes);
/* Takes the text, or as much as has room; returns how many bytes. Once all pieces were taken, there
 * is room for one byte at least. */
uint32_t chat_answer_feed(struct chat_answer *answer, const char *text, uint32_t bytes);
/* No text is to come: what is held becomes pieces. */
void chat_answer_end(struct chat_answer *answer);
/* The next piece; false: there is none yet. */
bool chat_answer_next(struct chat_answer *answer, struct chat_piece *piece);
/* The marks with which a call begins in a format, by index; NULL: there are no more. Where they are
 * control tokens, a reader needs the text of those. */
const char *chat_answer_mark(enum chat_id id, uint32_t index);
/* Asserts the reader's invariants. */
void chat_answer_check(const struct chat_answer *answer);
