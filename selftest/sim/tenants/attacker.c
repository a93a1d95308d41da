/* SPDX-License-Identifier: MIT */
/*
 * What: the tenants that attack. Each client does what a tenant may do, as much of it as it can:
 * calls of fresh programs, of the victim's name and of the victim's ids, prompts as long as the
 * context, or one token; cancels; connections that say nothing, or that go with all calls open.
 * What comes back counts for nothing.
 */
#include <string.h>

#include "selftest/sim/sim.h"

#define TURN_US_MAX     20000
#define AWAY_US_MAX     50000
#define SILENT_US_MAX   (2 * SIM_SECOND_US)
#define ACTIONS_MAX     12              /* in a turn */

/* The SDK's session refers to the call that it was given. One that is overwritten has lost its
 * name: the cancel of it is for another one. */
static struct agx_call *frame_for(uint32_t client, uint64_t number)
{
    static struct agx_call frames[SIM_CLIENTS_MAX][AGX_CALLS_MAX];
    return &frames[client][number % AGX_CALLS_MAX];
}

/* A fresh one, the victim's, or one of a few. */
static void draw_program(struct sim *sim, uint8_t *id)
{
    const struct sim_tenants *tenants = &sim->tenants;
    uint32_t at = tenants->at < tenants->calls_count ? tenants->at : 0;
    uint64_t number = ++sim->tenants.ids;
    switch (sim_choose(sim, 8)) {
    case 0:
        sim_program_id(tenants->calls[at].program, id);
        return;
    case 1:
        sim_program_id(sim_choose(sim, SIM_PROGRAMS_MAX), id);
        return;
    default:
        memset(id, 0xa5, CALL_PROGRAM_ID_BYTES);
        memcpy(id, &number, sizeof number);
    }
}

static uint32_t draw_tokens(struct sim *sim, uint32_t *tokens)
{
    uint32_t most = sim->limits.context_tokens - 1;
    uint32_t count = sim_choose(sim, 2) == 0 ? most : sim_between(sim, 1, most);
    uint32_t theme = sim_theme_choose(sim);
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = sim_theme_token(sim, theme, i);
    }
    return count;
}

static void call(struct sim *sim, uint32_t index)
{
    uint32_t tokens[SIM_CONTEXT_MAX];
    struct sim_client *client = &sim->clients[index];
    uint32_t count = draw_tokens(sim, tokens), room = sim->limits.context_tokens - count;
    struct agx_call *frame = frame_for(index, client->calls_number + 1);
    *frame = (struct agx_call){
        .call_id = ++client->calls_number, .seed = client->calls_number, .repeat_penalty = 1,
        .prompt_ids = tokens, .prompt_ids_count = count,
        .max_tokens = sim_choose(sim, 4) == 0 ? 1 : sim_between(sim, 1, room)};
    draw_program(sim, frame->program_id);
    (void)agx_session_call(&client->agx, frame);
}

static void cancel(struct sim *sim, uint32_t index)
{
    const struct agx_call *frame = frame_for(index, sim_choose(sim, AGX_CALLS_MAX));
    if (frame->call_id != 0) {
        (void)agx_session_cancel(&sim->clients[index].agx, frame->program_id, frame->call_id);
    }
}

static void start_or_end(struct sim *sim, struct sim_client *client)
{
    uint8_t id[CALL_PROGRAM_ID_BYTES];
    draw_program(sim, id);
    if (sim_choose(sim, 2) == 0) {
        (void)agx_session_program_start(&client->agx, id, "attack");
    } else {
        (void)agx_session_program_end(&client->agx, id);
    }
}

static void leave(struct sim *sim, uint32_t index)
{
    struct sim_client *client = &sim->clients[index];
    sim_client_part(sim, index);
    client->stalled_until_us = sim->now_us + sim_time(sim, AWAY_US_MAX);
}

static void act(struct sim *sim, uint32_t index)
{
    struct sim_client *client = &sim->clients[index];
    for (uint32_t i = sim_choose(sim, ACTIONS_MAX); i > 0; i--) {
        switch (sim_choose(sim, 8)) {
        case 0: cancel(sim, index); break;
        case 1: start_or_end(sim, client); break;
        default: call(sim, index);
        }
    }
    if (sim_choose(sim, 64) == 63) {
        leave(sim, index);
    }
}

/* Half of them never say a word, and come again as soon as they are sent away. */
static void come(struct sim *sim, uint32_t index)
{
    struct sim_client *client = &sim->clients[index];
    sim_client_connect(sim, index);
    client->excused = true;
    client->is_silent = sim_choose(sim, 2) == 1;
    client->stalled_until_us =
        client->is_silent ? sim->now_us + sim_between(sim, 1, SILENT_US_MAX) : sim->now_us;
}

void sim_attacker_turn(struct sim *sim, uint32_t index)
{
    struct sim_client *client = &sim->clients[index];
    client->next_us = sim->now_us + sim_between(sim, 1, TURN_US_MAX);
    if (client->state == SIM_AWAY) {
        if (sim->now_us >= client->stalled_until_us) {
            come(sim, index);
        }
    } else if (client->is_silent) {
        if (sim->now_us >= client->stalled_until_us || sim_is_over(sim, client->peer)) {
            leave(sim, index);
        }
    } else if (sim_client_exchange(sim, index) && client->state == SIM_OPEN) {
        act(sim, index);
    }
}
