/* SPDX-License-Identifier: MIT */
#include "tools/door/uplink/absence.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "appliance/log.h"

/*
 * What: tries come every half second and causes seldom change, so only a change is a line. Clients
 * are told the cause; the log says where the appliance was looked for, too.
 * Why not from the status of an uplink: a spare one that is refused is no absence.
 *
 * An appliance that refuses a key does so for all connections of its domain, and as long as its
 * keys stay as they are: one of them tries, and each time after twice the pause.
 */

#define PAUSE_US     500000u
#define PAUSE_US_MAX 8000000u

static const char *hint_of(const struct domain *domain, enum agx_result result, int cause)
{
    bool is_gone = result == AGX_ERROR_CONNECT && (cause == ECONNREFUSED || cause == ENOENT);
    return is_gone                   ? "; is it running, and is this its net.unix or net.tcp?"
           : result != AGX_ERROR_KEY ? ""
           : domain->key == NULL     ? "; door.tokens names the key of each token"
                                     : "; is it in auth.keys of both, with the same secret?";
}

static void write_cause(const struct domain *domain, enum agx_result result, int cause, char *text,
                        size_t bytes)
{
    bool has_cause = result == AGX_ERROR_CONNECT || result == AGX_ERROR_SYSTEM;
    if (result == AGX_ERROR_KEY && domain->key != NULL) {
        snprintf(text, bytes, "it does not accept the key '%.*s'", CONFIG_KEY_NAME_BYTES,
                 domain->key->id);
    } else {
        snprintf(text, bytes, "%s%s%s", agx_result_text(result), has_cause ? ": " : "",
                 has_cause ? strerror(cause) : "");
    }
}

/* Connections that were up are refused together: that is one refusal. */
static void note_refusal(const struct door *door, struct domain *domain)
{
    if (!domain->is_refused || door->now_us >= domain->again_us) {
        uint64_t twice_us = domain->is_refused ? 2 * domain->pause_us : PAUSE_US;
        domain->pause_us = twice_us < PAUSE_US_MAX ? twice_us : PAUSE_US_MAX;
        domain->again_us = door->now_us + domain->pause_us;
    }
    domain->is_refused = true;
}

/* Any other outcome may be that of an appliance with other keys. */
static void end_refusal(struct domain *domain)
{
    domain->is_refused = false;
    domain->again_us = domain->pause_us = 0;
}

void absence_note(const struct door *door, struct domain *domain, enum agx_result result,
                  int cause)
{
    char text[sizeof domain->absence] = "";
    bool is_refused = result == AGX_ERROR_KEY;
    write_cause(domain, result, cause, text, sizeof text);
    if (is_refused) {
        note_refusal(door, domain);
    } else {
        end_refusal(domain);
    }
    if (strcmp(text, domain->absence) != 0) {
        memcpy(domain->absence, text, sizeof text);
        log_event(LOG_WARN, "the appliance %s: %s: %s%s",
                  is_refused ? "refuses the door" : "cannot be reached", door->appliance, text,
                  hint_of(domain, result, cause));
    }
}

void absence_end(const struct door *door, struct domain *domain)
{
    end_refusal(domain);
    if (domain->absence[0] != '\0') {
        domain->absence[0] = '\0';
        log_event(LOG_INFO, "the appliance is reached again: %s", door->appliance);
    }
}
