/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the canonical form of a template, in which two templates that differ only in how they are
 * written are the same. Private to config/chat.
 *
 *   {%- if message["role"] == "user" %}      {%ifmessage.role=='user'%}
 *   {{- '<|user|>\n' + x }}                  {{'<|user|>
 *                                            '+x}}
 *   text outside of tags                     {{'text outside of tags'}}
 *
 * Comments and the space between words are left out, quotes are single, escapes are resolved. Text
 * outside of tags is what Jinja2 would print of it with trim_blocks and lstrip_blocks.
 */
#include "config/chat/chat.h"

/* False: it is no template, or has no room. Linear. */
bool chat_canonical(struct chat_scratch *scratch, const char *source, uint32_t bytes);
