/* SPDX-License-Identifier: MIT */
/*
 * What: the session of a client: its connection, and the bytes that the SDK's session sends and
 * reads over it, or over the next one.
 *
 * Invariant: the server ends a connection only if its client has given a reason (`excused`), or the
 * run has (deadlines so short, or wake-ups so late, that any client can miss one). One that leaves
 * also ends those of clients that wait for nothing.
 */
#include <string.h>

#include "selftest/sim/sim.h"
#include "tools/sdk/session.h"

#define RESEND_US_MAX   (SIM_SECOND_US / 10)
#define AWAY_US_MIN     1000        /* before a client that was sent away tries again */

static struct sim_client *client_at(struct sim *sim, uint32_t index)
{
    return &sim->clients[index];
}

uint8_t *sim_session_buffer(uint32_t index)
{
    static _Alignas(8) uint8_t bytes[SIM_CLIENTS_MAX][AGX_BUFFER_BYTES_MIN];
    return bytes[index];
}

/* ---- a connection ---------------------------------------------------------------------------- */

/* Begins a session of the SDK, or goes on with the one that lost its connection. */
static void begin_session(struct sim *sim, uint32_t index)
{
    struct sim_client *client = client_at(sim, index);
    if (client->has_session) {
        agx_session_reset(&client->agx);
        sim_oracle_resent(sim, index);
    } else {
        (void)agx_session_init(&client->agx, sim_session_buffer(index), AGX_BUFFER_BYTES_MIN);
    }
    enum agx_result result = agx_session_hello(&client->agx);
    SIM_REQUIRE(sim, result == AGX_OK, INVARIANT_WORLD, "no room for HELLO");
}

void sim_client_connect(struct sim *sim, uint32_t index)
{
    struct sim_client *client = client_at(sim, index);
    uint32_t peer = sim_connect(sim, index);
    if (peer == SIM_NONE) {
        return;
    }
    client->peer = peer;
    client->state = SIM_GREETING;
    client->is_shut_out = sim_is_shut_out(sim, client);
    client->excused = sim->swarm.excuses_all || client->is_shut_out;
    client->blamed = 0;
    client->answers_due = client->pongs_due = client->cancels_sent = 0;
    client->pong_next = client->ping_next = 0;
    client->strays = client->odd_answers = 0;
    sim_say(sim, "client %u connects%s", index, client->is_hostile ? ", a hostile one"
            : client->is_operator ? ", an operator"
            : client->has_session ? ", and goes on"
            : client->has_flows ? ", for workflows" : "");
    if (client->is_hostile || client->has_flows) {
        sim_raw_begin(index);
        if (client->has_flows || sim_choose(sim, 4) < 3) {
            sim_raw_greet(index);
        }
    } else if (!client->is_operator) {
        begin_session(sim, index);
    }
}

/* The client may come back and go on with its calls, or gives them up. */
void sim_client_part(struct sim *sim, uint32_t index)
{
    struct sim_client *client = client_at(sim, index);
    client->has_session = client->has_flows ? sim_flow_part(sim, index)
                                            : client->calls_open > 0 && sim_choose(sim, 2) == 1;
    if (!client->has_session) {
        sim_oracle_lost(sim, index);
    }
    sim_close(sim, client->peer);
    client->peer = SIM_NONE;
    client->state = SIM_AWAY;
    client->answers_due = client->pongs_due = 0;
    client->stalled_until_us = sim->now_us + AWAY_US_MIN + sim_time(sim, SIM_SECOND_US);
}

/* The session has ended by an error of the SDK, which must have a reason. */
static void broken(struct sim *sim, uint32_t index, enum agx_result why)
{
    struct sim_client *client = client_at(sim, index);
    bool is_refusal = why == AGX_ERROR_BUSY && client->state != SIM_OPEN;
    bool is_deadline = why == AGX_ERROR_CLOSED && client->excused &&
                       agx_fault(&client->agx)->code == status_wire(STATUS_GONE_DEADLINE);
    bool has_no_key =
        client->is_shut_out && agx_fault(&client->agx)->code == status_wire(STATUS_BAD_AUTH);
    sim_say(sim, "client %u: %s", index, agx_result_text(why));
    SIM_REQUIRE(sim, why != AGX_ERROR_INDEX && why != AGX_ERROR_DIGEST, INVARIANT_TERMINAL,
                "client %u: %s", index, agx_result_text(why));
    SIM_REQUIRE(sim, is_refusal || is_deadline || has_no_key, INVARIANT_ANSWER,
                "client %u: %s: %s", index, agx_result_text(why), agx_fault(&client->agx)->text);
    sim_client_part(sim, index);
}

/* A call that was accepted, of which this connection has not brought the end. */
static bool has_accepted(const struct agx *agx)
{
    bool is_accepted = false;
    for (uint32_t i = 0; i < AGX_CALLS_MAX; i++) {
        is_accepted = is_accepted || agx->calls[i].state == AGX_CALL_ACCEPTED;
    }
    return is_accepted;
}

void sim_client_gone(struct sim *sim, uint32_t index)
{
    struct sim_client *client = client_at(sim, index);
    sim_say(sim, "client %u: the connection is gone", index);
    SIM_REQUIRE(sim, client->excused || !sim->orders.leaves || client->state != SIM_OPEN ||
                client->is_hostile || client->has_flows || !has_accepted(&client->agx),
                INVARIANT_CLOSE, "client %u was left with an open call", index);
    SIM_REQUIRE(sim, client->excused || client->state != SIM_OPEN || sim->orders.drain,
                INVARIANT_CLOSE, "client %u, which did nothing wrong, was disconnected", index);
    sim_client_part(sim, index);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void write_bytes(struct sim *sim, uint32_t index)
{
    struct sim_client *client = client_at(sim, index);
    uint32_t count = 0;
    const uint8_t *bytes = agx_session_unsent(&client->agx, &count);
    if (count > 0 && sim_fault(sim, SIM_FAULT_DRIP)) {
        client->excused = true;             /* it may be too slow for net.frame_deadline */
        count = 1;
    }
    if (count > 0) {
        uint32_t sent = sim_send(sim, client->peer, bytes, count);
        agx_session_sent(&client->agx, sent);
        client->moved += sent;
    }
}

/* The welcome, and where it asks for a key, the answer to its proof. */
static enum agx_result next_greeting(struct sim *sim, struct sim_client *client)
{
    static const uint8_t nonce[WIRE_NONCE_BYTES] = "a client's nonce";
    struct agx_key key = {.id = ""};
    if (client->state == SIM_PROVING) {
        return agx_session_admitted(&client->agx);
    }
    enum agx_result result = agx_session_welcome(&client->agx);
    if (result != AGX_OK || !client->agx.welcome.needs_key) {
        return result;
    }
    memcpy(key.id, sim->keys.keys[client->key].id, sizeof key.id);
    memcpy(key.secret, sim->keys.keys[client->key].secret, sizeof key.secret);
    client->state = SIM_PROVING;
    result = agx_session_auth(&client->agx, &key, nonce);
    return result == AGX_OK ? agx_session_admitted(&client->agx) : result;
}

static enum agx_result next_event(struct sim *sim, uint32_t index, struct agx_event *event)
{
    struct sim_client *client = client_at(sim, index);
    if (client->state == SIM_OPEN) {
        return agx_session_next(&client->agx, event);
    }
    enum agx_result result = next_greeting(sim, client);
    if (result == AGX_OK) {
        client->state = SIM_OPEN;
        if (client->has_session) {
            agx_session_resume(&client->agx);
        }
        client->has_session = false;
    }
    return result;
}

/* Time until calls are sent again. In the calm phase it is not shorter than the server's hint, as
 * in agx.c; else it is arbitrary. */
static uint64_t busy_us(struct sim *sim, const struct sim_client *client)
{
    uint64_t hint_us = sim->calm ? (uint64_t)client->agx.busy_ms * 1000 : 0;
    return hint_us + sim_time(sim, RESEND_US_MAX);
}

static void resend(struct sim *sim, uint32_t index)
{
    struct sim_client *client = client_at(sim, index);
    if (client->state != SIM_OPEN || client->agx.calls_due == 0) {
        return;
    }
    if (client->agx.is_busy) {
        client->resend_us = sim->now_us + busy_us(sim, client);
        client->agx.is_busy = 0;
        client->agx.busy_ms = 0;
    }
    if (sim->now_us >= client->resend_us) {
        enum agx_result result = agx_session_resend(&client->agx);
        SIM_REQUIRE(sim, result == AGX_OK, INVARIANT_ANSWER, "client %u: a call cannot be sent "
                    "again: %s", index, agx_result_text(result));
    }
}

/* Reads all bytes that are there. False when the connection has ended. */
static bool read_bytes(struct sim *sim, uint32_t index)
{
    struct sim_client *client = client_at(sim, index);
    for (;;) {
        uint32_t room = 0;
        uint8_t *at = agx_session_room(&client->agx, &room);
        uint32_t count = sim_receive(sim, client->peer, at, room);
        agx_session_received(&client->agx, count);
        client->moved += count;
        if (count == 0) {
            break;
        }
        enum agx_result result = AGX_OK;
        while (result == AGX_OK) {
            struct agx_event event;
            bool was_open = client->state == SIM_OPEN;
            result = next_event(sim, index, &event);
            if (result == AGX_OK && was_open) {
                sim_oracle_event(sim, index, &event);
            }
        }
        if (result != AGX_AGAIN) {
            broken(sim, index, result);
            return false;
        }
    }
    if (sim_is_over(sim, client->peer)) {
        sim_client_gone(sim, index);
        return false;
    }
    return true;
}

bool sim_client_exchange(struct sim *sim, uint32_t index)
{
    resend(sim, index);
    write_bytes(sim, index);
    bool reads = sim->calm || sim->now_us >= client_at(sim, index)->stalled_until_us;
    return !reads || read_bytes(sim, index);
}
