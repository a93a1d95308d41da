/* SPDX-License-Identifier: MIT */
#pragma once
/* What: one connection of the text port: its state, its input, its page. */
#include <stdbool.h>
#include <stdint.h>

#include "appliance/text/view.h"

#define TEXTPORT_LINE_BYTES_MAX  512                    /* of a request, line end excluded */
#define TEXTPORT_HEADERS_MAX     64                 /* lines of an HTTP request that are skipped */
#define TEXTPORT_IDLE_US         (60 * UINT64_C(1000000))
#define TEXTPORT_GRACE_US        UINT64_C(1000000)      /* kept for less, a slot is its peer's */
#define TEXTPORT_LINE_US         (5 * UINT64_C(1000000))  /* from a line's first byte to its last */
#define TEXTPORT_ANSWER_US       (10 * UINT64_C(1000000)) /* from rendering to the last byte sent */

enum textport_state { TEXTPORT_CLOSED, TEXTPORT_READING, TEXTPORT_HEADERS, TEXTPORT_ANSWERING };

/* The place of the next byte of input in a telnet sequence (IAC ...). */
enum textport_telnet { TELNET_DATA, TELNET_COMMAND, TELNET_OPTION, TELNET_SUB, TELNET_SUB_COMMAND };

/* Whose a slot is: all of loopback, an IPv4 address, or the first half of an IPv6 one. */
struct textport_source {
    bool is_far;                    /* beyond loopback: it may ask for little */
    uint64_t address;               /* world_peer's; 0 on loopback */
};

struct textport_slot {
    enum textport_state state;
    int32_t handle;
    uint32_t interest;              /* events that the world watches for now */
    bool readable;                  /* noted by an event */
    bool ended;                     /* the peer will send no more */
    bool closes;                    /* after this answer */
    struct textport_source source;
    enum textport_telnet telnet;
    uint32_t input_bytes;
    char *input;                    /* [TEXTPORT_INPUT_BYTES]: lines not yet answered */
    uint32_t headers_count;
    uint32_t request;               /* HTTP: the answer after the headers; only request.c */
    char *page;                     /* [limits.text_page_bytes] */
    uint32_t page_sent, page_bytes; /* [sent, bytes) is still to be sent */
    uint64_t deadline_us;           /* of the present state */
};
#define TEXTPORT_INPUT_BYTES (TEXTPORT_LINE_BYTES_MAX + 2)      /* a line and its CR LF */

/* One pass of textport_poll(). */
struct textport_turn {
    const struct textport_view *view;
    struct stats *stats;
    uint32_t page_bytes;
    uint64_t now_us;
};
