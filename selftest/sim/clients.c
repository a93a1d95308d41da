/* SPDX-License-Identifier: MIT */
/*
 * What: the clients, each at its own pace. All but hostile ones and operators (raw_clients.c) and
 * those with workflows (flow/clients.c) speak through the session of the SDK (session.c), which is
 * thereby under simulation too. The oracle (oracle.c) knows what each must receive.
 *
 * A turn of a client: send what is unsent, read what is there, act, think. In the calm phase the
 * clients begin nothing, and read until nothing is owed to them.
 */
#include <string.h>

#include "selftest/sim/sim.h"

#define STALL_US_MAX    (30 * SIM_SECOND_US)
#define ACTIONS_MAX     3           /* in a turn */
#define UNANSWERED_MAX  64
#define IDLE_DOUBLINGS_MAX 12

enum action { ACTION_CALL, ACTION_REST, ACTION_CANCEL, ACTION_PING, ACTION_START, ACTION_END,
              ACTION_BURST, ACTIONS };

static struct sim_client *client_at(struct sim *sim, uint32_t index)
{
    return &sim->clients[index];
}

uint64_t sim_client_domain(const struct sim *sim, uint32_t index)
{
    const struct sim_client *client = &sim->clients[index];
    if (client->listener == SIM_LISTENER_TCP && sim->swarm.has_keys) {
        return (UINT64_C(1) << 32) + sim->keys.keys[client->key].domain;
    }
    return client->listener == SIM_LISTENER_UNIX ? 1 + client->uid : 0;
}

void sim_clients_init(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_CLIENTS_MAX; i++) {
        struct sim_client *client = client_at(sim, i);
        memset(client, 0, sizeof *client);
        client->peer = SIM_NONE;
        client->next_us = UINT64_MAX;
        client->listener = i % 3 == 0 ? SIM_LISTENER_TCP : SIM_LISTENER_UNIX;
        client->uid = i % 3 == 1 ? USER : 0;
        client->key = i / 3 % SIM_KEYS;
        client->is_hostile = i < sim->swarm.hostiles;
        uint32_t others = sim->swarm.hostiles + sim->swarm.operators;
        client->is_operator = !client->is_hostile && i < others;
        client->has_flows = i >= others && i < others + sim->swarm.flow_clients;
        client->listener = client->is_operator ? SIM_LISTENER_TEXT : client->listener;
        if (client->has_flows && sim->swarm.has_keys) {     /* they know of no keys */
            client->listener = SIM_LISTENER_UNIX;
        }
        if (client->has_flows && sim->swarm.flows_apart) {
            client->listener = SIM_LISTENER_UNIX;
            client->uid = FLOW_USER + i % 2;
        }
        if (i < sim->swarm.clients) {
            client->next_us = sim->now_us + sim_time(sim, sim->swarm.think_us_max);
        }
    }
    for (uint32_t i = 0; i < SIM_CALLS_MAX; i++) {
        memset(&sim->calls[i], 0, offsetof(struct sim_call, tokens));
    }
}

/* ---- what a client does ---------------------------------------------------------------------- */

static struct agx_call frame_of(struct sim *sim, const struct sim_call *call)
{
    static const struct agx_bias biases[] = {{2, 1.5f}, {1, -100}};
    struct agx_call frame = {
        .presence_penalty = sim_choose(sim, 4) == 0 ? 0.5f : 0.0f,
        .biases = biases, .biases_count = sim_choose(sim, 4) == 0 ? 2 : 0,
        .want_logprobs = sim_choose(sim, 4) == 0,
        .call_id = call->call_id, .max_tokens = call->max_tokens, .seed = call->sampling.seed,
        .deadline_us = call->deadline_us, .repeat_penalty = sim_choose(sim, 2) == 0 ? 1.0f : 1.5f,
        .stop_ids = call->sampling.stop_ids, .stop_ids_count = call->sampling.stop_ids_count,
        .want_text = call->wants_text, .ignore_eos = call->ignores_eos,
        .stop_texts_count = call->stops_count};
    frame.top_logprobs = frame.want_logprobs ? sim_choose(sim, sim->limits.top_logprobs + 1) : 0;
    memcpy(frame.stop_texts, call->stops, sizeof frame.stop_texts);
    sim_program_id(call->program, frame.program_id);
    if (call->is_text) {
        frame.prompt_text = call->prompt_text;
        frame.prompt_text_bytes = call->prompt_text_bytes;
    } else {
        frame.prompt_ids = call->tokens;
        frame.prompt_ids_count = call->prompt_tokens;
    }
    return frame;
}

void sim_client_call(struct sim *sim, struct sim_call *call)
{
    struct sim_client *client = client_at(sim, call->client);
    call->frame = frame_of(sim, call);
    enum agx_result result = agx_session_call(&client->agx, &call->frame);
    SIM_REQUIRE(sim, result == AGX_OK || result == AGX_AGAIN, INVARIANT_WORLD, "SDK: %s",
                agx_result_text(result));
    call->in_use = result == AGX_OK;
    client->calls_open += call->in_use;
    sim_say(sim, "client %u: call %llu of program %u: %u prompt tokens, %u expected of %u, "
                 "deadline %llu us", call->client, (unsigned long long)call->sampling.seed,
            call->program, call->prompt_tokens, call->expected, call->max_tokens,
            (unsigned long long)call->deadline_us);
}

static void start_call(struct sim *sim, uint32_t index)
{
    struct sim_call *call = sim_call_begin(sim, index);
    if (call != NULL && client_at(sim, index)->calls_open < AGX_CALLS_MAX) {
        sim_client_call(sim, call);
    }
}

static void start_calls(struct sim *sim, uint32_t index, uint32_t count)
{
    const struct sim_client *client = client_at(sim, index);
    while (count-- > 0 && sim->now_us >= client->patient_until_us &&
           client->calls_open < sim->swarm.appetite) {
        start_call(sim, index);
    }
}

void sim_client_cancel(struct sim *sim, uint32_t index)
{
    struct sim_client *client = client_at(sim, index);
    uint32_t first = sim_choose(sim, SIM_CALLS_MAX);
    for (uint32_t i = 0; i < SIM_CALLS_MAX; i++) {
        struct sim_call *call = &sim->calls[(first + i) % SIM_CALLS_MAX];
        if (call->in_use && call->client == index) {
            uint8_t id[CALL_PROGRAM_ID_BYTES];
            sim_program_id(call->program, id);
            if (agx_session_cancel(&client->agx, id, call->call_id) == AGX_OK) {
                call->cancelled = true;
                client->cancels_sent++;
                sim_say(sim, "client %u: cancels call %llu", index,
                        (unsigned long long)call->sampling.seed);
            }
            return;
        }
    }
}

/* Names of classes; every second start has none. */
static const char *draw_class(struct sim *sim)
{
    static const char *const names[] = {
        "", "chat", "", "vote", "", "~", "", "code-search", "", "as-long-as-a-name-of-a-class-may"};
    return names[sim_choose(sim, sizeof names / sizeof names[0])];
}

static void start_program(struct sim *sim, uint32_t index)
{
    struct sim_client *client = client_at(sim, index);
    uint8_t id[CALL_PROGRAM_ID_BYTES];
    uint32_t program = sim_choose(sim, sim->swarm.programs);
    const char *name = draw_class(sim);
    sim_program_id(program, id);
    if (agx_session_program_start(&client->agx, id, name) == AGX_OK) {
        client->answers_due++;
        sim_say(sim, "client %u: starts program %u of class \"%s\"", index, program, name);
    }
}

static void end_program(struct sim *sim, uint32_t index)
{
    struct sim_client *client = client_at(sim, index);
    uint8_t id[CALL_PROGRAM_ID_BYTES];
    uint32_t program = sim_choose(sim, sim->swarm.programs);
    sim_program_id(program, id);
    if (agx_session_program_end(&client->agx, id) == AGX_OK) {
        client->answers_due++;
        sim_say(sim, "client %u: ends program %u", index, program);
    }
}

static void ping(struct sim *sim, uint32_t index)
{
    struct sim_client *client = client_at(sim, index);
    if (agx_session_ping(&client->agx, client->ping_next) == AGX_OK) {
        client->ping_next++;
        client->pongs_due++;
    }
}

static enum action draw_action(struct sim *sim)
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < ACTIONS; i++) {
        total += sim->swarm.action_weights[i];
    }
    uint32_t at = sim_choose(sim, total);
    uint32_t action = 0;
    while (at >= sim->swarm.action_weights[action]) {
        at -= sim->swarm.action_weights[action++];
    }
    return (enum action)action;
}

static void act(struct sim *sim, uint32_t index)
{
    switch (draw_action(sim)) {
    case ACTION_CALL:
        start_calls(sim, index, 1);
        break;
    case ACTION_BURST:
        start_calls(sim, index, sim_choose(sim, 12));
        break;
    case ACTION_CANCEL:
        sim_client_cancel(sim, index);
        break;
    case ACTION_PING:
        ping(sim, index);
        break;
    case ACTION_START:
        start_program(sim, index);
        break;
    case ACTION_END:
        end_program(sim, index);
        break;
    case ACTION_REST:
    case ACTIONS:
        break;
    }
}

/* Draws the faults of a client: it leaves, stops reading, or closes. False when it has gone. */
static bool misbehave(struct sim *sim, uint32_t index)
{
    struct sim_client *client = client_at(sim, index);
    if (sim_fault(sim, SIM_FAULT_LEAVE)) {
        sim_say(sim, "client %u leaves with %u calls open", index, client->calls_open);
        sim_client_part(sim, index);
        return false;
    }
    if (sim_fault(sim, SIM_FAULT_RESET)) {
        sim_say(sim, "client %u: its connection is reset", index);
        sim_reset(sim, client->peer);
        sim_client_part(sim, index);
        return false;
    }
    if (!sim->peers[client->peer].finished && sim_fault(sim, SIM_FAULT_FINISH)) {
        sim_say(sim, "client %u half-closes", index);
        client->excused = true;
        sim_finish(sim, client->peer);
    }
    if (sim->now_us >= client->stalled_until_us && sim_fault(sim, SIM_FAULT_STALL)) {
        uint64_t stall_us = sim_time(sim, STALL_US_MAX);
        client->stalled_until_us = sim->now_us + stall_us;
        client->excused = true;
        sim_say(sim, "client %u does not read for %llu us", index, (unsigned long long)stall_us);
    }
    return true;
}

/* A client that has half-closed sends nothing, and none asks much more than is answered. */
static bool may_act(const struct sim *sim, const struct sim_client *client)
{
    return client->state == SIM_OPEN && !sim->peers[client->peer].finished &&
           client->answers_due + client->pongs_due < UNANSWERED_MAX;
}

static bool is_without_sdk(const struct sim_client *client)
{
    return client->is_hostile || client->is_operator;
}

/* A turn of a client without the SDK. In the calm phase it leaves. */
static void take_own_turn(struct sim *sim, uint32_t index)
{
    struct sim_client *client = client_at(sim, index);
    if (sim->calm) {
        sim_client_part(sim, index);
        return;
    }
    if (sim->now_us >= client->stalled_until_us) {
        (client->is_hostile ? sim_hostile_read : sim_operator_read)(sim, index);
    }
    if (sim_is_over(sim, client->peer)) {
        sim_client_part(sim, index);
    } else if (misbehave(sim, index) && !sim->peers[client->peer].finished) {
        (client->is_hostile ? sim_hostile_act : sim_operator_act)(sim, index);
    }
}

static void take_flow_turn(struct sim *sim, uint32_t index)
{
    if (!sim_flow_exchange(sim, index)) {
        return;
    }
    if (sim->calm) {
        sim_flow_finish(sim, index);
    } else if (sim_choose(sim, 64) == 63) {
        sim_say(sim, "client %u leaves with %u workflows open", index, sim_flows_open(sim, index));
        sim_client_part(sim, index);
    } else if (misbehave(sim, index) && may_act(sim, client_at(sim, index))) {
        for (uint32_t i = sim_choose(sim, ACTIONS_MAX + 1); i > 0; i--) {
            sim_flow_act(sim, index);
        }
    }
}

static void take_turn(struct sim *sim, uint32_t index)
{
    struct sim_client *client = client_at(sim, index);
    if (client->state == SIM_AWAY) {
        bool comes = !sim->calm || client->has_session;
        if (comes && sim->now_us >= client->stalled_until_us) {
            sim_client_connect(sim, index);
        }
        return;
    }
    if (is_without_sdk(client)) {
        take_own_turn(sim, index);
        return;
    }
    if (client->has_flows) {
        take_flow_turn(sim, index);
        return;
    }
    if (!sim_client_exchange(sim, index)) {
        return;
    }
    if (sim->calm || !misbehave(sim, index) || !may_act(sim, client)) {
        return;
    }
    for (uint32_t i = sim_choose(sim, ACTIONS_MAX + 1); i > 0; i--) {
        act(sim, index);
    }
}

/* A client whose turns move no byte acts less and less often, until there is something to read. */
static uint64_t next_turn_us(struct sim *sim, struct sim_client *client, uint64_t moved_before)
{
    client->idle_turns = client->moved == moved_before ? client->idle_turns + 1 : 0;
    uint32_t doublings = client->idle_turns < IDLE_DOUBLINGS_MAX ? client->idle_turns
                                                                 : IDLE_DOUBLINGS_MAX;
    return sim->now_us + ((1 + sim_time(sim, sim->swarm.think_us_max)) << doublings);
}

void sim_clients_wake(struct sim *sim, uint32_t index)
{
    struct sim_client *client = client_at(sim, index);
    uint64_t soon_us = sim->now_us + 1 + sim->swarm.think_us_max / 8;
    if (client->next_us > soon_us && sim->now_us >= client->stalled_until_us) {
        client->next_us = soon_us;
    }
}

void sim_clients_act(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->swarm.clients; i++) {
        struct sim_client *client = client_at(sim, i);
        if (client->next_us <= sim->now_us && sim->tenants.is_on) {
            sim_tenants_turn(sim, i);
        } else if (client->next_us <= sim->now_us) {
            uint64_t moved = client->moved;
            take_turn(sim, i);
            bool rests = sim->calm && client->state == SIM_AWAY && !client->has_session;
            client->next_us = rests ? UINT64_MAX : next_turn_us(sim, client, moved);
        }
    }
}

uint64_t sim_clients_next_us(const struct sim *sim)
{
    uint64_t next_us = UINT64_MAX;
    for (uint32_t i = 0; i < sim->swarm.clients; i++) {
        next_us = sim->clients[i].next_us < next_us ? sim->clients[i].next_us : next_us;
    }
    return next_us;
}

bool sim_clients_are_done(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->swarm.clients; i++) {
        const struct sim_client *client = &sim->clients[i];
        bool has_session = !is_without_sdk(client) && !client->has_flows;
        if (client->calls_open > 0 || client->answers_due > 0 || client->pongs_due > 0 ||
            sim_flows_open(sim, i) > 0 ||
            (client->state != SIM_AWAY && (!has_session || client->agx.out_bytes > 0))) {
            return false;
        }
    }
    return true;
}

void sim_clients_leave(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->swarm.clients; i++) {
        if (sim->clients[i].state != SIM_AWAY) {
            sim_client_part(sim, i);
        }
    }
}
