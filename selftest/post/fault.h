/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the faults that a check has found: a word of memory with wrong bits, or a sentence where no
 * memory is at fault. All are counted, the first few are kept.
 */
#include <stdbool.h>
#include <stdint.h>

#define POST_FAULTS_KEPT 8u
#define POST_WHERE_BYTES 120u

struct post_fault {
    char where[POST_WHERE_BYTES];   /* "word 17 of the area"; the sentence */
    const uint64_t *word;           /* NULL: a sentence */
    uint64_t expected, found;
};

struct post_faults {
    uint64_t count;
    struct post_fault kept[POST_FAULTS_KEPT];
};

/* Words, and what they must be. Each word is read once, so a report shows the bits that were
 * compared, even where a second read would be right. */
struct post_pair {
    const uint64_t *found, *expected;
    uint64_t count;
    uint64_t next;                  /* index of the next word to compare */
    uint64_t read;                  /* bits of the word before it */
};

/* Goes on to the next word that differs. False when there is none. */
bool post_pair_differs(struct post_pair *pair);
static inline uint64_t post_pair_at(const struct post_pair *pair) { return pair->next - 1; }

/* The lowest bit in which a fault's words differ. */
uint32_t post_fault_bit(const struct post_fault *fault);

/* Adds the word at which post_pair_differs() has stopped. */
void post_fault_word(struct post_faults *faults, const struct post_pair *pair, const char *where,
                     ...) __attribute__((format(printf, 3, 4)));
/* Adds a word that the caller has compared; this fills in `where`. */
void post_fault_at(struct post_faults *faults, const struct post_fault *fault, const char *where,
                   ...) __attribute__((format(printf, 3, 4)));
void post_fault_say(struct post_faults *faults, const char *sentence, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds the faults of another thread. */
void post_faults_add(struct post_faults *faults, const struct post_faults *more);
/* Prints a line for each fault, under the name of the check. */
void post_faults_print(const struct post_faults *faults, const char *check);
