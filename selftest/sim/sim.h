/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the simulator: the appliance's own loop, net, sched and kvmem (the same objects, linked,
 * never copied) in one thread, over a world in which a tape chooses everything that happens.
 *
 *   tape --choose--> swarm.c    configuration, and which faults there are
 *        --choose--> world.c    time, order of events      sockets.c  bytes, a few at a time
 *        --choose--> worker.c   steps that hang, die, lie  clients.c  who asks for what, and when
 *
 *   clients.c --frames--> sockets.c --> loop_pass() --> step record --> engine.c
 *       ^                     |                                            |
 *       +-- oracle.c <--------+         invariants/ looks after each pass-+
 *
 * A run is a function of its tape. In phase 1 anything happens, and every invariant must hold after
 * each pass. In phase 2 (`calm`) there are no more faults, and every accepted call must end. The
 * first failure ends the run with the number of an invariant (invariants.h).
 */
#include <setjmp.h>
#include <stdio.h>

#include "config/keys.h"
#include "config/model/gguf.h"
#include "selftest/sim/clients.h"
#include "selftest/sim/deaths/deaths.h"
#include "selftest/sim/invariants.h"
#include "selftest/sim/swarm.h"
#include "selftest/sim/tape.h"
#include "selftest/sim/tenants/tenants.h"

/* ---- lockstep.c ------------------------------------------------------------------------------ */

#define SIM_COMMANDS_MAX 1024

struct sim_lockstep {
    struct naive naive;
    bool is_on;
    bool has_taken_in;              /* the commands of this pass */
    bool has_planned[SIM_ENGINES_MAX], has_failed[SIM_ENGINES_MAX];
    uint64_t foreseen;              /* by classes, when the pass began */
    uint32_t commands_count, commands_end;      /* end: place of the next one in the inbox */
    struct command commands[SIM_COMMANDS_MAX];
    bool is_doomed[SIM_COMMANDS_MAX];   /* a CALL whose client has gone or cancelled */
    uint64_t salts[SIM_PROGRAMS_MAX];   /* of the programs that it has met */
};

/* ---- routes.c -------------------------------------------------------------------------------- */

struct sim_met {                    /* who had an entry of the process table last */
    uint64_t domain, salt;
    uint8_t id[CALL_PROGRAM_ID_BYTES];
    bool misses;                    /* before the pass */
};

struct sim_routes {
    struct naive_routes naive;
    bool is_on;
    bool has_taken_in;              /* the commands of this pass */
    bool is_taken_over;             /* a call has gone where the real one has put it */
    bool is_still;                  /* no engine has settled a step in this pass */
    bool was_lost;                  /* the KV of the engine that was polled last */
    uint32_t asked;                 /* the first call of the pass, before intake, and */
    uint32_t found[SIM_ENGINES_MAX];            /* what each engine holds of it */
    bool was_running[SIM_CALLS_MAX], was_cancelled[SIM_CALLS_MAX];      /* before all settles */
    struct sim_met met[SIM_PROGRAMS_MAX];
    uint64_t routed;                /* calls that have gone where the naive one says */
};

/* ---- all of it ------------------------------------------------------------------------------- */

struct sim_nth {                    /* nth.c: one fault instead of the swarm's */
    bool is_on, for_ever;
    enum sim_fault fault;
    uint64_t at, seen;              /* opportunities: the chosen one; so far */
};

struct sim {
    struct tape *tape;
    FILE *script;                   /* NULL: none is written */
    struct sim_nth nth;
    /* the run */
    struct swarm swarm;
    bool calm;
    uint64_t pass, hash;
    uint64_t faults[SIM_FAULTS];    /* number of each kind */
    struct sim_failure failure;
    enum invariant asserting;       /* the one that a failing assertion breaks */
    jmp_buf escape;
    jmp_buf core_death;             /* where the keeper hears of it, while is_in_pass */
    bool is_in_pass;
    bool had_failed;                /* the engines of a core that has died */
    uint32_t deaths_in_a_row;       /* of cores that have ended no pass */
    bool is_building;               /* one that takes over */
    bool was_killed;                /* the last one */
    uint32_t deaths, upgrades;      /* of cores, so far */
    uint32_t queues_most;           /* of any of them */
    bool meets_others;              /* workers that no core has met: those of an upgrade */
    uint64_t rests_us;              /* since then it has known that it yields; 0: it has not */
    bool is_in_world;               /* stores to kept memory are not the core's */
    bool aims_at_records;           /* of connections: others do not count */
    uint32_t stores_left;           /* of the core, until it dies, where store.c is armed */
    bool was_at_a_store;            /* a death since the last pass that has ended */
    bool is_garbled;                /* what is kept of workflows, in this run */
    struct sim_peer *moved;         /* by the last transfer of a pass, of which it may not know */
    bool knows_canary[SIM_ENGINES_MAX];     /* for it, */
    uint64_t canary[SIM_ENGINES_MAX];       /* as the control pages do */
    struct program left[SIM_PROGRAMS_MAX];      /* by the last core that had ended a pass */
    uint64_t left_clock;                        /* the same, of the ideal system */
    enum sched_policy left_policy;              /* its keys mean nothing to others */
    int32_t kept_handles[SIM_CONNECTIONS_MAX];  /* by net's slot; 0: none */
    /* the world */
    struct world world;
    uint64_t now_us, skipped_us;    /* skipped: while the process was stopped */
    uint64_t wall_reads;            /* so far */
    struct sim_watch watches[SIM_HANDLES];
    struct sim_counts counts;
    uint32_t peers_seen;
    uint64_t connects;              /* so far */
    bool stirred;                   /* a client has done something to a socket */
    uint64_t calls_number;          /* of the last call; also its seed */
    struct sim_tenants tenants;     /* of the isolation oracle, where it runs */
    struct loop_orders orders;
    struct sim_program programs[SIM_PROGRAMS_MAX];
    /* the appliance */
    struct options options;
    struct limits limits;
    struct config_prefixes prefixes;
    struct config_keys keys;        /* where clients on TCP have one; else there are none */
    struct config_admission admission;      /* what the appliance knows of them, and of users */
    bool admits_some;               /* not all of them */
    struct quotas quotas;           /* of the accounts */
    uint32_t prefix_tokens[CONFIG_PREFIXES_MAX][SIM_CONTEXT_MAX];
    struct fake_declared declared;
    struct vocab wordless;          /* without texts; the other one is in words.c */
    struct arena arena;             /* of the core: gone with it */
    struct arena kept;              /* of cores */
    uint8_t *disk;                  /* what the writer has written of the replies in it */
    struct step step;               /* the record of engine 0 */
    struct loop loop;
    struct invariants_memory memory;
    uint64_t slot_domains[SIM_CALLS_MAX];   /* trust domain of the call in each slot, */
    uint64_t flow_domains[SIM_WORKFLOWS_MAX];   /* and of the workflow */
    struct sim_flow flows[SIM_FLOWS_MAX];
    /* large, so cleared piece by piece */
    struct sim_peer peers[SIM_PEERS_MAX];       /* [peers_seen]: the others are unused */
    struct sim_client clients[SIM_CLIENTS_MAX];
    struct sim_call calls[SIM_CALLS_MAX];
    struct sim_lockstep lockstep;
    struct sim_routes routes;
    struct sim_engine engines[SIM_ENGINES_MAX];
};

/* Choices. */
uint32_t sim_choose(struct sim *sim, uint32_t bound);
/* low .. high; low when the tape has ended. */
uint32_t sim_between(struct sim *sim, uint32_t low, uint32_t high);
/* 0 .. bound_us; each order of magnitude is equally likely. */
uint64_t sim_time(struct sim *sim, uint64_t bound_us);
/* True when this fault happens now. */
bool sim_fault(struct sim *sim, enum sim_fault fault);

/* Notes an event in the script and in the hash of the run. */
void sim_say(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline void sim_mix(struct sim *sim, uint64_t value)
{
    sim->hash = (sim->hash ^ value) * UINT64_C(0x100000001b3);
    sim->hash ^= sim->hash >> 31;
}
/* Ends the run. */
_Noreturn void sim_fail(struct sim *sim, enum invariant invariant, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define SIM_REQUIRE(sim, condition, invariant, ...) \
    ((condition) ? (void)0 : sim_fail(sim, invariant, __VA_ARGS__))

/* The simulator's own number of the trust domain of the call in this slot. */
uint64_t sim_call_domain(const struct sim *sim, uint32_t slot);

/* That the appliance has, whatever their state. */
uint32_t sim_workflows_open(const struct sim *sim);

/* routes.c. In each pass: poll for each engine, before it settles; then take_in. */
void sim_routes_init(struct sim *sim);
void sim_routes_poll(struct sim *sim, uint32_t engine, enum world_engine result);
void sim_routes_take_in(struct sim *sim);

/* The engines, of this core or of one before it. */
static inline bool sim_has_failed(const struct sim *sim)
{
    return sim->loop.sched.engine_failed || sim->had_failed;
}

/* This core is not the first one. */
static inline bool sim_has_taken_over(const struct sim *sim)
{
    return sim->deaths + sim->upgrades > 0;
}

/* lockstep.c */
void sim_lockstep_init(struct sim *sim);
/* True when the scheduler has not taken the call: net may have made FAILED of that. */
static inline bool sim_was_refused(const struct call *call)
{
    return call->finish == CALL_FINISH_REFUSED || call->program == SCHED_PROGRAM_NONE;
}
/* For a core that takes over. */
void sim_lockstep_again(struct sim *sim);
void sim_lockstep_poll(struct sim *sim, uint32_t engine, enum world_engine result);
/* The engine has lost its step and its KV, before its worker is dead. */
void sim_lockstep_condemn(struct sim *sim, uint32_t engine);
void sim_lockstep_plan(struct sim *sim, uint32_t engine);
void sim_lockstep_compare(struct sim *sim);

/* run.c */
/* Memory by limits that are new, for a core that goes on with what is kept. */
void sim_plan_anew(struct sim *sim);
/* Builds the loop over memory that is zeroed, but for what is kept. */
void sim_build_loop(struct sim *sim);
enum sim_outcome { SIM_CLEAN, SIM_FAILED };
struct sim *sim_new(void);
/* One run from the beginning of the tape, with tape->steps passes in phase 1. */
enum sim_outcome sim_run(struct sim *sim, struct tape *tape);
/* The same in parts, for exhaust.c: a run of `body`, which sets options and limits and then calls
 * the functions below. */
enum sim_outcome sim_run_body(struct sim *sim, struct tape *tape, void (*body)(struct sim *sim));
void sim_boot(struct sim *sim);
/* One pass. False when the loop has ended. */
bool sim_pass(struct sim *sim);
/* Runs until nothing is owed to a client. */
void sim_run_calm(struct sim *sim);

/* nth.c: each fault at each of its opportunities, or at `most` of them, in so many scenarios.
 * Returns the number of runs, 0 after a failure. */
uint64_t sim_nth_faults(struct sim *sim, struct tape *tape, uint32_t scenarios, uint32_t most);
/* exhaust.c: every order of events up to this depth, in each of a few small worlds. Returns the
 * number of runs, 0 after a failure, which is in sim->failure. */
uint64_t sim_exhaust(struct sim *sim, struct tape *tape, uint32_t depth);

/* shrink.c: replaces the tape by the smallest one found that fails by the same invariant. */
void sim_shrink(struct sim *sim, struct tape *tape);
