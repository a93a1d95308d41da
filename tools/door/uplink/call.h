/* SPDX-License-Identifier: MIT */
#pragma once
/* What: calls of choices, on connections to the appliance (uplink.h). */
#include "tools/door/door.h"

/* Sends the call of a choice. False after request_refuse(). */
bool call_start(struct door *door, struct choice *choice);
/* After uplinks_run(): sends again, elsewhere, what an appliance that drains has sent away. */
void calls_move(struct door *door);
