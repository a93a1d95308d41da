/* SPDX-License-Identifier: MIT */
/*
 * What: the table of drafts, read and drawn from.
 * Invariants: any bytes are read or refused with the place where they are wrong. What is drawn
 * depends on key and place alone.
 * Bounds: linear in the text; a class is found in O(DRAFTS_CLASSES_MAX).
 */
#include "tools/lab/device/drafts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/assert.h"
#include "config/base/hash.h"
#include "tools/exit_code.h"

#define FIRST_LINE "agentix-drafts 1"
#define ANY_CLASS  "*"

/* ---- the table ------------------------------------------------------------------------------- */

struct reader {
    struct drafts *drafts;
    const char *at, *end;           /* of what is left of the line */
    const char *line;               /* where it begins */
    uint32_t number;                /* of the line */
    char *fault;                    /* "": none */
};

/* The first fault counts. */
static void blame(struct reader *reader, const char *expected)
{
    char found[32] = "the end of the line";
    if (reader->fault[0] != '\0') {
        return;
    }
    if (reader->at < reader->end) {
        bool is_plain = *reader->at > ' ' && *reader->at < 0x7f;
        snprintf(found, sizeof found, is_plain ? "'%c'" : "byte 0x%02x",
                 (unsigned)(uint8_t)*reader->at);
    }
    snprintf(reader->fault, DRAFTS_FAULT_BYTES, "%" PRIu32 ":%td: expected %s, found %s",
             reader->number, reader->at - reader->line + 1, expected, found);
}

static bool is_right(const struct reader *reader)
{
    return reader->fault[0] == '\0';
}

static void skip_blanks(struct reader *reader)
{
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\t')) {
        reader->at++;
    }
}

static void read_name(struct reader *reader, struct drafts_class *class)
{
    const char *begin = reader->at;
    while (reader->at < reader->end && *reader->at > ' ' && *reader->at < 0x7f &&
           reader->at - begin < TRACE_CLASS_BYTES_MAX) {
        reader->at++;
    }
    bool is_over = reader->at == reader->end || *reader->at == ' ' || *reader->at == '\t';
    if (reader->at == begin || !is_over) {
        blame(reader, "the name of a class, of at most 63 letters, digits and marks");
        return;
    }
    memset(class->name, 0, sizeof class->name);
    memcpy(class->name, begin, (size_t)(reader->at - begin));
    for (uint32_t i = 0; i < reader->drafts->count; i++) {
        if (strcmp(reader->drafts->classes[i].name, class->name) == 0) {
            reader->at = begin;
            blame(reader, "a class that has no line yet");
        }
    }
}

static uint64_t read_count(struct reader *reader)
{
    const char *begin = reader->at;
    uint64_t count = 0;
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9' &&
           count <= DRAFTS_COUNT_MAX) {
        count = 10 * count + (uint64_t)(*reader->at++ - '0');
    }
    bool is_over = reader->at == reader->end || *reader->at == ' ' || *reader->at == '\t';
    if (reader->at == begin || !is_over) {
        blame(reader, "17 counts of rounds: of none, of 0, 1 ... 15 tokens");
    } else if (count > DRAFTS_COUNT_MAX) {
        reader->at = begin;
        blame(reader, "a count of at most 1000000000");
    }
    return count;
}

static void read_class(struct reader *reader)
{
    struct drafts *drafts = reader->drafts;
    if (drafts->count == DRAFTS_CLASSES_MAX) {
        blame(reader, "no more than 64 classes");
        return;
    }
    struct drafts_class *class = &drafts->classes[drafts->count];
    uint64_t rounds = 0;
    read_name(reader, class);
    STATIC_ASSERT(DRAFTS_OUTCOMES == 17, "messages name how many");
    for (uint32_t i = 0; i < DRAFTS_OUTCOMES && is_right(reader); i++) {
        skip_blanks(reader);
        rounds += read_count(reader);
        class->up_to[i] = rounds;
    }
    skip_blanks(reader);
    if (is_right(reader) && reader->at < reader->end) {
        blame(reader, "the end of the line after 17 counts");
    } else if (is_right(reader) && rounds == 0) {
        blame(reader, "a count above 0 in the line");
    }
    drafts->count += is_right(reader);
}

static void read_line(struct reader *reader)
{
    if (reader->number == 1) {
        size_t bytes = strlen(FIRST_LINE);
        if ((size_t)(reader->end - reader->at) != bytes ||
            memcmp(reader->at, FIRST_LINE, bytes) != 0) {
            blame(reader, "the line \"" FIRST_LINE "\"");
        }
        return;
    }
    skip_blanks(reader);
    if (reader->at < reader->end && *reader->at != '#') {
        read_class(reader);
    }
}

static const struct drafts_class *find(const struct drafts *drafts, const char *name)
{
    for (uint32_t i = 0; i < drafts->count; i++) {
        if (strcmp(drafts->classes[i].name, name) == 0) {
            return &drafts->classes[i];
        }
    }
    return NULL;
}

bool drafts_read(struct drafts *drafts, const char *text, size_t bytes,
                 char fault[DRAFTS_FAULT_BYTES])
{
    struct reader reader = {.drafts = drafts, .fault = fault, .end = text};
    const char *next = text, *end = text + bytes;
    drafts->count = 0;
    fault[0] = '\0';
    do {
        const char *newline = memchr(next, '\n', (size_t)(end - next));
        reader.at = reader.line = next;
        reader.end = newline != NULL ? newline : end;
        reader.number++;
        read_line(&reader);
        next = newline != NULL ? newline + 1 : end;
    } while (is_right(&reader) && next < end);
    if (is_right(&reader) && find(drafts, ANY_CLASS) == NULL) {
        reader.at = reader.end;
        blame(&reader, "a line of the class * after this one");
    }
    return is_right(&reader);
}

int drafts_load(struct drafts *drafts, const char *path)
{
    char *text = malloc(DRAFTS_FILE_BYTES + 1), fault[DRAFTS_FAULT_BYTES] = "";
    FILE *file = fopen(path, "rb");
    size_t bytes = file != NULL && text != NULL ? fread(text, 1, DRAFTS_FILE_BYTES + 1, file) : 0;
    bool is_whole = file != NULL && text != NULL && ferror(file) == 0;
    int code = EXIT_COMPLETE;
    if (!is_whole || bytes > DRAFTS_FILE_BYTES) {
        fprintf(stderr, "agentix-lab: %s: %s%s\n", path,
                is_whole ? "expected a file of at most 65536 bytes" : "cannot be read: ",
                is_whole ? "" : strerror(errno));
        code = is_whole ? EXIT_USAGE : EXIT_SYSTEM;
    } else if (!drafts_read(drafts, text, bytes, fault)) {
        fprintf(stderr, "agentix-lab: %s:%s\n", path, fault);
        code = EXIT_USAGE;
    }
    if (file != NULL) {
        fclose(file);
    }
    free(text);
    return code;
}

const struct drafts_class *drafts_class_of(const struct drafts *drafts, const char *name)
{
    const struct drafts_class *class = find(drafts, name);
    class = class != NULL ? class : find(drafts, ANY_CLASS);
    ASSERT(class != NULL);
    return class;
}

/* ---- stretches ------------------------------------------------------------------------------- */

/* The outcome whose rounds have the drawn one. */
static uint32_t draw(const struct drafts_class *of, uint64_t key, uint32_t place)
{
    uint64_t mixed = hash_fold(key ^ HASH_START_A, place ^ HASH_START_B);
    uint64_t round = hash_fold(mixed, HASH_START_A) % of->up_to[DRAFTS_OUTCOMES - 1];
    uint32_t outcome = 0;
    while (round >= of->up_to[outcome]) {
        outcome++;
    }
    ASSERT(outcome < DRAFTS_OUTCOMES);
    return outcome;
}

void drafts_seek(struct drafts_stretch *stretch, const struct drafts_class *of, uint64_t key,
                 uint32_t place)
{
    if (place < stretch->begin) {       /* an engine has died: the text is read again */
        *stretch = (struct drafts_stretch){0};
    }
    while (place >= stretch->begin + stretch->tokens) {
        stretch->begin += stretch->tokens;
        uint32_t outcome = draw(of, key, stretch->begin);
        stretch->has_draft = outcome > 0;
        stretch->tokens = outcome > 0 ? outcome : 1;
    }
}

uint32_t drafts_agree(const struct drafts_stretch *stretch, uint32_t place)
{
    ASSERT(place >= stretch->begin && place < stretch->begin + stretch->tokens);
    return stretch->begin + stretch->tokens - 1 - place;
}
