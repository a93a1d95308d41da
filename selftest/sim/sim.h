/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the simulator: the appliance's own loop, net, sched and kvmem (the same objects, linked,
 * never copied) in one thread over a world in which everything that can happen is chosen.
 *
 *   tape --choose--> swarm.c    configuration, and which faults there are
 *        --choose--> world.c    time, order of events      sockets.c  bytes, a few at a time
 *        --choose--> engine.c   steps that hang, die, lie  clients.c  who asks for what, and when
 *
 *   clients.c --frames--> sockets.c --> loop_pass() --> step record --> engine.c
 *       ^                     |                                            |
 *       +-- oracle.c <--------+         invariants.c looks after each pass-+
 *
 * A run is a function of its tape. Phase 1: anything happens, and every invariant holds after each
 * pass. Phase 2 (`calm`): no more faults, and everything that was accepted must come to its end.
 * The first thing that is wrong ends the run with the number of an invariant (invariants.h).
 */
#include <setjmp.h>
#include <stdio.h>

#include "appliance/loop.h"
#include "config/model/gguf.h"
#include "selftest/fake/fake_engine.h"
#include "selftest/fake/naive_sched.h"
#include "selftest/sim/invariants.h"
#include "selftest/sim/swarm.h"
#include "selftest/sim/tape.h"
#include "tools/sdk/session.h"

#define SIM_CONNECTIONS_MAX 64
#define SIM_CLIENTS_MAX     (SIM_CONNECTIONS_MAX + 8)   /* more than find a slot */
#define SIM_PEERS_MAX       (2 * SIM_CLIENTS_MAX)       /* the server is late to see some leave */
#define SIM_RING_BYTES      (64u << 10)
#define SIM_CALLS_MAX       64
#define SIM_CONTEXT_MAX     192
#define SIM_PROMPT_BYTES    64
#define SIM_TEXT_BYTES      2048        /* of a call's tokens, replacements included */
#define SIM_PROGRAMS_MAX    16
#define SIM_BLOCKS_MAX      4096
#define SIM_BLOCK_TOKENS    32
#define SIM_NONE            UINT32_MAX
#define SIM_EPOCH_US        UINT64_C(1000000)
#define SIM_SECOND_US       UINT64_C(1000000)

/* ---- sockets.c ------------------------------------------------------------------------------- */

struct sim_ring {                   /* bytes on their way */
    uint8_t *bytes;                 /* [SIM_RING_BYTES] */
    uint32_t first, count, capacity;
};
struct sim_peer {                   /* both ends of one connection */
    bool in_use, accepted, server_closed;
    bool finished;                  /* the client sends no more: FIN */
    bool closed;                    /* the client is gone */
    bool reset;                     /* RST: both directions are dead */
    uint32_t client, listener;
    struct world_peer who;
    uint32_t again;                 /* transfers that say EAGAIN whatever there is */
    struct sim_ring to_server, to_client;
};

/* ---- world.c --------------------------------------------------------------------------------- */

enum { SIM_LISTENER_UNIX, SIM_LISTENER_TCP, SIM_LISTENER_TEXT, SIM_LISTENERS };
#define SIM_HANDLES (SIM_LISTENERS + SIM_PEERS_MAX)

struct sim_watch {
    bool watched;
    enum world_source source;
    uint32_t index, interest;
};
struct sim_counts {                 /* what the world has seen: stats must say the same */
    uint64_t bytes_received, bytes_sent, accepts, steps, steps_lost, losses;
    uint64_t pass_receives, pass_accepts;       /* since wait() */
};

/* ---- engine.c -------------------------------------------------------------------------------- */

/*   STARTS --due--> IDLE --submit--> RUNS --the last round--> DONE --poll--> IDLE
 *     ^  |           |                | |--a fault--> HANGS --due--+
 *     |  +-----------+-- a fault -----+----------------------------+--> DIED --poll--> STARTS
 *                    '-- condemned: CONDEMNED --due------------------+                       */
enum sim_worker { SIM_WORKER_STARTS, SIM_WORKER_IDLE, SIM_WORKER_RUNS, SIM_WORKER_DONE,
                  SIM_WORKER_HANGS, SIM_WORKER_CONDEMNED, SIM_WORKER_DIED };
struct sim_engine {
    struct fake_engine fake;
    enum sim_worker worker;
    uint64_t due_us;                /* of what comes next by itself */
    uint64_t round_us;
    bool by_hand;                   /* rounds end by sim_engine_round() alone */
    uint32_t rounds_to_live;        /* 0: the worker does not die in this step */
    bool is_own;                    /* the step in flight: the core's, a canary or a prefix's */
    bool owes_step;                 /* one that was submitted and has not been believed */
    uint64_t heartbeat;
    uint64_t record;                /* hash of what the core has written for the step in flight */
    bool poisoned[SIM_BLOCKS_MAX];
    uint64_t kv[SIM_BLOCKS_MAX * SIM_BLOCK_TOKENS];
};

/* ---- lockstep.c ------------------------------------------------------------------------------ */

#define SIM_COMMANDS_MAX 1024

struct sim_lockstep {
    struct naive naive;
    bool is_on, has_taken_in;       /* of this pass: its commands */
    uint32_t commands_count;
    struct command commands[SIM_COMMANDS_MAX];
    bool is_doomed[SIM_COMMANDS_MAX];   /* a CALL that nobody waits for any more */
    uint64_t salts[SIM_PROGRAMS_MAX];   /* of the programs that it knows */
};

/* ---- clients.c, oracle.c --------------------------------------------------------------------- */

enum sim_client_state { SIM_AWAY, SIM_GREETING, SIM_OPEN };

struct sim_client {
    bool is_hostile, is_operator;   /* hostile.c, operator.c */
    enum sim_client_state state;
    uint32_t listener, uid;         /* who it is, each time: its trust domain */
    uint32_t peer;
    struct agx agx;
    uint64_t next_us;               /* when it acts again */
    uint64_t stalled_until_us;      /* it does not read before, or does not come back */
    uint64_t patient_until_us;      /* it was refused, or failed: it makes no calls before */
    uint64_t moved;                 /* bytes, in and out */
    uint32_t idle_turns;            /* since it has moved some */
    bool excused;                   /* the server may close the connection for what it did */
    uint32_t connects;              /* so far */
    bool has_session;               /* with calls that go on over the next connection */
    uint64_t resend_us;             /* calls are not sent again before */
    uint64_t calls_number;
    uint32_t calls_open, answers_due, pongs_due, cancels_sent;
    uint64_t ping_next, pong_next;
};

/* A call as its client knows it. */
struct sim_call {
    bool in_use, accepted, cancelled;
    bool is_resent;                 /* over another connection than it began */
    uint32_t client, program;
    uint64_t call_id;
    uint64_t sent_us, deadline_us;  /* 0: none */
    uint32_t spoilt;                /* times that the engine was wrong about it ... */
    uint64_t excuses;               /* ... bit of enum status: like this */
    uint32_t others;                /* calls that its client had open when it was sent */
    uint32_t prompt_tokens, max_tokens, received, expected;
    enum agx_finish finish;         /* that the oracle expects */
    struct call_sampling sampling;
    struct agx_call frame;          /* as the SDK has it: it may want to send it again */
    bool wants_text, is_text;       /* is_text: the prompt */
    bool ignores_eos;
    uint32_t stops_count, prompt_text_bytes, text_bytes;
    const char *stops[CALL_STOP_TEXTS_MAX];
    uint32_t tokens[SIM_CONTEXT_MAX];   /* the prompt, then what must come */
    char prompt_text[SIM_PROMPT_BYTES];
    char text[SIM_TEXT_BYTES];      /* that has come */
};

struct sim_program {                /* what its last call leaves for the next one's prompt */
    uint32_t tokens_count;
    uint32_t tokens[SIM_CONTEXT_MAX];
};

/* ---- all of it ------------------------------------------------------------------------------- */

struct sim_nth {                    /* nth.c: one fault, in place of the swarm's */
    bool is_on, for_ever;
    enum sim_fault fault;
    uint64_t at, seen;              /* opportunities: which one, and so far */
};

struct sim {
    struct tape *tape;
    FILE *script;                   /* NULL: nobody reads along */
    struct sim_nth nth;
    /* the run */
    struct swarm swarm;
    bool calm;
    uint64_t pass, hash;
    uint64_t faults[SIM_FAULTS];    /* how many of each there were */
    struct sim_failure failure;
    enum invariant asserting;       /* what it means when an assertion fails now */
    jmp_buf escape;
    /* the world */
    struct world world;
    uint64_t now_us, skipped_us;    /* skipped: in which the process was stopped */
    struct sim_watch watches[SIM_HANDLES];
    struct sim_counts counts;
    uint32_t peers_seen;
    bool stirred;                   /* a client has done something to a socket */
    uint64_t calls_number;          /* of the last call; its seed, too */
    struct loop_orders orders;
    struct sim_program programs[SIM_PROGRAMS_MAX];
    /* the appliance */
    struct options options;
    struct limits limits;
    struct config_prefixes prefixes;
    uint32_t prefix_tokens[CONFIG_PREFIXES_MAX][SIM_CONTEXT_MAX];
    struct fake_declared declared;
    struct vocab wordless;          /* a vocabulary without texts; else it is words.c's */
    struct arena arena;
    struct step step;
    struct loop loop;
    struct invariants_memory memory;
    uint64_t slot_domains[SIM_CALLS_MAX];   /* trust domain of who made the call in this slot */
    /* large, and cleared piece by piece */
    struct sim_peer peers[SIM_PEERS_MAX];       /* [peers_seen]: beyond, none was ever used */
    struct sim_client clients[SIM_CLIENTS_MAX];
    struct sim_call calls[SIM_CALLS_MAX];
    struct sim_lockstep lockstep;
    struct sim_engine engine;
};

/* Choices. */
uint32_t sim_choose(struct sim *sim, uint32_t bound);
/* low .. high, and low where nothing is chosen. */
uint32_t sim_between(struct sim *sim, uint32_t low, uint32_t high);
/* 0 .. bound_us, small ones as often as large ones. */
uint64_t sim_time(struct sim *sim, uint64_t bound_us);
/* Does this fault happen now? */
bool sim_fault(struct sim *sim, enum sim_fault fault);

/* Something happened: for whoever reads along, and for the hash of the run. */
void sim_say(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline void sim_mix(struct sim *sim, uint64_t value)
{
    sim->hash = (sim->hash ^ value) * UINT64_C(0x100000001b3);
    sim->hash ^= sim->hash >> 31;
}
/* The run ends here. */
_Noreturn void sim_fail(struct sim *sim, enum invariant invariant, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define SIM_REQUIRE(sim, condition, invariant, ...) \
    ((condition) ? (void)0 : sim_fail(sim, invariant, __VA_ARGS__))

/* world.c */
void sim_world_init(struct sim *sim);

/* sockets.c: the server's side is in sim->world; here is the client's. */
void sim_sockets_init(struct sim *sim);
uint32_t sim_connect(struct sim *sim, uint32_t client);     /* SIM_NONE: full */
uint32_t sim_send(struct sim *sim, uint32_t peer, const void *bytes, uint32_t count);
uint32_t sim_receive(struct sim *sim, uint32_t peer, void *bytes, uint32_t max);
void sim_close(struct sim *sim, uint32_t peer);
void sim_reset(struct sim *sim, uint32_t peer);
void sim_finish(struct sim *sim, uint32_t peer);
/* The server has closed it and nothing is left to read. */
bool sim_is_over(const struct sim *sim, uint32_t peer);
/* Of the server. */
uint32_t sim_handles_open(const struct sim *sim);
uint32_t sim_socket_ready(const struct sim *sim, uint32_t handle);
int32_t sim_accept(void *self, int32_t listener, struct world_peer *who);
int64_t sim_socket_recv(void *self, int32_t handle, void *bytes, uint32_t max);
int64_t sim_socket_send(void *self, int32_t handle, const void *bytes, uint32_t count);
void sim_socket_close(void *self, int32_t handle);

/* engine.c */
void sim_engine_init(struct sim *sim);
void sim_engine_submit(void *self, uint32_t index);
enum world_engine sim_engine_poll(void *self, uint32_t index);
uint64_t sim_engine_heartbeat(void *self, uint32_t index);
void sim_engine_condemn(void *self, uint32_t index);
enum naive_fault sim_engine_fault(const struct sim *sim, uint32_t row);
/* Lets what is due happen; true when the core is to be woken. */
bool sim_engine_advance(struct sim *sim);
uint64_t sim_engine_next_us(const struct sim *sim);
void sim_engine_by_hand(struct sim *sim, bool by_hand);
void sim_engine_round(struct sim *sim);
void sim_engine_kill(struct sim *sim);
/* What the KV of a call begins with, whoever may share it. */
uint64_t sim_salt(const struct sim *sim, uint64_t domain, const uint8_t *program_id);

/* lockstep.c */
void sim_lockstep_init(struct sim *sim);
void sim_lockstep_poll(struct sim *sim, enum world_engine result);
void sim_lockstep_plan(struct sim *sim);
void sim_lockstep_compare(struct sim *sim);

/* clients.c */
void sim_clients_init(struct sim *sim);
void sim_clients_act(struct sim *sim);          /* all that are due */
uint64_t sim_clients_next_us(const struct sim *sim);
/* There is something to read for it. */
void sim_clients_wake(struct sim *sim, uint32_t client);
/* No client waits for anything. */
bool sim_clients_are_done(const struct sim *sim);
void sim_clients_leave(struct sim *sim);

/* One thing that a client does, for whoever decides in its stead. */
void sim_client_connect(struct sim *sim, uint32_t client);
void sim_client_part(struct sim *sim, uint32_t client);
void sim_client_call(struct sim *sim, struct sim_call *call);
void sim_client_cancel(struct sim *sim, uint32_t client);
/* Our own number of its trust domain. */
uint64_t sim_client_domain(const struct sim *sim, uint32_t client);
/* Sends and reads; false when the connection has ended. */
bool sim_client_exchange(struct sim *sim, uint32_t client);
uint8_t *sim_session_buffer(uint32_t client);   /* [AGX_BUFFER_BYTES_MIN] */

/* hostile.c */
void sim_hostile_begin(uint32_t client);
void sim_hostile_greet(uint32_t client);
void sim_hostile_act(struct sim *sim, uint32_t client);
void sim_hostile_read(struct sim *sim, uint32_t client);

/* operator.c */
void sim_operator_act(struct sim *sim, uint32_t client);
void sim_operator_read(struct sim *sim, uint32_t client);

/* oracle.c */
void sim_program_id(uint32_t program, uint8_t *id);
/* Prompts, and declared prefixes, begin with one of a few themes. */
uint32_t sim_theme_choose(struct sim *sim);
uint32_t sim_theme_token(const struct sim *sim, uint32_t theme, uint32_t index);
/* A new call of the client, filled and judged; NULL: no room. */
struct sim_call *sim_call_begin(struct sim *sim, uint32_t client);
/* One with the program, counts and deadline of this one, and no other features. */
struct sim_call *sim_call_plain(struct sim *sim, uint32_t client, const struct sim_call *like);
struct sim_call *sim_call_find(struct sim *sim, uint32_t client, uint64_t call_id);
void sim_oracle_event(struct sim *sim, uint32_t client, const struct agx_event *event);
/* Its open calls are sent again. */
void sim_oracle_resent(struct sim *sim, uint32_t client);
/* The connection is gone, and with it all calls of the client. */
void sim_oracle_lost(struct sim *sim, uint32_t client);
/* The engine has spoilt the row of this call. */
void sim_oracle_excuse(struct sim *sim, uint64_t seed, enum status status);

/* words.c */
const struct vocab *sim_words(void);
void sim_words_prompt(struct sim *sim, struct sim_call *call);
void sim_words_stops(struct sim *sim, struct sim_call *call);
/* How many tokens make the first stop string complete; 0: none does. */
uint32_t sim_words_stop_tokens(const struct sim_call *call);
/* What the tokens that were received say; returns its bytes. */
uint32_t sim_words_text(const struct sim_call *call, char *text);

/* run.c */
enum sim_outcome { SIM_CLEAN, SIM_FAILED };
struct sim *sim_new(void);
/* One run from the beginning of the tape: tape->steps passes of phase 1. */
enum sim_outcome sim_run(struct sim *sim, struct tape *tape);
/* The same in parts, for exhaust.c: a run that does what `body` does, ... */
enum sim_outcome sim_run_body(struct sim *sim, struct tape *tape, void (*body)(struct sim *sim));
/* ... which sets options and limits, boots, makes passes (false: the loop has ended), ... */
void sim_boot(struct sim *sim);
bool sim_pass(struct sim *sim);
/* ... and waits until nobody is owed anything. */
void sim_run_calm(struct sim *sim);

/* nth.c: each fault at each of its opportunities, or `most` of them, in so many scenarios; how many
 * runs, 0 after a failure. */
uint64_t sim_nth_faults(struct sim *sim, struct tape *tape, uint32_t scenarios, uint32_t most);
/* exhaust.c: every order of events up to this depth, in each of a few small worlds; how many runs,
 * 0 after a failure, which is in sim->failure. */
uint64_t sim_exhaust(struct sim *sim, struct tape *tape, uint32_t depth);

/* shrink.c: the tape becomes the smallest one found that fails by the same invariant. */
void sim_shrink(struct sim *sim, struct tape *tape);
