/* SPDX-License-Identifier: MIT */
#pragma once
/* What: clients, their calls, and what they must receive. Part of sim.h. */
#include "config/base/call.h"
#include "config/base/status.h"
#include "config/vocab/vocab.h"
#include "selftest/sim/flow/flows.h"
#include "selftest/sim/world.h"
#include "tools/sdk/session.h"

#define SIM_CALLS_MAX       64
#define SIM_CONTEXT_MAX     192
#define SIM_PROMPT_BYTES    64
#define SIM_TEXT_BYTES      2048        /* of a call's tokens, replacements included */
#define SIM_PROGRAMS_MAX    16
#define SIM_CLASSES_MAX     8
#define SIM_KEYS            4

enum sim_client_state { SIM_AWAY, SIM_GREETING, SIM_PROVING, SIM_OPEN };

struct sim_client {
    bool is_hostile, is_operator;   /* raw_clients.c */
    bool has_flows;                 /* flow/clients.c */
    enum sim_client_state state;
    uint32_t listener, uid, key;    /* of every connection: they give its trust domain */
    uint32_t peer;
    struct agx agx;
    uint64_t next_us;               /* when it acts again */
    uint64_t stalled_until_us;      /* until then it does not read, or does not come back */
    uint64_t patient_until_us;      /* until then it makes no calls: one was refused, or failed */
    uint64_t moved;                 /* bytes, in and out */
    uint32_t idle_turns;            /* in a row, without a byte moved */
    bool is_silent;                 /* an attacker that says nothing */
    uint32_t blamed;                /* cores that died while they acted on its frames */
    bool excused;                   /* it has given the server a reason to close the connection */
    bool is_shut_out;               /* it was not to be let in, since it has connected */
    uint32_t connects;              /* so far */
    bool has_session;               /* with calls that go on over the next connection */
    uint64_t resend_us;             /* until then it does not send its calls again */
    uint64_t calls_number;
    uint32_t calls_open, answers_due, pongs_due, cancels_sent;
    uint64_t ping_next, pong_next;
    uint32_t strays;                /* frames of its workflows that may come too late; */
    uint32_t odd_answers;           /* of them, ANSWERs that are refused in any case */
};

/* A call as its client knows it. */
struct sim_call {
    bool in_use, accepted, cancelled;
    bool is_resent;                 /* over another connection than the one that it began over */
    uint32_t client, program;
    uint64_t call_id;
    uint64_t sent_us, deadline_us;  /* 0: none */
    uint32_t spoilt;                /* times that the engine spoilt its row ... */
    uint64_t excuses;               /* ... and how: a bit for each enum status */
    bool is_poison;                 /* each worker that samples for it dies */
    uint32_t deaths, deaths_alone;  /* of workers, in steps that sampled for it; in its own */
    uint32_t others;                /* calls that its client had open when it was sent */
    uint32_t prompt_tokens, max_tokens, received, expected;
    uint32_t cached_tokens;         /* of the prompt, as DONE said */
    enum agx_finish finish;         /* that the oracle expects */
    struct call_sampling sampling;
    struct agx_call frame;          /* for the SDK, which may send it again */
    bool wants_text, is_text;       /* is_text: its prompt is text */
    bool ignores_eos;
    uint32_t stops_count, prompt_text_bytes, text_bytes;
    const char *stops[CALL_STOP_TEXTS_MAX];
    uint32_t tokens[SIM_CONTEXT_MAX];   /* the prompt, then the expected tokens */
    char prompt_text[SIM_PROMPT_BYTES];
    char text[SIM_TEXT_BYTES];      /* that was received */
};

struct sim_program {                /* the tokens of its last call, for the next one's prompt */
    uint32_t tokens_count;
    uint32_t tokens[SIM_CONTEXT_MAX];
};

/* ---- clients.c ------------------------------------------------------------------------------- */

void sim_clients_init(struct sim *sim);
void sim_clients_act(struct sim *sim);          /* all that are due */
uint64_t sim_clients_next_us(const struct sim *sim);
/* The client has something to read. */
void sim_clients_wake(struct sim *sim, uint32_t client);
/* True when no client waits for anything. */
bool sim_clients_are_done(const struct sim *sim);
void sim_clients_leave(struct sim *sim);
void sim_client_call(struct sim *sim, struct sim_call *call);
void sim_client_cancel(struct sim *sim, uint32_t client);
/* The simulator's own number of the client's trust domain. */
uint64_t sim_client_domain(const struct sim *sim, uint32_t client);

/* ---- session.c ------------------------------------------------------------------------------- */

void sim_client_connect(struct sim *sim, uint32_t client);
void sim_client_part(struct sim *sim, uint32_t client);
/* The server has closed the connection, which must have a reason. */
void sim_client_gone(struct sim *sim, uint32_t client);
/* Sends and reads. False when the connection has ended. */
bool sim_client_exchange(struct sim *sim, uint32_t client);
uint8_t *sim_session_buffer(uint32_t client);   /* [AGX_BUFFER_BYTES_MIN] */

/* ---- raw_clients.c --------------------------------------------------------------------------- */

/* The bytes of a client without a session of the SDK, in both directions. */
void sim_raw_begin(uint32_t client);
void sim_raw_greet(uint32_t client);                /* HELLO */
uint8_t *sim_raw_room(uint32_t client);             /* for a frame; NULL: there is none */
void sim_raw_made(uint32_t client, uint32_t bytes); /* in that room */
uint32_t sim_raw_unsent(uint32_t client);
void sim_raw_send(struct sim *sim, uint32_t client, uint32_t max);
uint32_t sim_raw_receive(struct sim *sim, uint32_t client);
/* The payload of the first frame; NULL: it is not whole yet. */
const uint8_t *sim_raw_frame(struct sim *sim, uint32_t client, struct wire_header *header);
void sim_raw_drop(uint32_t client, const struct wire_header *header);
void sim_hostile_act(struct sim *sim, uint32_t client);
void sim_hostile_read(struct sim *sim, uint32_t client);
void sim_operator_act(struct sim *sim, uint32_t client);
void sim_operator_read(struct sim *sim, uint32_t client);

/* ---- oracle.c -------------------------------------------------------------------------------- */

void sim_program_id(uint32_t program, uint8_t *id);
/* Prompts, and declared prefixes, begin with one of a few themes. */
uint32_t sim_theme_choose(struct sim *sim);
uint32_t sim_theme_token(const struct sim *sim, uint32_t theme, uint32_t index);
/* A new call of the client, with its expected tokens; NULL: no room. */
struct sim_call *sim_call_begin(struct sim *sim, uint32_t client);
/* A call with the program, counts and deadline of `like`, and no other features. */
struct sim_call *sim_call_plain(struct sim *sim, uint32_t client, const struct sim_call *like);
/* A call of that program which goes on from its last one, with the prompt tokens of `like` after
 * those. */
struct sim_call *sim_call_follow(struct sim *sim, uint32_t client, const struct sim_call *like);
struct sim_call *sim_call_find(struct sim *sim, uint32_t client, uint64_t call_id);
void sim_oracle_event(struct sim *sim, uint32_t client, const struct agx_event *event);
/* The client sends its open calls again. */
void sim_oracle_resent(struct sim *sim, uint32_t client);
/* The client has lost its connection and gives up its calls. */
void sim_oracle_lost(struct sim *sim, uint32_t client);
/* The engine has spoilt the row of the call with this seed. */
void sim_oracle_excuse(struct sim *sim, uint64_t seed, enum status status);
/* INVARIANT_STREAM. */
void sim_oracle_check_stream(struct sim *sim);

/* ---- words.c --------------------------------------------------------------------------------- */

const struct vocab *sim_words(void);
/* Gives the call a text prompt and its tokens. */
void sim_words_prompt(struct sim *sim, struct sim_call *call);
void sim_words_stops(struct sim *sim, struct sim_call *call);
/* Number of tokens that complete the first stop string; 0: none does. */
uint32_t sim_words_stop_tokens(const struct sim_call *call);
/* Writes the text of the first `tokens`; returns its bytes. Not is_whole: what waits is cut off. */
uint32_t sim_words_text(const struct sim_call *call, uint32_t tokens, bool is_whole, char *text);
/* Of a text; `begins`: it begins a prompt. Returns the number of tokens. */
uint32_t sim_words_encode(const char *text, uint32_t bytes, bool begins, uint32_t *tokens,
                          uint32_t max);
/* Number of tokens without those that hold part of the first `stop`; UINT32_MAX: there is none. */
uint32_t sim_words_before_stop(const uint32_t *tokens, uint32_t count, bool drops_blank,
                               const char *stop);
/* Writes the text of the tokens [SIM_VALUE_TEXT_BYTES]; returns its bytes. */
uint32_t sim_words_spell(const uint32_t *tokens, uint32_t count, char *text);
const char *sim_words_stop(uint32_t index);
