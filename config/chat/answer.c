/* SPDX-License-Identifier: MIT */
/*
 * What: the reader of answers: text, thoughts and marks. Calls are read by call.c.
 *
 * What may still become a mark is held: its beginning, and up to SPACES_MAX spaces before it, which
 * are left out if it becomes one. A call is held from its mark to its end.
 *
 * Invariants: what is held is no more than the memory. Text is given out from left to right, once.
 * Bounds: linear in the answer, whatever the model writes: of a call each byte is read once, and
 * one that is broken is given up as a whole, not searched for others.
 */
#include "config/chat/answer.h"

#include <string.h>

#include "config/base/assert.h"
#include "config/chat/call.h"

#define SPACES_MAX 8u

/* Marks of a thought. */
static const struct chat_mark thought_begins = {.text = "<think>", .place = CHAT_AT_START};
static const struct chat_mark thought_ends = {.text = "</think>"};

/* ---- what is held ---------------------------------------------------------------------------- */

void chat_answer_init(struct chat_answer *answer, const struct chat_format *format,
                      const struct chat *chat, char *memory, uint32_t bytes)
{
    ASSERT(bytes >= CHAT_ANSWER_BYTES_MIN);
    memset(answer, 0, sizeof *answer);
    answer->form = chat_form_of(format->id);
    answer->chat = chat;
    answer->memory = memory;
    answer->memory_bytes = bytes;
    answer->in_thought = answer->skips_spaces = chat_begins_in_thought(format, chat);
    answer->at_start = true;
    answer->last = '\n';
}

uint32_t chat_answer_feed(struct chat_answer *answer, const char *text, uint32_t bytes)
{
    ASSERT(!answer->has_ended);
    memmove(answer->memory, answer->memory + answer->start, answer->end - answer->start);
    answer->end -= answer->start;
    answer->start = 0;
    uint32_t room = answer->memory_bytes - answer->end, count = bytes < room ? bytes : room;
    memcpy(answer->memory + answer->end, text, count);
    answer->end += count;
    return count;
}

void chat_answer_end(struct chat_answer *answer)
{
    answer->has_ended = true;
}

void chat_answer_check(const struct chat_answer *answer)
{
    ASSERT(answer->start <= answer->end && answer->end <= answer->memory_bytes);
    ASSERT(!answer->in_call || answer->at <= answer->end - answer->start);
    ASSERT(answer->calls.first + answer->calls.count <= answer->at);
}

static void drop(struct chat_answer *answer, uint32_t count)
{
    ASSERT(count <= answer->end - answer->start);
    answer->start += count;
    answer->last = count > 0 ? answer->memory[answer->start - 1] : answer->last;
}

/* Of so many bytes of the held text, those that are whole characters: the rest of the last one may
 * still come. Bytes that are no character are passed on. */
static uint32_t whole_characters(const struct chat_answer *answer, uint32_t count)
{
    const char *text = answer->memory + answer->start;
    for (uint32_t back = 1; back <= 3 && back <= count; back++) {
        unsigned char byte = (unsigned char)text[count - back];
        uint32_t bytes = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
        if (byte >= 0xc0) {
            return bytes > back ? count - back : count;
        }
        if (byte < 0x80) {
            break;
        }
    }
    return count;
}

/* The first bytes of what is held as text; false: there are none. */
static bool give(struct chat_answer *answer, uint32_t count, struct chat_piece *piece)
{
    *piece = (struct chat_piece){
        .kind = answer->in_thought ? CHAT_PIECE_REASONING : CHAT_PIECE_CONTENT,
        .text = {answer->memory + answer->start, count}};
    answer->at_start = answer->at_start && count == 0;
    answer->after_call = answer->after_call && count == 0;
    drop(answer, count);
    return count > 0;
}

/* ---- marks ----------------------------------------------------------------------------------- */

/* A place where a mark may stand. */
struct place {
    uint32_t at;                    /* in memory */
    uint32_t spaces;                /* that end before it */
};
struct found {
    const struct chat_mark *mark;   /* NULL: none */
    bool is_whole;                  /* or its beginning, and no more text has come */
};

static bool may_stand(const struct chat_answer *answer, enum chat_place where, struct place place)
{
    char before = place.at > answer->start ? answer->memory[place.at - 1] : answer->last;
    switch (where) {
    case CHAT_ANYWHERE:
        return true;
    case CHAT_AT_LINE:
        return before == '\n';
    case CHAT_AT_START:
    case CHAT_AFTER_CALL:
        return (where == CHAT_AT_START ? answer->at_start : answer->after_call) &&
               place.spaces == place.at - answer->start && place.spaces <= SPACES_MAX;
    }
    return false;
}

static void compare(const struct chat_answer *answer, const struct chat_mark *mark,
                    struct place place, struct found *found)
{
    uint32_t bytes = (uint32_t)strlen(mark->text), room = answer->end - place.at;
    uint32_t count = bytes < room ? bytes : room;
    if (answer->memory[place.at] != mark->text[0] || (bytes > room && answer->has_ended) ||
        memcmp(answer->memory + place.at, mark->text, count) != 0 ||
        !may_stand(answer, mark->place, place)) {
        return;
    }
    *found = (struct found){.mark = mark, .is_whole = bytes <= room};
}

/* At most one mark can stand at a place; of the beginnings of several, one is enough. */
static struct found find_mark(const struct chat_answer *answer, struct place place)
{
    struct found found = {.mark = NULL};
    if (answer->form->thinks) {
        compare(answer, &thought_begins, place, &found);
    }
    if (answer->in_thought) {
        compare(answer, &thought_ends, place, &found);
        return found;
    }
    const struct chat_mark *mark = answer->form->marks;
    for (; answer->chat->tools_count > 0 && mark->text != NULL && !found.is_whole; mark++) {
        compare(answer, mark, place, &found);
    }
    return found;
}

static void take_mark(struct chat_answer *answer, const struct chat_mark *mark, uint32_t spaces)
{
    uint32_t bytes = (uint32_t)strlen(mark->text);
    if (mark->is_call) {
        chat_call_begin(answer, mark->is_kept ? spaces : spaces + bytes);
        return;
    }
    drop(answer, spaces + bytes);
    answer->skips_spaces = true;
    if (mark == &thought_begins || mark == &thought_ends) {
        answer->in_thought = mark == &thought_begins;
        answer->at_start = mark == &thought_begins;
    }
}

/* ---- text ------------------------------------------------------------------------------------ */

static void skip_spaces(struct chat_answer *answer)
{
    while (answer->skips_spaces && answer->start < answer->end) {
        answer->skips_spaces = chat_json_space(answer->memory[answer->start]);
        drop(answer, answer->skips_spaces);
    }
}

/* Text up to the next mark; false: there is none, and `*found` a mark at the beginning of what is
 * held, or after `*spaces`. */
static bool next_text(struct chat_answer *answer, struct chat_piece *piece, struct found *found,
                      uint32_t *spaces)
{
    struct place place = {.spaces = 0};
    *found = (struct found){.mark = NULL};
    skip_spaces(answer);
    for (place.at = answer->start; place.at < answer->end; place.at++) {
        *found = find_mark(answer, place);
        if (found->mark != NULL) {
            break;
        }
        place.spaces = chat_json_space(answer->memory[place.at]) ? place.spaces + 1 : 0;
    }
    bool at_end = found->mark == NULL && answer->has_ended;
    uint32_t count = place.at - answer->start;
    *spaces = place.spaces < SPACES_MAX ? place.spaces : SPACES_MAX;
    if (!at_end || answer->after_call) {
        count -= *spaces;
    }
    if (found->mark == NULL && !answer->has_ended) {
        count = whole_characters(answer, count);
    }
    return give(answer, count, piece);
}

/* What was taken for a call, and is none. */
static bool give_up(struct chat_answer *answer, struct chat_piece *piece)
{
    uint32_t count = answer->at;
    answer->in_call = false;
    return give(answer, answer->has_ended ? count : whole_characters(answer, count), piece);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* The next call, or the text of what is none; false: there is neither yet. */
static bool next_call(struct chat_answer *answer, struct chat_piece *piece)
{
    enum chat_call_verdict verdict =
        answer->calls.count > 0 ? CHAT_CALL_WHOLE : chat_call_go_on(answer);
    bool is_full = answer->end - answer->start == answer->memory_bytes;
    if (verdict == CHAT_CALL_MORE && !answer->has_ended && !is_full) {
        return false;
    }
    if (verdict != CHAT_CALL_WHOLE) {
        answer->is_cut = verdict == CHAT_CALL_MORE && answer->has_ended;
        return give_up(answer, piece);
    }
    chat_call_next(answer, piece);
    if (answer->calls.count == 0) {
        answer->in_call = false;
        answer->after_call = true;
        drop(answer, answer->at);
    }
    return true;
}

bool chat_answer_next(struct chat_answer *answer, struct chat_piece *piece)
{
    struct found found;
    uint32_t spaces;
    while (!answer->in_call) {
        if (next_text(answer, piece, &found, &spaces)) {
            return true;
        }
        if (found.mark == NULL || !found.is_whole) {
            answer->is_cut = answer->is_cut || (answer->has_ended && answer->in_thought);
            return false;
        }
        take_mark(answer, found.mark, spaces);
    }
    return next_call(answer, piece);
}
