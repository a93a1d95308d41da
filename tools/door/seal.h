/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the seal: the last act of the start. From then on the door opens no file, starts no program
 * or thread, runs no memory that it may write, and has no rights beyond its user's. */
#include "tools/door/door.h"

/* False after a message. */
bool seal(const struct door *door);
