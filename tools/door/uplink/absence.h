/* SPDX-License-Identifier: MIT */
#pragma once
/* What: why the appliance cannot be reached, for the log and for clients; once for each change. */
#include "tools/door/door.h"

/* A try of an uplink of `domain` was in vain; `cause`: errno. Says so, unless it has said just
 * that, and sets when the next try is where the key was refused. */
void absence_note(const struct door *door, struct domain *domain, enum agx_result result,
                  int cause);
/* An uplink is up; says so, if something else was said before. */
void absence_end(const struct door *door, struct domain *domain);
