/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the client of the self-test: one connection, a list of calls, each with the digest that its
 * answer has had before. Canaries, all the same call, are among them.
 */
#include "net/wire.h"
#include "selftest/post/check.h"

#define POST_CALLS_MAX     64u
#define POST_CANARY_EVERY  8u       /* call 0 is one, and each eighth */
#define POST_CLIENT_BYTES  65536u

struct post_asked {
    uint32_t tokens_seen;           /* of the answer under way */
    uint64_t digest;
    uint64_t known;                 /* of the answer that it had alone */
    bool is_known, done;
};

struct post_client {
    uint32_t vocab_tokens, context_tokens;
    struct post_asked asked[POST_CALLS_MAX];
    uint32_t calls_count;           /* of asked, in use */
    uint32_t programs_count;
    uint32_t done_count;            /* of the round under way */
    uint64_t round;                 /* programs are new in each */
    uint64_t calls_total;
    struct post_faults *faults;
    int handle;
    uint8_t in[POST_CLIENT_BYTES];
    uint32_t in_count;
    uint8_t out[POST_CLIENT_BYTES];
    uint32_t out_count, out_sent;
};

void post_client_init(struct post_client *client, const struct limits *limits, uint32_t calls,
                      struct post_faults *faults);
/* The frame of a call; its bytes. */
uint32_t post_client_encode(const struct post_client *client, uint32_t call, uint8_t *frame,
                            uint32_t max);
/* Answers are compared from here on. */
void post_client_take(struct post_client *client, uint8_t type, const uint8_t *payload,
                      uint32_t count);
