/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the naive scheduler: an executable specification, in lockstep with the real one. Its calls
 * lie in a plain array, which it sorts for every plan; it keeps nothing that it can work out. It
 * follows docs/scheduling.md, not the code of sched/, and sees of the real scheduler only what
 * sched_view.h shows. What is cached where is kvmem's business. So the naive scheduler takes two
 * things from a real plan, and checks both: which positions a call found, and which calls lost
 * their blocks. Which programs are active it takes, too: it checks what that means for the order of
 * calls. It takes tokens that end a call from an oracle. It works out all the rest, and
 * asserts where the two schedulers differ.
 *
 * The driver of both reports each event, in the order in which the real scheduler acts on them,
 * with the time in `now`:
 *
 *   naive_arrive, naive_end      admission; a cancel or failure of a call that is not in a step
 *   flags of a call              paused, cancel, stop_text: when net sets them
 *   naive_settle, naive_lost     before the real ones, with `fault`, `produced` and `rounds`
 *   naive_follow_active          after the real intake, and after naive_promote_all
 *   naive_expire                 deadlines, after all commands
 *   naive_promote_all, naive_follow_plan, naive_launch      after the real plan
 *   naive_compare                at any time in between
 */
#include "sched/sched.h"

enum {
    NAIVE_CALLS_MAX = 64, NAIVE_ROWS_MAX = 64, NAIVE_CONTEXT_MAX = 256, NAIVE_PROGRAMS_MAX = 64,
    NAIVE_IDEAL_MAX = 4 * NAIVE_PROGRAMS_MAX + 1, NAIVE_TENANTS_MAX = 16,
    NAIVE_ENGINES_MAX = 4,
};

enum naive_fault { NAIVE_FAULT_NONE, NAIVE_FAULT_NAN, NAIVE_FAULT_TOKEN, NAIVE_FAULT_COUNT,
                   NAIVE_FAULT_SILENT };

struct naive_call {
    /* What is asked: naive_arrive() takes these. */
    uint32_t program, tenant, prompt, max;
    uint32_t engine;
    uint64_t deadline;
    uint64_t key;                   /* of SRPT: remaining work */
    uint64_t cost;                  /* of its program, as foretold; 0: unknown */
    uint32_t output;                /* tokens, as foretold; 0: unknown */
    bool goes_on;                   /* a core that has died had it, too */
    /* What net sets. */
    bool paused, cancel, stop_text;
    uint32_t stop_text_tokens;
    /* Its state. */
    bool open, running, standby, expired, resident, started, lost, has_run;
    bool visited;                   /* by the walk of the last plan */
    bool displaced;                 /* its program left the active set in the last plan */
    uint32_t generated, kv, computed, cached, preemptions, faults;
    uint32_t company, deaths, until;    /* of a suspect: rows that a step with it may have; workers
                                           that died of it alone; positions that acquit it */
    int64_t order;                  /* of arrival */
    enum call_finish finish;
    uint64_t wait, service, since, priority;
};

/* What the queues hold in order: all open calls of a program, or one call. */
struct naive_job {
    bool held;                      /* its program is not active */
    uint32_t queue, from, promotions;    /* from: where a promoted job came from; 0: it is not */
    int64_t order;
    int64_t turn;                   /* turns that had been given when it got its own, and that */
    int64_t moved;                  /* calls that had arrived when it came to its place */
    uint64_t quantum, wait, service, since;
};

/* Of a program, where the policy has keys. */
struct naive_account {
    uint64_t foreseen, cost, served, base;
    uint64_t key;                   /* that its calls stand by */
    uint64_t salt;                  /* names its entry in the ideal system */
};
struct naive_ideal {
    bool is_in;
    uint64_t salt, tag;
};

/* The account of a tenant, and what the last plan has dealt to it. */
struct naive_tenant {
    bool is_known;
    uint64_t domain, time;          /* virtual; in 1/1024 us */
    uint64_t rows, prompt, blocks;  /* of the plan, or of the step that settles */
    uint64_t key;
    bool dealt, done, wants, wanted;    /* wants: on any engine */
    bool in_vain;                   /* the last call that the walk visited had no budget */
    bool keeps_out;                 /* calls without blocks, from here on */
    uint32_t last_queue;
    uint32_t passed;                /* of its waiting call that the walk has come past, the program;
                                       NAIVE_PROGRAMS_MAX: of none */
};

/* What is of one engine. */
struct naive_engine {
    uint32_t index;
    uint32_t turn_queue, turn_tenant;       /* that the last turn was given to */
    uint64_t turns_ahead;           /* service that turns have had beyond one row each */
    uint64_t step_cost;
    bool wants[NAIVE_TENANTS_MAX];
    /* The step in flight, or the one that has just come back. */
    uint64_t submitted;
    uint32_t rows[NAIVE_ROWS_MAX], chunk[NAIVE_ROWS_MAX], decode[NAIVE_ROWS_MAX];
    uint32_t blocks[NAIVE_ROWS_MAX];
    uint32_t produced[NAIVE_ROWS_MAX];
    enum naive_fault fault[NAIVE_ROWS_MAX];
    uint32_t rows_count, rows_active;
    uint32_t rounds;                /* as the engine reports them */
    bool busy;
    uint64_t sequence;              /* of the last plan that was followed, */
    bool is_again;                  /* and the real one had made others before it */
    bool is_trial;                  /* the plan is for suspects alone; as the real one says */
    bool stops_early;               /* the step in flight may stop early */
};

struct naive {
    const struct sched *sched;      /* the real scheduler */
    struct sched_settings set;
    /* Writes the tokens, at most `max`, with which an undisturbed engine continues the first
     * `known` tokens of the call; returns their number. */
    uint32_t (*oracle)(void *context, const struct call *call, uint32_t known, uint32_t max,
                       uint32_t *tokens);
    void *oracle_context;
    uint64_t now;
    struct naive_engine engines[NAIVE_ENGINES_MAX], *on;    /* on: which plans, or settles */
    struct sched_level levels[SCHED_QUEUES_MAX];    /* where they are learnt, the real ones: what is
                                                       learnt is for unit sched/levels to say */
    int64_t first_order, last_order, arrivals;
    int64_t turns_given;
    struct naive_call calls[NAIVE_CALLS_MAX];
    struct naive_job jobs[NAIVE_CALLS_MAX];     /* of calls */
    struct naive_job members[NAIVE_ENGINES_MAX][NAIVE_PROGRAMS_MAX];    /* of programs there */
    uint64_t service[NAIVE_PROGRAMS_MAX], wait[NAIVE_PROGRAMS_MAX], halved[NAIVE_PROGRAMS_MAX];
    bool known[NAIVE_PROGRAMS_MAX];
    const struct program *entry[NAIVE_PROGRAMS_MAX];    /* of the real table; it stays */
    bool active[NAIVE_PROGRAMS_MAX];
    uint32_t displacements[NAIVE_PROGRAMS_MAX];
    struct naive_account accounts[NAIVE_PROGRAMS_MAX];
    struct naive_ideal ideal[NAIVE_IDEAL_MAX];
    uint32_t ideal_count;
    uint64_t clock, clock_rest;     /* virtual time, and service that is not in it yet */
    uint64_t served;                /* since the clock has moved on */
    uint64_t salts;
    /* The plan that is being followed. */
    uint32_t move_waits;            /* calls that the plan passed over for what is being moved */
    struct naive_tenant tenants[NAIVE_TENANTS_MAX];
    uint32_t tenants_count, tenants_dealt;
    bool is_short;                  /* the plan has used up its budget */
    uint64_t floor, last_key;
    enum { NAIVE_ROOM_NONE, NAIVE_ROOM_LEFT, NAIVE_ROOM_UNKNOWN } room;  /* for one more call */
};

/* The engine that the verbs below are about, from now on. */
void naive_choose(struct naive *m, uint32_t engine);
void naive_arrive(struct naive *m, uint32_t index, const struct naive_call *asked);
/* The calls of the engine in their order; returns their number. */
uint32_t naive_order(struct naive *m, uint32_t engine, uint32_t *calls);
/* The call, which has no blocks and is in no step, is at this engine from now on. */
void naive_move(struct naive *m, uint32_t index, uint32_t engine);
/* All calls of the engine have been moved: no tenant wants a row there. */
void naive_left(struct naive *m, uint32_t engine);
/* The call has just arrived. True when that ends the step in flight with its round. */
bool naive_stops_step(struct naive *m, uint32_t index);
/* A call that was cancelled ends by that, or by its stop string, whatever `finish` says. */
void naive_end(struct naive *m, struct naive_call *call, enum call_finish finish);
/* Brings the program's service up to date, as the real scheduler does before it reads it. */
void naive_decay(struct naive *m, uint32_t program);
void naive_promote_all(struct naive *m);
/* The entry of the process table is another program's from now on. */
void naive_key_meet(struct naive *m, uint32_t program);
/* As the real one has taken it up from a core that has died. */
void naive_key_take_up(struct naive *m, uint32_t index, const struct program *program);
/* Takes over which programs are active now. */
void naive_follow_active(struct naive *m);
/* The time is `now`, and the queues are as they were when the plan began. `planned`: the real plan
 * has rows. */
void naive_follow_plan(struct naive *m, bool planned);
void naive_launch(struct naive *m);
/* True when the step is refuted. Then it counts only against the calls with faults, and
 * naive_lost() must follow. Comes before naive_settle(). */
bool naive_refute(struct naive *m);
/* `real`: the call table as it is before the real scheduler settles. */
void naive_settle(struct naive *m, const struct call *real, uint64_t duration);
void naive_lost(struct naive *m);
void naive_expire(struct naive *m);
/* Asserts that every call, queue and account agrees with the real scheduler's. */
void naive_compare(struct naive *m);
