/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the record of one call, from the CALL frame to the terminal frame, and the pool of them.
 *
 *   FREE --net--> INTAKE --sched admits--> QUEUED <==plan/settle==> RUNNING --sched--> FINISHED
 *                   |                        |  ^                     |                   ^
 *                   +---- sched refuses -----+--+------ cancel, deadline, failure --------+
 *                   +---- net answers from its record of ended calls ----------------------+
 *
 * Owner: at any moment one stage may write a field. net owns the record in FREE, INTAKE (until it
 * is pushed on the inbox) and FINISHED; sched owns it in between. `emit` is always net's; `cancel`
 * and `paused` are set by net and read by sched.
 *
 * Invariants: prompt and produced tokens stay in `tokens` until the terminal frame is written, so
 * KV can always be recomputed. `generation` grows each time the slot is freed; results that carry
 * an old generation are dropped.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/arena.h"
#include "config/base/assert.h"
#include "config/base/quota.h"

#define CALL_NONE             UINT32_MAX
#define CALL_STOP_IDS_MAX     17        /* 15 that a call may name, end of turn, EOS */
#define CALL_STOP_TEXTS_MAX   4         /* stop strings */
#define CALL_STOP_TEXT_BYTES  64        /* longest stop string */
#define CALL_REPEAT_TOKENS    64        /* repetition penalty looks back this far */
#define CALL_BIASES_MAX       64        /* tokens whose logits a call may shift */
#define CALL_TOP_LOGPROBS_MAX 20        /* alternatives with a log probability, at one place */
#define CALL_LOGPROB_MAX      3e38f     /* a lower one is given as this, negative: it is finite */
#define CALL_PROGRAM_ID_BYTES 16
#define CALL_CLASS_BYTES      32        /* longest name of a class of programs */
#define CALL_DEATHS_MAX       2         /* a call fails when so many workers have died in steps that
                                           it was alone in */
#define CALL_FAULTS_MAX       2         /* a call fails after so many results that cannot be right:
                                           it was computed twice by then */

enum call_state { CALL_FREE, CALL_INTAKE, CALL_QUEUED, CALL_RUNNING, CALL_FINISHED };

/* The lists of a queue; all in the order of the queue (sched/engine/queue.c). */
enum call_list {
    CALL_LIST_ALL,
    CALL_LIST_STARTED,              /* has had blocks once: may need no prefill budget */
    CALL_LIST_RESIDENT,             /* owns blocks now */
    CALL_LISTS,
};
struct call_link {
    uint32_t next, prev;
};

/* Wire values: never renumber. */
enum call_finish {
    CALL_FINISH_NONE = 0,
#define FINISH(id, value, word, help) CALL_FINISH_##id = (value),
#include "config/base/finish.def"
#undef FINISH
    CALL_FINISH_REFUSED,            /* never accepted: `status` says why */
};

/* Sampling of one call. The same values and the same tokens give the same next token, always: the
 * random number of position p is a pure function of (seed, p). */
struct call_sampling {
    uint64_t seed;
    float temperature;              /* 0: greedy; else 0.01 .. 100 */
    float top_p;                    /* (0, 1], 1: off */
    float min_p;                    /* [0, 1), 0: off */
    float repeat_penalty;           /* [0.1, 10], 1: off; over the last CALL_REPEAT_TOKENS tokens */
    float presence_penalty;         /* [-2, 2], 0: off; of tokens that the call has generated */
    float frequency_penalty;        /* [-2, 2], 0: off; for each time that it has */
    uint32_t biases_count;          /* how many there are: they lie apart, for they are many */
    uint32_t top_logprobs;          /* with wants_logprobs: of so many alternatives, too */
    bool wants_logprobs;            /* the log probability of each generated token */
    uint32_t top_k;                 /* 0: off */
    uint32_t stop_ids_count;
    uint32_t stop_ids[CALL_STOP_IDS_MAX];   /* EOS is among them unless ignore_eos */
};

/* What is added to the logit of a token. The tokens of a call's list ascend. */
struct call_bias {
    uint32_t token;
    float bias;                     /* [-100, 100] */
};

/* The log probability of a token where it could have been generated. */
struct call_logprob {
    uint32_t token;
    float logprob;                  /* -CALL_LOGPROB_MAX .. 0 */
};

/* True when tokens weigh less, or more, the more often the call has generated them. */
static inline bool call_counts_tokens(const struct call_sampling *sampling)
{
    return sampling->presence_penalty != 0.0f || sampling->frequency_penalty != 0.0f;
}

struct call_stop_text {
    uint16_t length_bytes;
    char bytes[CALL_STOP_TEXT_BYTES];
};

/* The search for stop strings in the text of a call (net/stop_text.c). It runs ahead of what is
 * sent, so a client that does not read delays no stop. */
struct call_scan {
    uint32_t tokens;                /* generated tokens searched so far */
    uint64_t bytes;                 /* text of these */
    uint64_t stop_at;               /* after a hit: where in the text the stop string begins */
    uint8_t matched[CALL_STOP_TEXTS_MAX];   /* bytes of each stop string that end the text now */
    uint8_t fallback[CALL_STOP_TEXTS_MAX][CALL_STOP_TEXT_BYTES];    /* Knuth, Morris and Pratt's */
};

#define CALL_HELD_BYTES (CALL_STOP_TEXT_BYTES + 8)

/* What only a trace can know, and only the lab fills in: elsewhere all is 0, unknown. */
struct call_foretold {
    uint64_t work_left;             /* of its program when the call arrives, open calls included */
    uint64_t program_cost;          /* KV token-rounds of all calls of its program, */
    uint64_t program_tokens;        /* and tokens: of their prompts, and twice of their outputs */
    uint32_t output_tokens;         /* of the call */
};

/* What net has told the client so far; private to net. */
struct call_emit {
    uint32_t sent_tokens;           /* generated tokens already framed */
    uint64_t digest;                /* over these */
    uint64_t text_bytes;            /* text of these */
    uint32_t held_bytes;            /* its end, held back: half a character or half a stop string */
    char held[CALL_HELD_BYTES];
    struct call_scan scan;
    uint64_t request, reply;        /* digest of its CALL; number of its record. 0: none yet */
    bool is_replayed;               /* answered from that record; the scheduler never saw it */
    bool accept_sent;
    bool eot_is_eos;                /* the end-of-turn token was added by us: it ends like EOS */
    uint32_t conn_next, conn_prev;  /* circular list of the connection's calls */
    uint32_t open_next;             /* chain of the table of open calls */
};

/* The plan and the settlement of a step touch the first three cache lines of a call, and `sampling`
 * when the call gets a row: with thousands of calls each further line is a miss. The rest is needed
 * at the beginning and the end of the call. */
struct call {
    /* Tokens: prompt, then generated. `tokens` has room for context_tokens. */
    _Alignas(ARENA_ALIGN_BYTES) uint32_t *tokens;
    uint32_t prompt_tokens;
    uint32_t generated_tokens;
    uint32_t max_tokens;            /* asked: >= 1; prompt_tokens + max_tokens <= context_tokens */
    uint32_t kv_tokens;             /* positions whose KV is in the call's blocks */
    uint32_t computed_tokens;       /* the most that kv_tokens has been; below it is recompute */

    enum call_state state;
    uint32_t generation;
    uint32_t queue;                 /* of its job, when sched last looked at the call; 0 is the
                                       highest */
    uint32_t job;                   /* its place in the order of its queue, perhaps with other calls
                                       of its program */
    uint32_t published_tokens;      /* generated tokens that net may send: those settled, and those
                                       that the running step has published (sched) */
    uint64_t walk_sequence;         /* of the last plan whose walk came past it */
    uint8_t lists;                  /* bit l: it is in list l of its queue */
    bool cancel;                    /* net asks; sched ends the call within one step */
    bool stop_text_hit;             /* net, with `cancel`: the text holds a stop string */
    bool paused;                    /* the client does not read: no batch slot until it does */
    bool expired;                   /* its deadline passed during the step that it is in */
    bool standby;                   /* RUNNING: only if a row of the step ends early */
    bool in_emit_ring;              /* net will look at it (exchange.c) */
    uint8_t engine;                 /* index of the engine that serves it; from its admission on */

    struct call_link links[CALL_LISTS];
    uint64_t waiting_since_us;      /* QUEUED: its waiting is added up to this time */
    uint64_t wait_us;
    uint64_t service_us;            /* c.model_time of Algorithm 1, line 4 */
    uint64_t priority_us;           /* the program's service when the call arrived (c.service) */

    uint64_t client_call_id;        /* the client's names for it: net's, at intake */
    uint8_t program_id[CALL_PROGRAM_ID_BYTES];
    uint32_t slot;                  /* of this call in its table: constant */
    uint32_t program;               /* slot in the process table */
    uint64_t first_run_us;
    uint32_t program_next, program_prev;    /* list of its program's open calls */
    uint32_t cached_tokens;         /* prompt positions found cached, and so never computed */
    uint32_t preemptions;           /* times that it lost its blocks */
    uint32_t expected_tokens;       /* prompt and output, as far as is known */
    uint32_t faults;                /* results of the engine that could not be right; from the
                                       first on the call shares no KV */
    uint32_t found_tokens;          /* positions that were cached for it when it arrived */
    uint32_t new_blocks;            /* that it adds to its program's working set */

    /* What else is asked (net, at intake). */
    struct call_sampling sampling;
    uint64_t deadline_us;           /* absolute; UINT64_MAX: none */
    uint64_t domain;                /* trust domain of the client: ids mean nothing beyond it */
    uint32_t account;               /* of the domain: which the slot counts for */
    uint32_t connection;            /* slot, or CALL_NONE once the client has gone */
    uint32_t workflow, instance;    /* that have made it; CALL_NONE: a client has */
    uint32_t eos_id_index_plus_1;   /* which stop id is EOS (1-based), 0: none; for the reason */
    uint32_t thread;                /* the client's number of the program thread; for statistics */
    bool want_text, goes_on;        /* goes_on: it was open in an earlier core, too */
    bool want_control, want_drafts; /* that of control tokens, too; what drafts brought */
    uint32_t stop_text_tokens;      /* with stop_text_hit: tokens up to the end of that string, */
    uint32_t stop_text_before;      /* and those whose text lies before it */
    uint32_t stop_texts_count;
    struct call_stop_text stop_texts[CALL_STOP_TEXTS_MAX];
    struct call_bias biases[CALL_BIASES_MAX];   /* [sampling.biases_count] */

    struct call_foretold foretold;

    /* Of a call in whose step a worker has died (sched/engine/suspicion.h). */
    uint32_t company_max;           /* the most rows of a step with it; 0: it is no suspect */
    uint32_t deaths_alone;          /* workers that died of a step in which it was alone */
    uint32_t suspect_until;         /* positions of KV with which it is acquitted */

    uint32_t draft_tokens, draft_tokens_agreed; /* verified; right (config/base/step.h) */

    /* How it ended (sched). */
    enum call_finish finish;
    enum status status;

    /* One time stamp per hand-off. */
    uint64_t arrived_us, first_token_us, last_token_us, finished_us;

    struct call_emit emit;
};
#define CALL_HOT_BYTES offsetof(struct call, deadline_us)
STATIC_ASSERT(offsetof(struct call, sampling) == 3 * ARENA_ALIGN_BYTES, "three cache lines");

/* Log probabilities until net has sent them: a ring for each call, which has token i of the output
 * at place i % tokens. sched writes it. It is never full: net pauses the call before (emit.c). */
struct call_logprobs {
    struct call_logprob *entries;   /* [calls][tokens][entries_max] */
    uint32_t tokens;                /* of a call; 0: no call may ask */
    uint32_t entries_max;           /* of a token */
};

struct call_table {
    struct call *calls;             /* [count] */
    uint32_t count;
    uint32_t free_count;
    uint32_t *free;                 /* stack of free slots; lowest index on top at boot */
    uint32_t context_tokens;
    struct call_logprobs logprobs;
    struct quota quota;             /* the slots, divided among accounts */
};

void call_table_plan_memory(struct memory_plan *plan, uint32_t calls, uint32_t context_tokens);
void call_table_init(struct call_table *table, uint32_t calls, uint32_t context_tokens,
                     struct arena *arena, struct arena *kept);  /* for tokens; may be the same */
/* Takes a slot for this trust domain: it is zeroed, and INTAKE. CALL_NONE: call_room() is 0. */
uint32_t call_take(struct call_table *table, uint64_t domain);
/* The same with a given slot, which must be free; call_room() must not be 0. */
void call_take_slot(struct call_table *table, uint32_t index, uint64_t domain);
/* Slots that the domain may take now. */
uint32_t call_room(const struct call_table *table, uint64_t domain);
/* Adds a token of the model that ends the call, as the last of its stop ids. False: the model
 * has none (CALL_NONE), or the client has named it as a stop id. */
bool call_add_stop_id(struct call *call, uint32_t token);
/* The slot must be INTAKE or FINISHED and in no list. Its generation grows. */
void call_release(struct call_table *table, uint32_t index);

/* Rings of log probabilities for a table; without them no call may ask for any. */
void call_logprobs_plan_memory(struct memory_plan *plan, uint32_t calls, uint32_t tokens,
                               uint32_t entries_max);
void call_logprobs_init(struct call_table *table, uint32_t tokens, uint32_t entries_max,
                        struct arena *arena);
/* Entries of each token of the call: its own, then the alternatives; 0: the call did not ask. */
static inline uint32_t call_logprob_entries(const struct call_sampling *sampling)
{
    return sampling->wants_logprobs ? 1 + sampling->top_logprobs : 0;
}
/* The entries of the call's token `index`; those of the tokens after it follow, up to the end of
 * the ring. */
struct call_logprob *call_logprobs_at(const struct call_table *table, const struct call *call,
                                      uint32_t index);
/* How many tokens from `index` on lie one after the other. */
static inline uint32_t call_logprobs_run(const struct call_table *table, uint32_t index)
{
    return table->logprobs.tokens - index % table->logprobs.tokens;
}
