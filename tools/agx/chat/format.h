/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the chat format that a command uses: the model's own, or the one that --format names. */
#include "config/chat/chat.h"
#include "tools/agx/dial.h"

/* A row of a command line. */
#define FORMAT_ROW(name) \
    {"--format", "NAME", ARGUMENT_TEXT, &(name), 0, 0, \
     "the chat format, instead of the model's; `agx chat --help` lists them"}

/* Asks the appliance. `name` may be NULL. EXIT_COMPLETE, or an exit code after a message: the
 * model's template is not known and there is no name, or there is no such format. */
int format_choose(struct dial *dial, const char *name, struct chat_format *format);
/* The formats, a line each, for --help. */
void format_list(char *text, size_t bytes);
/* Today, as Llama 3.2 is told: "26 Jul 2024". */
void format_today(char date[16]);
