/* SPDX-License-Identifier: MIT */
/*
 * What: lines into programs and calls. The reader is strict: one blank between words, decimal
 * digits only, every reference backwards. What the lines say together is checked by build.c. A
 * line may end as Windows ends it, with CR LF.
 * Bounds: linear in the text.
 */
#include "tools/trace/native.h"

#include <string.h>

#include "config/base/assert.h"
#include "config/base/fnv.h"

#define TOKENS_WANTED "a whole number of tokens from 1 to 67108864 is needed"
#define TIME_WANTED   "whole microseconds from 0 to 31536000000000, a year, are needed"
STATIC_ASSERT(TRACE_TOKENS_MAX == 67108864, "TOKENS_WANTED says how many");
STATIC_ASSERT(BUILD_US_MAX == 31536000000000, "TIME_WANTED says how many");

struct reader {
    struct build *build;
    const char *at, *end;           /* of the current line */
    uint32_t line;
};

/* ---- words of a line ------------------------------------------------------------------------- */

static bool next_is(const struct reader *reader, char wanted)
{
    return reader->at < reader->end && *reader->at == wanted;
}

static bool skip(struct reader *reader, char wanted)
{
    bool is_there = next_is(reader, wanted);
    reader->at += is_there;
    return is_there;
}

static void expect(struct reader *reader, const char *word, const char *fault)
{
    size_t length = strlen(word);
    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, word, length) != 0) {
        build_blame(reader->build, fault);
        return;
    }
    reader->at += length;
}

static uint64_t read_number(struct reader *reader, uint64_t min, uint64_t max, const char *fault)
{
    const char *start = reader->at;
    uint64_t number = 0;
    for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
        uint64_t digit = (uint64_t)(*reader->at - '0');
        if (digit > max || number > (max - digit) / 10) {
            build_blame(reader->build, fault);
            return min;
        }
        number = number * 10 + digit;
    }
    if (reader->at == start || number < min) {
        build_blame(reader->build, fault);
        return min;
    }
    return number;
}

/* A word of letters, digits and marks up to `stop`, a blank or the end; its hash (FNV-1a). */
static uint64_t read_name(struct reader *reader, char stop, const char *fault)
{
    const char *start = reader->at;
    while (reader->at < reader->end && *reader->at != stop && *reader->at > ' ' &&
           *reader->at != 0x7f) {
        reader->at++;
    }
    if (reader->at == start) {
        build_blame(reader->build, fault);
    }
    return fnv_add(FNV_START, start, (uint64_t)(reader->at - start));
}

/* ---- lines ----------------------------------------------------------------------------------- */

static uint32_t read_class(struct reader *reader)
{
    const char *start = reader->at;
    (void)read_name(reader, ' ', "program: the class is missing");
    return build_class(reader->build, start, (size_t)(reader->at - start));
}

static void read_program(struct reader *reader)
{
    (void)read_name(reader, ' ', "program: the id is missing");
    expect(reader, " ", "program: one blank before the arrival");
    uint64_t arrival_us = read_number(reader, 0, BUILD_US_MAX, "program: arrival_us: " TIME_WANTED);
    expect(reader, " ", "program: one blank before the class");
    build_program(reader->build, arrival_us, read_class(reader));
}

static void read_after(struct reader *reader, uint32_t number)
{
    if (skip(reader, '-')) {
        return;
    }
    if (number == 0) {
        build_blame(reader->build, "after: call 0 comes first");
        return;
    }
    do {
        build_after(reader->build, (uint32_t)read_number(reader, 0, number - 1,
                                                         "after: no earlier call"));
    } while (reader->build->fault == NULL && skip(reader, ','));
}

/* s:<name>:<n>, r:<name>:<n>, u:<n> */
static void read_text(struct reader *reader, char kind, struct trace_part *part)
{
    part->kind = kind == 's' ? TRACE_SHARED : kind == 'r' ? TRACE_RUN : TRACE_UNIQUE;
    if (kind != 'u') {
        part->key = read_name(reader, ':', "in: s: and r: need a name");
        expect(reader, ":", "in: s:<name>:<n> and r:<name>:<n> need a number of tokens");
    }
    part->tokens = (uint32_t)read_number(reader, 1, TRACE_TOKENS_MAX, "in: " TOKENS_WANTED);
}

/* p:<call>[:<n>], o:<call>[:<n>] */
static void read_reference(struct reader *reader, char kind, uint32_t number,
                           struct trace_part *part)
{
    part->kind = kind == 'p' ? TRACE_PROMPT : TRACE_OUTPUT;
    part->call = number == 0 ? 0 : (uint32_t)read_number(reader, 0, number - 1,
                                                         "in: p: and o: name an earlier call");
    if (skip(reader, ':')) {
        part->tokens = (uint32_t)read_number(reader, 1, TRACE_TOKENS_MAX,
                                             "in: more tokens than that call has");
    }
}

static void read_part(struct reader *reader, uint32_t number)
{
    struct trace_part part = {0};
    char kind = reader->at < reader->end ? *reader->at++ : '\0';
    expect(reader, ":", "in: a part is s:, r:, u:, p: or o:");
    if (kind == 's' || kind == 'r' || kind == 'u') {
        read_text(reader, kind, &part);
    } else if (kind == 'p' || kind == 'o') {
        read_reference(reader, kind, number, &part);
    } else {
        build_blame(reader->build, "in: a part is s:, r:, u:, p: or o:");
    }
    build_part(reader->build, &part);
}

static void read_call(struct reader *reader)
{
    uint32_t number = build_call(reader->build);
    (void)read_number(reader, number, number, "call: numbers go 0, 1, 2, ...");
    expect(reader, " after=", "call: after= is missing");
    read_after(reader, number);
    expect(reader, " gap=", "call: gap= is missing, or after= is no list of numbers");
    uint64_t gap_us = read_number(reader, 0, BUILD_US_MAX, "gap: " TIME_WANTED);
    expect(reader, " in=", "call: in= is missing");
    do {
        read_part(reader, number);
    } while (reader->build->fault == NULL && skip(reader, '+'));
    expect(reader, " out=", "call: out= is missing, or in= ends in something else");
    uint64_t out_tokens = read_number(reader, 1, TRACE_TOKENS_MAX, "out: " TOKENS_WANTED);
    build_timing(reader->build, gap_us, (uint32_t)out_tokens);
}

static void read_line(struct reader *reader)
{
    if (reader->line == 1) {
        expect(reader, "agentix-trace 1", "the first line must be `agentix-trace 1`");
    } else if (reader->at == reader->end || *reader->at == '#') {
        return;
    } else if (*reader->at == 'p') {
        expect(reader, "program ", "a line starts with `program`, `call` or `#`");
        read_program(reader);
    } else {
        expect(reader, "call ", "a line starts with `program`, `call` or `#`");
        read_call(reader);
    }
    if (reader->at != reader->end) {
        build_blame(reader->build, "the line should end here");
    }
}

uint32_t native_read(struct build *build, const char *text, size_t bytes)
{
    struct reader reader = {.build = build};
    const char *end = text + bytes;
    for (const char *at = text; at < end && build->fault == NULL;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        reader.at = at;
        reader.end = newline != NULL ? newline : end;
        if (newline != NULL && newline > at && newline[-1] == '\r') {
            reader.end--;
        }
        reader.line++;
        read_line(&reader);
        at = newline != NULL ? newline + 1 : end;
    }
    return reader.line;
}
