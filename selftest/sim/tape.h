/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the one source of choices. Everything that a run of the simulator decides comes through
 * tape_choose(), so a run is a function of its tape.
 *
 *   RECORD    bytes come from a seed and are written down
 *   REPLAY    bytes are read; after the end come zeros
 *   COUNT     the n-th choice is the n-th digit of a counter that goes through all combinations
 *             (exhaust.c); after its last digit come zeros
 *
 * Rule for every choice: 0 disturbs least. So a tape that is cut off, or whose bytes are lowered,
 * gives a quieter run (shrink.c).
 */
#include <stdbool.h>
#include <stdint.h>

#define TAPE_BYTES_MAX  (1u << 30)      /* mapped, not populated */
#define TAPE_DIGITS_MAX 32

enum tape_mode { TAPE_RECORD, TAPE_REPLAY, TAPE_COUNT };

struct tape_digit {
    uint32_t value, bound;
};

struct tape {
    enum tape_mode mode;
    uint64_t steps;                 /* passes of phase 1: a part of the run like the bytes */
    uint32_t engines;               /* so is this; 1 unless the caller has set it */
    uint32_t deaths;                /* and this: of cores, which die often, until so many have; 0:
                                       as the seed says */
    uint64_t faults_masked;         /* bits of enum sim_fault: chosen, but not executed */
    uint8_t *bytes;                 /* [TAPE_BYTES_MAX] */
    uint32_t count, at;
    uint64_t random;
    struct tape_digit digits[TAPE_DIGITS_MAX];
    uint32_t digits_count, digit;   /* COUNT: choices that count, and the next one */
};

void tape_init(struct tape *tape);
void tape_record(struct tape *tape, uint64_t seed, uint64_t steps);
/* Starts again from the first of `bytes`. */
void tape_replay(struct tape *tape);
/* A number below `bound`, which is at least 1. */
uint32_t tape_choose(struct tape *tape, uint32_t bound);

/* COUNT with `digits` digits, all zero. */
void tape_count(struct tape *tape, uint32_t digits);
/* The next combination; false after the last. The run before has set the bounds of the digits. */
bool tape_count_up(struct tape *tape);

/* 0, or -1 after a message. */
int tape_write(const struct tape *tape, const char *path);
int tape_read(struct tape *tape, const char *path);
