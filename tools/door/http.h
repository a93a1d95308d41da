/* SPDX-License-Identifier: MIT */
#pragma once
/* What: HTTP/1.1 by libmicrohttpd: requests in, answers out, and clients that leave. */
#include "tools/door/door.h"

/* Listens. False after a message. */
bool http_begin(struct door *door);
/* Receives and sends what can be; closes connections that take too long to send a request. */
void http_run(struct door *door);
int http_wait_ms(const struct door *door);
/* There is something to send, or nothing more to wait for. */
void http_wake(struct request *request);
/* The value of a header, or NULL. */
const char *http_header(const struct request *request, const char *name);
/* The address of its client, without the port; "?": it has none. */
#define HTTP_PEER_BYTES 48
void http_peer(const struct request *request, char text[HTTP_PEER_BYTES]);
/* Accepts no connection any more; those that are open close with their next answer. */
void http_drain(struct door *door);
/* Ends all requests. */
void http_end(struct door *door);
