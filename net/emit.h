/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the scheduler's results as frames. Only net/ includes this. */
#include "net/net.h"

/* Answers to PROGRAM_* and news of calls, as far as there is room. */
void net_emit_news(struct net *net, uint64_t now_us);
/* If more is on disk by now: calls whose end waited for that have news again. */
void net_emit_held(struct net *net);
/* Sends news of a connection's calls that found no room before, call by call in turn. */
void net_emit_backlog(struct net *net, uint32_t index, uint64_t now_us);
