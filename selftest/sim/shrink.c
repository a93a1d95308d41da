/* SPDX-License-Identifier: MIT */
/*
 * What: turns a tape that fails into a small one that fails by the same invariant. The script of
 * the small one shows only what matters.
 *
 *   cut       the end of the tape, and the passes after the failure
 *   mask      whole kinds of faults
 *   delete    chunks, large ones first
 *   quieten   sets chunks to zero, then lowers single bytes
 *
 * These go on until none helps, or until the budget of runs or of CPU time is used up.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "selftest/sim/sim.h"

#define RUNS_MAX       4000
#define CPU_S_MAX      40
#define BYTES_ONE_MAX  4000         /* longest tape whose single bytes are lowered */

struct shrink {
    struct sim *sim;
    struct tape *tape;
    enum invariant invariant;
    uint32_t runs_left;
    clock_t end;                    /* of the CPU time that shrinking may take */
    uint8_t *saved;                 /* [TAPE_BYTES_MAX] of the best tape so far, lazily mapped */
};

/* True when the tape, as it is now, still fails. */
static bool still_fails(struct shrink *shrink)
{
    if (shrink->runs_left == 0 || clock() > shrink->end) {
        shrink->runs_left = 0;
        return false;
    }
    shrink->runs_left--;
    tape_replay(shrink->tape);
    sim_run(shrink->sim, shrink->tape);
    return shrink->sim->failure.invariant == shrink->invariant;
}

static void cut(struct shrink *shrink)
{
    struct tape *tape = shrink->tape;
    uint64_t steps = tape->steps;
    uint32_t count = tape->count;
    for (uint32_t less = tape->count / 2; less > 0; less /= 2) {
        while (less <= tape->count) {
            count = tape->count;
            tape->count -= less;
            if (!still_fails(shrink)) {
                tape->count = count;
                break;
            }
        }
    }
    for (uint64_t less = tape->steps / 2; less > 0; less /= 2) {
        steps = tape->steps;
        tape->steps -= less;
        if (!still_fails(shrink)) {
            tape->steps = steps;
        }
    }
}

static void mask(struct shrink *shrink)
{
    for (uint32_t i = 0; i < SIM_FAULTS; i++) {
        uint64_t before = shrink->tape->faults_masked;
        shrink->tape->faults_masked |= UINT64_C(1) << i;
        if (shrink->tape->faults_masked != before && !still_fails(shrink)) {
            shrink->tape->faults_masked = before;
        }
    }
}

/* Takes [at, at + size) out, or sets it to zero. */
static bool try_chunk(struct shrink *shrink, uint32_t at, uint32_t size, bool deletes)
{
    struct tape *tape = shrink->tape;
    uint32_t count = tape->count;
    memcpy(shrink->saved, tape->bytes, count);
    if (deletes) {
        memmove(tape->bytes + at, tape->bytes + at + size, count - at - size);
        tape->count -= size;
    } else {
        memset(tape->bytes + at, 0, size);
    }
    if (still_fails(shrink)) {
        return true;
    }
    memcpy(tape->bytes, shrink->saved, count);
    tape->count = count;
    return false;
}

static bool is_zero(const uint8_t *bytes, uint32_t count)
{
    while (count > 0 && bytes[count - 1] == 0) {
        count--;
    }
    return count == 0;
}

static void chunks(struct shrink *shrink, bool deletes)
{
    struct tape *tape = shrink->tape;
    for (uint32_t size = tape->count / 2; size > 0; size /= 2) {
        if (size < 4 && tape->count > BYTES_ONE_MAX) {
            return;
        }
        for (uint32_t at = 0; at + size <= tape->count && shrink->runs_left > 0;) {
            bool is_quiet = !deletes && is_zero(tape->bytes + at, size);
            bool was_deleted = !is_quiet && try_chunk(shrink, at, size, deletes) && deletes;
            at += was_deleted ? 0 : size;
        }
    }
}

static void lower(struct shrink *shrink)
{
    struct tape *tape = shrink->tape;
    for (uint32_t i = 0; i < tape->count && tape->count <= BYTES_ONE_MAX; i++) {
        uint8_t before = tape->bytes[i];
        tape->bytes[i] = before / 2;
        if (before > 0 && !still_fails(shrink)) {
            tape->bytes[i] = before;
        }
    }
}

void sim_shrink(struct sim *sim, struct tape *tape)
{
    static uint8_t *saved;
    FILE *script = sim->script;
    struct shrink shrink = {.sim = sim, .tape = tape, .invariant = sim->failure.invariant,
                            .runs_left = RUNS_MAX,
                            .end = clock() + (clock_t)CPU_S_MAX * CLOCKS_PER_SEC};
    saved = realloc(saved, tape->count + 1);
    shrink.saved = saved;
    sim->script = NULL;
    if (saved != NULL) {
        uint32_t count = 0;
        do {
            count = tape->count;
            cut(&shrink);
            mask(&shrink);
            chunks(&shrink, true);
            chunks(&shrink, false);
            lower(&shrink);
        } while (tape->count < count && shrink.runs_left > 0);
    }
    sim->script = script;
}
