/* SPDX-License-Identifier: MIT */
#pragma once
/* What: calls of choices, on connections to the appliance (uplink.h). */
#include "tools/door/door.h"

/* Sends the call of a choice; where the appliance reads too slowly, calls_run() does it once there
 * is room. False after request_refuse(). */
bool call_start(struct door *door, struct choice *choice);
/* The answer is not needed any more: the appliance stops computing it. True: the call waited, and
 * is not sent, so that no last word on it comes. */
bool call_cancel(struct choice *choice);
/* The appliance has refused the call of a choice, because as many of its program are open as may
 * be, `most`. True: it is sent again once one of them has ended. False: none is open here. */
bool call_waits_for_program(struct door *door, struct choice *choice, uint64_t most);
/* After uplinks_run(): sends what waits for room, or for the end of another call of its program;
 * and again, elsewhere, what an appliance that drains has sent away. */
void calls_run(struct door *door);
