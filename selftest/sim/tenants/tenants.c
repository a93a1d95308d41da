/* SPDX-License-Identifier: MIT */
/*
 * What: the isolation oracle (tenants.h): the world of both runs, the victim's turns, and what is
 * required of each of its calls.
 *
 * All rounds take the same time, and nothing fails: so what a call takes beyond what it needs is
 * what the others have cost it.
 */
#include "selftest/sim/tenants/tenants.h"

#include <string.h>

#include "net/kept/replies.h"
#include "sched/engine/active/exchange.h"
#include "sched/program.h"
#include "selftest/sim/sim.h"

#define PLACE_US            20000       /* 10 ms until HELLO, and until AUTH: decision 0087 */
#define CONTEXTS_MAX        40          /* that fit the KV */
#define AROUND_ROUND_US     200         /* passes that take results in and plan; clients' turns */
#define POLL_US             500         /* at most: bytes wake it */
#define PASSES_MAX          4000000
#define DOMAINS_MAX         (SIM_KEYS - 1)  /* of attackers; each has a key */
#define ATTACKERS_MAX       24

static struct {                         /* of the run without attackers */
    bool is_attacked;
    uint32_t cached[SIM_VICTIM_CALLS];
    uint32_t worst;
} past;

/* ---- the world ------------------------------------------------------------------------------- */

/* Every table has a place for each account, so each has its minimum. */
static void draw_tables(struct sim *sim)
{
    swarm_setf(sim, "limits.connections=%u", sim_between(sim, 24, SIM_CONNECTIONS_MAX));
    swarm_setf(sim, "limits.calls=%u", sim_between(sim, 12, SIM_CALLS_MAX));
    swarm_setf(sim, "limits.calls_per_connection=12");
    swarm_setf(sim, "limits.programs=%u", sim_between(sim, 12, SIM_PROGRAMS_MAX));
    swarm_setf(sim, "limits.replies=%u", sim_between(sim, 12, 32));
    swarm_setf(sim, "limits.reply_tokens=%u", sim_between(sim, 1024, 4096));
    swarm_setf(sim, "limits.reserve=0.%u", sim_between(sim, 5, 6));
    swarm_setf(sim, "net.preauth=%u", sim_between(sim, 1, 12));
    swarm_setf(sim, "auth.tcp=psk");
    swarm_setf(sim, "auth.keys=drawn");
    swarm_setf(sim, "engine.canary=0");
    swarm_setf(sim, "engine.doubt=0");
}

static void draw_engine(struct sim *sim)
{
    static const char *const policies[] = {"plas", "atlas", "foresight", "mlfq", "fcfs", "rr"};
    uint32_t context_tokens = sim_between(sim, 32, SIM_CONTEXT_MAX);
    uint32_t block_tokens = 8 * sim_between(sim, 1, 4);
    uint32_t each = (context_tokens + block_tokens - 1) / block_tokens;
    uint32_t contexts = sim_choose(sim, 2) == 0 ? CONTEXTS_MAX : sim_between(sim, 4, 16);
    swarm_setf(sim, "limits.context_tokens=%u", context_tokens);
    swarm_setf(sim, "kv.block_tokens=%u", block_tokens);
    swarm_setf(sim, "kv.device_blocks=%u", contexts * each);
    swarm_setf(sim, "kv.host_ratio=%u", sim_choose(sim, 2) * sim_choose(sim, 3));
    swarm_setf(sim, "sched.policy=%s", policies[sim_choose(sim, 6)]);
    swarm_setf(sim, "sched.queues=%u", sim_between(sim, 1, 6));
    swarm_setf(sim, "sched.steps_per_plan=%u", sim_between(sim, 1, 8));
    swarm_setf(sim, "sched.batch=%u", sim_between(sim, 2, 16));
    swarm_setf(sim, "sched.prefill_tokens=%u", sim_between(sim, 8, 128));
    swarm_setf(sim, "sched.standby=%u", sim_choose(sim, 8));
    swarm_setf(sim, "sched.active_set=%s", sim_choose(sim, 2) == 0 ? "auto" : "off");
    sim->tenants.round_us = 2000u * sim_between(sim, 1, 10);
}

static void draw_keys(struct sim *sim)
{
    struct config_keys *keys = &sim->keys;
    sim->tenants.tenants = 1 + sim_between(sim, 1, DOMAINS_MAX);
    sim->tenants.attackers = sim_between(sim, 4, ATTACKERS_MAX);
    keys->domains_count = keys->count = sim->tenants.tenants;
    for (uint32_t i = 0; i < keys->count; i++) {
        keys->weights[i] = 1;
        keys->domains[i][0] = (char)('a' + i);
        keys->keys[i] = (struct config_key){.domain = i};
        keys->keys[i].id[0] = keys->keys[i].secret[0] = (uint8_t)('k' + i);
    }
}

/* Its calls go on from each other; where the next one would not fit, another program begins. */
static void draw_victim(struct sim *sim)
{
    struct sim_tenants *tenants = &sim->tenants;
    uint32_t context_tokens = sim->limits.context_tokens, program = 0, tokens = 0;
    tenants->calls_count = sim_between(sim, 4, SIM_VICTIM_CALLS);
    for (uint32_t i = 0; i < tenants->calls_count; i++) {
        struct sim_victim_call *call = &tenants->calls[i];
        *call = (struct sim_victim_call){
            .more = sim_between(sim, 1, context_tokens / 4),
            .max_tokens = sim_between(sim, 1, context_tokens / 4),
            .think_us = sim_time(sim, 2 * SIM_SECOND_US),
            .comes_anew = sim_choose(sim, 4) == 3};
        bool fits = tokens + call->more + call->max_tokens <= context_tokens;
        program = fits ? program : program + 1;
        tokens = (fits ? tokens : 0) + call->more + call->max_tokens;
        call->program = program % SIM_PROGRAMS_MAX;
    }
}

static void draw(struct sim *sim)
{
    config_defaults(&sim->options);
    sim->swarm = (struct swarm){
        .engines = sim->tape->engines, .vocab_tokens = sim_between(sim, 6, 200), .has_keys = true,
        .descriptors = SIM_PEERS_MAX, .ring_bytes = SIM_RING_BYTES, .programs = SIM_PROGRAMS_MAX,
        .think_us_max = 8};
    draw_tables(sim);
    draw_engine(sim);
    swarm_derive(sim);
    draw_keys(sim);
    draw_victim(sim);
    sim->swarm.round_us = sim->tenants.round_us;
    sim->swarm.clients = 1 + (past.is_attacked ? sim->tenants.attackers : 0);
    sim->tenants.is_on = true;
}

static void seat(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->swarm.clients; i++) {
        struct sim_client *client = &sim->clients[i];
        client->listener = SIM_LISTENER_TCP;
        client->uid = 0;
        client->key = i == SIM_VICTIM ? 0 : 1 + i % (sim->tenants.tenants - 1);
        client->next_us = sim->now_us;
    }
}

/* ---- what is required ------------------------------------------------------------------------ */

static uint64_t bound_us(const struct sim *sim, const struct sim_call *call, uint32_t cached)
{
    const struct sim_tenants *tenants = &sim->tenants;
    uint64_t unit_us = tenants->round_us + AROUND_ROUND_US, others = tenants->tenants - 1;
    uint64_t step_us = unit_us * sim->limits.steps_per_plan;
    uint64_t prefill = sim->limits.prefill_tokens;
    uint64_t chunks = (call->prompt_tokens - cached + prefill - 1) / prefill;
    uint64_t need_us = chunks * step_us + call->expected * unit_us;
    return tenants->tenants * need_us + (1 + tenants->tenants) * step_us +
           others * tenants->break_even_us;
}

static void check_latency(struct sim *sim, const struct sim_call *call)
{
    uint64_t took_us = sim->now_us - call->sent_us;
    uint64_t most_us = bound_us(sim, call, past.cached[sim->tenants.at]);
    uint32_t part = (uint32_t)(took_us * 1000 / most_us);
    past.worst = part > past.worst ? part : past.worst;
    sim_say(sim, "the victim's call %u took %llu us of %llu", sim->tenants.at,
            (unsigned long long)took_us, (unsigned long long)most_us);
    SIM_REQUIRE(sim, took_us <= most_us, INVARIANT_TENANTS,
                "the victim's call %u took %llu us; its share allows %llu", sim->tenants.at,
                (unsigned long long)took_us, (unsigned long long)most_us);
}

/* What it has left before, where that is within its minimum of KV. With several engines it may come
 * to another one. */
static void check_cached(struct sim *sim, const struct sim_call *call)
{
    uint32_t blocks = kvmem_blocks_ceil(call->prompt_tokens, sim->limits.kv_block_tokens);
    uint32_t before = past.cached[sim->tenants.at];
    if (sim->limits.engines == 1 && blocks <= sim->quotas.of[QUOTA_KV_BLOCKS][1].min) {
        SIM_REQUIRE(sim, call->cached_tokens >= before, INVARIANT_TENANTS,
                    "the victim's call %u finds %u tokens of its past, and %u alone",
                    sim->tenants.at, call->cached_tokens, before);
    }
}

/* One with log probabilities is not kept. */
static void check_reply(struct sim *sim, const struct sim_call *call)
{
    if (call->frame.want_logprobs) {
        return;
    }
    for (uint32_t i = 0; i < sim->limits.replies; i++) {
        const struct net_reply *reply = &sim->loop.net.replies.records[i];
        if (reply->number != 0 && reply->domain == net_domain_of_key(0) &&
            reply->done.call_id == call->call_id) {
            return;
        }
    }
    sim_fail(sim, INVARIANT_TENANTS, "what came of the victim's call %u is not kept",
             sim->tenants.at);
}

static void check_program(struct sim *sim, uint32_t number)
{
    uint8_t id[CALL_PROGRAM_ID_BYTES];
    sim_program_id(number, id);
    for (uint32_t i = 0; i < sim->limits.programs; i++) {
        const struct program *program = &sim->loop.sched.programs[i];
        if (program->in_use && program->domain == net_domain_of_key(0) &&
            memcmp(program->id, id, sizeof id) == 0) {
            return;
        }
    }
    sim_fail(sim, INVARIANT_TENANTS, "the victim's program is forgotten before its call %u",
             sim->tenants.at);
}

/* The tokens themselves are the business of oracle.c. */
static void end_call(struct sim *sim)
{
    struct sim_tenants *tenants = &sim->tenants;
    const struct sim_call *call = tenants->open;
    SIM_REQUIRE(sim, call->received == call->expected, INVARIANT_TENANTS,
                "the victim's call %u was refused, or cut off, with %u of %u tokens", tenants->at,
                call->received, call->expected);
    if (past.is_attacked) {
        check_cached(sim, call);
        check_latency(sim, call);
    } else {
        past.cached[tenants->at] = call->cached_tokens;
    }
    check_reply(sim, call);
    tenants->open = NULL;
    tenants->at++;
    tenants->act_us = 0;
}

/* ---- the victim ------------------------------------------------------------------------------ */

static void begin_call(struct sim *sim)
{
    struct sim_tenants *tenants = &sim->tenants;
    const struct sim_victim_call *next = &tenants->calls[tenants->at];
    if (tenants->at > 0 && next->program == tenants->calls[tenants->at - 1].program) {
        check_program(sim, next->program);
    } else {
        sim->programs[next->program].tokens_count = 0;
    }
    struct sim_call like = {.program = next->program, .prompt_tokens = next->more,
                            .max_tokens = next->max_tokens};
    tenants->open = sim_call_follow(sim, SIM_VICTIM, &like);
    SIM_REQUIRE(sim, tenants->open != NULL, INVARIANT_WORLD, "no room for the victim's call");
    tenants->open->sent_us = sim->now_us;
    tenants->break_even_us = 0;
    sim_client_call(sim, tenants->open);
    (void)sim_client_exchange(sim, SIM_VICTIM);
}

static void come(struct sim *sim)
{
    sim->tenants.came_us = sim->now_us;
    sim->clients[SIM_VICTIM].stalled_until_us = 0;
    sim_client_connect(sim, SIM_VICTIM);
    (void)sim_client_exchange(sim, SIM_VICTIM);
}

/* Each of the others may be before it in the queue, and each place is free for the next one after
 * PLACE_US. No engine serves when it comes for the first time. */
static void note_admission(struct sim *sim)
{
    uint64_t took_us = sim->now_us - sim->tenants.came_us;
    uint64_t turns = 2 + sim->tenants.attackers / sim->limits.preauth;
    sim->tenants.came_us = 0;
    sim_say(sim, "the victim is admitted after %llu us", (unsigned long long)took_us);
    SIM_REQUIRE(sim, took_us <= turns * PLACE_US || sim->tenants.at == 0, INVARIANT_TENANTS,
                "the victim was admitted after %llu us, and %llu are enough",
                (unsigned long long)took_us, (unsigned long long)(turns * PLACE_US));
}

static void note_break_even(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        uint64_t even_us = sched_exchange_break_even_us(&sim->loop.sched.engines[i], 0);
        uint64_t *most_us = &sim->tenants.break_even_us;
        *most_us = even_us > *most_us ? even_us : *most_us;
    }
}

/* Between two calls. */
static void act(struct sim *sim)
{
    struct sim_tenants *tenants = &sim->tenants;
    struct sim_victim_call *next = &tenants->calls[tenants->at];
    tenants->act_us = tenants->act_us == 0 ? sim->now_us + next->think_us : tenants->act_us;
    if (sim->now_us < tenants->act_us) {
        return;
    }
    if (next->comes_anew) {
        next->comes_anew = false;
        sim_client_part(sim, SIM_VICTIM);
        tenants->act_us = sim->now_us + 1000;   /* the server hears of it */
    } else {
        begin_call(sim);
    }
}

static void take_victims_turn(struct sim *sim)
{
    struct sim_tenants *tenants = &sim->tenants;
    struct sim_client *client = &sim->clients[SIM_VICTIM];
    if (client->state == SIM_AWAY && sim->now_us >= tenants->act_us) {
        come(sim);
    } else if (client->state != SIM_AWAY) {
        SIM_REQUIRE(sim, sim_client_exchange(sim, SIM_VICTIM), INVARIANT_TENANTS,
                    "the victim was disconnected");
    }
    note_break_even(sim);
    if (tenants->open != NULL && !tenants->open->in_use) {
        end_call(sim);
    }
    if (client->state == SIM_OPEN && tenants->came_us != 0) {
        note_admission(sim);
    }
    if (client->state == SIM_OPEN && tenants->open == NULL && tenants->at < tenants->calls_count) {
        act(sim);
    }
    client->next_us = tenants->open == NULL && tenants->act_us > sim->now_us
                          ? tenants->act_us : sim->now_us + POLL_US;
}

void sim_tenants_turn(struct sim *sim, uint32_t client)
{
    if (client == SIM_VICTIM) {
        take_victims_turn(sim);
    } else {
        sim_attacker_turn(sim, client);
    }
}

/* ---- both runs ------------------------------------------------------------------------------- */

static void run_victim(struct sim *sim)
{
    draw(sim);
    sim_boot(sim);
    seat(sim);
    while (sim->tenants.at < sim->tenants.calls_count) {
        bool goes_on = sim_pass(sim);
        SIM_REQUIRE(sim, goes_on && sim->pass < PASSES_MAX, INVARIANT_TENANTS,
                    "the victim waits after %u passes in its call %u", PASSES_MAX,
                    sim->tenants.at);
    }
    invariants_audit(sim);
}

bool sim_tenants_run(struct sim *sim, struct tape *tape, uint64_t seed)
{
    FILE *script = sim->script;
    for (uint32_t i = 0; i < 2; i++) {
        past.is_attacked = i == 1;
        sim->script = past.is_attacked ? script : NULL;
        tape_record(tape, seed, 0);
        if (sim_run_body(sim, tape, run_victim) == SIM_FAILED) {
            sim->script = script;
            return false;
        }
    }
    return true;
}

uint32_t sim_tenants_worst(void)
{
    return past.worst;
}
