/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the client of the self-test: one connection and a list of calls, each with the digest of
 * its earlier answer. Some of them are canaries: all the same call.
 */
#include "net/wire.h"
#include "selftest/post/check.h"

#define POST_CALLS_MAX     64u
#define POST_CANARY_EVERY  8u       /* every eighth call, from call 0 on */
#define POST_CLIENT_BYTES  65536u

struct post_asked {
    uint32_t tokens_seen;           /* of the current answer */
    uint64_t digest;
    uint64_t known;                 /* digest of the answer that it had alone */
    bool is_known, done;
};

struct post_client {
    uint32_t vocab_tokens, context_tokens;
    struct post_asked asked[POST_CALLS_MAX];
    uint32_t calls_count;           /* of asked, in use */
    uint32_t programs_count;
    uint32_t done_count;            /* in the current round */
    uint64_t round;                 /* each round has new programs */
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
/* Writes the frame of a call; returns its bytes. */
uint32_t post_client_encode(const struct post_client *client, uint32_t call, uint8_t *frame,
                            uint32_t max);
/* Answers are compared from here on. */
void post_client_take(struct post_client *client, uint8_t type, const uint8_t *payload,
                      uint32_t count);
