/* SPDX-License-Identifier: MIT */
/*
 * Goal: no bytes of an HTTP client, however they are divided and whenever it leaves, make the door
 * read or write out of bounds, keep a request or memory, or say what is no HTTP.
 * Method: the unit tests' door with its real HTTP, by libmicrohttpd over a pair of sockets. The
 * input is what the client sends, but for bytes 1 to 5: enum act.
 */
#define RIG_WITH_HTTP
#include "selftest/unit/door/door_rig.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/epoll.h>

#include "selftest/fuzz/dictionary.h"

#define PASSES     6                /* of the library, until nothing moves */
#define SLEEP_US   10000000         /* past door.receive, not past the three of a head */
#define HOUR_US    3600000000u

enum act { ACT_PASS = 1, ACT_ANSWER, ACT_FINISH, ACT_SLEEP, ACT_REFUSE, ACTS };

static struct client { int descriptor; bool has_heard; } client;

static const struct agx_fault busy = {.is_busy = 1, .text = "busy", .field = "", .frame = "CALL"};

/* ---- the door -------------------------------------------------------------------------------- */

static void begin(void)
{
    rig_begin();
    struct door *door = &rig.door;
    door->options.door_connections.number = 16;
    snprintf(door->options.door_listen.text, sizeof door->options.door_listen.text, "127.0.0.1:0");
    door->epoll = epoll_create1(EPOLL_CLOEXEC);
    ASSERT(http_begin(door));
}

/* What tools/door/main.c does with clients that leave. */
static void take_events(struct door *door)
{
    struct epoll_event events[16];
    int count = epoll_wait(door->epoll, events, 16, 0);
    for (int i = 0; i < count; i++) {
        struct request *request = events[i].data.ptr;
        if (request != NULL && request->state != REQUEST_FREE && !request->has_left) {
            request_leave(request);
        }
    }
}

/* The first bytes of all that is said are those of an answer. */
static void hear(void)
{
    char bytes[65536];
    ssize_t count;
    while ((count = recv(client.descriptor, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
        ASSERT(client.has_heard || (count >= 9 && memcmp(bytes, "HTTP/1.", 7) == 0));
        client.has_heard = true;
    }
}

static void pass(void)
{
    for (uint32_t i = 0; i < PASSES; i++) {
        take_events(&rig.door);
        http_run(&rig.door);
        hear();
    }
}

/* ---- acts ------------------------------------------------------------------------------------ */

static void connect_client(void)
{
    int ends[2];
    const struct sockaddr_in from = {.sin_family = AF_INET};
    ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    client = (struct client){.descriptor = ends[1]};
    ASSERT(MHD_add_connection(rig.door.http, ends[0], (const struct sockaddr *)&from,
                              sizeof from) == MHD_YES);
}

/* The appliance's word on every call that is open, also of clients that have left. */
static void answer_all(bool refuses)
{
    static const char *const texts[] = {"Bees ", "make ", "honey.", NULL};
    for (uint32_t i = 0; i < RIG_CALLS; i++) {
        struct choice *choice = &rig.choices[i];
        struct request *request = choice->request;
        if (!choice->is_used || !choice->is_open) {
            continue;
        }
        if (request == NULL) {
            rig_close(choice);
            choice_free(choice);
        } else if (refuses) {
            rig_close(choice);
            request_refused(choice, &busy);
        } else {
            rig_say(choice, texts, AGX_FINISH_EOS);
        }
    }
}

static void act(enum act what)
{
    pass();
    switch (what) {
    case ACT_ANSWER: answer_all(false); break;
    case ACT_REFUSE: answer_all(true); break;
    case ACT_FINISH: (void)shutdown(client.descriptor, SHUT_WR); break;
    case ACT_SLEEP: rig.door.now_us += SLEEP_US; break;
    default: break;
    }
    pass();
}

/* After the client has gone nothing of it is left. */
static void end(void)
{
    close(client.descriptor);
    client.descriptor = -1;
    for (uint32_t i = 0; i < PASSES; i++) {
        answer_all(false);
        take_events(&rig.door);
        http_run(&rig.door);
        rig.door.now_us += HOUR_US;
    }
    for (uint32_t i = 0; i < rig.door.responses->count; i++) {
        responses_forget(&rig.door.responses->ring[i]);
    }
    rig.door.responses->kept = 0;
    ASSERT(rig.door.stats.connections_open == 0);
    for (uint32_t i = 0; i < RIG_REQUESTS; i++) {
        ASSERT(rig.requests[i].state == REQUEST_FREE);
    }
    ASSERT(memory_taken_bytes() == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static bool has_begun;
    if (!has_begun) {
        has_begun = true;
        begin();
    }
    rig_connect();
    connect_client();
    for (size_t at = 0; at < count;) {
        size_t end_at = at;
        while (end_at < count && (bytes[end_at] == 0 || bytes[end_at] >= ACTS)) {
            end_at++;
        }
        (void)send(client.descriptor, bytes + at, end_at - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        act(end_at < count ? (enum act)bytes[end_at] : ACT_PASS);
        at = end_at + 1;
    }
    end();
    return 0;
}

void dictionary_write(void)
{
    static const char *const words[] = {
        "GET ", "POST ", "HEAD ", "DELETE ", "OPTIONS ", " HTTP/1.1\r\n", " HTTP/1.0\r\n",
        "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/models",
        "/v1/programs/a", "/health", "/metrics", "/tokenize", "Host: d\r\n",
        "Content-Length: ", "Transfer-Encoding: chunked\r\n", "Connection: close\r\n",
        "Connection: keep-alive\r\n", "Expect: 100-continue\r\n", "Idempotency-Key: k\r\n",
        "X-Agentix-Program: p\r\n", "X-Agentix-End: 1\r\n", "Authorization: Bearer t\r\n",
        "\r\n\r\n", "0\r\n\r\n", "5\r\n", "%00", "%2f", "\"stream\":true", "\"prompt\":\"a\"",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}"};
    for (uint32_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        dictionary_text(words[i]);
    }
    for (uint32_t what = ACT_PASS; what < ACTS; what++) {
        dictionary_number(what, 1);
    }
}
