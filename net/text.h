/* SPDX-License-Identifier: MIT */
#pragma once
/* What: generated tokens as the client's text. Only net/ includes this. */
#include "net/net.h"

/* The text of generated token `token_index` of the call; room for NET_TOKEN_TEXT_BYTES_MAX. */
uint32_t net_text_of_token(const struct net *net, const struct call *call, uint32_t token_index,
                           char *piece);

/* The most bytes that the next net_text_add(), and a net_text_end() behind it, can append. */
uint32_t net_text_bytes_max(const struct net *net, const struct call *call);
/* Appends to `text`, which holds *count bytes, what token `token_index` makes certain. */
void net_text_add(const struct net *net, struct call *call, uint32_t token_index, char *text,
                  uint32_t *count);
/* The last token was added: appends what is still held. */
void net_text_end(struct call *call, char *text, uint32_t *count);
