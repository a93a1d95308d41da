/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: connections to the appliance, and calls on them. A domain has several, because one carries
 * AGX_CALLS_MAX calls. A connection that breaks is resumed; its calls go on where they were. Calls
 * are sent only to an appliance that serves the model that the door has read.
 */
#include "tools/door/door.h"

/* Takes memory for the uplinks of a domain. */
MUST_CHECK enum status uplinks_begin(struct door *door, struct domain *domain);
/* What the appliance says of itself to this domain; NULL: it cannot be reached now. */
const struct agx_welcome *domain_welcome(const struct door *door, const struct domain *domain);
/* Refuses, because the appliance is away, or serves another model. Always false. */
bool uplink_refuse(struct request *request);
/* A choice for a call of the request's domain; NULL: as many as there may be are open. */
struct choice *uplink_choice(struct door *door, struct request *request);
/* One holder of a prompt fewer; without any it is freed. NULL: nothing. */
void uplink_release_prompt(struct prompt *prompt);
/* Gives it back; its call must not be open. */
void uplink_free_choice(struct choice *choice);
/* Sends the call of a choice. False after request_refuse(). */
bool uplink_call(struct door *door, struct choice *choice);
/* The client has left: the appliance stops computing this answer. */
void uplink_cancel(struct choice *choice);
/* Tells the appliance that a program is over. Without an answer. */
void uplink_end_program(struct door *door, struct domain *domain, const uint8_t id[AGX_ID_BYTES]);
/* Takes what has come, and connects what is not connected and due. */
void uplinks_run(struct door *door);
/* Milliseconds until uplinks_run() has to be called though nothing has come. */
int uplinks_wait_ms(const struct door *door);
