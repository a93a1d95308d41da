/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the search for stop strings in the text of a call. Only net/ includes this. */
#include "net/net.h"

/* Prepares the search: call->stop_texts is set. */
void net_stop_text_prepare(struct call *call);
/* Searches the new tokens. On a hit it sets stop_text_hit and stop_text_tokens, and asks the
 * scheduler to end the call. */
void net_stop_text_scan(struct net *net, uint32_t call);
/* Generated tokens that the client may get: none after the one that completes a stop string. */
uint32_t net_stop_text_kept_tokens(const struct call *call);
/* Bytes of text that the client may get now. The rest is a stop string, or may become one. */
uint64_t net_stop_text_kept_bytes(const struct call *call);
