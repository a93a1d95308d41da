/* SPDX-License-Identifier: MIT */
#pragma once
/* What: whether a domain has the appliance, by any of its connections (uplink.h). */
#include "tools/door/door.h"

/* A connection that is up; one that drains only where there is no other. NULL: there is none. */
struct uplink *domain_uplink(const struct door *door, const struct domain *domain);
/* What the appliance says of itself to this domain; NULL: it cannot be reached now. */
const struct agx_welcome *domain_welcome(const struct door *door, const struct domain *domain);
/* The domain that speaks for all: one to which calls can be sent, else one that finds no appliance,
 * else one that the appliance refuses. */
struct domain *domain_of_health(struct door *door);
/* Refuses, because the appliance is away, serves another model, or does not accept the key. Always
 * false. */
bool domain_refuse(struct request *request);
