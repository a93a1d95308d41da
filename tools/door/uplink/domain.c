/* SPDX-License-Identifier: MIT */
/* What: whether a domain has the appliance (tools/door/uplink/domain.h). */
#include "tools/door/uplink/domain.h"

#include <stdio.h>

#include "tools/door/endpoint.h"
#include "tools/door/request.h"

struct uplink *domain_uplink(const struct door *door, const struct domain *domain)
{
    struct uplink *found = NULL;
    for (uint32_t i = 0; i < door->uplinks_count; i++) {
        struct uplink *uplink = &domain->uplinks[i];
        if (uplink->state == UPLINK_UP && (found == NULL || (found->drains && !uplink->drains))) {
            found = uplink;
        }
    }
    return found;
}

const struct agx_welcome *domain_welcome(const struct door *door, const struct domain *domain)
{
    const struct uplink *uplink = domain_uplink(door, domain);
    return uplink != NULL ? &uplink->agx.welcome : NULL;
}

struct domain *domain_of_health(struct door *door)
{
    struct domain *found = &door->domains[0];
    for (uint32_t i = 0; i < door->domains_count; i++) {
        struct domain *domain = &door->domains[i];
        if (domain_uplink(door, domain) != NULL) {
            return domain;
        }
        found = found->is_refused && !domain->is_refused ? domain : found;
    }
    return found;
}

/* Clients send again what was answered by 503, and no other time makes this key right. Health asks
 * for no token. */
static bool is_unauthorized(const struct request *request)
{
    const struct domain *domain = request->domain;
    return domain->is_refused && domain->key != NULL && !request->endpoint->is_open;
}

bool domain_refuse(struct request *request)
{
    const char *absence = request->domain->absence;
    char text[sizeof request->refusal.text];
    if (is_unauthorized(request)) {
        return request_refuse(request, 401, NULL, "the key of this token is not accepted by the "
                              "appliance");
    }
    if (request->door->is_other) {
        snprintf(text, sizeof text, "the appliance serves another model than this server has read");
    } else {
        snprintf(text, sizeof text, "the appliance cannot be reached now%s%.200s",
                 absence[0] != '\0' ? ": " : "", absence);
    }
    return request_refuse(request, 503, NULL, text);
}
