/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: protocol version 1 as bytes: the one codec of appliance and SDK. docs/protocol.md is
 * normative; this file is its C side. Pure functions over caller's buffers; no state, no sockets.
 *
 * A frame is a 16-byte header and a payload, all numbers little-endian:
 *
 *   offset 0  magic     u32   0x31584741 ("AGX1")
 *          4  type      u8    enum wire_type
 *          5  reserved  u8[3] zero
 *          8  length    u32   bytes of the payload, at most limits.frame_bytes
 *         12  checksum  u32   CRC-32C of bytes 0..11 and the payload
 *
 * Decoders check everything that can be checked without state: exact lengths, reserved fields,
 * ranges, finite floats. They never read beyond `count` and change nothing on refusal but `fault`.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/call.h"
#include "config/base/fnv.h"
#include "config/base/status.h"

#define WIRE_MAGIC          UINT32_C(0x31584741)
#define WIRE_VERSION        1
#define WIRE_HEADER_BYTES   16
#define WIRE_BOOT_ID_BYTES  16
#define WIRE_NAME_BYTES     64
#define WIRE_KEY_ID_BYTES   32          /* a name */
#define WIRE_SECRET_BYTES   32          /* of a key that client and appliance share */
#define WIRE_NONCE_BYTES    32
#define WIRE_MAC_BYTES      32          /* HMAC-SHA256 */
#define WIRE_REPLY_BYTES_MAX 256        /* holds any frame of the server but TOKENS, whole */
#define WIRE_HELLO_BYTES    68
#define WIRE_AUTH_BYTES     96
#define WIRE_CALL_BYTES_MIN 80          /* the fixed part of CALL */
#define WIRE_TOKENS_BYTES_MIN 24        /* the fixed part of TOKENS */
#define WIRE_STOP_IDS_MAX   15          /* that a client may name; the server adds EOS */
#define WIRE_QUEUES_MAX     64          /* queues that an appliance may have */

enum wire_type {
    /* client -> server */
    WIRE_HELLO = 0x01, WIRE_AUTH = 0x02,
    WIRE_PROGRAM_START = 0x03, WIRE_PROGRAM_END = 0x04,
    WIRE_CALL = 0x05, WIRE_CANCEL = 0x06, WIRE_PING = 0x07,
    /* server -> client */
    WIRE_WELCOME = 0x81, WIRE_AUTH_REPLY = 0x82,
    WIRE_PROGRAM_OK = 0x83,         /* answers PROGRAM_START and PROGRAM_END */
    WIRE_ACCEPT = 0x85, WIRE_TOKENS = 0x86, WIRE_DONE = 0x87, WIRE_PONG = 0x88,
    WIRE_ERROR = 0x8f,              /* refuses one frame; says which field, found, allowed */
};

/* Fields that an ERROR can name. Wire values: never renumber. */
enum wire_field {
    WIRE_FIELD_NONE = 0, WIRE_FIELD_MAGIC, WIRE_FIELD_TYPE, WIRE_FIELD_LENGTH, WIRE_FIELD_CHECKSUM,
    WIRE_FIELD_RESERVED, WIRE_FIELD_VERSION, WIRE_FIELD_FLAGS, WIRE_FIELD_CALL_ID,
    WIRE_FIELD_PROGRAM_ID, WIRE_FIELD_THREAD, WIRE_FIELD_MAX_TOKENS, WIRE_FIELD_TEMPERATURE,
    WIRE_FIELD_TOP_K, WIRE_FIELD_TOP_P, WIRE_FIELD_MIN_P, WIRE_FIELD_REPEAT_PENALTY,
    WIRE_FIELD_SEED, WIRE_FIELD_DEADLINE, WIRE_FIELD_STOP_IDS, WIRE_FIELD_STOP_TEXTS,
    WIRE_FIELD_PROMPT, WIRE_FIELD_KIND, WIRE_FIELD_NAME, WIRE_FIELD_CONNECTION, WIRE_FIELD_QUEUE,
    WIRE_FIELD_KEY_ID,
    WIRE_FIELD_COUNT
};

struct wire_fault {                 /* why a frame was refused; becomes an ERROR frame */
    enum status status;
    enum wire_field field;
    uint8_t frame_type;
    uint64_t call_id;               /* where the frame names one */
    uint64_t found, min, max;       /* floats in thousandths (found: two's complement), saturated */
};

struct wire_header { uint8_t type; uint32_t length_bytes; uint32_t checksum; };

/* CRC-32C of bytes 0..11 of the header, then of the payload. */
uint32_t wire_checksum(const uint8_t *header, const uint8_t *payload, uint32_t payload_bytes);

/* `bytes` has WIRE_HEADER_BYTES. Checks magic, type (of either direction), reserved, length against
 * the exact or largest length of its type and `frame_bytes_max`. */
MUST_CHECK enum status wire_header_decode(const uint8_t *bytes, uint32_t frame_bytes_max,
                                          struct wire_header *header, struct wire_fault *fault);

struct wire_hello { uint16_t version_min, version_max; char name[WIRE_NAME_BYTES]; };
enum wire_auth_mode { WIRE_AUTH_NONE = 0, WIRE_AUTH_KEY = 1 };
struct wire_welcome {
    uint16_t version;
    uint16_t auth;                  /* enum wire_auth_mode: what must come next */
    uint8_t boot_id[WIRE_BOOT_ID_BYTES];
    uint32_t frame_bytes_max, context_tokens_max, vocab_tokens;
    uint32_t calls_per_connection_max, programs_max;
    uint32_t bos_id, eos_id;        /* UINT32_MAX: none */
    char model[WIRE_NAME_BYTES];
    uint8_t nonce[WIRE_NONCE_BYTES];    /* of this connection; zero without authentication */
};
struct wire_auth {
    char key_id[WIRE_KEY_ID_BYTES];
    uint8_t nonce[WIRE_NONCE_BYTES];
    uint8_t mac[WIRE_MAC_BYTES];    /* wire_proof_mac() of WIRE_CLIENT */
};
struct wire_auth_reply { uint8_t mac[WIRE_MAC_BYTES]; };    /* the same of WIRE_SERVER */
struct wire_program { uint8_t program_id[CALL_PROGRAM_ID_BYTES]; };     /* START, END */
struct wire_program_ok {
    uint8_t program_id[CALL_PROGRAM_ID_BYTES];
    uint32_t kind;                  /* WIRE_PROGRAM_START or WIRE_PROGRAM_END */
    uint32_t calls;
    uint64_t service_us, wait_us;
};

enum {                              /* flags of CALL */
    WIRE_CALL_TEXT_PROMPT = 1u,     /* the prompt is UTF-8 text, not token ids */
    WIRE_CALL_WANT_TEXT = 2u,       /* TOKENS frames carry text too */
    WIRE_CALL_IGNORE_EOS = 4u,
    WIRE_CALL_ADD_BOS = 8u,         /* prepend BOS to a text prompt, if the model has one */
    WIRE_CALL_PARSE_SPECIAL = 16u,  /* special tokens in a text prompt are tokens, not text */
    WIRE_CALL_FLAGS_ALL = 31u,
};
struct wire_call {
    uint64_t call_id;
    uint8_t program_id[CALL_PROGRAM_ID_BYTES];
    uint32_t thread, flags, max_tokens;
    struct call_sampling sampling;  /* stop_ids: the client's; the server adds EOS */
    uint64_t deadline_us;           /* relative to arrival; 0: none; at most one hour */
    uint32_t stop_texts_count;
    struct call_stop_text stop_texts[CALL_STOP_TEXTS_MAX];
    uint32_t prompt_count;          /* token ids, or bytes of text */
    const uint8_t *prompt;          /* into the frame; token ids are little-endian, unaligned */
};

/* What a number of CALL may be: one table for the decoder, the tests and the fuzz dictionary. */
enum wire_number { WIRE_U32, WIRE_U64, WIRE_F32 };
struct wire_range {
    enum wire_field field;
    enum wire_number number;        /* F32: finite, too */
    uint32_t offset;                /* in the payload of CALL */
    uint32_t member;                /* in struct wire_call */
    double min, max;
    bool min_open, max_open;        /* the bound itself is not allowed */
    bool or_zero;                   /* 0 is allowed as well: off */
};
extern const struct wire_range wire_call_ranges[];
extern const uint32_t wire_call_ranges_count;

struct wire_cancel { uint64_t call_id; uint8_t program_id[CALL_PROGRAM_ID_BYTES]; };
struct wire_ping { uint64_t nonce; };                                   /* PING and PONG */
enum {                              /* flags of ACCEPT */
    WIRE_ACCEPT_REPLAYED = 1u,      /* it ended before: what follows is what happened then */
    WIRE_ACCEPT_FLAGS_ALL = 1u,
};
struct wire_accept { uint64_t call_id; uint32_t prompt_tokens, flags; };
struct wire_tokens {
    uint64_t call_id;
    uint32_t first_index;           /* of tokens[0] in the output; consecutive over frames */
    uint32_t tokens_count, text_bytes;
    uint32_t queue;                 /* of the call when the frame was made; 0 is the highest */
    const uint8_t *tokens;          /* into the frame, little-endian, unaligned */
    const uint8_t *text;
};
struct wire_done {
    uint64_t call_id;
    uint32_t finish;                /* enum call_finish */
    enum status status;             /* OK, or why it failed */
    uint16_t queue;                 /* that the call ended in */
    uint32_t prompt_tokens, cached_tokens, generated_tokens, preemptions;
    uint64_t wait_us, service_us, total_us;
    uint64_t digest;                /* wire_digest() over all generated tokens */
};
struct wire_error {
    struct wire_fault fault;
    bool closes;                    /* the server closes the connection after it */
    uint16_t retry_ms;              /* BUSY: try again after this; 0: nothing is known */
    char text[96];                  /* a fixed text: status_text() */
};

/* FNV-1a, 64 bits, over the little-endian bytes of each token id; start with WIRE_DIGEST_START. */
#define WIRE_DIGEST_START FNV_START
uint64_t wire_digest(uint64_t digest, const uint32_t *tokens, uint32_t count);

/* Decoders of payloads. `count` is the payload's length, already checked against the type. */
#define WIRE_DECODER(name) \
    MUST_CHECK enum status wire_##name##_decode(const uint8_t *bytes, uint32_t count, \
                                                struct wire_##name *frame, struct wire_fault *fault)
WIRE_DECODER(hello);
WIRE_DECODER(welcome);
WIRE_DECODER(auth);
WIRE_DECODER(auth_reply);
WIRE_DECODER(program);
WIRE_DECODER(program_ok);
WIRE_DECODER(call);
WIRE_DECODER(cancel);
WIRE_DECODER(ping);
WIRE_DECODER(accept);
WIRE_DECODER(tokens);
WIRE_DECODER(done);
WIRE_DECODER(error);

/* Encoders of whole frames, header and checksum included: the number of bytes written, or 0 when
 * they do not fit `max`. `type` where one struct serves several frames. */
uint32_t wire_hello_encode(const struct wire_hello *frame, uint8_t *bytes, uint32_t max);
uint32_t wire_welcome_encode(const struct wire_welcome *frame, uint8_t *bytes, uint32_t max);
uint32_t wire_auth_encode(const struct wire_auth *frame, uint8_t *bytes, uint32_t max);
uint32_t wire_auth_reply_encode(const struct wire_auth_reply *frame, uint8_t *bytes, uint32_t max);
uint32_t wire_program_encode(const struct wire_program *frame, enum wire_type type, uint8_t *bytes,
                             uint32_t max);
uint32_t wire_program_ok_encode(const struct wire_program_ok *frame, uint8_t *bytes, uint32_t max);
uint32_t wire_call_encode(const struct wire_call *frame, uint8_t *bytes, uint32_t max);
uint32_t wire_cancel_encode(const struct wire_cancel *frame, uint8_t *bytes, uint32_t max);
uint32_t wire_ping_encode(const struct wire_ping *frame, enum wire_type type, uint8_t *bytes,
                          uint32_t max);
uint32_t wire_accept_encode(const struct wire_accept *frame, uint8_t *bytes, uint32_t max);
/* `tokens` are host integers and stand for frame->tokens, which is not read. */
uint32_t wire_tokens_encode(const struct wire_tokens *frame, const uint32_t *tokens,
                            uint8_t *bytes, uint32_t max);
uint32_t wire_done_encode(const struct wire_done *frame, uint8_t *bytes, uint32_t max);
uint32_t wire_error_encode(const struct wire_error *frame, uint8_t *bytes, uint32_t max);

/* Proofs (net/wire_auth.c): that a side has the key, for this connection, in this role. */
enum wire_side { WIRE_CLIENT, WIRE_SERVER };
struct wire_proof {
    char key_id[WIRE_KEY_ID_BYTES];                     /* as in AUTH, padding included */
    uint8_t boot_id[WIRE_BOOT_ID_BYTES];
    uint8_t server_nonce[WIRE_NONCE_BYTES], client_nonce[WIRE_NONCE_BYTES];
};
void wire_proof_mac(const struct wire_proof *proof, enum wire_side side,
                    const uint8_t secret[WIRE_SECRET_BYTES], uint8_t mac[WIRE_MAC_BYTES]);
void wire_hmac(const uint8_t secret[WIRE_SECRET_BYTES], const uint8_t *bytes, uint32_t count,
               uint8_t mac[WIRE_MAC_BYTES]);
/* Of two proofs or two ids of keys: in the same time wherever they differ. */
bool wire_is_equal(const uint8_t a[WIRE_MAC_BYTES], const uint8_t b[WIRE_MAC_BYTES]);

/* Names for messages: "CALL", "top_p". */
const char *wire_type_name(uint8_t type);
const char *wire_field_name(enum wire_field field);
