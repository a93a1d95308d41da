/* SPDX-License-Identifier: MIT */
/*
 * What: questions to the text port. An answer ends with a line `end`.
 * Bounds: an answer takes at most ANSWER_MS and has at most TEXT_PORT_BYTES_MAX.
 */
#include "tools/agx/watch/text_port.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "tools/agx/dial.h"
#include "tools/agx/printable.h"
#include "tools/agx/reach.h"
#include "tools/sdk/socket.h"

#define ANSWER_MS 10000

const char *text_port_default(void)
{
    const char *said = getenv(TEXT_PORT_VARIABLE);
    return said != NULL && said[0] != '\0' ? said : TEXT_PORT_ADDRESS;
}

int text_port_open(struct text_port *port, const char *address)
{
    *port = (struct text_port){.descriptor = -1, .address = address,
                               .page = malloc(TEXT_PORT_BYTES_MIN),
                               .page_max = TEXT_PORT_BYTES_MIN,
                               .page_limit = TEXT_PORT_BYTES_MAX};
    if (port->page == NULL) {
        fprintf(stderr, "agx: out of memory\n");
        return EXIT_SYSTEM;
    }
    port->page[0] = '\0';
    enum agx_result result = agx_socket_connect(address, agx_socket_deadline(DIAL_TIMEOUT_MS),
                                                &port->descriptor);
    if (result == AGX_OK) {
        return EXIT_COMPLETE;
    }
    int cause = errno, code = dial_fail(NULL, result, address);
    if (result == AGX_ERROR_CONNECT) {
        reach_explain_text_port(cause);
    }
    return code;
}

void text_port_close(struct text_port *port)
{
    if (port->descriptor >= 0) {
        close(port->descriptor);
    }
    free(port->page);
    *port = (struct text_port){.descriptor = -1};
}

static enum agx_result send_question(const struct text_port *port, const char *question,
                                     uint64_t deadline_ms)
{
    uint32_t sent = 0, moved = 0, count = (uint32_t)strlen(question);
    enum agx_result result = AGX_OK;
    while (sent < count && result == AGX_OK) {
        result = agx_socket_wait(port->descriptor, POLLOUT, deadline_ms);
        if (result == AGX_OK) {
            result = agx_socket_send(port->descriptor, (const uint8_t *)question + sent,
                                     count - sent, &moved);
            sent += moved;
            result = result == AGX_AGAIN ? AGX_OK : result;
        }
    }
    return result;
}

/* The last line of an answer is `end`; that of `quit` has no other. */
static bool is_whole(const struct text_port *port)
{
    static const char tail[] = "\nend\n";
    uint32_t bytes = sizeof tail - 1;
    return (port->page_bytes == bytes - 1 && memcmp(port->page, tail + 1, bytes - 1) == 0) ||
           (port->page_bytes >= bytes &&
            memcmp(port->page + port->page_bytes - bytes, tail, bytes) == 0);
}

/* HAProxy's line has no `end`, but the close. True when it came; the end is put after it. */
static bool is_agent_line(struct text_port *port, const char *question)
{
    bool is_line = strcasecmp(question, "agent-check\n") == 0 && port->page_bytes > 0 &&
                   port->page[port->page_bytes - 1] == '\n' &&
                   port->page_bytes + strlen("end\n") < port->page_max;
    if (is_line) {
        memcpy(port->page + port->page_bytes, "end\n", sizeof "end\n");
        port->page_bytes += (uint32_t)strlen("end\n");
    }
    return is_line;
}

/* Room for another byte and the terminator. */
static enum agx_result make_room(struct text_port *port)
{
    if (port->page_bytes + 1 < port->page_max) {
        return AGX_OK;
    }
    if (port->page_max >= port->page_limit) {
        return AGX_ERROR_PROTOCOL;
    }
    char *larger = realloc(port->page, 2 * (size_t)port->page_max);
    if (larger == NULL) {
        return AGX_ERROR_SPACE;
    }
    port->page = larger;
    port->page_max *= 2;
    return AGX_OK;
}

static enum agx_result receive_answer(struct text_port *port, uint64_t deadline_ms)
{
    port->page_bytes = 0;
    while (!is_whole(port)) {
        uint32_t moved = 0;
        enum agx_result result = make_room(port);
        if (result == AGX_OK) {
            result = agx_socket_wait(port->descriptor, POLLIN, deadline_ms);
        }
        if (result == AGX_OK) {
            result = agx_socket_receive(port->descriptor, (uint8_t *)port->page + port->page_bytes,
                                        port->page_max - 1 - port->page_bytes, &moved);
            port->page_bytes += moved;
            result = result == AGX_AGAIN ? AGX_OK : result;
        }
        if (result != AGX_OK) {
            return result;
        }
    }
    port->page[port->page_bytes] = '\0';
    return AGX_OK;
}

int text_port_ask(struct text_port *port, const char *question)
{
    uint64_t deadline_ms = agx_socket_deadline(ANSWER_MS);
    enum agx_result result = send_question(port, question, deadline_ms);
    if (result == AGX_OK) {
        result = receive_answer(port, deadline_ms);
    }
    if (result == AGX_ERROR_CLOSED && is_agent_line(port, question)) {
        result = AGX_OK;
    }
    if (result == AGX_ERROR_PROTOCOL) {
        fprintf(stderr, "agx: %s: an answer without an end; is it a text port?\n", port->address);
        port->page[0] = '\0';
        return EXIT_PROTOCOL;
    }
    if (result != AGX_OK) {
        port->page[0] = '\0';
        int code = dial_fail(NULL, result == AGX_AGAIN ? AGX_ERROR_TIMEOUT : result, port->address);
        if (!port->has_answered) {
            reach_name_no_text_port();
        }
        return code;
    }
    port->has_answered = true;
    if (strncmp(port->page, "error", strlen("error")) == 0) {
        port->page[strcspn(port->page, "\n")] = '\0';
        fprintf(stderr, "agx: %s: ", port->address);
        printable_write(port->page, stderr);        /* perhaps no appliance */
        fputc('\n', stderr);
        return EXIT_REFUSED;
    }
    return EXIT_COMPLETE;
}
