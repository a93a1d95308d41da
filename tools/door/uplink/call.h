/* SPDX-License-Identifier: MIT */
#pragma once
/* What: calls of choices, on connections to the appliance (uplink.h). */
#include "tools/door/door.h"

/* Sends the call of a choice; where the appliance reads too slowly, calls_run() does it once there
 * is room. False after request_refuse(). */
bool call_start(struct door *door, struct choice *choice);
/* After uplinks_run(): sends what waits for room, and again, elsewhere, what an appliance that
 * drains has sent away. */
void calls_run(struct door *door);
