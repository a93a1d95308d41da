/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a line of the log for each refused client, handshake, call or frame: who, and why. */
#include "config/base/text.h"
#include "net/net.h"

#define REFUSED_LINE_BYTES 512

struct refused_moment {
    uint64_t wall_us, now_us;
};

/* One line, with its line end. */
void refused_line(struct text *line, const struct net_refusal *refusal,
                  const struct refused_moment *moment);
/* Writes what net has noted since to the log. At most NET_REFUSALS_PER_SECOND + 1 lines. */
void refused_tell(struct net *net, const struct refused_moment *moment);
