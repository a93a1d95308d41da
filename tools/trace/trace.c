/* SPDX-License-Identifier: MIT */
/*
 * What: the reader of program traces. It is strict: one blank between words, decimal digits only,
 * every reference backwards. A prompt may use only calls that are certainly over when it is built.
 *
 * Invariants: on success every `call` of a part and of a link is smaller than the number of the
 * call that names it; no prompt and no output is longer than TRACE_TOKENS_MAX.
 * Bounds: linear in the file, except for a bit set of ancestors for each call of the program that
 * is being read, and for the search of a program's class among all.
 */
#include "tools/trace/trace.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/fnv.h"
#include "tools/exit_code.h"

#define FILE_BYTES_MAX (UINT64_C(1) << 30)
#define TIME_US_MAX    (UINT64_C(365) * 86400 * 1000000)
#define SET_WORDS      (TRACE_CALLS_OF_PROGRAM_MAX / 64)

struct reader {
    struct trace *trace;
    const char *path;
    const char *at, *end;           /* of the current line */
    uint32_t line;
    const char *fault;              /* the first problem of the line, NULL: none */
    uint64_t (*before)[SET_WORDS];  /* [TRACE_CALLS_OF_PROGRAM_MAX]: calls over before call n */
};

/* ---- memory ---------------------------------------------------------------------------------- */

/* Room for one more element; NULL when there is no memory. */
static void *grown(void *array, uint32_t count, uint32_t *room, size_t element_bytes)
{
    if (count < *room) {
        return array;
    }
    uint32_t larger = *room == 0 ? 1024 : *room * 2;
    void *moved = larger > *room ? realloc(array, larger * element_bytes) : NULL;
    if (moved != NULL) {
        *room = larger;
    }
    return moved;
}

/* The new last element of the trace's array `name`, zeroed, or NULL with a fault. */
#define ADD(reader, name)                                                                        \
    ((reader)->fault == NULL ? add_##name(reader) : NULL)
#define DEFINE_ADD(name, type)                                                                   \
    static type *add_##name(struct reader *reader)                                               \
    {                                                                                            \
        struct trace *trace = reader->trace;                                                     \
        type *moved = grown(trace->name, trace->name##_count, &trace->name##_room,               \
                            sizeof *trace->name);                                                \
        if (moved == NULL) {                                                                     \
            reader->fault = "out of memory";                                                     \
            return NULL;                                                                         \
        }                                                                                        \
        trace->name = moved;                                                                     \
        memset(&moved[trace->name##_count], 0, sizeof *moved);                                   \
        return &moved[trace->name##_count++];                                                    \
    }
DEFINE_ADD(programs, struct trace_program)
DEFINE_ADD(classes, struct trace_class)
DEFINE_ADD(calls, struct trace_call)
DEFINE_ADD(parts, struct trace_part)
DEFINE_ADD(links, uint32_t)

void trace_free(struct trace *trace)
{
    free(trace->programs);
    free(trace->classes);
    free(trace->calls);
    free(trace->parts);
    free(trace->links);
    memset(trace, 0, sizeof *trace);
}

/* ---- words of a line: the first problem stays, later ones follow from it -------------------- */

static void blame(struct reader *reader, const char *fault)
{
    reader->fault = reader->fault != NULL ? reader->fault : fault;
}

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
        blame(reader, fault);
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
            blame(reader, fault);
            return min;
        }
        number = number * 10 + digit;
    }
    if (reader->at == start || number < min) {
        blame(reader, fault);
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
        blame(reader, fault);
    }
    return fnv_add(FNV_START, start, (uint64_t)(reader->at - start));
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* The class of this name; a new one comes last. */
static uint32_t find_class(struct reader *reader, const char *name, size_t bytes)
{
    struct trace *trace = reader->trace;
    for (uint32_t i = 0; i < trace->classes_count; i++) {
        const char *known = trace->classes[i].name;
        if (strlen(known) == bytes && memcmp(known, name, bytes) == 0) {
            return i;
        }
    }
    if (bytes > TRACE_CLASS_BYTES_MAX || trace->classes_count == TRACE_CLASSES_MAX) {
        blame(reader, "program: the class is longer than 63 bytes, or there are more than 4,096");
    }
    struct trace_class *class = ADD(reader, classes);
    if (class == NULL) {
        return 0;
    }
    memcpy(class->name, name, bytes);
    return trace->classes_count - 1;
}

static uint32_t read_class(struct reader *reader)
{
    const char *start = reader->at;
    (void)read_name(reader, ' ', "program: the class is missing");
    return find_class(reader, start, (size_t)(reader->at - start));
}

static void read_program(struct reader *reader)
{
    struct trace *trace = reader->trace;
    (void)read_name(reader, ' ', "program: the id is missing");
    expect(reader, " ", "program: one blank before the arrival");
    uint64_t arrival_us = read_number(reader, 0, TIME_US_MAX, "program: arrival_us is no time");
    expect(reader, " ", "program: one blank before the class");
    uint32_t class = read_class(reader);
    if (trace->programs_count > 0) {
        const struct trace_program *last = &trace->programs[trace->programs_count - 1];
        if (last->calls_count == 0) {
            blame(reader, "the program before this one has no calls");
        }
        if (arrival_us < last->arrival_us) {
            blame(reader, "program: arrives before the one above it");
        }
    }
    struct trace_program *program = ADD(reader, programs);
    if (program != NULL) {
        *program = (struct trace_program){.arrival_us = arrival_us, .class = class,
                                          .calls_first = trace->calls_count};
    }
}

/* Call `earlier` and everything that is over before it are over before call `number`. */
static void add_before(struct reader *reader, uint32_t number, uint32_t earlier)
{
    for (uint32_t i = 0; i < SET_WORDS; i++) {
        reader->before[number][i] |= reader->before[earlier][i];
    }
    reader->before[number][earlier / 64] |= UINT64_C(1) << earlier % 64;
}

static bool is_before(const struct reader *reader, uint32_t number, uint32_t earlier)
{
    return (reader->before[number][earlier / 64] >> earlier % 64 & 1) != 0;
}

static void read_after(struct reader *reader, uint32_t number, struct trace_call *call)
{
    struct trace *trace = reader->trace;
    call->after_first = trace->links_count;
    memset(reader->before[number], 0, sizeof reader->before[number]);
    if (skip(reader, '-')) {
        return;
    }
    if (number == 0) {
        blame(reader, "after: call 0 comes first");
        return;
    }
    do {
        uint32_t earlier = (uint32_t)read_number(reader, 0, number - 1, "after: no earlier call");
        for (uint32_t i = 0; i < call->after_count; i++) {
            if (trace->links[call->after_first + i] == earlier) {
                blame(reader, "after: a call is named twice");
            }
        }
        uint32_t *link = ADD(reader, links);
        if (link == NULL) {
            return;
        }
        *link = earlier;
        call->after_count++;
        add_before(reader, number, earlier);
    } while (skip(reader, ','));
}

/* The tokens that a part of call `number` adds, 0 with a fault. */
static uint64_t read_part(struct reader *reader, uint32_t number, struct trace_part *part)
{
    const struct trace *trace = reader->trace;
    const struct trace_call *calls = &trace->calls[trace->calls_count - 1 - number];
    char kind = reader->at < reader->end ? *reader->at++ : '\0';
    expect(reader, ":", "in: a part is s:, u:, p: or o:");
    if (kind == 's' || kind == 'u') {
        part->kind = kind == 's' ? TRACE_SHARED : TRACE_UNIQUE;
        if (kind == 's') {
            part->key = read_name(reader, ':', "in: s: needs a name");
            expect(reader, ":", "in: s:<name>:<n> needs a number of tokens");
        }
        part->tokens = (uint32_t)read_number(reader, 1, TRACE_TOKENS_MAX, "in: no token count");
        return part->tokens;
    }
    if (kind != 'p' && kind != 'o') {
        blame(reader, "in: a part is s:, u:, p: or o:");
        return 0;
    }
    part->kind = kind == 'p' ? TRACE_PROMPT : TRACE_OUTPUT;
    part->call = number == 0 ? 0 : (uint32_t)read_number(reader, 0, number - 1,
                                                         "in: p: and o: name an earlier call");
    if (number == 0 || !is_before(reader, number, part->call)) {
        blame(reader, "in: p: and o: name a call that is over before this one starts");
        return 0;
    }
    uint32_t whole = kind == 'p' ? calls[part->call].prompt_tokens : calls[part->call].out_tokens;
    if (!skip(reader, ':')) {
        return whole;
    }
    part->tokens = (uint32_t)read_number(reader, 1, whole, "in: more tokens than that call has");
    return part->tokens;
}

static void read_parts(struct reader *reader, uint32_t number, struct trace_call *call)
{
    uint64_t tokens = 0;
    call->parts_first = reader->trace->parts_count;
    do {
        struct trace_part *part = ADD(reader, parts);
        if (part == NULL) {
            return;
        }
        call->parts_count++;
        tokens += read_part(reader, number, part);
        if (tokens > TRACE_TOKENS_MAX) {
            blame(reader, "in: the prompt is too long");
        }
    } while (reader->fault == NULL && skip(reader, '+'));
    call->prompt_tokens = (uint32_t)tokens;
}

static void read_call(struct reader *reader)
{
    struct trace *trace = reader->trace;
    if (trace->programs_count == 0) {
        blame(reader, "a call before the first program");
        return;
    }
    struct trace_program *program = &trace->programs[trace->programs_count - 1];
    uint32_t number = program->calls_count;
    if (number == TRACE_CALLS_OF_PROGRAM_MAX) {
        blame(reader, "too many calls in one program");
        return;
    }
    (void)read_number(reader, number, number, "call: numbers go 0, 1, 2, ...");
    struct trace_call *call = ADD(reader, calls);
    if (call == NULL) {
        return;
    }
    program->calls_count++;
    expect(reader, " after=", "call: after= is missing");
    read_after(reader, number, call);
    expect(reader, " gap=", "call: gap= is missing, or after= is no list of numbers");
    call->gap_us = read_number(reader, 0, TIME_US_MAX, "gap: no time in microseconds");
    expect(reader, " in=", "call: in= is missing");
    read_parts(reader, number, call);
    expect(reader, " out=", "call: out= is missing, or in= ends in something else");
    call->out_tokens = (uint32_t)read_number(reader, 1, TRACE_TOKENS_MAX, "out: no token count");
    if (program->calls_count > trace->calls_of_program_max) {
        trace->calls_of_program_max = program->calls_count;
    }
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
        blame(reader, "the line should end here");
    }
}

/* ---- the whole file -------------------------------------------------------------------------- */

/* Inverts "after": the calls that wait for each call. */
static void link_next(struct reader *reader, const struct trace_program *program)
{
    struct trace *trace = reader->trace;
    for (uint32_t n = 0; n < program->calls_count; n++) {
        const struct trace_call *call = &trace->calls[program->calls_first + n];
        for (uint32_t i = 0; i < call->after_count; i++) {
            uint32_t earlier = trace->links[call->after_first + i];
            trace->calls[program->calls_first + earlier].next_count++;
        }
    }
    for (uint32_t n = 0; n < program->calls_count; n++) {
        struct trace_call *call = &trace->calls[program->calls_first + n];
        call->next_first = trace->links_count;
        for (uint32_t i = 0; i < call->next_count; i++) {
            if (ADD(reader, links) == NULL) {
                return;
            }
        }
        call->next_count = 0;       /* counted again below */
    }
    for (uint32_t n = 0; n < program->calls_count; n++) {
        const struct trace_call *call = &trace->calls[program->calls_first + n];
        for (uint32_t i = 0; i < call->after_count; i++) {
            uint32_t earlier = trace->links[call->after_first + i];
            struct trace_call *other = &trace->calls[program->calls_first + earlier];
            trace->links[other->next_first + other->next_count++] = n;
        }
    }
}

static void read_all(struct reader *reader, const char *text, size_t bytes)
{
    const char *end = text + bytes;
    for (const char *at = text; at < end && reader->fault == NULL;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        reader->at = at;
        reader->end = newline != NULL ? newline : end;
        reader->line++;
        read_line(reader);
        at = newline != NULL ? newline + 1 : end;
    }
    const struct trace *trace = reader->trace;
    if (trace->programs_count == 0 ||
        trace->programs[trace->programs_count - 1].calls_count == 0) {
        blame(reader, "no programs, or the last one has no calls");
    }
    for (uint32_t i = 0; i < trace->programs_count && reader->fault == NULL; i++) {
        link_next(reader, &trace->programs[i]);
    }
}

/* The file in memory, or NULL after a message. */
static char *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t room = 1 << 16, got = 0;
    *bytes = 0;
    while (file != NULL && room <= FILE_BYTES_MAX) {
        char *moved = realloc(text, room);
        if (moved == NULL) {
            break;
        }
        text = moved;
        got = fread(text + *bytes, 1, room - *bytes, file);
        *bytes += got;
        if (*bytes < room) {
            break;
        }
        room *= 2;
    }
    bool whole = file != NULL && text != NULL && feof(file) && ferror(file) == 0;
    if (file != NULL) {
        fclose(file);
    }
    if (!whole) {
        fprintf(stderr, "agx: %s: cannot be read\n", path);
        free(text);
        return NULL;
    }
    return text;
}

int trace_load(struct trace *trace, const char *path)
{
    struct reader reader = {.trace = trace, .path = path};
    size_t bytes;
    memset(trace, 0, sizeof *trace);
    char *text = read_file(path, &bytes);
    if (text == NULL) {
        return EXIT_SYSTEM;
    }
    reader.before = calloc(TRACE_CALLS_OF_PROGRAM_MAX, sizeof *reader.before);
    if (reader.before == NULL) {
        blame(&reader, "out of memory");
    } else {
        read_all(&reader, text, bytes);
    }
    free(reader.before);
    free(text);
    if (reader.fault != NULL) {
        fprintf(stderr, "agx: %s:%u: %s\n", path, (unsigned)reader.line, reader.fault);
        trace_free(trace);
        return EXIT_USAGE;
    }
    return EXIT_COMPLETE;
}
