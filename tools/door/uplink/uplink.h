/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: connections to the appliance, and calls on them. A domain has several, because one carries
 * AGX_CALLS_MAX calls. A connection that breaks is resumed; its calls go on where they were. Calls
 * are sent only to an appliance that serves the model that the door has read. One that drains keeps
 * the calls that it has; others go to the appliance that is found at the same address meanwhile.
 */
#include "tools/door/door.h"

/* Takes memory for the uplinks of a domain. */
MUST_CHECK enum status uplinks_begin(struct door *door, struct domain *domain);
/* The choice with this call; NULL: it is not open there. */
struct choice *uplink_find(const struct uplink *uplink, uint64_t call_id);
/* The appliance has said its last word on it: it is not open any more, and free if its client has
 * left. */
void uplink_close(struct uplink *uplink, struct choice *choice);
/* Tries to connect one more, where others drain, if a try is due: their appliance may have a
 * successor at the same address. */
void uplinks_open_spare(struct door *door, const struct domain *domain);
/* The client has left: the appliance stops computing this answer. */
void uplink_cancel(struct choice *choice);
/* Tells the appliance that a program is over. Without an answer. */
void uplink_end_program(struct door *door, struct domain *domain, const uint8_t id[AGX_ID_BYTES]);
/* Takes what has come, and connects what is not connected and due. */
void uplinks_run(struct door *door);
/* Milliseconds until uplinks_run() has to be called though nothing has come. */
int uplinks_wait_ms(const struct door *door);
