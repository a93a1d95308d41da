/* SPDX-License-Identifier: MIT */
#include "tools/agx/reach.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/agx/dial.h"
#include "tools/agx/watch/text_port.h"
#include "tools/sdk/socket.h"

/*
 * What: the appliance has three ports that are easily confused: net.tcp or net.unix, the text port,
 * and the door's. The door and the text port wait for the end of a line, so neither answers a frame
 * of the protocol; both answer a request of HTTP.
 * Bounds: one question of a few bytes, REACH_MS for its answer. An appliance that still starts logs
 * it as a refused handshake, so it is asked once, and only after it has let DIAL_TIMEOUT_MS pass.
 */

#define REACH_MS 1000

static bool is_local(const char *to)
{
    return strncmp(to, "unix:", 5) == 0;
}

void reach_explain(const char *to, int cause)
{
    if (cause == EACCES && is_local(to)) {
        fprintf(stderr, "agx: only root and members of its group may use it; the installed one's "
                "is agentix:\nagx: usermod --append --groups agentix NAME, and a new login\n");
    } else if (cause == ECONNREFUSED || cause == ENOENT) {
        fprintf(stderr, "agx: nothing listens there: is the appliance running? It listens where "
                "its options\nagx: net.tcp and net.unix say; agx looks where --to or " DIAL_VARIABLE
                " says\n");
    }
}

void reach_explain_text_port(int cause)
{
    if (cause == ECONNREFUSED) {
        fprintf(stderr, "agx: nothing listens there: is the appliance running?\n");
    }
    fprintf(stderr, "agx: the text port is where text.listen of the appliance says: name it "
            "with --text,\nagx: or in " TEXT_PORT_VARIABLE "\n");
}

static bool answers_http(int descriptor)
{
    static const char question[] = "GET / HTTP/1.0\r\n\r\n", wanted[] = "HTTP/";
    uint8_t answer[sizeof wanted - 1];
    uint32_t moved = 0, got = 0;
    uint64_t deadline_ms = agx_socket_deadline(REACH_MS);
    enum agx_result result = agx_socket_send(descriptor, (const uint8_t *)question,
                                             sizeof question - 1, &moved);
    while (result == AGX_OK && got < sizeof answer) {
        result = agx_socket_wait(descriptor, POLLIN, deadline_ms);
        if (result == AGX_OK) {
            result = agx_socket_receive(descriptor, answer + got, sizeof answer - got, &moved);
            got += moved;
        }
    }
    return got == sizeof answer && memcmp(answer, wanted, sizeof answer) == 0;
}

bool reach_is_http(const char *to)
{
    int descriptor;
    if (is_local(to) ||
        agx_socket_connect(to, agx_socket_deadline(REACH_MS), &descriptor) != AGX_OK) {
        return false;
    }
    bool is_http = answers_http(descriptor);
    close(descriptor);
    return is_http;
}

bool reach_name_stranger(const char *to)
{
    bool is_http = reach_is_http(to);
    if (is_http) {
        fprintf(stderr, "agx: it speaks HTTP: the text port (agx ask --text), a door (curl) or "
                "another server;\nagx: --to is where net.tcp or net.unix of the appliance says\n");
    }
    return is_http;
}

void reach_name_no_text_port(void)
{
    fprintf(stderr, "agx: is it a text port? That is where text.listen of the appliance says; "
            "net.tcp and\nagx: the port of a door are others\n");
}
