/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the line for a load balancer (HAProxy's agent-check): whether the box takes new sessions,
 * and how many of them.
 *
 *     up 75%                     serves; three quarters of the calls are free
 *     up 50% #engine died        serves with some of its engines
 *     up 0% #draining            ends what is open, takes no more
 *     down #loading model        does not serve
 *
 * Only weights, no `drain`: HAProxy keeps a drain until it hears `ready`, and that word would also
 * end the drain that an operator has ordered. The blank before # matters: without it, HAProxy 2.6
 * takes `down#reason` for no word at all.
 */
#include "appliance/text/view.h"
#include "config/base/text.h"

void textpage_agent(struct text *page, const struct textport_view *view, uint64_t now_us);
