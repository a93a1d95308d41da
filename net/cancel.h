/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: how net asks the scheduler to end a call, after a CANCEL, the loss of its client, or a stop
 * string. net asks at most once for each call; the inbox keeps room for that.
 */
#include "net/net.h"

static inline void net_cancel(struct net *net, uint32_t call_index)
{
    struct call *call = &net->calls->calls[call_index];
    ASSERT(call->state != CALL_FREE);
    if (call->cancel || call->state == CALL_FINISHED) {
        return;
    }
    call->cancel = true;
    exchange_command(net->exchange, &(struct command){.kind = COMMAND_CANCEL,
                                                      .call = call_index,
                                                      .call_generation = call->generation});
}
