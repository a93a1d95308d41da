/* SPDX-License-Identifier: MIT */
/*
 * What: the tape of choices; see tape.h.
 * A choice takes as many bytes as its bound needs. Most take one, so when a chunk is cut out of a
 * tape, most of the rest still means the same.
 */
#include "selftest/sim/tape.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "config/base/assert.h"
#include "config/base/splitmix.h"

#define HEADER      "agentix-sim tape, steps %llu, engines %u, deaths %u, masked %llx\n"
#define HEADER_READ "agentix-sim tape, steps %llu, engines %u, deaths %u, masked %llx"

void tape_init(struct tape *tape)
{
    void *memory = mmap(NULL, TAPE_BYTES_MAX, PROT_READ | PROT_WRITE,
                        MAP_ANONYMOUS | MAP_PRIVATE | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "agentix-sim: no memory for a tape\n");
        exit(1);
    }
    *tape = (struct tape){.engines = 1, .bytes = memory};
}

void tape_record(struct tape *tape, uint64_t seed, uint64_t steps)
{
    tape->mode = TAPE_RECORD;
    tape->steps = steps;
    tape->faults_masked = 0;
    tape->count = tape->at = 0;
    tape->random = seed;
}

void tape_replay(struct tape *tape)
{
    tape->mode = TAPE_REPLAY;
    tape->at = 0;
}

static uint32_t read_byte(struct tape *tape)
{
    return tape->at < tape->count ? tape->bytes[tape->at++] : 0;
}

static uint32_t next_raw(struct tape *tape, uint32_t width)
{
    uint32_t raw = 0;
    if (tape->mode == TAPE_REPLAY) {
        for (uint32_t i = 0; i < width; i++) {
            raw |= read_byte(tape) << (8 * i);
        }
        return raw;
    }
    uint64_t random = splitmix_next(&tape->random);
    ASSERT(tape->count + width <= TAPE_BYTES_MAX);
    for (uint32_t i = 0; i < width; i++) {
        uint8_t byte = (uint8_t)(random >> (8 * i));
        tape->bytes[tape->count++] = byte;
        raw |= (uint32_t)byte << (8 * i);
    }
    return raw;
}

static uint32_t next_digit(struct tape *tape, uint32_t bound)
{
    if (tape->digit == tape->digits_count) {
        return 0;
    }
    struct tape_digit *digit = &tape->digits[tape->digit++];
    digit->bound = bound;
    ASSERT(digit->value < bound);
    return digit->value;
}

uint32_t tape_choose(struct tape *tape, uint32_t bound)
{
    ASSERT(bound > 0);
    if (bound == 1) {
        return 0;
    }
    if (tape->mode == TAPE_COUNT) {
        return next_digit(tape, bound);
    }
    return next_raw(tape, bound <= 256 ? 1 : bound <= 65536 ? 2 : 4) % bound;
}

void tape_count(struct tape *tape, uint32_t digits)
{
    ASSERT(digits <= TAPE_DIGITS_MAX);
    *tape = (struct tape){.mode = TAPE_COUNT, .engines = 1, .bytes = tape->bytes,
                          .digits_count = digits};
}

bool tape_count_up(struct tape *tape)
{
    for (uint32_t at = tape->digit; at-- > 0;) {
        struct tape_digit *digit = &tape->digits[at];
        if (digit->value + 1 < digit->bound) {
            digit->value++;
            tape->digit = 0;
            return true;
        }
        digit->value = 0;
    }
    return false;
}

int tape_write(const struct tape *tape, const char *path)
{
    FILE *file = fopen(path, "wb");
    bool good = file != NULL &&
                fprintf(file, HEADER, (unsigned long long)tape->steps, tape->engines,
                        tape->deaths,
                        (unsigned long long)tape->faults_masked) > 0 &&
                fwrite(tape->bytes, 1, tape->count, file) == tape->count;
    if (file == NULL || fclose(file) != 0 || !good) {
        fprintf(stderr, "agentix-sim: %s cannot be written\n", path);
        return -1;
    }
    return 0;
}

int tape_read(struct tape *tape, const char *path)
{
    unsigned long long steps = 0, masked = 0;
    uint32_t engines = 0, deaths = 0;
    FILE *file = fopen(path, "rb");
    if (file == NULL || fscanf(file, HEADER_READ, &steps, &engines, &deaths, &masked) != 4 ||
        engines == 0 || fgetc(file) != '\n') {
        fprintf(stderr, "agentix-sim: %s is no tape\n", path);
        if (file != NULL) {
            fclose(file);
        }
        return -1;
    }
    tape->steps = steps;
    tape->engines = engines;
    tape->deaths = deaths;
    tape->faults_masked = masked;
    tape->count = (uint32_t)fread(tape->bytes, 1, TAPE_BYTES_MAX, file);
    fclose(file);
    return 0;
}
