/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a door without sockets, for tests of what it reads and writes: the embedded model, which
 * writes conversations as Qwen 2.5 here; one uplink, whose appliance says nothing; headers, bodies
 * and answers by hand. Its HTTP is below: it takes the place of tools/door/http.c.
 */
#include "selftest/unit/folder.h"

#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>

#include "net/wire.h"
#include "tools/agx/chat/conversation.h"
#include "tools/door/api/responses.h"
#include "tools/door/endpoint.h"
#include "tools/door/http.h"
#include "tools/door/program.h"
#include "tools/door/request.h"
#include "tools/door/uplink/call.h"
#include "tools/door/uplink/choice.h"
#include "tools/door/uplink/domain.h"
#include "tools/door/uplink/uplink.h"

#define RIG_HEADERS_MAX 8
#define RIG_REQUESTS    24
#define RIG_CALLS       24
#define RIG_DOORS_MAX   64      /* of one test binary */
#define RIG_BODY_BYTES  65536u
#define RIG_MEMORY      (8u << 20)

static struct {
    struct door door;
    struct request requests[RIG_REQUESTS];
    struct choice choices[RIG_CALLS];
    struct uplink uplinks[2];       /* and the spare one, without a buffer */
    const char *headers[RIG_HEADERS_MAX][2];
    uint32_t headers_count, wakes;
    int peer;                       /* the appliance's end of the uplink; -1: none */
} rig;
const void *rig_tables[RIG_DOORS_MAX][2];       /* a door never frees them: they are no leaks */

/* ---- HTTP ------------------------------------------------------------------------------------ */

#ifndef RIG_WITH_HTTP               /* a fuzzer links the door's own */
void http_wake(struct request *request)
{
    (void)request;
    rig.wakes++;
}

const char *http_header(const struct request *request, const char *name)
{
    (void)request;
    for (uint32_t i = 0; i < rig.headers_count; i++) {
        if (strcasecmp(rig.headers[i][0], name) == 0) {
            return rig.headers[i][1];
        }
    }
    return NULL;
}

void http_peer(const struct request *request, char text[HTTP_PEER_BYTES])
{
    (void)request;
    memcpy(text, "peer", 5);
}

#endif

/* Of the requests that follow. */
static inline void rig_header(const char *name, const char *value)
{
    assert_true(rig.headers_count < RIG_HEADERS_MAX);
    rig.headers[rig.headers_count][0] = name;
    rig.headers[rig.headers_count++][1] = value;
}

static inline void rig_no_headers(void)
{
    rig.headers_count = 0;
}

/* ---- the door -------------------------------------------------------------------------------- */

static inline void rig_set_options(struct options *options)
{
    config_defaults(options);
    options->door_requests.number = RIG_REQUESTS;
    options->door_calls.number = RIG_CALLS;
    options->door_body_bytes.number = RIG_BODY_BYTES;
    options->door_programs.number = 64;
    options->door_responses.number = 4;
    options->door_temperature.number = 500;
}

static inline void rig_take_model(struct door *door)
{
    static struct model model;
    struct config_error error;
    if (model.ids == NULL) {
        assert_status(STATUS_OK, model_load(&model, &door->options, RIG_BODY_BYTES, &error));
        model.format.id = CHAT_QWEN2_5;
        model.verdict = CHAT_KNOWN;
    }
    door->model = model;
}

/* A new connection to an appliance that has said nothing but WELCOME. */
static inline void rig_connect(void)
{
    static _Alignas(8) uint8_t buffer[AGX_BUFFER_BYTES_MIN + 3 * RIG_BODY_BYTES];
    const struct wire_welcome welcome = {
        .version = 1, .frame_bytes_max = 1 << 20, .context_tokens_max = 1 << 17,
        .vocab_tokens = rig.door.model.vocab.info.tokens, .calls_per_connection_max = 64,
        .programs_max = 64, .bos_id = 1, .eos_id = 2, .model = "tiny"};
    uint8_t frame[WIRE_REPLY_BYTES_MAX];
    int ends[2];
    if (rig.peer >= 0) {
        agx_close(&rig.uplinks[0].agx);
        close(rig.peer);
    }
    rig.uplinks[0] = (struct uplink){.domain = &rig.door.domains[0], .state = UPLINK_UP,
                                     .watched = -1};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    uint32_t bytes = wire_welcome_encode(&welcome, frame, sizeof frame);
    assert_int_equal(write(ends[1], frame, bytes), bytes);
    rig.peer = ends[1];
    assert_int_equal(agx_attach(&rig.uplinks[0].agx, ends[0], buffer, sizeof buffer, -1), AGX_OK);
}

/* A new door; what the one before had is forgotten, except for memory that was not given back. */
static inline void rig_begin(void)
{
    static struct conversation conversation;
    static char text[RIG_BODY_BYTES];
    static uint32_t parts[AGX_PARTS_MAX];
    struct door *door = &rig.door;
    memset(&rig, 0, sizeof rig);
    memory_begin(RIG_MEMORY);
    rig_set_options(&door->options);
    rig_take_model(door);
    door->rendered = (struct chat_output){.text = text, .text_max = sizeof text, .parts = parts,
                                          .parts_max = AGX_PARTS_MAX};
    door->conversation = &conversation;
    door->now_us = 1000000;
    door->requests = rig.requests;
    door->choices = rig.choices;
    door->domains_count = 1;
    door->uplinks_count = 2;
    rig.uplinks[1] = (struct uplink){.domain = &rig.door.domains[0], .watched = -1};
    door->domains[0].uplinks = rig.uplinks;
    rig.peer = -1;
    rig_connect();
    requests_begin(door);
    assert_status(STATUS_OK, programs_begin(door));
    assert_status(STATUS_OK, responses_begin(door));
    static uint32_t doors;
    assert_true(doors < RIG_DOORS_MAX);
    rig_tables[doors][0] = door->programs;
    rig_tables[doors++][1] = door->responses;
}

/* Frees what was kept, and then nothing may be left. */
static inline void rig_end(void)
{
    rig_no_headers();
    for (uint32_t i = 0; i < RIG_REQUESTS; i++) {
        if (rig.requests[i].state != REQUEST_FREE) {
            request_free(&rig.requests[i]);
        }
    }
    for (uint32_t i = 0; i < rig.door.responses->count; i++) {
        responses_forget(&rig.door.responses->ring[i]);
    }
    assert_int_equal(memory_taken_bytes(), 0);
    agx_close(&rig.uplinks[0].agx);
    close(rig.peer);
}

/* ---- requests -------------------------------------------------------------------------------- */

static inline struct request *rig_take(const char *path)
{
    struct request *request = request_take(&rig.door, "POST", path);
    assert_non_null(request);
    assert_int_equal(request->refusal.status, 0);
    request->domain = &rig.door.domains[0];
    memcpy(request->id, "ID", sizeof "ID");
    request->created_s = 7;
    return request;
}

/* True when the dialect has read the body. */
static inline bool rig_read(struct request *request, const char *body)
{
    json_t *json = json_loads(body, JSON_ALLOW_NUL, NULL);
    assert_non_null(json);
    bool is_read = request->dialect->read(request, json);
    json_decref(json);
    return is_read;
}

/* A request that is whole, as HTTP brings it. */
static inline struct request *rig_ask(const char *path, const char *body)
{
    struct request *request = rig_take(path);
    (void)request_receive(request, body, strlen(body));
    request_judge(request);
    return request;
}

/* The last word on a choice: it is not open any more. */
static inline void rig_close(struct choice *choice)
{
    struct uplink *uplink = &rig.uplinks[0];
    for (uint32_t i = 0; i < uplink->calls_open; i++) {
        if (uplink->calls[i] == choice) {
            uplink->calls[i] = uplink->calls[--uplink->calls_open];
            break;
        }
    }
    choice->is_open = false;
}

/* The appliance says a text, in as many pieces as `texts` has before a NULL, and that it is all. */
static inline void rig_say(struct choice *choice, const char *const *texts, enum agx_finish finish)
{
    choice->prompt_tokens = 5;
    request_accepted(choice);
    for (; *texts != NULL; texts++) {
        request_heard(choice, *texts, (uint32_t)strlen(*texts));
    }
    choice->finish = finish;
    choice->generated_tokens = 3;
    rig_close(choice);
    request_ended(choice);
}

static inline const char *rig_out(const struct request *request)
{
    return request->constant != NULL ? request->constant
           : request->out.at != NULL ? request->out.at : "";
}
