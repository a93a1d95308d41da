/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the invariants, numbered; the table is in invariants/. The numbers never change: they
 * identify failures.
 */
#include <stdbool.h>
#include <stdint.h>

enum invariant {
    INVARIANT_NONE = 0,
    INVARIANT_BLOCKS, INVARIANT_ISOLATION, INVARIANT_CALLS, INVARIANT_TERMINAL, INVARIANT_TOKENS,
    INVARIANT_PRIORITY, INVARIANT_SKIP, INVARIANT_STARVATION, INVARIANT_PROGRESS,
    INVARIANT_BOUNDED, INVARIANT_MEMORY, INVARIANT_SLOW_CLIENT, INVARIANT_STATISTICS,
    INVARIANT_DEADLINES, INVARIANT_QUIESCENCE,
    INVARIANT_ASSERTION, INVARIANT_KV, INVARIANT_RECORD, INVARIANT_WORLD, INVARIANT_CLOSE,
    INVARIANT_ANSWER, INVARIANT_HEALTH, INVARIANT_DETERMINISM, INVARIANT_CRASH, INVARIANT_HANG,
    INVARIANT_ORPHANS, INVARIANT_NEWS, INVARIANT_TEXT,
    INVARIANT_STREAM, INVARIANT_WORKFLOW, INVARIANT_ROUTE, INVARIANT_ENGINE, INVARIANT_POISON,
    INVARIANT_PATIENCE, INVARIANT_NAMES, INVARIANT_ACCOUNTS,
    INVARIANT_TENANTS, INVARIANT_PROGRAMS, INVARIANT_REPLIES,
    INVARIANTS
};

#define FAILURE_TEXT_BYTES   256
#define INVARIANTS_CALLS_MAX 64
#define INVARIANTS_ENGINES_MAX 4
struct sim_failure {
    enum invariant invariant;       /* NONE: no failure */
    uint64_t pass, now_us;
    char text[FAILURE_TEXT_BYTES];
};

struct invariants_memory {          /* from earlier checks */
    uint64_t arena_bytes;
    uint64_t programs_displaced;    /* when the last step was planned, of any engine */
    struct {                        /* of each engine: */
        bool was_passed[INVARIANTS_CALLS_MAX];  /* when its step was planned, by slot: the call was
                                                   paused, in the first queue, or another engine's;
                                                   its program may have sunk since, elsewhere */
        bool was_turn;              /* and whether a promoted job had its turn */
        uint64_t heartbeat, beat_us;            /* the worker's last sign of life, and when */
    } engines[INVARIANTS_ENGINES_MAX];
};

const char *invariant_text(enum invariant invariant);

struct sim;
/* When a step of the engine is submitted. */
void invariants_note_plan(struct sim *sim, uint32_t engine);
/* After each pass; O(calls + connections). */
void invariants_check(struct sim *sim);
/* From time to time; O(everything). */
void invariants_audit(struct sim *sim);
/* ---- invariants/kv.c ------------------------------------------------------------------------- */

void invariants_check_blocks(struct sim *sim);
void invariants_check_isolation(struct sim *sim);
void invariants_check_contents(struct sim *sim);

/* ---- invariants/accounts.c ------------------------------------------------------------------- */

void invariants_check_accounts(struct sim *sim);

/* ---- invariants/engine.c --------------------------------------------------------------------- */

void invariants_check_engines(struct sim *sim);

/* ---- invariants/held.c ----------------------------------------------------------------------- */

/* When a step of the engine is submitted, as it was planned. */
void invariants_check_held(struct sim *sim, uint32_t engine);

/* ---- run.c ----------------------------------------------------------------------------------- */

/* After all clients have left: nothing is open any more. */
void invariants_check_done(struct sim *sim);
/* After retention has ended: every pool is as it was at boot. */
void invariants_check_quiet(struct sim *sim);
