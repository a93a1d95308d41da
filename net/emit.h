/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the scheduler's results as frames. Only net/ includes this. */
#include "net/net.h"

/* Answers to PROGRAM_* and news of calls, as far as there is room. */
void net_emit_news(struct net *net, uint64_t now_us);
/* Ends that wait have news again, if more has been written since. */
void net_emit_held(struct net *net);
/* News of a connection's calls that found no room before, in turn. */
void net_emit_backlog(struct net *net, uint32_t index, uint64_t now_us);
