/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * agx: the client library of an Agentix appliance (libagx.a). C, no allocation, no threads, no
 * global state: an `agx` and its buffer belong to the caller and to one thread at a time.
 *
 * Blocking use:      agx_open(), agx_authenticate() with a key; then agx_program_start(),
 *                    agx_call_start(), agx_next() until AGX_DONE
 * Poll-driven use:   watch agx_descriptor() for reading, and for writing while agx_wants_write();
 *                    when it is ready, call agx_next() with a timeout of 0 until AGX_AGAIN
 *
 * Nothing lost:      after AGX_ERROR_CLOSED call agx_resume(), and go on
 *
 * Every function that can fail returns an enum agx_result; each error is distinct and agx_fault()
 * tells what the appliance found wrong and what it allows. Nothing blocks beyond its timeout. An
 * error that ends the connection is final: every later call returns it again, but agx_close() and
 * agx_resume(). The appliance is not trusted: every byte is checked, token indices and digests too.
 */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AGX_ID_BYTES        16
#define AGX_CALLS_MAX       64      /* open calls of one agx that it can verify */
#define AGX_STOP_IDS_MAX    15
#define AGX_STOP_TEXTS_MAX  4

enum agx_result {
    AGX_OK = 0,
    AGX_AGAIN,              /* nothing within the timeout; of a request: earlier ones are still
                               unsent, call agx_next() and try again */
    AGX_ERROR_ARGUMENT,     /* the caller's: out of the documented range; agx_fault() names it. From
                               agx_next(): a call does not fit the appliance we came back to */
    AGX_ERROR_ADDRESS,      /* not unix:PATH or HOST:PORT with a numeric HOST */
    AGX_ERROR_CONNECT,      /* nobody listens there */
    AGX_ERROR_TIMEOUT,      /* connected, but no WELCOME in time */
    AGX_ERROR_CLOSED,       /* the appliance closed the connection: agx_resume() goes on */
    AGX_ERROR_PROTOCOL,     /* bytes that are not protocol version 1 */
    AGX_ERROR_VERSION,      /* no common version */
    AGX_ERROR_KEY,          /* the appliance asks for a key, or does not accept who we are */
    AGX_ERROR_IMPOSTOR,     /* it does not prove that it has the key: not the one that we mean */
    AGX_ERROR_REFUSED,      /* the appliance refused a frame: see agx_fault() */
    AGX_ERROR_BUSY,         /* the same, for a limit: try again later */
    AGX_ERROR_INDEX,        /* a token is missing, doubled or out of order */
    AGX_ERROR_DIGEST,       /* the terminal digest does not match the tokens */
    AGX_ERROR_DIFFERENT,    /* after agx_resume(): not the answer that was begun before the break */
    AGX_ERROR_UNKNOWN_CALL, /* a frame for a call that is not open */
    AGX_ERROR_SPACE,        /* a buffer is too small, or AGX_CALLS_MAX calls are open */
    AGX_ERROR_SYSTEM,       /* an operating system call failed */
};
const char *agx_result_text(enum agx_result result);

enum agx_finish {           /* why a call ended; values of the protocol */
    AGX_FINISH_LENGTH = 1, AGX_FINISH_EOS, AGX_FINISH_STOP_ID, AGX_FINISH_STOP_TEXT,
    AGX_FINISH_CANCELLED, AGX_FINISH_DEADLINE, AGX_FINISH_FAILED
};
const char *agx_finish_text(enum agx_finish finish);

struct agx_welcome {        /* what the appliance said of itself */
    uint8_t boot_id[16];    /* changes with every start of the appliance */
    uint32_t frame_bytes_max, context_tokens_max, vocab_tokens;
    uint32_t calls_per_connection_max, programs_max;
    uint32_t bos_id, eos_id;                /* UINT32_MAX: none */
    char model[65];
    int needs_key;          /* agx_authenticate() must come next */
};

#define AGX_KEY_ID_BYTES 32
#define AGX_SECRET_BYTES 32
struct agx_key {            /* that the appliance has in its file of keys */
    char id[AGX_KEY_ID_BYTES];              /* zero-terminated */
    uint8_t secret[AGX_SECRET_BYTES];
};

struct agx_fault {          /* of the last AGX_REFUSED, AGX_ERROR_REFUSED, _BUSY or _ARGUMENT */
    uint16_t code;          /* docs/protocol.md, table of errors */
    int is_busy;            /* a limit was hit: the same may succeed later */
    int in_thousandths;     /* `field` is a fraction: found, min and max are int64_t, thousandths */
    uint64_t call_id;       /* 0 where none was named */
    uint64_t found, min, max;
    uint32_t retry_ms;      /* is_busy: after which it is worth to try again; 0: nothing is known */
    const char *frame;      /* "CALL" */
    const char *field;      /* "top_p" */
    const char *text;       /* "field out of range" */
};

struct agx_call {           /* zero is a good default but for `max_tokens` and the prompt */
    uint64_t call_id;       /* unique among the open calls of the connection, and not used before in
                               the program: count up. The appliance remembers those that ended */
    uint8_t program_id[AGX_ID_BYTES];
    uint32_t thread;
    uint32_t max_tokens;    /* >= 1 */
    float temperature;      /* 0: greedy */
    uint32_t top_k;         /* 0: off */
    float top_p;            /* 0 or 1: off */
    float min_p;            /* 0: off */
    float repeat_penalty;   /* 0 or 1: off */
    uint64_t seed;
    uint64_t deadline_us;   /* 0: none */
    int ignore_eos, want_text, no_bos, parse_special;
    const uint32_t *stop_ids;
    uint32_t stop_ids_count;
    const char *stop_texts[AGX_STOP_TEXTS_MAX];
    uint32_t stop_texts_count;
    const uint32_t *prompt_ids;     /* token ids, or NULL and a text */
    uint32_t prompt_ids_count;
    const char *prompt_text;        /* UTF-8; BOS is prepended unless no_bos */
    size_t prompt_text_bytes;
};

enum agx_event_kind { AGX_ACCEPTED, AGX_TOKENS, AGX_DONE, AGX_REFUSED, AGX_PONG, AGX_PROGRAM };
struct agx_event {
    enum agx_event_kind kind;
    uint64_t call_id;
    /* AGX_TOKENS: valid until the next agx_next() */
    const uint32_t *tokens;
    uint32_t tokens_count, first_index;
    const char *text;
    uint32_t text_bytes;
    /* AGX_TOKENS and AGX_DONE: of the scheduler, where the call was; 0 is the highest, below 64 */
    uint32_t queue;
    /* AGX_DONE, and prompt_tokens of AGX_ACCEPTED */
    enum agx_finish finish;
    uint16_t code;          /* why it failed; 0: it did not */
    uint32_t prompt_tokens, cached_tokens, generated_tokens, preemptions;
    uint64_t wait_us, service_us, total_us, digest;
    int is_replayed;        /* AGX_DONE: it had ended before; this is what happened then */
    /* AGX_REFUSED: agx_fault() tells, and `call_id` is not open any more if a CALL was refused.
     * AGX_PROGRAM: answers agx_program_start(), or agx_program_end() with the program's totals */
    uint8_t program_id[AGX_ID_BYTES];
    int program_has_ended;
    uint32_t program_calls;
    uint64_t program_service_us, program_wait_us;
    uint64_t nonce;         /* AGX_PONG */
};

/* private: only tools/sdk */
struct agx_progress { uint32_t tokens; uint64_t digest, text_bytes, text_digest; };
struct agx_open_call {
    uint64_t call_id;
    const struct agx_call *request;
    uint32_t tokens_max, state;
    int is_resent, is_accepted, is_replayed;
    int is_other;                           /* its text is not the one that was told */
    struct agx_progress told, seen;         /* by us to the caller; by us over this connection */
};
struct agx {
    struct agx_welcome welcome;
    /* private: only tools/sdk */
    int descriptor;
    uint8_t *in, *out;
    uint32_t in_max, in_bytes, in_used;     /* received: in[in_used .. in_bytes) */
    uint32_t out_max, out_first, out_bytes; /* unsent: out[out_first .. out_first + out_bytes) */
    uint32_t *tokens;
    uint32_t tokens_max;
    enum agx_result broken;                 /* why the connection ended; AGX_OK: it has not */
    struct agx_fault fault;
    uint32_t calls_due, busy_tries;         /* calls to be sent again; refusals in a row */
    int is_busy;                            /* one was refused since we looked */
    uint32_t busy_ms;                       /* then the longest retry_ms */
    uint64_t resend_ms, connect_ms;         /* not before; 0: at once */
    uint64_t lot;                           /* of agx_retry_ms() */
    int is_admitted;                        /* requests make sense */
    uint8_t server_nonce[32], expected_mac[32];
    struct agx_open_call calls[AGX_CALLS_MAX];
};

/* `address` is "unix:PATH" or "HOST:PORT" (numeric HOST, [::1] for IPv6). `buffer` serves both
 * directions and must stay valid; at least AGX_BUFFER_BYTES_MIN; a third of it limits a prompt, and
 * another third what the appliance may send at once. After an error there is nothing to close. */
#define AGX_BUFFER_BYTES_MIN (64u << 10)
#define AGX_BUFFER_BYTES_MAX (1u << 30)
enum agx_result agx_open(struct agx *agx, const char *address, void *buffer, size_t buffer_bytes,
                         int timeout_ms);
/* The same over a connected stream socket, which belongs to `agx` from then on, also on error. */
enum agx_result agx_attach(struct agx *agx, int descriptor, void *buffer, size_t buffer_bytes,
                           int timeout_ms);
/* Proves to have the key and checks that the appliance has it too; blocks up to the timeout. Once,
 * after agx_open() or agx_attach(); an appliance that did not ask for a key is an impostor. `key`
 * is not needed any more afterwards. An error ends the connection. */
enum agx_result agx_authenticate(struct agx *agx, const struct agx_key *key, int timeout_ms);
void agx_close(struct agx *agx);
/* After AGX_ERROR_CLOSED: connects again, trying until `timeout_ms` is over, and sends every open
 * call again under its ids. A call that has ended in the meantime is answered from the appliance's
 * record; any other, and all after a restart (then welcome.boot_id is a new one), are computed
 * again, with the same tokens. The caller gets what it has not got yet: tokens and text go on where
 * they stopped. What comes a second time is counted and hashed; AGX_ERROR_DIFFERENT, and the end of
 * the session, if it is not what came before. `key`: as for agx_authenticate(); NULL: none is asked
 * for.
 *
 * Needs: each struct agx_call of an open call, and what it points to, where it was and unchanged.
 * Costs: no memory; the time of what is computed again; a hash over each text that is received.
 * Not sent again: starts and ends of programs, cancels, pings. Deadlines begin anew. While the
 * appliance is busy, agx_next() asks again after the pauses of agx_retry_ms(), for as long as it is
 * called.
 *
 * AGX_ERROR_CONNECT, _CLOSED, _BUSY, _TIMEOUT: not within the time. The agx is closed and its calls
 * are still open: it may be called again, and does not connect sooner than a busy appliance said.
 * Every other error is final.
 * A call that the appliance gives up when it shuts down has no AGX_DONE; AGX_ERROR_CLOSED follows,
 * and agx_resume() goes on with it too. */
enum agx_result agx_resume(struct agx *agx, const char *address, const struct agx_key *key,
                           int timeout_ms);
/* 16 bytes from a name: the same name gives the same id (FNV-1a twice; not secret). */
void agx_program_id(const char *name, uint8_t id[AGX_ID_BYTES]);
/* A request is queued and sent as far as possible without blocking; its answer is an event. What
 * the appliance would refuse for its form is AGX_ERROR_ARGUMENT here and is not sent. */
enum agx_result agx_program_start(struct agx *agx, const uint8_t id[AGX_ID_BYTES]);
enum agx_result agx_program_end(struct agx *agx, const uint8_t id[AGX_ID_BYTES]);
enum agx_result agx_call_start(struct agx *agx, const struct agx_call *call);
enum agx_result agx_cancel(struct agx *agx, const uint8_t program_id[AGX_ID_BYTES],
                           uint64_t call_id);
enum agx_result agx_ping(struct agx *agx, uint64_t nonce);
/* The next event: AGX_OK fills `event`; AGX_AGAIN after `timeout_ms` (0: at once, -1: no limit).
 * A refusal that leaves the connection open is an AGX_REFUSED event; one that ends it is
 * AGX_ERROR_REFUSED or AGX_ERROR_BUSY. */
enum agx_result agx_next(struct agx *agx, struct agx_event *event, int timeout_ms);
const struct agx_fault *agx_fault(const struct agx *agx);
/* After a refusal that `is_busy`: in how many milliseconds to make the same request again, with the
 * same struct agx_call. Never sooner than `hint_ms`, the fault's retry_ms; later after each of the
 * `tries` refusals before this one; and up to half of that later by chance, so that clients that
 * were refused together do not come back together. The chance is `*lot`, of which any value is a
 * good first: equal lots give equal pauses. How often to try is the caller's to bound. Pure: it
 * neither waits nor looks at a clock. */
uint32_t agx_retry_ms(uint32_t hint_ms, uint32_t tries, uint64_t *lot);
/* No error has ended the connection so far. */
int agx_is_open(const struct agx *agx);
/* For an event loop: the descriptor, and whether it should be watched for writing too. */
int agx_descriptor(const struct agx *agx);
int agx_wants_write(const struct agx *agx);
/* Call agx_next() after so many milliseconds even if the descriptor is not ready; -1: no need. */
int agx_wait_ms(const struct agx *agx);

#ifdef __cplusplus
}
#endif
