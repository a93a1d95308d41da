/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the program-aware multi-level feedback queue of paper 000, section 4.2, Algorithm 1. It has
 * two floors:
 *
 *   struct sched          one for the box: the process table, admission, deadlines, the ends of
 *                         calls and their order (policy, levels)
 *   struct sched_engine   one for each engine: its queues, who holds its KV, the plan of its next
 *                         step and the settlement of its last one
 *
 * In each pass: sched_engine_settle() for each engine whose step is done, sched_engine_progress()
 * for each whose step runs, sched_intake() once, sched_engine_plan() for each engine that is idle.
 *
 * Time is in microseconds and enters as an argument; all scheduling arithmetic is in integers.
 * Service of a call: the duration of each step that it took part in (prefill and recompute count);
 * of a step that it entered as a standby, the share of the rounds that it had.
 * Waiting of a call: the time since its arrival in which it was in no step, less the time in which
 * plans passed over it because its client did not read.
 * A program's wait W_p is updated when a call ends; the waits of parallel calls add up.
 * The paper leaves these definitions open; docs/decisions/0001 and 0006 give our reasons.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/arena.h"
#include "config/base/bounds.h"
#include "config/base/call.h"
#include "config/base/event_log.h"
#include "config/base/exchange.h"
#include "config/base/heap.h"
#include "config/base/stats.h"
#include "config/base/step.h"
#include "config/config.h"
#include "kvmem/kvmem.h"
#include "sched/class/class.h"
#include "sched/class/promise.h"
#include "sched/engine/engine.h"
#include "sched/engine/share/tenants.h"
#include "sched/ideal.h"
#include "sched/workflow/stage.h"

#define SCHED_ENGINES_MAX  256      /* call.engine is a byte */
#define SCHED_PROGRAM_NONE UINT32_MAX
#define SCHED_ENGINE_NONE  UINT32_MAX
#define SCHED_ACTIVE_ALL   UINT32_MAX

/* config/config.h has enum sched_policy (the rows of config/policies.def) and enum sched_sharing
 * (the words of kv.sharing: which calls may share the KV of an equal beginning). */
#define POLICY(...) +1
enum { SCHED_POLICIES = 0
#include "config/policies.def"
};

struct sched_settings {
    enum sched_policy policy;
    enum sched_service service;     /* when a program's service counts: in each step, or when a call
                                       arrives and ends */
    uint32_t engines;               /* how many serve the queues: 1 .. SCHED_ENGINES_MAX */
    uint32_t queues;                /* K */
    uint64_t quantum_us;            /* of the first queue; also the width of its service range;
                                       0: levels are learnt (levels.c) */
    uint32_t quantum_growth;
    uint64_t beta_milli;            /* beta * 1000; 0: never promote by ratio */
    uint64_t wait_max_us;           /* absolute bound; 0: never promote by it */
    uint32_t steps_per_plan;        /* N */
    uint32_t speculate;             /* the most tokens of a draft; 0: no drafts */
    uint32_t recall_tokens;         /* of earlier calls of the program, for drafts */
    uint32_t batch_calls;
    uint32_t standby_calls;         /* rows beyond the batch, for calls that enter as others end */
    uint32_t prefill_tokens;
    uint32_t context_tokens;
    uint32_t vocab_tokens;          /* a sampled id at or above it is an engine failure */
    uint64_t program_idle_us;
    uint32_t active_programs;       /* the most that are active; 0: as many as KV has room for;
                                       SCHED_ACTIVE_ALL: all */
    uint32_t exchange_permille;     /* of the time that steps take, for exchanges of programs */
    uint32_t small_permille;        /* of the KV, reserved for small first calls */
    uint64_t half_life_us;          /* a program's service halves in this time; 0: never */
    uint32_t calls;                 /* slots of the call table */
    uint32_t programs;
    uint32_t classes;               /* entries of the table of classes of programs */
    uint32_t tenants;               /* accounts; 1: all tenants share one */
    uint32_t calls_per_program;     /* the most open ones; 0: as many as there are slots */
    const struct predictor *predictor;  /* of programs' costs; NULL: none (predictor.h) */
    uint64_t hash_key[2];           /* of the process table: a secret of this boot */
    enum sched_sharing sharing;
    enum sched_balance balance;     /* which engine a call goes to; */
    uint32_t balance_tokens;        /* a longer prompt goes to the engine with its history */
    enum sched_clock virtual_clock; /* what moves the clock of justitia's ideal system on */
    bool retag;                     /* a program that outlives its cost gets a later tag */
    bool cut_steps;                 /* a step ends before its N rounds when a call can make use of
                                       its end (docs/decisions/0009) */
    bool prefetch;                  /* moves in the KV of the next calls while a step computes */
    bool demoted_to_head;           /* a demoted call goes before those that wait in its new queue:
                                       a running call wins a tie. false: Algorithm 1, line 21 */
    struct event_log *event_log;    /* where events are noted; NULL: nowhere */
    struct sched_workflow_settings workflow;
};

/* An entry of the process table (4.2.1). */
struct program {
    bool in_use;
    uint64_t domain;                /* the same id in another trust domain is another program */
    uint8_t id[CALL_PROGRAM_ID_BYTES];
    uint32_t tenant;                /* which pays for it */
    uint32_t engine;                /* that it is assigned to (balance.c), or SCHED_ENGINE_NONE */
    uint32_t connection;            /* that its last call came by, or CALL_NONE */
    uint64_t service_us;            /* PLAS: sum; ATLAS: critical path. Only half_life lowers it */
    uint64_t attained_us;           /* the same, if all its open calls ended now */
    uint64_t wait_us;               /* W_p, of ended calls */
    uint32_t active_calls;          /* its open calls, on all engines: threads of the paper */
    /* Where the policy has keys (key.c). */
    uint64_t cost_foreseen, cost;   /* of the whole program: as predicted at first; as revised */
    uint64_t served;                /* the part of that cost that it has received */
    uint64_t key_base;              /* virtual time, or lift, when it arrived */
    uint32_t ideal;                 /* its entry in the ideal system (ideal.h), while it has one */
    uint32_t calls_ended;
    bool misses;                    /* its latest long call (balance.c) found nothing cached */
    uint64_t started_us, last_arrival_us, last_completion_us;
    struct sched_class_ref class;   /* of programs like it */
    struct sched_prediction predicted;  /* made when its first call came */
    struct sched_spent spent;       /* what its ended calls have cost */
    uint32_t draft_share, recalled; /* share of drafted tokens that agree; tokens kept: recall.h */
    uint32_t displacements;         /* times that it had to leave an active set for others */
    uint8_t service_note;           /* private: of an idle program (levels.c) */
    bool kept_is_behind;            /* private: a step has charged it; kept.c has not noted that */
    uint64_t halved_us;             /* private: half_life is applied up to this time */
    uint64_t salt;                  /* private: names its KV; never used twice */
    uint32_t hash_next;             /* private: chain of the hash table, or of the free list */
    uint32_t idle_next, idle_prev;  /* private: idle ones of its account, oldest first */
    uint64_t idle_since_us;         /* private: when its last open call ended */
};

/* What queue i stands for, on every engine (4.2.2). */
struct sched_level {
    uint64_t service_low_us, service_high_us;   /* [low, high); the last one's high is UINT64_MAX */
    uint64_t quantum_us;
};

/* The upper floor. */
struct sched {
    struct sched_settings settings;
    struct call_table *calls;
    struct exchange *exchange;
    struct stats *stats;
    struct sched_engine *engines;   /* [settings.engines] */
    struct program *programs;       /* [settings.programs] */
    struct sched_kept_program *kept;    /* [settings.programs] what outlives the core (kept.h) */
    struct sched_kept_clock *kept_clock;
    struct sched_level levels[SCHED_QUEUES_MAX];    /* of the queues */
    struct sched_services services; /* of idle and ended programs: levels are learnt from them */
    struct sched_tenants tenants;
    uint64_t round_us;              /* that a round takes: a moving mean */
    struct sched_promises promises;
    struct sched_ideal ideal;       /* where the policy has tags */
    uint64_t served;                /* cost that the ideal system's clock has not counted (key.c) */
    bool clock_due;                 /* rows of a step are charged; that clock has yet to move */
    uint64_t ties;                  /* numbers given so far to jobs, to order equal keys */
    struct sched_classes classes;
    struct sched_workflows workflows;
    uint64_t output_tokens;         /* of a call: a moving mean (active/working_set.c) */
    struct sched_job *jobs;         /* [calls] */
    struct sched_node *nodes;       /* [calls] of jobs; NULL: the policy has no key */
    bool draining;
    bool engine_failed;             /* no engine will ever serve again */
    uint32_t engine_turn;           /* whose turn it is among engines used alike (balance.c) */
    uint32_t open_calls;            /* calls in the queues */
    uint32_t suspects;              /* those in whose step a worker has died (suspicion.h) */
    struct times times;
    /* private: only sched/ */
    uint32_t programs_count, program_free, job_free;
    struct quota quota;             /* entries of the process table */
    struct sched_idle { uint32_t head, tail; } idle[QUOTA_ACCOUNTS_MAX];   /* oldest first */
    uint64_t program_salt;          /* of the program that started last */
    uint64_t places_at_heads, places_at_tails;      /* of queues, given so far (engine/need.c) */
    uint32_t *program_hash, program_hash_mask;  /* [program_hash_mask + 1] heads of chains */
    uint32_t *recalled;             /* texts of recall_tokens: class/recall.c */
    struct heap deadlines;          /* of open calls, by slot (deadline.c) */
};

/* What sched works on and does not own. */
struct sched_wiring {
    struct call_table *calls;
    struct exchange *exchange;
    struct stats *stats;
    struct workflow_table *workflows;       /* NULL: none */
    struct sched_engine_wiring {
        struct kvmem *kv;
        struct step step;
    } *engines;                     /* [settings.engines]; read at init only */
    struct arena *kept;                     /* for rows of kind MEMORY_KEPT; NULL: the same arena */
};

/* BOOT_ONLY. All that options say; hash_key, event_log and predictor are the caller's to add. */
void sched_settings_fill(struct sched_settings *settings, const struct options *options,
                         const struct limits *limits);
void sched_plan_memory(struct memory_plan *plan, const struct sched_settings *settings);
void sched_init(struct sched *sched, const struct sched_settings *settings,
                const struct sched_wiring *wiring, struct arena *arena);

/* Restores the programs that an earlier core has left in kept memory, without their calls. To be
 * called once tenants are named and quotas bound. */
void sched_take_up(struct sched *sched, uint64_t now_us);

/* Gives the trust domain an account of its own, with this weight and this name of at most
 * SCHED_TENANT_NAME_BYTES - 1 bytes. Where the table is full, such domains share one account. Does
 * nothing where tenants are off. */
void sched_name_tenant(struct sched *sched, uint64_t domain, uint32_t weight, const char *name);
/* The keys have changed: no tenant has a name until it is named again. */
void sched_forget_names(struct sched *sched);

/* ---- the upper floor ------------------------------------------------------------------------- */

/* Drains the inbox: starts and ends programs, admits calls (QUEUED, or FINISHED with
 * CALL_FINISH_REFUSED), applies cancels; then ends calls whose deadline has passed and forgets
 * stale programs. A call in a step that is in flight ends when the step settles. */
void sched_intake(struct sched *sched, uint64_t now_us);
/* The time at which intake must run even if nothing happens (deadlines, stale programs, KV that has
 * been kept long enough). UINT64_MAX: never. */
uint64_t sched_next_us(const struct sched *sched, uint64_t now_us);
/* True when no call is open. */
bool sched_is_idle(const struct sched *sched);
/* No engine will ever serve again: ends every open call, and admits none from now on. */
void sched_give_up(struct sched *sched, uint64_t now_us);
/* Ends every open call with this status (shutdown). */
void sched_fail_all(struct sched *sched, enum status status, uint64_t now_us);
/* Asserts every invariant: queue links, program lists, states, KV ownership. */
void sched_check(const struct sched *sched);
/* KV blocks of the program's working sets on all engines. O(engines). */
uint32_t sched_program_blocks(const struct sched *sched, uint32_t program);
/* True when the program is active on an engine. O(engines). */
bool sched_program_is_active(const struct sched *sched, uint32_t program);
/* Why the call, which is QUEUED or a standby, waits. O(1). */
enum sched_reason sched_call_reason(const struct sched *sched, const struct call *call);
/* Fills sched's gauges of stats.def, and what kvmem counts. */
void sched_report(const struct sched *sched);

/* ---- the lower floor: one engine ------------------------------------------------------------- */

enum sched_verdict {
    SCHED_BELIEVED,
    SCHED_NOT_FINITE,               /* taken, except rows with values that are not finite */
    SCHED_REFUTED,                  /* nothing taken: the worker has to be replaced, and the step
                                       stays in flight until sched_engine_lost() */
};
/* The step is in flight: publishes the tokens of the rounds that ended since the last call. */
void sched_engine_progress(struct sched_engine *engine, uint64_t now_us);
/* The step that was in flight is done: takes its tokens, charges service, finishes, demotes.
 * Everything in the record that the worker wrote is checked first. */
MUST_CHECK enum sched_verdict sched_engine_settle(struct sched_engine *engine, uint64_t now_us);
/* The step in flight is lost and so is all KV of the engine: its calls go back to their queues with
 * their attained service kept, and will be recomputed from their tokens. */
void sched_engine_lost(struct sched_engine *engine, uint64_t now_us);
/* What an engine computed lately may be wrong: forgets the values in the prompt cache. */
void sched_doubt_values(struct sched *sched);
/* The same for damaged weights, of which so many slices were found; does nothing when a core has
 * done it for that number already. */
void sched_doubt_values_for(struct sched *sched, uint32_t damages);
/* The engine takes steps from now on, or stops taking them. When it stops and others serve, its
 * calls without KV are routed to those (after sched_engine_lost() that is all of its calls). When
 * it begins to, it gets the calls that wait at engines which do not serve, and of those that wait
 * at others so many that all have as many. A single engine keeps its calls. O(calls + programs). */
void sched_engine_serves(struct sched_engine *engine, bool serves, uint64_t now_us);
/* Fills the step record (rows, tokens; blocks are reserved). True when there is something to
 * submit. Walks the queues from the top and stops at the first call that does not fit (Algorithm
 * 1, 32-39); resident calls after that one become standbys. */
bool sched_engine_plan(struct sched_engine *engine, uint64_t now_us);
/* The step record has been submitted. */
void sched_engine_launched(struct sched_engine *engine, uint64_t now_us);
