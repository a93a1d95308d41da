/* SPDX-License-Identifier: MIT */
/*
 * What: HTTP (tools/door/http.h).
 *
 * The library calls on_request() when the head of a request is there, for each part of its body,
 * when it is whole, and after each http_wake(). A request that waits for the appliance is
 * suspended: the library does not look at its socket then, so the door watches it itself, for a
 * client that closes. on_body() takes what there is to send of a stream, and suspends it where
 * there is nothing.
 *
 * Bounds: connections, and the memory of each, are fixed; a request must arrive whole within
 * door.receive, however its bytes are spread; a client that takes nothing of its answer for three
 * times as long is closed by the library, which does not count the time of those that it suspends.
 */
#include "tools/door/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "appliance/log.h"
#include "tools/door/endpoint.h"
#include "tools/door/listener.h"
#include "tools/door/program.h"
#include "tools/door/request.h"

#define HEAD_BYTES_MAX 32768u           /* of a request line and headers, and the library's own */
#define STREAM_BYTES   4096u            /* of the events of a stream, sent at once */

/* A connection, as long as it is open. It is in one of the lists, in the order of since_us, while
 * it owes bytes: from its accept, or its last answer, the head of a request; then the body. */
struct arrival {
    struct arrival *next, *previous;
    uint64_t since_us;
    int descriptor;
};
static struct arrival heads = {.next = &heads, .previous = &heads};
static struct arrival bodies = {.next = &bodies, .previous = &bodies};

/* ---- connections ----------------------------------------------------------------------------- */

static struct arrival *arrival_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

/* Out of the list that it is in, if it is in one. */
static void take_out(struct arrival *arrival)
{
    arrival->next->previous = arrival->previous;
    arrival->previous->next = arrival->next;
    arrival->next = arrival->previous = arrival;
}

/* From now on it owes what this list waits for. */
static void place_last(struct arrival *list, struct arrival *arrival, uint64_t now_us)
{
    take_out(arrival);
    arrival->since_us = now_us;
    arrival->next = list;
    arrival->previous = list->previous;
    list->previous->next = arrival;
    list->previous = arrival;
}

static void on_connection(void *self, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct door *door = self;
    struct arrival *arrival = *context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        arrival = calloc(1, sizeof *arrival);
        *context = arrival;
        if (arrival != NULL) {
            *arrival = (struct arrival){.next = arrival, .previous = arrival};
            arrival->descriptor = MHD_get_connection_info(
                connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
            place_last(&heads, arrival, door->now_us);
        }
        door->stats.connections_open++;
    } else if (arrival != NULL) {
        take_out(arrival);
        free(arrival);
        *context = NULL;
    }
    door->stats.connections_open -= what == MHD_CONNECTION_NOTIFY_CLOSED;
}

/* The first that is young ends the walk. */
static void close_slow(struct arrival *list, uint64_t now_us, uint64_t most_us)
{
    while (list->next != list && now_us - list->next->since_us > most_us) {
        (void)shutdown(list->next->descriptor, SHUT_RDWR);  /* the library sees it, and closes */
        take_out(list->next);
    }
}

/* ---- clients that leave ---------------------------------------------------------------------- */

static void watch_client(struct request *request, bool watch)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = request};
    if (watch != request->is_watched) {
        (void)epoll_ctl(request->door->epoll, watch ? EPOLL_CTL_ADD : EPOLL_CTL_DEL,
                        request->descriptor, &event);
        request->is_watched = watch;
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

static void suspend(struct request *request)
{
    request->is_suspended = true;
    watch_client(request, true);
    MHD_suspend_connection(request->connection);
}

void http_wake(struct request *request)
{
    if (request->is_suspended) {
        request->is_suspended = false;
        MHD_resume_connection(request->connection);
    }
}

/* Half of it at least at a time, so that a byte is moved once, however slowly a client reads. */
static void forget_sent(struct request *request)
{
    if (request->sent > request->out.count / 2) {
        buffer_drop(&request->out, request->sent);
        request->sent = 0;
    }
}

static ssize_t on_body(void *self, uint64_t position, char *bytes, size_t max)
{
    struct request *request = self;
    (void)position;
    if (request->has_left) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    size_t rest = request->out.count - request->sent, count = rest < max ? rest : max;
    if (count > 0) {
        memcpy(bytes, request->out.at + request->sent, count);
        request->sent += count;
        forget_sent(request);
        return (ssize_t)count;
    }
    if (request->is_complete) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    suspend(request);
    return 0;
}

static void add_headers(const struct request *request, struct MHD_Response *response)
{
    char retry[16], program[2 * AGX_ID_BYTES + 1];
    if (request->door->drains) {
        (void)MHD_add_response_header(response, "Connection", "close");
    }
    (void)MHD_add_response_header(response, "Content-Type", request->content_type);
    if (request->id[0] != '\0') {
        (void)MHD_add_response_header(response, "X-Request-Id", request->id);   /* OpenAI's */
        (void)MHD_add_response_header(response, "Request-Id", request->id);     /* Anthropic's */
    }
    if (request->program != NULL) {
        request_write_hex(request->program->id, AGX_ID_BYTES, program);
        (void)MHD_add_response_header(response, "X-Agentix-Program-Id", program);
    }
    if (request->retry_s > 0) {
        snprintf(retry, sizeof retry, "%u", request->retry_s);
        (void)MHD_add_response_header(response, "Retry-After", retry);
    }
    if (request->status == 405) {
        (void)MHD_add_response_header(response, "Allow", request->methods);
    }
    if (request->status == 401) {
        (void)MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    }
}

static enum MHD_Result send_answer(struct request *request)
{
    bool streams = request->state == REQUEST_STREAMING, is_constant = request->constant != NULL;
    const char *whole = is_constant ? request->constant : request->out.at;
    size_t count = is_constant ? strlen(whole) : request->out.count;
    struct MHD_Response *response =
        streams ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BYTES, on_body,
                                                    request, NULL)
                : MHD_create_response_from_buffer(count, (void *)(uintptr_t)whole,
                                                  MHD_RESPMEM_PERSISTENT);
    if (response == NULL) {
        return MHD_NO;
    }
    add_headers(request, response);
    if (streams) {
        (void)MHD_add_response_header(response, "Cache-Control", "no-cache");
    }
    enum MHD_Result result = MHD_queue_response(request->connection, request->status, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- requests -------------------------------------------------------------------------------- */

static const char busy_text[] =
    "{\"error\":{\"message\":\"this server has no room for another request\","
    "\"type\":\"rate_limit_error\",\"param\":null,\"code\":\"busy\"}}";

static enum MHD_Result send_busy(struct MHD_Connection *connection)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        sizeof busy_text - 1, (void *)(uintptr_t)busy_text, MHD_RESPMEM_PERSISTENT);
    if (response == NULL) {
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, "Content-Type", "application/json");
    (void)MHD_add_response_header(response, "Retry-After", "1");
    enum MHD_Result result = MHD_queue_response(connection, MHD_HTTP_SERVICE_UNAVAILABLE, response);
    MHD_destroy_response(response);
    return result;
}

static const char *bearer_of(const struct request *request)
{
    const char *header = http_header(request, "Authorization");
    if (header != NULL && strncasecmp(header, "Bearer ", 7) == 0) {
        return header + 7;
    }
    return http_header(request, "X-Api-Key");       /* Anthropic's */
}

/* Compares all of both, so that the time tells nothing about where they differ. */
static bool is_same(const char *given, const char *token)
{
    size_t count = strlen(token), different = strlen(given) ^ count;
    for (size_t i = 0; i < count && given[i] != '\0'; i++) {
        different |= (size_t)(given[i] ^ token[i]);
    }
    return different == 0;
}

static bool admit(struct request *request)
{
    struct door *door = request->door;
    request->domain = &door->domains[0];
    if (door->tokens_count == 0 || request->endpoint->is_open) {
        return true;
    }
    const char *given = bearer_of(request);
    for (uint32_t i = 0; given != NULL && i < door->tokens_count; i++) {
        if (is_same(given, door->tokens[i].text)) {
            request->domain = door->tokens[i].domain;
            return request->is_known = true;
        }
    }
    return request_refuse(request, 401, NULL, "this server needs a bearer token that it knows");
}

/* Nothing is owed any more, until the answer has been sent. */
static void has_arrived(struct MHD_Connection *connection)
{
    struct arrival *arrival = arrival_of(connection);
    if (arrival != NULL) {
        take_out(arrival);
    }
}

/* The head is there. */
static enum MHD_Result begin(struct door *door, struct MHD_Connection *connection,
                             const char *method, const char *path, void **context)
{
    struct request *request = request_take(door, method, path);
    struct arrival *arrival = arrival_of(connection);
    if (request == NULL) {
        return send_busy(connection);
    }
    *context = request;
    request->connection = connection;
    request->descriptor = MHD_get_connection_info(
        connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    if (arrival != NULL) {
        place_last(&bodies, arrival, door->now_us);
    }
    const char *length = http_header(request, "Content-Length");
    if (request->refusal.status == 0 && admit(request) && length != NULL &&
        strtoull(length, NULL, 10) > door->options.door_body_bytes.number) {
        (void)request_refuse(request, 413, NULL, "the body is longer than door.body_bytes");
    }
    if (request->refusal.status == 0) {
        return MHD_YES;
    }
    has_arrived(connection);
    request_judge(request);
    return send_answer(request);
}

/* style-waiver: the library says which parameters there are. */
static enum MHD_Result on_request(void *self, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *bytes,
                                  size_t *count, void **context)
{
    struct request *request = *context;
    (void)version;
    struct door *door = self;
    if (door->stops) {
        return MHD_NO;
    }
    if (request == NULL) {
        return begin(door, connection, method, path, context);
    }
    if (*count > 0) {
        (void)request_receive(request, bytes, *count);
        *count = 0;
        return MHD_YES;
    }
    if (request->has_left) {
        return MHD_NO;
    }
    if (request->state == REQUEST_RECEIVING) {
        has_arrived(connection);
        request_judge(request);
    }
    if (request->state == REQUEST_WAITING) {
        suspend(request);
        return MHD_YES;
    }
    return send_answer(request);
}

static void on_completed(void *self, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode why)
{
    struct door *door = self;
    struct request *request = *context;
    struct arrival *arrival = arrival_of(connection);
    (void)why;
    if (arrival != NULL) {
        place_last(&heads, arrival, door->now_us);
    }
    if (request != NULL) {
        watch_client(request, false);
        request_free(request);
        *context = NULL;
    }
}

const char *http_header(const struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

void http_peer(const struct request *request, char text[HTTP_PEER_BYTES])
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *at = info != NULL ? info->client_addr : NULL;
    bool is_ipv4 = at != NULL && at->sa_family == AF_INET;
    bool is_ipv6 = at != NULL && at->sa_family == AF_INET6;
    const void *ip = is_ipv4 ? (const void *)&((const struct sockaddr_in *)at)->sin_addr
                             : (const void *)&((const struct sockaddr_in6 *)at)->sin6_addr;
    memcpy(text, "?", 2);
    if (is_ipv4 || is_ipv6) {
        (void)inet_ntop(at->sa_family, ip, text, HTTP_PEER_BYTES);
    }
}

/* ---- the daemon ------------------------------------------------------------------------------ */

bool http_begin(struct door *door)
{
    door->listener = listener_open(door->options.door_listen.text);
    if (door->listener < 0) {
        return false;
    }
    unsigned take_s = (unsigned)(3 * door->options.door_receive.number / 1000000 + 1);
    door->http = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, door,
        MHD_OPTION_LISTEN_SOCKET, door->listener,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)door->options.door_connections.number,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, take_s,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, door,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, door, MHD_OPTION_END);
    const union MHD_DaemonInfo *info =
        door->http != NULL ? MHD_get_daemon_info(door->http, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (info == NULL || epoll_ctl(door->epoll, EPOLL_CTL_ADD, info->epoll_fd, &event) != 0) {
        log_event(LOG_ERROR, "libmicrohttpd does not start");
        return false;
    }
    return true;
}

void http_run(struct door *door)
{
    uint64_t receive_us = door->options.door_receive.number;
    close_slow(&heads, door->now_us, 3 * receive_us);
    close_slow(&bodies, door->now_us, receive_us);
    (void)MHD_run(door->http);
}

int http_wait_ms(const struct door *door)
{
    MHD_UNSIGNED_LONG_LONG wait_ms;
    return MHD_get_timeout(door->http, &wait_ms) == MHD_YES && wait_ms < 1000 ? (int)wait_ms : 1000;
}

void http_drain(struct door *door)
{
    door->drains = true;
    (void)MHD_quiesce_daemon(door->http);
    close(door->listener);
}

/* The library ends no daemon with a suspended connection: none is suspended again after `stops`. */
void http_end(struct door *door)
{
    door->stops = true;
    for (uint64_t i = 0; i < door->options.door_requests.number; i++) {
        if (door->requests[i].state != REQUEST_FREE) {
            request_leave(&door->requests[i]);
        }
    }
    (void)MHD_run(door->http);
    MHD_stop_daemon(door->http);
}
