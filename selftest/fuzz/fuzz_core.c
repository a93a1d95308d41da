/* SPDX-License-Identifier: MIT */
/*
 * Goal: the core keeps its invariants whatever the world does: its configuration, clients, engine,
 * clock and faults (selftest/sim).
 * Method: the input is the tape of a run of the simulator, which checks the invariants. A run has
 * one pass for each BYTES_PER_PASS, then the calm phase, in which all that is owed must come. The
 * tape repeats at its end: with zeros there, time would hardly pass. A failure leaves sim.tape, for
 * `agentix-sim --replay`, beside libFuzzer's input.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "selftest/fuzz/dictionary.h"
#include "selftest/sim/sim.h"

#define BYTES_PER_PASS 8                /* about what a pass of a seed takes */
#define TAPE_BYTES     (256u << 10)     /* enough for most calm phases */

static struct sim *sim;
static struct tape tape;
static uint64_t passes;

/* In the format of libFuzzer's own counts; selftest/fuzz/run.py reads it. */
static void print_passes(void)
{
    fprintf(stderr, "stat::simulated_passes: %llu\n", (unsigned long long)passes);
}

static void begin(void)
{
    sim = sim_new();
    tape_init(&tape);
    atexit(print_passes);
}

_Noreturn static void give_up(void)
{
    fprintf(stderr, "fuzz_core: pass %llu: invariant %d: %s\n    %s\n",
            (unsigned long long)sim->failure.pass, sim->failure.invariant,
            invariant_text(sim->failure.invariant), sim->failure.text);
    tape_write(&tape, "sim.tape");
    abort();
}

static void write_tape(const uint8_t *bytes, size_t count)
{
    uint32_t rounds = count > 0 ? TAPE_BYTES / (uint32_t)count + 1 : 0;
    tape_record(&tape, 0, count / BYTES_PER_PASS);
    for (uint32_t i = 0; i < rounds; i++) {
        memcpy(tape.bytes + tape.count, bytes, count);
        tape.count += (uint32_t)count;
    }
    tape_replay(&tape);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (sim == NULL) {
        begin();
    }
    write_tape(bytes, count);
    if (sim_run(sim, &tape) != SIM_CLEAN) {
        give_up();
    }
    passes += sim->pass < tape.steps ? sim->pass : tape.steps;  /* without the calm phase */
    return 0;
}

/* No words: every byte is a valid choice. */
void dictionary_write(void)
{
    dictionary_number(0, 4);
    dictionary_number(UINT32_MAX, 4);
}
