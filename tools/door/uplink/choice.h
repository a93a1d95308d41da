/* SPDX-License-Identifier: MIT */
#pragma once
/* What: one answer of the model to a request: its record, from a table of door.calls for each
 * domain. uplink.h sends its call. */
#include "tools/door/door.h"

/* Those of a domain: [door.calls]. */
struct choice *choices_of(const struct door *door, const struct domain *domain);
/* One for a call of the request's domain; NULL: as many as there may be are open. */
struct choice *choice_take(struct door *door, struct request *request);
/* Gives it back; its call must not be open. */
void choice_free(struct choice *choice);
/* One holder of a prompt fewer; without any it is freed. NULL: nothing. */
void prompt_release(struct prompt *prompt);
