/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the lower floor: sched's side of one engine. Its queues hold jobs, and jobs hold calls; the
 * active set says which programs' jobs stand in the queues, and which are held.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/arena.h"
#include "config/base/bounds.h"
#include "config/base/call.h"
#include "config/base/heap.h"
#include "config/base/step.h"

#define SCHED_QUEUES_MAX  BOUND_QUEUES
#define SCHED_TURN_ROWS   16        /* rows of the batch for each job that may have a turn */
#define SCHED_TURNS_MAX   64        /* no more jobs have one: sched.batch / SCHED_TURN_ROWS */
#define SCHED_JOB_NONE    UINT32_MAX
#define SCHED_GROUP_NONE  UINT32_MAX

/* What the queues are where the policy does not preempt (policy.c). */
enum sched_stage { SCHED_STAGE_RESIDENT, SCHED_STAGE_DISPLACED, SCHED_STAGE_WAITING, SCHED_STAGES };

/* Why a call waits (reason.c). */
enum sched_reason {
    SCHED_REASON_NEXT,              /* it came after the last plan: the next one looks at it */
    SCHED_REASON_BATCH,             /* all rows went to calls before it */
    SCHED_REASON_KV,                /* it, or one before it, finds no room for its KV */
    SCHED_REASON_BUDGET,            /* calls before it took all of sched.prefill_tokens */
    SCHED_REASON_MOVES,             /* KV that it needs is on its way to the host */
    SCHED_REASON_INACTIVE,          /* its program waits for room in the active set */
    SCHED_REASON_CLIENT,            /* its client does not read */
    SCHED_REASON_ENGINE,            /* its engine takes no steps now */
};

struct kvmem;
struct sched;

struct sched_list {                 /* through call.links */
    uint32_t head, tail;
};

/* What a queue holds in order (engine/job.c): all open calls of a program, or one call. The search
 * for starved jobs reads the first cache line of many. */
struct sched_job {
    _Alignas(ARENA_ALIGN_BYTES) uint32_t calls_count;
    uint32_t queue;
    bool held;                      /* it stands in lane.held: its program is not active */
    uint32_t program, tenant;
    uint32_t next, prev;            /* jobs of its queue, or SCHED_JOB_NONE; free ones: next */
    uint32_t promotions;            /* times that anti-starvation moved it to the first queue */
    uint32_t promoted_from;         /* the queue that a promoted job came from; 0: it is not */
    uint64_t quantum_left_us;       /* of its queue */
    uint64_t waiting_since_us;      /* its waiting is added up to this time */
    uint64_t wait_us;               /* W_c: reset by promotion */
    uint64_t service_us;            /* T_c: reset by promotion */
    struct sched_list ends[CALL_LISTS];     /* of each list of its queue, its first and last call */
    uint32_t last_old;              /* newest call that was open when the job came to its place, or
                                       CALL_NONE: all of these have ended */
    uint64_t place;                 /* in the order of its queue, smallest first; fixed when it
                                       enters */
    uint64_t key, tie;              /* where the policy has keys: the queue is in their order,
                                       smallest first; of equal keys, the smallest tie first */
};

struct sched_node {                 /* of a job in the tree of its queue (engine/order.c) */
    uint32_t parent, child[2];      /* child[0] is before the job, child[1] after it */
};

struct sched_queue {
    struct sched_list lists[CALL_LISTS];
    struct sched_list jobs;         /* through job.next and prev */
    uint32_t root;                  /* private: of the tree over all jobs */
    uint32_t count;                 /* of jobs */
    uint32_t calls_count;           /* of all their calls */
    uint32_t cursor;                /* next job to be checked for starvation, or SCHED_JOB_NONE */
};

/* A place between two calls, for a walk through the queues of a lane from the top (queue.h). */
struct sched_cursor {
    const struct sched_lane *lane;
    uint32_t queue;
    uint32_t passed[CALL_LISTS];    /* of each list of this queue, the last call before the place;
                                       CALL_NONE: there is none */
};

/* What a tenant takes of a step: of its rows, the prefill budget, the KV. */
struct sched_use {
    uint64_t rows;                  /* or their service */
    uint64_t prompt_tokens, blocks;
};

/* Which resident calls may have to go: those that cannot run, or those and later ones, too. */
enum sched_victims { SCHED_VICTIMS_IDLE, SCHED_VICTIMS_LATER, SCHED_VICTIMS };
/* Where a search for victims, from the end of a lane, has come to. */
struct sched_search {
    uint32_t queue;
    struct call *next;
    bool is_over;
};

/* What a plan has dealt to a tenant, and where its walk is (share/deal.c). */
struct sched_hand {
    uint64_t sequence;              /* of the plan */
    uint64_t key;                   /* virtual time, what was dealt included: the least is next */
    struct sched_use use;
    struct sched_cursor cursor;     /* before the call at which the walk ended */
    struct sched_cursor after;      /* the same for the search for standbys */
    bool is_out;                    /* the walk has come past all of its calls */
    bool is_done;                   /* the search under way has no further call here */
    bool is_limited;                /* the walk no longer visits all of its calls */
    bool wants;                     /* a call that can run has got no row */
    bool wanted;                    /* the same of the last step */
    uint32_t kept_out;              /* a call that may not enter, or CALL_NONE: after it the walk
                                       visits residents only */
    uint32_t last_queue;            /* of its last row in the batch */
    struct sched_search searches[SCHED_VICTIMS];
};

/* The queues of one tenant on one engine. */
struct sched_lane {
    struct sched_queue queues[SCHED_QUEUES_MAX];    /* waiting and resident calls alike */
    struct sched_queue held[SCHED_QUEUES_MAX];      /* jobs of programs that are not active, at the
                                                       same levels: no plan looks here */
    uint32_t tenant;
    uint32_t jobs_count;            /* in all of them; 0: the lane is not open */
    struct sched_hand hand;
    bool wants;                     /* the last plan of the engine has refused the tenant a row */
};

/* What a program has at an engine. Its calls may be on several engines at once. */
struct sched_member {
    uint32_t calls_count;           /* its open calls here */
    uint32_t first_call;            /* list of them, the newest first, through call.program_next */
    uint32_t jobs[SCHED_STAGES];    /* where a program's calls are one job: the job in each stage,
                                       or SCHED_JOB_NONE; with levels it is the first entry */
    bool is_active;                 /* in the active set: its KV stays */
    bool is_further;                /* since then a call of it has computed something new */
    /* Its working set, in blocks (working_set.c). */
    uint32_t history_blocks;        /* that its next call will find, or its open ones have found */
    uint32_t new_blocks;            /* that its open calls need besides */
    uint32_t common_blocks;         /* that it found besides, and other programs have, too; */
    uint64_t common_identity;       /* the content of the last of these */
    uint32_t group;                 /* of programs with the same, or SCHED_GROUP_NONE */
    uint32_t away_blocks;           /* of a displaced program: its working set, until it is back */
    uint32_t counted_blocks;        /* its part of active.blocks */
    uint32_t owed_us;               /* service since it became active that computed again, until
                                       something new was computed; less service for what is new */
};

/* A beginning that several programs have in common: it counts once for all that are active. */
struct sched_group {
    uint64_t identity;              /* of its last block's content */
    uint32_t programs;              /* active ones */
    uint32_t blocks;
    uint32_t next;                  /* in the chain of the hash table, or of the free list */
};

/* The programs of an engine whose KV stays (active/active.c). */
struct sched_active {
    uint32_t programs;
    uint64_t blocks;                /* their working sets */
    uint64_t away_blocks;           /* those of displaced programs, which will be back */
    uint64_t common_blocks;         /* and what they have in common, each once */
    struct sched_group *groups;     /* [programs] */
    uint32_t *group_hash;           /* [group_hash_mask + 1] */
    uint32_t group_hash_mask, group_free;
    struct heap idle;               /* those of which no call can run, idle longest first */
    uint32_t held_jobs;             /* of programs that are not active */
    uint64_t busy_us, credited_us;  /* time of steps that is not in the credit yet; since when */
    uint64_t starved_us;            /* when a starved one of the first level last became active */
    uint64_t fed_tokens, again_tokens;      /* fed lately; of these, computed before */
    int64_t credit_us;              /* of the engine's time, for exchanges */
    uint64_t token_ns;              /* that a prompt token takes: a moving mean; 0: unknown */
};

/* How long a round takes lately: means over steps that read no prompt (draft.c). */
struct sched_draft_cost {
    int64_t slots;                  /* of a round, in 1/256 */
    int64_t round_ns;
    int64_t variance, covariance;   /* of slots; of both */
    struct sched_draft_pair {       /* of two steps in a row that had the same rows */
        int64_t variance, covariance;   /* of their difference in draft slots; with that in time */
        uint64_t rows_key;          /* of the rows of the last step; 0: of no use */
        int64_t drafts, round_ns;   /* of a round of it; drafts in 1/256 */
    } pair;
};

/* The lower floor: sched's side of one engine. */
struct sched_engine {
    struct sched *sched;            /* the upper floor */
    uint32_t index;                 /* of this engine */
    struct kvmem *kv;
    struct step step;
    bool serves;                    /* it takes steps; as its seat says */
    uint32_t open_calls;            /* in its queues */
    struct sched_member *members;   /* [programs] */
    struct sched_lane *lanes;       /* [tenants] */
    uint32_t *dealt;                /* [tenants]: lanes of the last plan, */
    uint32_t dealt_count;
    uint32_t taker;                 /* the last call that took blocks of another tenant, */
    uint32_t taker_tokens;          /* and the positions that it had computed by then */
    uint64_t step_cost;             /* of the last step, as tenants pay for it (tenant.c) */
    struct sched_active active;
    uint32_t resident_calls;        /* calls that own blocks */
    uint32_t turns[SCHED_TURNS_MAX];    /* promoted jobs; oldest turn first */
    uint32_t turns_count;
    uint64_t turns_ahead_us;        /* service of jobs with a turn beyond a row for each */
    uint32_t turn_queue;            /* the queue that had the last turn; 0: none yet */
    uint32_t turn_tenant;           /* the tenant that had it */
    struct step_planned *planned;   /* [batch_calls + standby_calls]: rows of the last plan, for
                                       kvmem_bind(); they are of the step in flight */
    uint32_t planned_count;
    bool step_in_flight;
    /* private: only sched/ */
    uint32_t planned_active;        /* the rows from here on are standbys */
    struct step_out *outs;          /* [batch_calls + standby_calls]: copies of what the worker */
    uint32_t *out_tokens;           /* wrote; (batch_calls + standby_calls, steps_per_plan) */
    struct sched_draft_cost draft_cost;
    uint64_t last_key;              /* key of the tenant that got the last row of the last plan's
                                       batch, when it got that */
    uint32_t move_waits;            /* calls that the last plan passed over because KV that they
                                       need moves with its step; at most batch_calls */
    bool is_trial;                  /* the last plan was for suspects alone (suspicion.h); */
    bool turn_is_over;              /* since then a call has computed something new */
    bool has_room;                  /* the last plan had a row left for one more call; */
    bool is_underused;              /* and prefill budget left, too */
    uint64_t sequence;              /* of the last plan */
    uint32_t rounds_published;      /* of the step in flight (progress.c) */
    uint64_t step_submitted_us;
};
