/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a line of the log for each refused client, handshake, call or frame: who, and why. */
#include "config/base/text.h"
#include "net/net.h"

#define REFUSALS_LINE_BYTES 512

struct refusals_moment {
    uint64_t wall_us, now_us;
};

/* One line, with its line end. */
void refusals_line(struct text *line, const struct net_refusal *refusal,
                  const struct refusals_moment *moment);
/* Writes what net has noted since to the log. At most NET_REFUSALS_PER_SECOND + 1 lines. */
void refusals_tell(struct net *net, const struct refusals_moment *moment);
