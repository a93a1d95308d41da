/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the table of open calls by (domain, program id, call id). Only net/ includes this. */
#include "net/net.h"

void net_open_plan_memory(struct memory_plan *plan, const struct limits *limits);
void net_open_init(struct net *net, struct arena *arena);
/* The hash of a call's ids with the key of this boot; the record of replies uses it too. */
uint64_t net_open_hash(const struct net *net, uint64_t domain, const uint8_t *program_id,
                       uint64_t call_id);
/* The slot of the open call with these ids in this domain, or CALL_NONE. */
uint32_t net_open_find(const struct net *net, uint64_t domain, const uint8_t *program_id,
                       uint64_t call_id);
void net_open_insert(struct net *net, uint32_t call);
void net_open_remove(struct net *net, uint32_t call);
