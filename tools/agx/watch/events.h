/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the event log of an appliance, read from its text port: one question at a time. The answer
 * is a page of lines, and each line is an event with its number.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/event_log.h"
#include "tools/agx/watch/text_port.h"

struct events {
    struct text_port port;
    uint64_t next;                  /* number of the event to ask for */
    uint64_t end;                   /* number of the next event that will happen */
    uint64_t now_us;                /* the appliance's clock when it last answered */
    /* private: only events.c */
    char *line;                     /* the next line of the answer */
};

/* EXIT_COMPLETE, or an exit code after a message. */
int events_open(struct events *events, const char *address);
void events_close(struct events *events);
/* Asks for what follows `next` and waits for the whole answer. EXIT_COMPLETE, or an exit code after
 * a message. */
int events_ask(struct events *events);
/* The next event of the answer; false: that was all, and `next` and `now_us` are up to date. Events
 * of a kind that we do not know are passed over, and so are lines that are no event. Their numbers
 * are then missing, like those of lost events. */
bool events_take(struct events *events, uint64_t *number, struct event *event);
/* Waits without a question; a signal ends the wait. */
void events_rest(const struct events *events, uint32_t milliseconds);
