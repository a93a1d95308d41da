/* SPDX-License-Identifier: MIT */
#include "tools/door/uplink/absence.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * What: tries come every half second and causes seldom change, so only a change is a line. Clients
 * are told the cause; the log says where the appliance was looked for, too.
 * Why not from the status of an uplink: a spare one that is refused is no absence.
 */

static const char *hint_of(enum agx_result result, int cause)
{
    bool is_gone = result == AGX_ERROR_CONNECT && (cause == ECONNREFUSED || cause == ENOENT);
    return is_gone                      ? "; is it running, and is this its net.unix or net.tcp?"
           : result == AGX_ERROR_KEY    ? "; door.tokens names the key of each token"
                                        : "";
}

void absence_note(const struct door *door, struct domain *domain, enum agx_result result,
                  int cause)
{
    char text[sizeof domain->absence];
    bool has_cause = result == AGX_ERROR_CONNECT || result == AGX_ERROR_SYSTEM;
    snprintf(text, sizeof text, "%s%s%s", agx_result_text(result), has_cause ? ": " : "",
             has_cause ? strerror(cause) : "");
    domain->is_refused = result == AGX_ERROR_KEY;
    if (strcmp(text, domain->absence) != 0) {
        memcpy(domain->absence, text, sizeof text);
        fprintf(stderr, "agentix-door: the appliance cannot be reached: %s: %s%s\n",
                door->appliance, text, hint_of(result, cause));
    }
}

void absence_end(const struct door *door, struct domain *domain)
{
    domain->is_refused = false;
    if (domain->absence[0] != '\0') {
        domain->absence[0] = '\0';
        fprintf(stderr, "agentix-door: the appliance is reached again: %s\n", door->appliance);
    }
}
