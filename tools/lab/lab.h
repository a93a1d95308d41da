/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the lab: the appliance's own loop, net, sched and kvmem (the same objects, linked, never
 * copied) over a world in which time jumps, the engine is a formula and the clients are a trace.
 *
 *     trace --> player --> clients.c --> call slots, exchange --> loop_pass() --> step record
 *                             ^                                                       |
 *                             +-- the last token of a call -- world.c <-- cost.c -----+
 *
 * Time moves only in wait(), exactly to the next event. Only the measurement of the scheduler's own
 * cost reads a real clock. The same settings always give the same run.
 */
#include <stdbool.h>
#include <stdint.h>

#include "appliance/loop.h"
#include "config/model/predictor.h"
#include "tools/lab/device/copies.h"
#include "tools/lab/device/cost.h"
#include "tools/lab/device/drafts.h"
#include "tools/lab/engine.h"
#include "tools/lab/figures.h"
#include "tools/lab/flow/flow.h"
#include "tools/lab/prompts.h"
#include "tools/lab/tables.h"
#include "tools/lab/timeline.h"
#include "tools/trace/player.h"
#include "tools/trace/serving.h"
#include "tools/trace/sessions.h"

#define LAB_SETS_MAX  64
#define LAB_DEATHS_MAX 16
#define LAB_EPOCH_US  UINT64_C(1000000)     /* virtual time of a run's start; 0 means "unset" */

enum lab_exit {
    LAB_EXIT_OK = 0,
    LAB_EXIT_SYSTEM = 1,            /* memory, files, output; or a run that came to a halt */
    LAB_EXIT_USAGE = 2,             /* the command line, a setting, the trace */
    LAB_EXIT_REFUSED = 3,           /* a call was refused: the figures are not those of the trace */
};

/* What the appliance is told of programs that begin; docs/lab.md. */
enum lab_predict {
    LAB_PREDICT_ORACLE,             /* cost, output of each call, class */
    LAB_PREDICT_CLASS,              /* class; classes have a past */
    LAB_PREDICT_NAME,               /* class; classes have none */
    LAB_PREDICT_FILE,               /* the same, and sched.predictor knows classes */
    LAB_PREDICT_NONE,
};

struct lab_death { uint32_t engine; uint64_t at_us, for_us; };  /* since the run's start */

struct lab_settings {
    const char *trace_path;         /* NULL: workflows are run (flow/flow.h) */
    struct trace_options trace_options;
    struct lab_flow_settings flow;
    const char *order, *flow_json_path;     /* of workflows; JSON NULL: none */
    const char *timeline_path;      /* NULL: none */
    const char *calls_path;         /* NULL: none */
    const char *programs_path;      /* NULL: none */
    const char *samples_path;       /* NULL: none */
    const char *system;             /* row of system.c */
    const char *policy;             /* NULL: the system's; a word of policies.def */
    const struct cost_model *cost;
    const struct drafts *drafts;    /* what they bring; NULL: the engine makes none */
    const char *sets[LAB_SETS_MAX]; /* section.key=value, last word */
    uint32_t sets_count;
    struct lab_death deaths[LAB_DEATHS_MAX];
    uint32_t deaths_count;
    uint32_t engines;               /* 0: one */
    uint32_t programs;              /* 0: as many as the trace has */
    uint32_t sessions;              /* of a closed load; 0: the load is open */
    double rate;                    /* programs a second; 0: the trace's */
    double gap_s_max;               /* of the trace's gaps; 0: as they are */
    uint64_t seed;
    enum lab_predict predict;
    double cost_error;              /* > 1: what is told of cost is wrong by such a factor */
    bool offline, no_sharing, demoted_to_head, block_copies, equal_host;
    bool tenants;                   /* each class of the trace is a trust domain */
};

struct lab_engine_result {          /* of the calls that ended there */
    uint64_t calls, prompt_tokens, cached_tokens;
    uint64_t busy_us;
    uint32_t deaths;
};

struct lab_result {
    const char *policy, *system, *cost;
    uint32_t programs, calls, steps_per_plan;
    double rate;                    /* programs a second; 0: all at once */
    double cost_mean;               /* KV token-rounds of a program */
    double round_s;                 /* a round that reads all KV of the device ... */
    double load;                    /* ... and what arrives in it, as a part of that KV */
    struct figures all, steady;
    struct serving_figures serving;
    uint32_t sessions;
    struct sessions_figures middle; /* of a closed load */
    double makespan_s, wait_s_total, busy_s, wall_s, scheduler_ns;
    double host_s;                  /* between two steps */
    double read_s, compute_s;       /* of all rounds; more than busy_s, where they overlap */
    double copy_out_s, copy_within_s, copy_in_s;    /* of all steps */
    double copy_s;                  /* for which steps were longer because of copies */
    double kv_positions_read;
    uint64_t rounds, steps, tokens_computed, tokens_generated, preemptions, recomputed_tokens;
    uint64_t swap_out_blocks, swap_in_blocks, swap_transfers, copied_blocks;
    uint64_t swap_in_calls;         /* times that a call got blocks back from the host ... */
    uint64_t swap_back_calls;       /* ... after it had been preempted; the others had a history */
    uint64_t prompt_tokens, cached_tokens, cut_prompts, refused_calls, failed_programs;
    uint64_t draft_tokens, draft_tokens_agreed;
    uint32_t device_blocks, device_blocks_peak, host_blocks_peak;   /* of an engine */
    uint32_t context_tokens;
    uint32_t engines_count;
    struct lab_engine_result engines[WORLD_ENGINES_MAX];
};

struct lab_call {                   /* what a call of the player has cost */
    uint64_t prefill_us, copy_us;   /* of the steps that it was in (engine.c) */
    uint64_t first_us;              /* when its first token came; 0: not yet */
    uint32_t swap_ins;
    uint32_t engine;                /* that its last token came from */
    const struct drafts_class *drafts;  /* of its program; NULL: not yet looked up */
    struct drafts_stretch stretch;  /* of its output, where its last step began */
};
struct lab_foretold {               /* of a program (foretold.c) */
    uint64_t work_left;             /* of its calls that are not over */
    uint64_t cost;                  /* KV token-rounds of all its calls */
    uint64_t tokens;                /* of their prompts, and twice those of their outputs */
    uint64_t output_tokens;
    double error;                   /* by which the appliance is told both */
    /* What the appliance made of it; 0: nothing. */
    uint64_t predicted;             /* its cost, in the unit of the policy */
    uint64_t tag, ideal_us;         /* F, and when the ideal system had served it */
};
struct lab_clients {
    struct player player;
    struct sessions sessions;
    struct serving serving;
    struct lab_foretold *foretold;  /* [programs] */
    struct figures_program *outcomes;   /* [programs] */
    struct lab_call *calls;         /* [player.calls_count] */
    uint64_t generated, done;       /* calls whose last token came; whose DONE came */
};

#define LAB_SOCKET_BYTES (1u << 20)
#define LAB_TENANTS_MAX  256
#define LAB_GROUP        1          /* of the users that the tenants are */
struct lab_socket {                 /* a connection: frames to the server */
    bool accepted, open;
    uint32_t slot, interest, count;
    uint8_t to_server[LAB_SOCKET_BYTES];
};
struct lab_sockets {
    struct lab_socket *sockets;     /* [count]: one, or one for each tenant */
    uint32_t count, opened;
    bool listening, closed;         /* the server takes connections; it has closed one */
    bool open;                      /* all are */
};

struct lab {
    const struct lab_settings *settings;
    const struct trace *trace;
    struct prompts prompts;
    struct lab_clients clients;
    struct lab_flow flow;
    struct lab_sockets sockets;
    struct timeline timeline;
    struct tables tables;
    struct lab_result result;
    /* the world */
    struct world world;
    uint64_t now_us, heartbeat;
    struct lab_engine engines[WORLD_ENGINES_MAX];   /* [limits.engines] */
    bool died[LAB_DEATHS_MAX];      /* of settings.deaths */
    bool acted;                     /* this pass settled or launched a step */
    uint64_t acted_us;              /* when one last did */
    bool timed;                     /* this pass is measured, */
    uint64_t aside_ns;              /* without the lab's own work in it */
    /* the appliance */
    uint64_t host_us;               /* of the system, between two steps */
    struct options options;
    struct limits limits;
    struct vocab vocab;
    struct predictor predictor;     /* of sched.predictor */
    void *predictor_memory;
    struct arena arena;
    struct step step;               /* engine 0's record: step_at() */
    uint64_t *seen;                 /* [KV blocks] (cost.h) */
    struct loop loop;
};

/* run.c: a whole run; an exit code, after a message where it is not OK or REFUSED. */
int lab_run(const struct lab_settings *settings, const struct trace *trace,
            struct lab_result *result);
/* The same in parts, for tests; `lab` is zeroed. After an error, too, lab_end() is due. */
int lab_begin(struct lab *lab, const struct lab_settings *settings, const struct trace *trace);
void lab_pass(struct lab *lab);
int lab_end(struct lab *lab);
/* system.c: defaults, preset, system, policy, then the user's words; 0 or an exit code after a
 * message. */
int lab_configure(struct lab *lab);
const char *lab_systems(void);
bool lab_system_exists(const char *name);
const char *lab_policies(void);
const char *lab_policy_name(enum sched_policy policy);
bool lab_policy_exists(const char *name);
/* world.c */
void lab_world_init(struct lab *lab);
/* Who owns what the program does; with tenants, the socket of its class. */
struct lab_socket *lab_socket_of(const struct lab *lab, uint32_t run);
uint64_t lab_wall_ns(void);
/* frames.c: what the client writes and reads of the protocol. */
void lab_frames_hello(struct lab *lab);
void lab_frames_program_end(struct lab *lab, uint32_t run);
void lab_frames_read(struct lab *lab, struct lab_socket *socket, const uint8_t *bytes,
                     uint32_t count);
/* clients.c */
int lab_clients_init(struct lab *lab);
void lab_clients_free(struct lab *lab);
void lab_clients_submit_due(struct lab *lab);
/* The call's last token has come: its successors become due. */
void lab_clients_generated(struct lab *lab, uint32_t call);
void lab_clients_done(struct lab *lab, const struct wire_done *done);
void lab_clients_refused(struct lab *lab, uint32_t call);
void lab_program_id(const struct lab *lab, uint32_t run, uint8_t *id);
/* Puts the call where net would have put its CALL frame; false: no slot is free. */
bool lab_submit(struct lab *lab, uint32_t call);
/* foretold.c: what is known of the programs; 0 or an exit code after a message. */
int lab_foretold_init(struct lab *lab);
/* Comes when all connections are open: classes get their past. */
void lab_foretold_teach(struct lab *lab);
/* The program's class, as the appliance is told it; "": not at all. */
const char *lab_foretold_class(const struct lab *lab, uint32_t run);
/* What a call of the program is told when it arrives; `traced`: its index in the trace. */
void lab_foretold_fill(const struct lab *lab, uint32_t run, uint32_t traced,
                       struct call_foretold *foretold);
/* The call's last token has come. */
void lab_foretold_over(struct lab *lab, uint32_t run, uint32_t traced);
/* What the appliance made of it: of the program of a call that has a row in a step that is not yet
 * settled; of the programs that have left the ideal system in this pass. */
void lab_foretold_note(struct lab *lab, const struct call *call);
void lab_foretold_pass(struct lab *lab);
/* engine.c: works out how long the step that was submitted takes. */
void lab_engine_run(struct lab *lab, struct lab_engine *engine);
/* True when the row is of a workflow's call, which no trace knows. */
bool lab_engine_is_flow(const struct lab *lab, const struct step_row *row);
/* Which call of the trace the row is of. */
uint32_t lab_engine_call(const struct lab *lab, const struct step_row *row);
/* Checks whether the core asks for an early stop. */
void lab_engine_hear(struct lab *lab, struct lab_engine *engine);
/* The step is done: fills its outs, tells the clients whose calls are complete. */
void lab_engine_tell(struct lab *lab, struct lab_engine *engine);
/* death.c: when an engine next dies or comes back; UINT64_MAX: never. */
uint64_t lab_death_next_us(const struct lab *lab);
/* True when the engine dies now: once for each of its deaths. Its step is lost. */
bool lab_death_comes(struct lab *lab, struct lab_engine *engine);
/* memory.c: the copies of the step, the calls whose blocks they bring back, and the figures of
 * kvmem. */
struct copies lab_memory_copies(struct lab *lab, struct lab_engine *engine);
void lab_memory_swap_ins(struct lab *lab, struct lab_engine *engine);
void lab_memory_sample(struct lab *lab, const struct lab_engine *engine);
void lab_memory_report(struct lab *lab);
