/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: an appliance for tests of the door's connections to it: a thread plays it on a unix socket,
 * one connection each time; the door's time is set by hand.
 */
#include "selftest/unit/door/door_rig.h"


#include <poll.h>
#include <pthread.h>
#include <sys/un.h>

#define PATIENCE_US 5000000
#define CHAT "/v1/chat/completions"
static const char question[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}";

/* ---- the appliance --------------------------------------------------------------------------- */

static struct server {
    int listener, peer;             /* the peer of the last connection; -1: none */
    pthread_t thread;
    const char *name;               /* what it says of its model */
    uint64_t vocab, chat;
    bool needs_key;
    uint8_t types[8];               /* of the frames that it got, up to MODEL_ASK */
    uint32_t types_count;
} server;

static inline void put(const uint8_t *bytes, uint32_t count)
{
    (void)send(server.peer, bytes, count, MSG_NOSIGNAL);
}

static inline void say_welcome(void)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_welcome welcome = {.version = 1, .frame_bytes_max = 1 << 20,
                                   .context_tokens_max = 4096, .vocab_tokens = 1000,
                                   .calls_per_connection_max = 64, .programs_max = 64,
                                   .bos_id = 1, .eos_id = 2,
                                   .auth = server.needs_key ? WIRE_AUTH_KEY : WIRE_AUTH_NONE};
    snprintf(welcome.model, sizeof welcome.model, "%s", server.name);
    put(bytes, wire_welcome_encode(&welcome, bytes, sizeof bytes));
}

static inline void say_model(void)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    const struct wire_model model = {.vocab = server.vocab, .chat = server.chat};
    put(bytes, wire_model_encode(&model, bytes, sizeof bytes));
}

/* The type of the client's next frame, which is taken whole; 0: there is none. */
static inline uint8_t take_frame(void)
{
    static uint8_t payload[RIG_BODY_BYTES];
    uint8_t header[WIRE_HEADER_BYTES];
    uint32_t count = 0;
    if (recv(server.peer, header, sizeof header, MSG_WAITALL) != (ssize_t)sizeof header) {
        return 0;
    }
    memcpy(&count, header + 8, sizeof count);
    bool is_whole = count <= sizeof payload &&
                    recv(server.peer, payload, count, MSG_WAITALL) == (ssize_t)count;
    return is_whole ? header[4] : 0;
}

static inline void *play(void *self)
{
    server.types_count = 0;
    server.peer = accept(server.listener, NULL, NULL);
    say_welcome();
    while (server.types_count < sizeof server.types) {
        uint8_t type = take_frame();
        server.types[server.types_count++] = type;
        if (type == WIRE_MODEL_ASK || type == 0) {
            break;
        }
    }
    say_model();
    return self;
}

/* The last word on a connection whose key is not accepted, or not any more. */
static inline void say_key_refused(void)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    const struct wire_error error = {
        .fault = {.status = STATUS_BAD_AUTH, .field = WIRE_FIELD_CONNECTION}, .closes = true};
    put(bytes, wire_error_encode(&error, bytes, sizeof bytes));
}

static inline void *play_refusal(void *self)
{
    server.peer = accept(server.listener, NULL, NULL);
    say_welcome();
    while (take_frame() == WIRE_HELLO) {
    }
    say_key_refused();
    close(server.peer);
    return self;
}

static inline void listen_at_path(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s/a", test_folder());
    unlink(name.sun_path);
    server.listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(server.listener, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(server.listener, 4), 0);
    snprintf(rig.door.appliance, sizeof rig.door.appliance, "unix:%s", name.sun_path);
}

/* ---- the door -------------------------------------------------------------------------------- */

static inline struct uplink *begin(void)
{
    static _Alignas(8) uint8_t buffer[3 * (AGX_BUFFER_BYTES_MIN + RIG_BODY_BYTES)];
    rig_begin();
    agx_close(&rig.uplinks[0].agx);
    rig.uplinks[0] = (struct uplink){.domain = &rig.door.domains[0], .buffer = buffer,
                                     .watched = -1};
    rig.door.epoll = -1;
    rig.door.options.door_patience.number = PATIENCE_US;
    server = (struct server){.peer = -1, .name = rig.door.model.name,
                             .vocab = rig.door.model.vocab_digest,
                             .chat = rig.door.model.chat_digest};
    listen_at_path();
    return &rig.uplinks[0];
}

static inline void give_spare_a_buffer(void)
{
    static _Alignas(8) uint8_t buffer[3 * (AGX_BUFFER_BYTES_MIN + RIG_BODY_BYTES)];
    rig.uplinks[1].buffer = buffer;
}

static inline void finish(void)
{
    close(server.peer);
    close(server.listener);
    rig_end();
}

/* A pass in which the appliance takes a connection; its answer is there at the end. */
static inline void connect_once(void)
{
    assert_int_equal(pthread_create(&server.thread, NULL, play, NULL), 0);
    rig.door.now_us += 60000000;
    rig.door.connects_us = 0;
    uplinks_run(&rig.door);
    pthread_join(server.thread, NULL);
}

/* Passes until the connection is in a state. */
static inline void run_until(int state)
{
    struct uplink *uplink = &rig.uplinks[0];
    while ((int)uplink->state != state) {
        struct pollfd wait = {.fd = agx_descriptor(&uplink->agx), .events = POLLIN};
        assert_true(poll(&wait, 1, 60000) == 1);
        uplinks_run(&rig.door);
    }
}

static inline void break_connection(void)
{
    close(server.peer);
    server.peer = -1;
}

/* Frees a request, and finds in its answer what must be there. */
static inline void assert_refused(struct request *request, const char *text)
{
    assert_int_equal(request->status, 503);
    assert_non_null(strstr(rig_out(request), text));
    request_free(request);
}

static inline void assert_takes_no_call(const char *text)
{
    assert_null(domain_welcome(&rig.door, &rig.door.domains[0]));
    assert_refused(rig_ask(CHAT, question), text);
}
