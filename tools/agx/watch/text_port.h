/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a connection to an appliance's text port: a question, and the whole answer as one text. */
#include <stdbool.h>
#include <stdint.h>

#define TEXT_PORT_ADDRESS   "127.0.0.1:7412"
#define TEXT_PORT_VARIABLE  "AGX_TEXT"
#define TEXT_PORT_HELP      "the text port (default: $" TEXT_PORT_VARIABLE ", or " \
                            TEXT_PORT_ADDRESS ")"
#define TEXT_PORT_BYTES_MIN (1u << 18)      /* of an answer; it grows */
#define TEXT_PORT_BYTES_MAX (1u << 28)

struct text_port {
    int descriptor;
    const char *address;
    char *page;                     /* the last answer with its terminator; from the heap */
    uint32_t page_bytes, page_max, page_limit;
    bool has_answered;              /* a question before this one */
};

/* Where the text port is when no address is given. */
const char *text_port_default(void);
/* EXIT_COMPLETE, or an exit code after a message. */
int text_port_open(struct text_port *port, const char *address);
void text_port_close(struct text_port *port);
/* Asks this line, which has its line end, and waits for the whole answer. EXIT_COMPLETE, or an exit
 * code after a message; then the page is empty. */
int text_port_ask(struct text_port *port, const char *question);
