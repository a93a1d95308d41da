/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: protocol version 1 as bytes: the one codec of appliance and SDK. docs/protocol.md is
 * normative; net/frames.def lists its frames and fields; this file is the C side of both. Pure
 * functions over the caller's buffers; no state, no sockets.
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
 * ranges, finite floats. They never read beyond `count`; a refusal changes only `fault`.
 *
 * A new field is a row of net/frames.def and a member of the struct of its frame.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/call.h"
#include "config/base/fnv.h"
#include "config/base/status.h"
#include "net/wire_workflow.h"

#define WIRE_MAGIC          UINT32_C(0x31584741)
#define WIRE_VERSION        1
#define WIRE_HEADER_BYTES   16
#define WIRE_BOOT_ID_BYTES  16
#define WIRE_NAME_BYTES     64
#define WIRE_SYSTEM_BYTES_MAX  511      /* of a model's own system message */
#define WIRE_SYSTEM_PART_BYTES 112      /* of it in one frame */
#define WIRE_KEY_ID_BYTES   32          /* a name */
#define WIRE_SECRET_BYTES   32          /* of a key that client and appliance share */
#define WIRE_NONCE_BYTES    32
#define WIRE_MAC_BYTES      32          /* HMAC-SHA256 */
#define WIRE_REPLY_BYTES_MAX 256        /* holds any frame of the server that has no tail */
#define WIRE_STOP_IDS_MAX   15          /* that a client may name; the server adds EOS */
#define WIRE_PARTS_MAX      UINT16_MAX
#define WIRE_ENTRIES_MAX    (1 + CALL_TOP_LOGPROBS_MAX)     /* log probabilities for one token */
#define WIRE_QUEUES_MAX     64          /* queues that an appliance may have */

enum wire_type {
#define FRAME(id, type, from, layout, answer) WIRE_##id = (type),
#include "net/frames.def"
};

/* Fields that an ERROR can name. */
enum wire_field {
#define ERROR_FIELD(number, id, name) WIRE_FIELD_##id = (number),
#include "net/frames.def"
    WIRE_FIELD_COUNT
};

/* Flags: WIRE_CALL_TEXT_PROMPT, WIRE_ACCEPT_REPLAYED, ...; WIRE_CALL_FLAGS_ALL: all of CALL's. */
enum {
#define FLAGS(frame, all) WIRE_##frame##_FLAGS_ALL = (all),
#define FLAG(frame, id, value, help) WIRE_##frame##_##id = (value),
#include "net/frames.def"
};

struct wire_fault {                 /* why a frame is refused; becomes an ERROR frame */
    enum status status;
    enum wire_field field;
    uint8_t frame_type;
    uint64_t call_id;               /* where the frame names one */
    uint64_t found, min, max;       /* floats in thousandths (found: two's complement), saturated */
};

struct wire_header { uint8_t type; uint32_t length_bytes; uint32_t checksum; };

/* CRC-32C of bytes 0..11 of the header, then of the payload. */
uint32_t wire_checksum(const uint8_t *header, const uint8_t *payload, uint32_t payload_bytes);

/* `bytes` has WIRE_HEADER_BYTES. Checks the magic, the type (of either direction), the reserved
 * bytes, and the length: exact for its type, or at most `frame_bytes_max`. */
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
struct wire_program_start {
    uint8_t program_id[CALL_PROGRAM_ID_BYTES];
    char class_name[CALL_CLASS_BYTES + 1];  /* empty: none */
};
struct wire_program_end { uint8_t program_id[CALL_PROGRAM_ID_BYTES]; };
struct wire_program_ok {
    uint8_t program_id[CALL_PROGRAM_ID_BYTES];
    uint32_t kind;                  /* WIRE_PROGRAM_START or WIRE_PROGRAM_END */
    uint32_t calls;
    uint64_t service_us, wait_us;
};

struct wire_call {
    uint64_t call_id;
    uint8_t program_id[CALL_PROGRAM_ID_BYTES];
    uint32_t thread, flags, max_tokens;
    struct call_sampling sampling;  /* stop_ids: the client's; the server adds EOS */
    uint64_t deadline_us;           /* relative to arrival; 0: none; at most one hour */
    uint32_t stop_texts_count;
    struct call_stop_text stop_texts[CALL_STOP_TEXTS_MAX];
    uint32_t parts_count;           /* of a text */
    const uint8_t *parts;           /* into the frame: their lengths, little-endian, unaligned */
    uint32_t prompt_count;          /* token ids, or bytes of text */
    const uint8_t *prompt;          /* into the frame; token ids are little-endian, unaligned */
    struct call_bias biases[CALL_BIASES_MAX];   /* [sampling.biases_count] */
};
/* What a CALL with MORE has before its prompt: fields of its sampling, and its biases. */
#define wire_call_more call_sampling
#define wire_call_bias call_bias

struct wire_cancel { uint64_t call_id; uint8_t program_id[CALL_PROGRAM_ID_BYTES]; };
struct wire_ping { uint64_t nonce; };                                   /* PING and PONG */
struct wire_chat_ask { uint64_t nonce; uint32_t first; };
struct wire_chat {
    uint64_t nonce;
    uint32_t verdict;               /* enum chat_verdict */
    uint32_t template_bytes;
    char format[24], bos[40], eos[40];
    uint32_t system_bytes, first;
    uint8_t system[WIRE_SYSTEM_PART_BYTES];     /* bytes first .. of system_bytes, then zeros */
};
struct wire_model_ask { uint64_t nonce; };
struct wire_model { uint64_t nonce, vocab, chat; };     /* vocab_digest(), chat_digest() */
struct wire_accept { uint64_t call_id; uint32_t prompt_tokens, flags; };
struct wire_tokens {
    uint64_t call_id;
    uint32_t first_index;           /* of tokens[0] in the output; consecutive over frames */
    uint32_t tokens_count, text_bytes;
    uint32_t queue;                 /* of the call when the frame was made; 0 is the highest */
    const uint8_t *tokens;          /* into the frame, little-endian, unaligned */
    const uint8_t *text;
    uint32_t entries;               /* of log probabilities, for each token; 0: none were asked */
    const uint8_t *logprobs;        /* into the frame: token and float, little-endian, unaligned */
};
#define wire_token_logprob call_logprob     /* what they are; its bytes are those of the wire */
struct wire_done {
    uint64_t call_id;
    uint32_t finish;                /* enum call_finish */
    enum status status;             /* OK, or why it failed */
    uint16_t queue;                 /* that the call ended in */
    uint32_t prompt_tokens, cached_tokens, generated_tokens, preemptions;
    uint64_t wait_us, service_us, total_us;
    uint64_t digest;                /* wire_digest() over all generated tokens */
    bool has_drafts;                /* the CALL asked for it: without, the bytes are not there */
    struct wire_done_drafts { uint32_t draft_tokens, draft_tokens_agreed; } drafts;
};
struct wire_error {
    struct wire_fault fault;
    bool closes;                    /* the server closes the connection after it */
    uint16_t retry_ms;              /* BUSY: try again after this; 0: nothing is known */
    char text[96];                  /* a fixed text: status_text() */
};

/* ---- layouts: what net/frames.def says of each payload --------------------------------------- */

/* The bytes of each payload, or of its fixed part, as a struct without gaps. */
#define WIRE_BYTES_U8       1
#define WIRE_BYTES_U16      2
#define WIRE_BYTES_U32      4
#define WIRE_BYTES_U64      8
#define WIRE_BYTES_F32      4
#define WIRE_BYTES_BOOL     1
#define WIRE_BYTES_STATUS   2
#define WIRE_BYTES_BYTES(n) (n)
#define WIRE_BYTES_NAME(n)  (n)
#define LAYOUT(name, id, length) struct wire_bytes_##name {
#define FIELD(layout, name, type, member, error, range, help) uint8_t name[WIRE_BYTES_##type];
#define RESERVED(layout, name, bytes) uint8_t name[bytes];
#define END(name) };
#include "net/frames.def"

#define WIRE_HELLO_BYTES      ((uint32_t)sizeof(struct wire_bytes_hello))
#define WIRE_AUTH_BYTES       ((uint32_t)sizeof(struct wire_bytes_auth))
#define WIRE_CALL_BYTES_MIN   ((uint32_t)sizeof(struct wire_bytes_call))    /* the fixed part */
#define WIRE_TOKENS_BYTES_MIN ((uint32_t)sizeof(struct wire_bytes_tokens))  /* the fixed part */
#define WIRE_VALUE_BYTES_MIN  ((uint32_t)sizeof(struct wire_bytes_flow_value))
#define WIRE_ASK_BYTES_MIN    ((uint32_t)sizeof(struct wire_bytes_flow_ask))

enum wire_kind {
    WIRE_INTEGER, WIRE_F32, WIRE_BOOL, WIRE_STATUS, WIRE_BLOCK, WIRE_NAME, WIRE_RESERVED,
};
struct wire_range {
    bool is_checked, or_zero;       /* 0 is allowed as well */
    bool min_open, max_open;        /* the bound itself is not allowed */
    double min, max;
};
struct wire_row {
    enum wire_kind kind;
    enum wire_field error;          /* what an ERROR calls it */
    uint32_t offset, bytes;         /* in the payload */
    uint32_t member, member_bytes;  /* in the struct of the frame */
    struct wire_range range;
};
struct wire_layout {
    const struct wire_row *rows;
    uint32_t rows_count;
    uint32_t bytes;                 /* of the payload, or of its fixed part */
    bool is_open;                   /* more follows the fixed part */
};
#define LAYOUT(name, id, length) extern const struct wire_layout wire_##name##_layout;
#include "net/frames.def"

/* The layout of a frame's payload; NULL: no such type. */
const struct wire_layout *wire_layout_of(uint8_t type);

/* Of the name of a class: a length that is too large, or the first byte that is not printable ASCII
 * or is a space. */
MUST_CHECK enum status wire_class_check(const uint8_t *name, uint32_t count,
                                        struct wire_fault *fault);

/* FNV-1a, 64 bits, over the little-endian bytes of each token id; start with WIRE_DIGEST_START. */
#define WIRE_DIGEST_START FNV_START
uint64_t wire_digest(uint64_t digest, const uint32_t *tokens, uint32_t count);

/* ---- the codec ------------------------------------------------------------------------------- */

/* wire_NAME_decode(): a payload. `count` is its length, already checked against the type.
 * wire_NAME_encode(): a whole frame, header and checksum included: the number of bytes written, or
 * 0 when they do not fit `max`. `type` where one struct serves several frames. */
#define WIRE_ENCODER_EXACT(name) \
    uint32_t wire_##name##_encode(const struct wire_##name *frame, uint8_t *bytes, uint32_t max)
#define WIRE_ENCODER_SHARED(name) \
    uint32_t wire_##name##_encode(const struct wire_##name *frame, enum wire_type type, \
                                  uint8_t *bytes, uint32_t max)
#define WIRE_DECODER(name) \
    MUST_CHECK enum status wire_##name##_decode(const uint8_t *bytes, uint32_t count, \
                                                struct wire_##name *frame, struct wire_fault *fault)
#define WIRE_CODEC_EXACT(name)  WIRE_DECODER(name); WIRE_ENCODER_EXACT(name);
#define WIRE_CODEC_SHARED(name) WIRE_DECODER(name); WIRE_ENCODER_SHARED(name);
#define WIRE_CODEC_OPEN(name)   WIRE_DECODER(name);     /* encoders: below, and wire_workflow.h */
#define WIRE_CODEC_PART(name)                           /* wire_workflow.h */
#define LAYOUT(name, id, length) WIRE_CODEC_##length(name)
#include "net/frames.def"

WIRE_ENCODER_EXACT(program_start);
WIRE_ENCODER_EXACT(call);
WIRE_ENCODER_EXACT(done);
/* `tokens` are host integers and stand for frame->tokens, which is not read. */
uint32_t wire_tokens_encode(const struct wire_tokens *frame, const uint32_t *tokens,
                            uint8_t *bytes, uint32_t max);

/* Proofs (net/wire_auth.c) that a side has the key, for this connection and in this role. */
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
/* Compares two proofs, or two ids of keys, in a time that does not depend on where they differ. */
bool wire_is_equal(const uint8_t a[WIRE_MAC_BYTES], const uint8_t b[WIRE_MAC_BYTES]);

/* Names for messages: "CALL", "top_p". */
const char *wire_type_name(uint8_t type);
const char *wire_field_name(enum wire_field field);
/* True when faults of the field are in thousandths. */
bool wire_field_is_float(enum wire_field field);
