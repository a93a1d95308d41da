/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * agx: the client library of an Agentix appliance (libagx.a). It is written in C, allocates
 * nothing, starts no threads and has no global state: a `struct agx` and its buffer belong to the
 * caller, and to one thread at a time.
 *
 * Blocking use:      agx_open(); agx_authenticate() if the appliance needs a key; then
 *                    agx_program_start(), agx_call_start(), agx_next() until AGX_DONE
 * Poll-driven use:   watch agx_descriptor() for reading, and for writing while agx_wants_write();
 *                    when it is ready, call agx_next() with a timeout of 0 until AGX_AGAIN
 * After a break:     on AGX_ERROR_CLOSED call agx_resume() and go on; nothing is lost
 *
 * Every function that can fail returns an enum agx_result; agx_fault() says which field was
 * refused, what was found, and what is allowed. Nothing blocks beyond its timeout. An error that
 * ends the connection is final: every later function returns it again, but for agx_close() and
 * agx_resume(). The appliance is not trusted: every byte, token index and digest is checked.
 */
#include <stddef.h>
#include <stdint.h>

#include "tools/sdk/request.h"

#ifdef __cplusplus
extern "C" {
#endif

#define AGX_CALLS_MAX       64      /* open calls of one agx that it can verify */
#define AGX_CLASS_BYTES     32
#define AGX_AFFINITY_BYTES  63

enum agx_result {
    AGX_OK = 0,
    AGX_AGAIN,              /* agx_next(): nothing within the timeout. A request: earlier ones are
                               still unsent; call agx_next(), then try again */
    AGX_ERROR_ARGUMENT,     /* an argument is out of its range; agx_fault() names it. agx_next(): an
                               open call does not fit the appliance that agx_resume() has found.
                               After agx_close(), without a fault: there is no connection */
    AGX_ERROR_ADDRESS,      /* not unix:PATH or HOST:PORT with a numeric HOST */
    AGX_ERROR_CONNECT,      /* no connection: nothing listens there, or there is no way or right */
    AGX_ERROR_TIMEOUT,      /* connected, but no WELCOME in time */
    AGX_ERROR_CLOSED,       /* the connection is lost, or closed, as one that was idle is;
                               agx_resume() goes on */
    AGX_ERROR_PROTOCOL,     /* bytes that are not protocol version 1 */
    AGX_ERROR_VERSION,      /* no common version */
    AGX_ERROR_KEY,          /* the appliance needs a key, or does not accept this key or user */
    AGX_ERROR_IMPOSTOR,     /* it asks for no key, or does not prove that it has this one */
    AGX_ERROR_REFUSED,      /* the appliance refused a frame and closed: see agx_fault() */
    AGX_ERROR_BUSY,         /* the same because of a limit: try again later */
    AGX_ERROR_INDEX,        /* a token is missing, doubled or out of order */
    AGX_ERROR_DIGEST,       /* the terminal digest does not match the tokens */
    AGX_ERROR_DIFFERENT,    /* after agx_resume(): not the answer that was begun before the break */
    AGX_ERROR_UNKNOWN_CALL, /* a frame for a call that is not open */
    AGX_ERROR_SPACE,        /* a buffer is too small, or AGX_CALLS_MAX calls are open */
    AGX_ERROR_SYSTEM,       /* an operating system call failed for good: nothing to resume */
};
const char *agx_result_text(enum agx_result result);

enum agx_finish {           /* why a call ended; values of the protocol */
    AGX_FINISH_LENGTH = 1, AGX_FINISH_EOS, AGX_FINISH_STOP_ID, AGX_FINISH_STOP_TEXT,
    AGX_FINISH_CANCELLED, AGX_FINISH_DEADLINE, AGX_FINISH_FAILED
};
const char *agx_finish_text(enum agx_finish finish);

struct agx_welcome {        /* what the appliance says about itself; valid after agx_open() */
    uint8_t boot_id[16];    /* new with every start of the appliance */
    uint32_t frame_bytes_max;               /* bytes: the longest payload of a frame */
    uint32_t context_tokens_max;            /* tokens: prompt and output of one call */
    uint32_t vocab_tokens;                  /* token ids are below */
    uint32_t calls_per_connection_max;      /* calls open at once */
    uint32_t programs_max;
    uint32_t bos_id, eos_id;                /* UINT32_MAX: none */
    char model[65];                         /* its name; zero-terminated */
    int needs_key;          /* agx_authenticate() must come next */
};

enum agx_template { AGX_TEMPLATE_ABSENT, AGX_TEMPLATE_KNOWN, AGX_TEMPLATE_UNKNOWN };
struct agx_chat {           /* how the model wants a conversation to be written; after AGX_CHAT */
    enum agx_template template_is;          /* the model's own */
    uint32_t template_bytes;
    char format[24];        /* docs/chat.md; `plain` where there is none, or none that is known */
    char bos[40], eos[40];  /* texts of these tokens; empty: there are none */
    char system[512];       /* said where the conversation has no system message */
};

enum { AGX_KEY_ID_BYTES = 32, AGX_SECRET_BYTES = 32 };
struct agx_key {            /* a key in the appliance's file of keys */
    char id[AGX_KEY_ID_BYTES];              /* zero-terminated */
    uint8_t secret[AGX_SECRET_BYTES];
};

struct agx_fault {          /* of the last AGX_REFUSED, AGX_ERROR_REFUSED, _BUSY or _ARGUMENT */
    uint16_t code;          /* docs/protocol.md, table of errors */
    int is_busy;            /* a limit was hit: the same may succeed later */
    int in_thousandths;     /* `field` is a float: found, min and max are int64_t, in thousandths */
    uint64_t call_id;       /* 0 where none was named */
    uint64_t found;         /* the value of the field */
    uint64_t min, max;      /* allowed; both 0 where there is nothing to say */
    uint32_t retry_ms;      /* is_busy: try again after so many milliseconds; 0: nothing is known */
    const char *frame;      /* such as "CALL"; these three are static texts */
    const char *field;      /* such as "top_p" */
    const char *text;       /* such as "field out of range" */
};

enum agx_event_kind { AGX_ACCEPTED, AGX_TOKENS, AGX_DONE, AGX_REFUSED, AGX_PONG, AGX_PROGRAM,
                      AGX_CHAT, AGX_FLOW, AGX_MODEL };
struct agx_event {
    enum agx_event_kind kind;
    uint64_t call_id;
    /* AGX_TOKENS. The pointers are valid until the next agx_next(). */
    const uint32_t *tokens;         /* [tokens_count]; may be none when there is text */
    uint32_t tokens_count;
    uint32_t first_index;           /* of tokens[0] in the output */
    const char *text;               /* [text_bytes] UTF-8; its end need not be that of a token */
    uint32_t text_bytes;            /* after an early end the last tokens may be without text */
    /* [tokens_count * logprobs_each], for each token as many: its own, then the most probable ones
     * there, which may have it again, the most probable first. NULL and 0: not asked for. */
    const struct agx_logprob *logprobs;
    uint32_t logprobs_each;         /* 1 + top_logprobs */
    /* AGX_TOKENS and AGX_DONE. */
    uint32_t queue;                 /* 0 .. 63: the call's in the scheduler; 0 is the highest */
    /* AGX_DONE; AGX_ACCEPTED has prompt_tokens, too. */
    enum agx_finish finish;
    uint16_t code;                  /* why it failed; 0: it did not */
    uint32_t prompt_tokens;         /* BOS included */
    uint32_t cached_tokens;         /* of the prompt, not computed */
    uint32_t generated_tokens;
    uint32_t preemptions;
    uint32_t draft_tokens;          /* of drafts, verified; 0 without want_drafts; */
    uint32_t draft_tokens_agreed;   /* of these, those that were right: a round less for each */
    uint64_t wait_us;               /* microseconds in queues */
    uint64_t service_us;            /* microseconds in steps of the engine */
    uint64_t total_us;              /* microseconds from arrival to the end */
    uint64_t digest;                /* of the generated tokens; it was checked */
    int is_replayed;                /* the call had ended before: this is what happened then */
    /* AGX_REFUSED: agx_fault() says why. If a CALL was refused, `call_id` is no longer open.
     * AGX_PROGRAM: the answer to agx_program_start(), or to agx_program_end() with totals. */
    uint8_t program_id[AGX_ID_BYTES];
    int program_has_ended;
    uint32_t program_calls;         /* that have ended */
    uint64_t program_service_us, program_wait_us;
    uint64_t nonce;                 /* AGX_PONG, AGX_MODEL; AGX_CHAT: agx->chat is the answer */
    uint64_t vocab_digest, chat_digest;     /* AGX_MODEL: vocab_digest(), chat_digest() of config */
    const struct agx_flow_event *flow;      /* AGX_FLOW: tools/sdk/flow.h */
};

/* private: only tools/sdk */
struct agx_progress { uint32_t tokens; uint64_t digest, text_bytes, text_digest; };
struct agx_open_call {
    uint64_t call_id;
    const struct agx_call *request;
    uint32_t tokens_max, state, logprobs_each;
    int is_resent, is_accepted, is_replayed, wants_drafts;
    struct agx_progress told, seen;         /* the caller has; this connection brought */
};
struct agx {
    struct agx_welcome welcome;
    struct agx_chat chat;
    int descriptor;                         /* private from here on */
    uint8_t *in, *out;
    uint32_t in_max, in_bytes, in_used;     /* received: in[in_used .. in_bytes) */
    uint32_t out_max, out_first, out_bytes; /* unsent: out[out_first .. out_first + out_bytes) */
    uint32_t *tokens;
    uint32_t tokens_max;
    enum agx_result broken;                 /* why the connection ended; AGX_OK: it has not */
    struct agx_fault fault;
    uint32_t calls_due, busy_tries;         /* calls to be sent again; refusals in a row */
    int is_busy;                            /* one was refused since the last resend */
    uint32_t busy_ms;                       /* then the longest retry_ms */
    uint64_t resend_ms, connect_ms;         /* not before these times; 0: at once */
    uint64_t lot;                           /* of agx_retry_ms() */
    int is_admitted; char name[64];         /* the handshake is complete; in HELLO */
    int chat_due; uint32_t chat_first; uint64_t chat_nonce; /* more of `chat` is to be asked for */
    uint8_t server_nonce[32], expected_mac[32];
    struct agx_open_call calls[AGX_CALLS_MAX];
    struct agx_flow_run *flows;             /* that are open, as a list */
};

/* Connects and waits for WELCOME. `address` is "unix:PATH" or "HOST:PORT" (numeric HOST, [::1] for
 * IPv6). `buffer`, of AGX_BUFFER_BYTES_MIN to _MAX bytes, serves both directions and must stay
 * valid until agx_close(); a third of it limits the length of a CALL, another third that of a frame
 * from the appliance. `timeout_ms`, here and below: milliseconds; -1: no limit. After an error
 * there is nothing to close; errno has the cause of AGX_ERROR_CONNECT and _SYSTEM. */
enum { AGX_BUFFER_BYTES_MIN = 64u << 10, AGX_BUFFER_BYTES_MAX = 1u << 30 };
enum agx_result agx_open(struct agx *agx, const char *address, void *buffer, size_t buffer_bytes,
                         int timeout_ms);
/* The same with an affinity key, of at most AGX_AFFINITY_BYTES: where several appliances are behind
 * a load balancer, equal keys reach the same one (docs/fleet.md). NULL or empty: a random key. */
struct agx_target { const char *address, *affinity; };
enum agx_result agx_open_target(struct agx *agx, const struct agx_target *target, void *buffer,
                                size_t buffer_bytes, int timeout_ms);
/* The same over a connected stream socket, which belongs to `agx` from then on, also on error. */
enum agx_result agx_attach(struct agx *agx, int descriptor, void *buffer, size_t buffer_bytes,
                           int timeout_ms);
/* Proves to the appliance that the client has the key, and checks that the appliance has it too;
 * blocks up to the timeout. Once, after agx_open() or agx_attach(). An appliance that did not ask
 * for a key is AGX_ERROR_IMPOSTOR. `key` is not needed afterwards. An error ends the connection. */
enum agx_result agx_authenticate(struct agx *agx, const struct agx_key *key, int timeout_ms);
void agx_close(struct agx *agx);
/* After AGX_ERROR_CLOSED: connects again, trying until `timeout_ms` is over, and sends every open
 * call again under its ids. A call that has ended in the meantime is answered from the appliance's
 * record; any other is computed again, with the same tokens. Where another appliance or the next
 * start of it answers (welcome.boot_id is new then), all are. The caller gets what it does not have
 * yet. What comes a second time is counted and hashed; if it differs from the first time,
 * AGX_ERROR_DIFFERENT ends the session. `key`: of agx_authenticate(); NULL: none is needed.
 *
 * Needs: each struct agx_call of an open call, and what it points to, in its place and unchanged.
 * Costs: no memory; the time of what is computed again. Not sent again: starts and ends of
 * programs, cancels, pings. Deadlines restart. While the appliance is busy, each agx_next() sends
 * calls again, after the pauses of agx_retry_ms().
 * AGX_ERROR_CONNECT, _CLOSED, _BUSY, _TIMEOUT: it did not succeed within the time. The connection
 * is closed and the calls are still open: agx_resume() may be called again, and does not connect
 * sooner than a busy appliance has said. Every other error is final.
 * A call that the appliance gives up when it shuts down has no AGX_DONE: AGX_ERROR_CLOSED follows,
 * and agx_resume() goes on with that call, too. */
enum agx_result agx_resume(struct agx *agx, const char *address, const struct agx_key *key,
                           int timeout_ms);
enum agx_result agx_unique_id(uint8_t id[AGX_ID_BYTES]);    /* 16 random bytes */
/* 16 bytes from a name: the same name gives the same id (FNV-1a twice; not secret). */
void agx_program_id(const char *name, uint8_t id[AGX_ID_BYTES]);
/* Requests. Each is queued and sent as far as possible without blocking; its answer is an event.
 * One that the appliance would refuse for its form is not sent: AGX_ERROR_ARGUMENT. AGX_AGAIN: no
 * room while earlier ones are unsent. AGX_ERROR_SPACE: none ever, or AGX_CALLS_MAX are open. */
enum agx_result agx_program_start(struct agx *agx, const uint8_t id[AGX_ID_BYTES]);
/* The same with the program's class, a name for programs of one kind: what they have cost tells the
 * appliance what this one will. The first name before the program's first call counts. At most
 * AGX_CLASS_BYTES of printable ASCII without spaces; NULL or empty: no name. */
enum agx_result agx_program_start_class(struct agx *agx, const uint8_t id[AGX_ID_BYTES],
                                        const char *class_name);
enum agx_result agx_program_end(struct agx *agx, const uint8_t id[AGX_ID_BYTES]);
enum agx_result agx_call_start(struct agx *agx, const struct agx_call *call);
/* The call still ends with AGX_DONE. If it had ended before the appliance was asked, AGX_REFUSED
 * with its id and "CANCEL" in agx_fault()->frame comes after that, and ends nothing. */
enum agx_result agx_cancel(struct agx *agx, const uint8_t program_id[AGX_ID_BYTES],
                           uint64_t call_id);
enum agx_result agx_ping(struct agx *agx, uint64_t nonce);
/* Asks, once at a time, for the model's chat format, in which chat_render() (config/chat/chat.h, in
 * this library) fills prompt_text and prompt_parts; parse_special and no_bos go with them. */
enum agx_result agx_chat_ask(struct agx *agx, uint64_t nonce);
/* Asks for digests of the model: what a client that has read a model file compares with its own. */
enum agx_result agx_model_ask(struct agx *agx, uint64_t nonce);
/* The next event: AGX_OK fills `event`; AGX_AGAIN after `timeout_ms` (0: at once, -1: no limit).
 * A refusal that leaves the connection open is an AGX_REFUSED event; a refusal that ends it is
 * AGX_ERROR_REFUSED or AGX_ERROR_BUSY. */
enum agx_result agx_next(struct agx *agx, struct agx_event *event, int timeout_ms);
const struct agx_fault *agx_fault(const struct agx *agx);
/* After a refusal that `is_busy`: the pause in milliseconds before the same request is worth a
 * try. It is never shorter than `hint_ms`, the fault's retry_ms, and grows with each of the `tries`
 * refusals before. Up to half of it is added at random, so that clients that were refused together
 * do not return together. `*lot` is the state of the random numbers, at first any value. */
uint32_t agx_retry_ms(uint32_t hint_ms, uint32_t tries, uint64_t *lot);
int agx_is_open(const struct agx *agx);         /* no error has ended the connection */
int agx_descriptor(const struct agx *agx);      /* for an event loop: what to watch, and */
int agx_wants_write(const struct agx *agx);     /* whether for writing, too */
/* Milliseconds after which to call agx_next() even if the descriptor is not ready; -1: no need. */
int agx_wait_ms(const struct agx *agx);

#ifdef __cplusplus
}
#endif
