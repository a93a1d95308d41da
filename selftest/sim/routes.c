/* SPDX-License-Identifier: MIT */
/*
 * What: the naive load balancer (selftest/fake/naive_route.h) beside the real one: which engine
 * each call goes to, when it arrives and when its engine stops serving. The calls of struct world
 * drive it, as they do lockstep.c:
 *
 *   engine_poll()       before each settle: what the one before it has ended, and moved
 *   the first launch    after intake: the commands, in their order
 *
 * A few things are taken from the real one, and only checked to be possible: in which order calls
 * leave an engine, where the naive scheduler is off; what calls find, where KV has changed since it
 * could be asked; and a pass in which a call ends as it arrives, since its entry of the process
 * table may be another program's by then. From the first workflow on nothing is followed: the calls
 * that it makes come in an order of their own.
 */
#include <string.h>

#include "selftest/fake/sched_view.h"
#include "selftest/sim/sim.h"

static struct naive_routes *naive_of(struct sim *sim)
{
    return &sim->routes.naive;
}

static const struct call *call_at(const struct sim *sim, uint32_t slot)
{
    return &sim->loop.calls.calls[slot];
}

void sim_routes_init(struct sim *sim)
{
    memset(&sim->routes, 0, sizeof sim->routes);
    sim->routes.is_on = true;
    naive_routes_init(naive_of(sim), &sim->loop.sched.settings);
}

/* When no engine has launched, this is looked at after net has told its client, and freed it. */
static bool is_over(const struct call *call)
{
    return call->state != CALL_QUEUED && call->state != CALL_RUNNING;
}

static void close_finished(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->limits.calls; i++) {
        struct naive_place *place = &naive_of(sim)->calls[i];
        place->open = place->open && !is_over(call_at(sim, i));
    }
}

/* ---- a pass begins --------------------------------------------------------------------------- */

/* What each engine holds of the prompt of the pass's first command, if that is a call. */
static void ask_first(struct sim *sim)
{
    struct sim_routes *routes = &sim->routes;
    const struct exchange *exchange = &sim->loop.exchange;
    routes->asked = CALL_NONE;
    if (ring_is_empty(&exchange->inbox_ring)) {
        return;
    }
    uint32_t at = exchange->inbox_ring.head & (exchange->inbox_ring.capacity - 1);
    const struct command *command = &exchange->inbox[at];
    if (command->kind == COMMAND_CALL) {
        routes->asked = command->call;
        for (uint32_t i = 0; i < sim->limits.engines; i++) {
            routes->found[i] = sched_view_found(&sim->loop.sched, i, call_at(sim, command->call));
        }
    }
}

static void begin_pass(struct sim *sim)
{
    struct sim_routes *routes = &sim->routes;
    routes->has_taken_in = false;
    routes->is_still = true;
    close_finished(sim);                /* a drain ends calls at the end of a pass */
    for (uint32_t i = 0; i < sim->limits.calls; i++) {
        const struct call *call = call_at(sim, i);
        routes->was_running[i] = call->state == CALL_RUNNING;
        routes->was_cancelled[i] = call->cancel;
    }
    for (uint32_t i = 0; i < sim->limits.programs; i++) {
        routes->met[i].misses = sched_view_misses(&sim->loop.sched, i);     /* plans change it */
    }
    ask_first(sim);
}

/* ---- after a settle -------------------------------------------------------------------------- */

/* True when a call that is over ended with the step that it was in, not by a command or deadline of
 * this pass. */
static bool ended_with_step(const struct sim *sim, uint32_t slot)
{
    const struct call *call = call_at(sim, slot);
    bool was_asked = call->finish == CALL_FINISH_CANCELLED ||
                     call->finish == CALL_FINISH_STOP_TEXT ||
                     call->finish == CALL_FINISH_DEADLINE;
    return sim->routes.was_running[slot] &&
           (!was_asked || sim->routes.was_cancelled[slot] || call->expired);
}

static void close_ended(struct sim *sim, uint32_t engine)
{
    for (uint32_t i = 0; i < sim->limits.calls; i++) {
        struct naive_place *place = &naive_of(sim)->calls[i];
        if (place->open && place->engine == engine && is_over(call_at(sim, i)) &&
            ended_with_step(sim, i)) {
            place->open = false;
        }
    }
}

/* What was not followed is as the real one has it. */
static void take_over(struct sim *sim)
{
    struct naive_routes *naive = naive_of(sim);
    const struct sched *sched = &sim->loop.sched;
    naive->turn = sched_view_turn(sched);
    for (uint32_t i = 0; i < sim->limits.programs; i++) {
        naive->assigned[i] = sched_view_assigned(sched, i, NAIVE_ENGINE_NONE);
    }
}

static void require_open(struct sim *sim, uint32_t slot, uint32_t engine)
{
    bool may = naive_of(sim)->serves[engine] || !naive_any_serves(naive_of(sim));
    SIM_REQUIRE(sim, may, INVARIANT_ROUTE, "call %u goes to engine %u, which does not serve", slot,
                engine);
}

/* The call has come to an engine. `found`: what each has of its prompt, or NULL. */
static void route(struct sim *sim, uint32_t slot, const uint32_t *found, bool is_sure)
{
    struct naive_routes *naive = naive_of(sim);
    const struct call *call = call_at(sim, slot);
    const struct naive_asked asked = {
        .call = slot, .program = call->program, .prompt = call->prompt_tokens,
        .misses = sim->routes.met[call->program].misses,
        .was_open = naive->calls[slot].open, .found = found};
    naive->calls[slot].open = false;
    is_sure = is_sure && !sim->routes.is_taken_over &&
              (found != NULL || !naive_must_ask(naive, &asked));
    require_open(sim, slot, call->engine);
    if (!is_sure) {
        naive->calls[slot] = (struct naive_place){
            .open = true, .engine = call->engine, .program = call->program};
        sim->routes.is_taken_over = true;
        return;
    }
    uint32_t engine = naive_route(naive, &asked);
    SIM_REQUIRE(sim, engine == call->engine, INVARIANT_ROUTE,
                "call %u of program %u, prompt of %u tokens, goes to engine %u, not %u", slot,
                call->program, call->prompt_tokens, call->engine, engine);
    sim->routes.routed++;
}

/* The calls at the engine, in the order in which they leave it. */
static uint32_t order_of(struct sim *sim, uint32_t engine, uint32_t *slots)
{
    uint32_t count = 0;
    if (sim->lockstep.is_on) {
        return naive_order(&sim->lockstep.naive, engine, slots);
    }
    for (uint32_t i = 0; i < sim->limits.calls; i++) {
        const struct naive_place *place = &naive_of(sim)->calls[i];
        if (place->open && place->engine == engine) {
            slots[count++] = i;
        }
    }
    return count;
}

/* Nothing has happened to KV since the settle, but for what is asked for. */
static bool may_ask(const struct sim *sim, uint32_t settled)
{
    return sim->lockstep.is_on && settled + 1 < sim->limits.engines;
}

/* Until the worker is lost, a call that has blocks or a row stays. What a command has ended since
 * the settle may have been such a call. */
static bool may_stay(const struct sim *sim, uint32_t engine, uint32_t slot)
{
    const struct call *call = call_at(sim, slot);
    return call->state != CALL_QUEUED ||
           kvmem_call_blocks(sched_view_kv(&sim->loop.sched, engine), slot) > 0;
}

static void move(struct sim *sim, uint32_t slot, uint32_t settled)
{
    uint32_t found[SIM_ENGINES_MAX];
    const struct call *call = call_at(sim, slot);
    for (uint32_t e = 0; e < sim->limits.engines; e++) {
        found[e] = sched_view_found(&sim->loop.sched, e, call);
    }
    route(sim, slot, may_ask(sim, settled) ? found : NULL, sim->lockstep.is_on);
    if (sim->lockstep.is_on) {
        naive_move(&sim->lockstep.naive, slot, call->engine);
    }
}

static void leave(struct sim *sim, uint32_t engine, uint32_t settled)
{
    uint32_t slots[NAIVE_CALLS_MAX], stay = 0;
    uint32_t count = order_of(sim, engine, slots);
    for (uint32_t i = 0; i < count; i++) {
        const struct call *call = call_at(sim, slots[i]);
        bool stays = call->engine == engine;
        SIM_REQUIRE(sim, !stays || may_stay(sim, engine, slots[i]), INVARIANT_ROUTE,
                    "call %u, state %d, stays at engine %u, which does not serve", slots[i],
                    call->state, engine);
        stay += stays;
        if (!stays) {
            move(sim, slots[i], settled);
        }
    }
    if (stay == 0) {
        naive_left(&sim->lockstep.naive, engine);
    }
}

/* `from` serves, and `to` begins to. In which order calls go is known in lockstep; that one stays
 * though it might go can be judged before a plan has changed what it has. */
static void give(struct sim *sim, uint32_t from, uint32_t to)
{
    uint32_t slots[NAIVE_CALLS_MAX], count = order_of(sim, from, slots);
    bool is_exact = sim->lockstep.is_on && !sim->routes.is_taken_over;
    for (uint32_t i = 0; i < count; i++) {
        const struct call *call = call_at(sim, slots[i]);
        bool went = call->engine != from, is_suspect = call->company_max > 0;
        bool may = !is_suspect && naive_may_go(naive_of(sim), slots[i], to);
        bool may_tell = is_exact && to + 1 < sim->limits.engines;
        SIM_REQUIRE(sim, !went || !is_exact || (may && call->engine == to), INVARIANT_ROUTE,
                    "call %u goes from engine %u to %u, which begins to serve", slots[i], from,
                    call->engine);
        SIM_REQUIRE(sim, went || !may || !may_tell || may_stay(sim, from, slots[i]),
                    INVARIANT_ROUTE, "call %u stays at engine %u, while %u begins to serve",
                    slots[i], from, to);
        if (went) {
            naive_go(naive_of(sim), slots[i], to);
        }
        if (went && sim->lockstep.is_on) {
            naive_move(&sim->lockstep.naive, slots[i], to);
        }
    }
}

static void take_share(struct sim *sim, uint32_t engine)
{
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        if (naive_of(sim)->serves[i] && i != engine) {
            give(sim, i, engine);
        }
    }
}

static void follow_settle(struct sim *sim, uint32_t settled)
{
    struct naive_routes *naive = naive_of(sim);
    bool serves = sched_view_serves(&sim->loop.sched, settled);
    bool has_changed = naive->serves[settled] != serves || sim->routes.was_lost;
    close_ended(sim, settled);
    if (has_changed) {
        naive_serves(naive, settled, serves);
    }
    for (uint32_t i = 0; has_changed && i < sim->limits.engines; i++) {
        if (naive_any_serves(naive) && !naive->serves[i]) {
            leave(sim, i, settled);
        }
    }
    if (has_changed && serves) {
        take_share(sim, settled);
    }
}

static void end_hook(struct sim *sim)
{
    if (sim->routes.is_taken_over) {
        take_over(sim);
    }
    sim->routes.is_taken_over = false;
}

void sim_routes_poll(struct sim *sim, uint32_t engine, enum world_engine result)
{
    struct sim_routes *routes = &sim->routes;
    if (sim->limits.engines == 1 || !routes->is_on) {
        return;
    }
    if (engine == 0) {
        begin_pass(sim);
    } else {
        follow_settle(sim, engine - 1);
    }
    end_hook(sim);
    routes->was_lost = result == WORLD_ENGINE_LOST;
    routes->is_still = routes->is_still && result != WORLD_ENGINE_LOST &&
                       result != WORLD_ENGINE_DONE;
}

/* ---- after intake ---------------------------------------------------------------------------- */

/* The entry is another program's than before. */
static void meet_program(struct sim *sim, const struct call *call)
{
    struct sim_met *met = &sim->routes.met[call->program];
    const struct program *entry = &sim->loop.sched.programs[call->program];
    bool is_same = met->domain == call->domain &&
                   memcmp(met->id, call->program_id, sizeof met->id) == 0;
    bool is_its = entry->in_use && entry->domain == call->domain &&
                  memcmp(entry->id, call->program_id, sizeof met->id) == 0;
    if (!is_same || (is_its && entry->salt != met->salt)) {
        naive_of(sim)->assigned[call->program] = NAIVE_ENGINE_NONE;
        met->misses = false;
    }
    met->domain = call->domain;
    met->salt = entry->salt;
    memcpy(met->id, call->program_id, sizeof met->id);
}

static void arrive(struct sim *sim, uint32_t index, bool is_doomed, bool is_sure)
{
    struct sim_routes *routes = &sim->routes;
    const struct call *call = call_at(sim, index);
    if (sim_was_refused(call)) {
        return;
    }
    meet_program(sim, call);
    route(sim, index, routes->asked == index && routes->is_still ? routes->found : NULL, is_sure);
    naive_of(sim)->calls[index].open = !is_doomed;
}

static void cancel(struct sim *sim, uint32_t index)
{
    const struct call *call = call_at(sim, index);
    bool is_its_end =
        call->finish == CALL_FINISH_CANCELLED || call->finish == CALL_FINISH_STOP_TEXT;
    if (is_over(call) && is_its_end) {
        naive_of(sim)->calls[index].open = false;
    }
}

static bool has_doomed(const struct sim_lockstep *lockstep)
{
    bool has = false;
    for (uint32_t i = 0; i < lockstep->commands_count; i++) {
        has = has || lockstep->is_doomed[i];
    }
    return has;
}

void sim_routes_take_in(struct sim *sim)
{
    struct sim_routes *routes = &sim->routes;
    const struct sim_lockstep *lockstep = &sim->lockstep;
    if (sim->limits.engines == 1 || !routes->is_on || routes->has_taken_in) {
        return;
    }
    routes->has_taken_in = true;
    follow_settle(sim, sim->limits.engines - 1);
    bool is_sure = !has_doomed(lockstep);
    for (uint32_t i = 0; i < lockstep->commands_count && routes->is_on; i++) {
        const struct command *command = &lockstep->commands[i];
        if (command->kind == COMMAND_CALL) {
            arrive(sim, command->call, lockstep->is_doomed[i], is_sure);
        } else if (command->kind == COMMAND_CANCEL) {
            cancel(sim, command->call);
        }
        routes->is_on = command->kind != COMMAND_WORKFLOW_OPEN;
    }
    close_finished(sim);
    end_hook(sim);
}
