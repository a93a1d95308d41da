/* SPDX-License-Identifier: MIT */
#pragma once
/* What: why there is no connection, and what to do about it: a second line of messages. */
#include <stdbool.h>

/* `cause`: of errno, for a connection to the address `to` that was not made. */
void reach_explain(const char *to, int cause);
/* The same for the text port. */
void reach_explain_text_port(int cause);
/* True when what listens there speaks HTTP: a door, a text port, or a server of others. Asks it,
 * and waits REACH_MS at most. Never asks a unix socket. */
bool reach_is_http(const char *to);
/* The same, and says so, if it does. */
bool reach_name_stranger(const char *to);
/* What listens there did not answer as a text port does. */
void reach_name_no_text_port(void);
