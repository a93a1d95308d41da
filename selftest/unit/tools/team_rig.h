/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: an appliance for tests of a team: a thread that plays it on a unix socket with the codec of
 * net/wire.h. A list holds the fate of the first, second, ... call that arrives.
 */
#include "selftest/unit/folder.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/wire.h"

#define CONNECTIONS 16
#define FRAME_BYTES 65536
enum fate { SERVE, BUSY, REFUSE, FAIL, BREAK, BREAK_OFF, TOO_LONG };    /* OFF: amid its words */

struct connection { int descriptor; uint8_t bytes[FRAME_BYTES]; uint32_t count; };
static struct fake {
    char path[64], address[80];
    int listener, stop[2];
    pthread_t thread;
    const enum fate *fates;
    uint32_t fates_count, calls, calls_served, programs_ended, connections_most;
    uint32_t programs_named;            /* of class "kind", each before its calls */
    uint32_t max_tokens_least;
    bool is_confused;
    struct connection connections[CONNECTIONS];
    uint32_t connections_count;
} fake;

static inline void put(int descriptor, const uint8_t *bytes, uint32_t count)
{
    ssize_t sent = send(descriptor, bytes, count, MSG_NOSIGNAL);
    bool has_gone = sent < 0 && (errno == EPIPE || errno == ECONNRESET);   /* needs no more */
    fake.is_confused |= count == 0 || (sent != (ssize_t)count && !has_gone);
}

static inline void put_error(int descriptor, enum status status, uint64_t call_id, uint64_t found,
                      uint64_t max)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_error error = {.fault = {.status = status, .frame_type = WIRE_CALL,
                                         .call_id = call_id, .found = found, .max = max}};
    snprintf(error.text, sizeof error.text, "%s", status_text(status));
    put(descriptor, bytes, wire_error_encode(&error, bytes, sizeof bytes));
}

static inline void put_words(int descriptor, uint64_t call_id, uint32_t index, const char *text)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_tokens tokens = {.call_id = call_id, .first_index = index, .tokens_count = 1,
                                 .text_bytes = (uint32_t)strlen(text), .queue = 3,
                                 .text = (const uint8_t *)text};
    put(descriptor, bytes, wire_tokens_encode(&tokens, &index, bytes, sizeof bytes));
}

/* The model's words, in two parts. */
static inline const char *const *say(const char *prompt)
{
    static const char *const act[] = {"Act: ", "calc[3*12]"}, *const answer[] = {"Ans", "wer: 36"};
    static const char *const found[] = {"Found", ": 3*12"}, *const reply[] = {" He", "llo."};
    return strncmp(prompt, "User:", 5) == 0    ? reply
           : strncmp(prompt, "Notes:", 6) == 0 ? found
           : strstr(prompt, "Obs: 36\n") != NULL || strncmp(prompt, "Sum:", 4) == 0 ? answer : act;
}

static inline void serve_call(int descriptor, const struct wire_call *call, enum fate fate)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    char prompt[1024];
    const uint32_t tokens[] = {0, 1};
    struct wire_accept accept = {.call_id = call->call_id, .prompt_tokens = 5};
    struct wire_done done = {.call_id = call->call_id, .finish = CALL_FINISH_EOS, .queue = 3,
                             .prompt_tokens = 5, .generated_tokens = 2, .wait_us = 7,
                             .service_us = 11, .total_us = 18,
                             .digest = wire_digest(WIRE_DIGEST_START, tokens, 2)};
    snprintf(prompt, sizeof prompt, "%.*s", (int)call->prompt_count, (const char *)call->prompt);
    put(descriptor, bytes, wire_accept_encode(&accept, bytes, sizeof bytes));
    put_words(descriptor, call->call_id, 0, say(prompt)[0]);
    if (fate == BREAK_OFF) {
        return;
    }
    put_words(descriptor, call->call_id, 1, say(prompt)[1]);
    done.finish = fate == FAIL ? CALL_FINISH_FAILED : CALL_FINISH_EOS;
    done.status = fate == FAIL ? STATUS_DEVICE_FAILED : STATUS_OK;
    fake.calls_served += fate != FAIL;
    put(descriptor, bytes, wire_done_encode(&done, bytes, sizeof bytes));
}

/* False: the connection is to be closed. */
static inline bool take_call(int descriptor, const struct wire_call *call)
{
    enum fate fate = fake.calls < fake.fates_count ? fake.fates[fake.calls] : SERVE;
    if (call->prompt_count >= 6 && memcmp(call->prompt, "Poison", 6) == 0) {
        fate = BREAK;
    }
    fake.calls++;
    fake.max_tokens_least = call->max_tokens < fake.max_tokens_least ? call->max_tokens
                                                                     : fake.max_tokens_least;
    if (fate == BUSY) {
        put_error(descriptor, STATUS_BUSY_CALLS, call->call_id, 4, 4);
    } else if (fate == REFUSE) {
        put_error(descriptor, STATUS_BAD_PROMPT_LENGTH, call->call_id, 1025 + call->max_tokens,
                  1024);
    } else if (fate == TOO_LONG) {
        put_error(descriptor, STATUS_BAD_PROMPT_LENGTH, call->call_id, 1000 + call->max_tokens,
                  1024);
    } else if (fate != BREAK) {
        serve_call(descriptor, call, fate);
    }
    return fate != BREAK && fate != BREAK_OFF;
}

static inline void welcome(int descriptor)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_welcome frame = {.version = 1, .frame_bytes_max = FRAME_BYTES / 2,
                                 .context_tokens_max = 1024, .vocab_tokens = 100,
                                 .calls_per_connection_max = 4, .programs_max = 8, .bos_id = 1,
                                 .eos_id = 2, .model = "fake"};
    put(descriptor, bytes, wire_welcome_encode(&frame, bytes, sizeof bytes));
}

static inline void answer_program(int descriptor, enum wire_type type, const uint8_t *id)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_program_ok ok = {.kind = type};
    memcpy(ok.program_id, id, sizeof ok.program_id);
    put(descriptor, bytes, wire_program_ok_encode(&ok, bytes, sizeof bytes));
}

static inline bool take_frame(int descriptor, uint8_t type, const uint8_t *payload, uint32_t count)
{
    struct wire_fault fault;
    struct wire_call call;
    struct wire_program_start start;
    struct wire_program_end end;
    if (type == WIRE_HELLO) {
        welcome(descriptor);
    } else if (type == WIRE_CALL && wire_call_decode(payload, count, &call, &fault) == STATUS_OK) {
        return take_call(descriptor, &call);
    } else if (type == WIRE_PROGRAM_START &&
               wire_program_start_decode(payload, count, &start, &fault) == STATUS_OK) {
        fake.programs_named += strcmp(start.class_name, "kind") == 0 &&
                               fake.calls_served == fake.calls;
        answer_program(descriptor, WIRE_PROGRAM_START, start.program_id);
    } else if (type == WIRE_PROGRAM_END &&
               wire_program_end_decode(payload, count, &end, &fault) == STATUS_OK) {
        fake.programs_ended++;
        answer_program(descriptor, WIRE_PROGRAM_END, end.program_id);
    } else {
        fake.is_confused = true;
    }
    return true;
}

static inline bool read_connection(struct connection *c)
{
    ssize_t got = recv(c->descriptor, c->bytes + c->count, sizeof c->bytes - c->count, 0);
    struct wire_header header;
    struct wire_fault fault;
    if (got <= 0) {
        return false;
    }
    c->count += (uint32_t)got;
    while (c->count >= WIRE_HEADER_BYTES) {
        if (wire_header_decode(c->bytes, FRAME_BYTES, &header, &fault) != STATUS_OK) {
            fake.is_confused = true;
            return false;
        }
        uint32_t whole = WIRE_HEADER_BYTES + header.length_bytes;
        if (c->count < whole) {
            return true;
        }
        if (!take_frame(c->descriptor, header.type, c->bytes + WIRE_HEADER_BYTES,
                        header.length_bytes)) {
            return false;
        }
        c->count -= whole;
        memmove(c->bytes, c->bytes + whole, c->count);
    }
    return true;
}

static inline void *run_fake(void *nothing)
{
    for (;;) {
        struct pollfd watched[CONNECTIONS + 2] = {{.fd = fake.stop[0], .events = POLLIN},
                                                  {.fd = fake.listener, .events = POLLIN}};
        for (uint32_t i = 0; i < fake.connections_count; i++) {
            watched[2 + i] = (struct pollfd){.fd = fake.connections[i].descriptor,
                                             .events = POLLIN};
        }
        uint32_t count = fake.connections_count;
        (void)poll(watched, 2 + count, -1);
        if (watched[0].revents != 0) {
            return nothing;
        }
        for (uint32_t i = count; i-- > 0;) {
            if (watched[2 + i].revents != 0 && !read_connection(&fake.connections[i])) {
                close(fake.connections[i].descriptor);
                fake.connections[i] = fake.connections[--fake.connections_count];
            }
        }
        if (watched[1].revents != 0 && fake.connections_count < CONNECTIONS) {
            struct connection *c = &fake.connections[fake.connections_count++];
            c->descriptor = accept(fake.listener, NULL, NULL);
            c->count = 0;
        }
        if (fake.connections_count > fake.connections_most) {
            fake.connections_most = fake.connections_count;
        }
    }
}

static inline void start_fake(const enum fate *fates, uint32_t count)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memset(&fake, 0, sizeof fake);
    fake.fates = fates;
    fake.fates_count = count;
    fake.max_tokens_least = UINT32_MAX;
    snprintf(fake.path, sizeof fake.path, "%s/s", test_folder());
    unlink(fake.path);
    snprintf(fake.address, sizeof fake.address, "unix:%s", fake.path);
    memcpy(address.sun_path, fake.path, strlen(fake.path) + 1);
    fake.listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fake.listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fake.listener, CONNECTIONS), 0);
    assert_int_equal(pipe(fake.stop), 0);
    assert_int_equal(pthread_create(&fake.thread, NULL, run_fake, NULL), 0);
}

static inline void stop_fake(void)
{
    assert_int_equal(write(fake.stop[1], "x", 1), 1);
    assert_int_equal(pthread_join(fake.thread, NULL), 0);
    for (uint32_t i = 0; i < fake.connections_count; i++) {
        close(fake.connections[i].descriptor);
    }
    close(fake.listener);
    close(fake.stop[0]);
    close(fake.stop[1]);
    assert_false(fake.is_confused);
}
