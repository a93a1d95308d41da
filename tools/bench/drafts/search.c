/* SPDX-License-Identifier: MIT
 *
 * What: what the engine's search for drafts finds in texts, as the table of agentix-lab --speculate
 * (tools/lab/device/drafts.h).
 *
 *     bench-drafts < TEXTS > TABLE
 *
 * TEXTS has a line for each call: CLASS KNOWN ID ID ... The first KNOWN tokens were known when it
 * began, which are those that its program recalls and its prompt; the others it has generated. They
 * are read as an engine would that makes a draft of STEP_DRAFTS_MAX tokens in each round: a round
 * without a draft brings one token, others one more than agree. Where a call ends, at most all but
 * its last token can agree. The line `*` is of all calls.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/step.h"
#include "kernels/round/draft.h"

#define CLASSES_MAX 64u
#define NAME_BYTES  64u
#define TOKENS_MAX  (1u << 20)
#define OUTCOMES    (STEP_DRAFTS_MAX + 2)   /* no draft; 0 .. STEP_DRAFTS_MAX tokens agreed */

static struct class {
    char name[NAME_BYTES];
    uint64_t rounds[OUTCOMES];
} classes[CLASSES_MAX] = {{.name = "*"}};
static uint32_t classes_count = 1;
static uint32_t tokens[TOKENS_MAX];

static struct class *class_of(const char *name)
{
    for (uint32_t i = 0; i < classes_count; i++) {
        if (strcmp(classes[i].name, name) == 0) {
            return &classes[i];
        }
    }
    if (classes_count == CLASSES_MAX) {
        return NULL;
    }
    struct class *class = &classes[classes_count++];
    snprintf(class->name, sizeof class->name, "%s", name);
    return class;
}

/* Returns how many tokens the round brings at this place. */
static uint32_t read_round(uint32_t known, uint32_t at, uint32_t count, uint64_t *rounds)
{
    uint32_t draft[STEP_DRAFTS_MAX], agreed = 0;
    const struct draft_text text = {tokens, known, tokens + known, at - known};
    bool is_found = draft_find(&text, draft, STEP_DRAFTS_MAX) > 0;
    while (is_found && agreed < STEP_DRAFTS_MAX && at + agreed + 1 < count &&
           tokens[at + agreed] == draft[agreed]) {
        agreed++;
    }
    rounds[is_found ? 1 + agreed : 0]++;
    return 1 + agreed;
}

static void read_call(struct class *class, uint32_t known, uint32_t count)
{
    uint64_t rounds[OUTCOMES] = {0};
    for (uint32_t at = known; at < count;) {
        at += read_round(known, at, count, rounds);
    }
    for (uint32_t i = 0; i < OUTCOMES; i++) {
        classes[0].rounds[i] += rounds[i];
        class->rounds[i] += rounds[i];
    }
}

/* The next number of the line; false: there is none. */
static bool next_number(char **at, uint32_t *number)
{
    char *end;
    unsigned long value = strtoul(*at, &end, 10);
    bool is_there = end != *at && value <= UINT32_MAX;
    *number = (uint32_t)value;
    *at = end;
    return is_there;
}

static bool read_line(char *line)
{
    char name[NAME_BYTES];
    int end = 0;
    uint32_t known = 0, count = 0, id;
    if (sscanf(line, "%63s%n", name, &end) != 1 || strcmp(name, "*") == 0) {
        return false;
    }
    struct class *class = class_of(name);
    char *at = line + end;
    if (class == NULL || !next_number(&at, &known)) {
        return false;
    }
    while (count < TOKENS_MAX && next_number(&at, &id)) {
        tokens[count++] = id;
    }
    if (at[strspn(at, " \n")] != '\0' || known == 0 || known > count) {
        return false;
    }
    read_call(class, known, count);
    return true;
}

static void print_class(const struct class *class)
{
    printf("%s", class->name);
    for (uint32_t i = 0; i < OUTCOMES; i++) {
        printf(" %" PRIu64, class->rounds[i]);
    }
    printf("\n");
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    for (uint32_t number = 1; getline(&line, &room, stdin) > 0; number++) {
        if (!read_line(line)) {
            fprintf(stderr, "bench-drafts: line %" PRIu32 ": expected CLASS KNOWN ID ID ..., at "
                    "most %u classes\n", number, CLASSES_MAX - 1);
            return 2;
        }
    }
    free(line);
    printf("agentix-drafts 1\n# class, rounds without a draft, rounds with one of which 0, 1 ... "
           "15 tokens agreed\n");
    for (uint32_t i = 0; i < classes_count; i++) {
        print_class(&classes[i]);
    }
    return 0;
}
