/* SPDX-License-Identifier: MIT */
/*
 * What: the one door that the lab has and the appliance has not: a call goes straight into its slot
 * and its command into the inbox, in the place of a CALL frame. From there on net, sched and kvmem
 * treat it as any other; it is attached to the lab's connection, and its answers are frames.
 *
 * Why: the checksum of a frame with 6,000 ids takes a tenth of a millisecond on each side, and the
 * lab is to schedule 20,000 calls a second (docs/decisions/0020).
 * Invariants: the slot is as net_call_intake() would have left it for a call with these fields:
 * greedy, no stop ids, EOS ignored, no deadline, no text. It also has what only a trace knows: the
 * work that its program has left when it comes, calls that are open included (for srpt).
 */
#include <string.h>

#include "config/base/assert.h"
#include "net/connection.h"
#include "net/open_calls.h"
#include "tools/lab/lab.h"

bool lab_submit(struct lab *lab, uint32_t index)
{
    struct loop *loop = &lab->loop;
    const struct lab_call *traced = &lab->clients.calls[index];
    const struct lab_run *run = &lab->clients.runs[traced->run];
    uint32_t of_trace = run->program->calls_first + traced->number;
    uint32_t slot = call_take(&loop->calls);
    if (slot == CALL_NONE) {
        return false;
    }
    struct call *call = &loop->calls.calls[slot];
    call->client_call_id = index;
    call->domain = loop->net.connections[lab->socket.slot].domain;
    lab_program_id(lab, traced->run, call->program_id);
    call->thread = traced->number;
    call->sampling.top_p = 1;
    call->sampling.repeat_penalty = 1;
    call->max_tokens = lab->prompts.book.out[of_trace];
    call->deadline_us = UINT64_MAX;
    call->arrived_us = lab->now_us;
    call->order_key = run->work_left;
    call->emit.digest = WIRE_DIGEST_START;
    call->prompt_tokens = prompt_tokens(&lab->prompts.book, of_trace);
    ASSERT(call->prompt_tokens + call->max_tokens <= lab->limits.context_tokens);
    prompts_write(&lab->prompts, run->program, traced->run, traced->number, call->tokens);
    net_connection_attach(&loop->net, lab->socket.slot, slot);
    net_open_insert(&loop->net, slot);
    exchange_command(&loop->exchange, &(struct command){.kind = COMMAND_CALL, .call = slot});
    return true;
}
