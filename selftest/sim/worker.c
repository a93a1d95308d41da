/* SPDX-License-Identifier: MIT */
/*
 * What: the workers, one for each engine: how they start, take steps, hang and die, in virtual
 * time.
 *
 * Invariants of this side: the rounds of a step run when their time has come, so early stop finds
 * it half done; a worker that dies takes all KV of both tiers along, and nothing of the others';
 * one that the keeper has given up has no successor. What core and worker say to each other goes
 * over control pages, by the product's own functions.
 */
#include "selftest/sim/sim.h"

#define START_US_MAX    (2 * SIM_SECOND_US)     /* a new worker reads nothing: weights are there */
#define KILLED_US_MAX   (30 * SIM_SECOND_US)    /* until the keeper ends a worker that hangs */
#define SLOW_FACTOR     100
#define NEVER_US        (UINT64_MAX / 4)

static struct sim_engine *engine_of(struct sim *sim, uint32_t index)
{
    SIM_REQUIRE(sim, index < sim->limits.engines, INVARIANT_WORLD,
                "engine %u, which there is not", index);
    return &sim->engines[index];
}

static void start(struct sim *sim, struct sim_engine *engine)
{
    sim_engine_forget(sim, engine);
    engine->has_scribbled = engine->is_left = false;
    engine->worker = SIM_WORKER_STARTS;
    engine->due_us = sim->now_us + 1 + sim_time(sim, START_US_MAX);
}

void sim_workers_init(struct sim *sim)
{
    fake_engine_declare(&sim->declared, &sim->prefixes);
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        struct sim_engine *engine = &sim->engines[i];
        engine->index = i;
        sim_engine_build(sim, engine);
        engine->control = (struct control_engine){.failure = CONTROL_NONE};
        engine->view = (struct control_view){.sequence = 0};
        control_begin(&engine->control, 1);
        engine->asked_us = 0;
        engine->by_hand = engine->is_own = engine->owes_step = engine->is_given_up = false;
        engine->rounds_to_live = 0;
        start(sim, engine);
        (void)control_poll(&engine->view, &engine->control, &engine->fake.step);
    }
}

/* ---- a step ---------------------------------------------------------------------------------- */

static uint64_t draw_round_us(struct sim *sim, const struct sim_engine *engine)
{
    if (engine->by_hand) {
        return NEVER_US;
    }
    if (sim->swarm.round_us > 0) {
        return sim->swarm.round_us;
    }
    uint64_t round_us = 1 + sim_time(sim, sim->swarm.round_us_max);
    return sim_fault(sim, SIM_FAULT_SLOW) ? round_us * SLOW_FACTOR : round_us;
}

static void say_step(struct sim *sim, const struct sim_engine *engine)
{
    const struct step_header *header = step_header(&engine->fake.step);
    sim_say(sim, "engine %u: step %llu: %u rows and %u standbys, %u moves", engine->index,
            (unsigned long long)header->sequence, header->rows_active,
            header->rows_count - header->rows_active, header->moves_count);
}

static void halt(struct sim *sim, struct sim_engine *engine, enum sim_worker how)
{
    engine->worker = how;
    engine->due_us = sim->now_us + sim_time(sim, KILLED_US_MAX);
    sim_say(sim, "worker %u hangs", engine->index);
}

static void take_step(struct sim *sim, struct sim_engine *engine, bool has_stopped)
{
    engine->round_us = draw_round_us(sim, engine);
    engine->rounds_to_live =
        sim_fault(sim, SIM_FAULT_DEATH) ? 1 + sim_choose(sim, sim->limits.steps_per_plan) : 0;
    engine->rounds_to_live = sim_step_is_poisoned(sim, engine) ? 1 : engine->rounds_to_live;
    engine->worker = SIM_WORKER_RUNS;
    engine->due_us = sim->now_us + engine->round_us;
    if (has_stopped || sim_fault(sim, SIM_FAULT_HANG)) {
        halt(sim, engine, SIM_WORKER_HANGS);
        engine->is_beating = !has_stopped && sim_fault(sim, SIM_FAULT_HEART);
        engine->due_us = engine->is_beating ? NEVER_US : engine->due_us;
    }
}

/* Of one that has stopped: the first question since it was heard. */
static void note_asked(struct sim *sim, struct sim_engine *engine)
{
    bool still_owes = engine->worker == SIM_WORKER_STOPPED &&
                      sim->memory.engines[engine->index].beat_us <= engine->asked_us;
    engine->asked_us = still_owes ? engine->asked_us : sim->loop.now_us;
}

/* It has said that it is ready, and is not: what it is told now it will take for old. */
static bool is_early(const struct sim_engine *engine)
{
    return engine->worker == SIM_WORKER_STARTS && engine->has_scribbled;
}

static void require_free(struct sim *sim, const struct sim_engine *engine, const char *what)
{
    SIM_REQUIRE(sim, engine->worker == SIM_WORKER_IDLE || engine->worker == SIM_WORKER_STOPPED ||
                         is_early(engine),
                INVARIANT_WORLD, "%s for a worker that has a step", what);
}

void sim_engine_submit(void *self, uint32_t index)
{
    struct sim *sim = self;
    struct sim_engine *engine = engine_of(sim, index);
    bool has_stopped = engine->worker == SIM_WORKER_STOPPED;
    sim_core_may_die(sim);
    require_free(sim, engine, "a step");
    note_asked(sim, engine);
    sim_engine_begin(sim, engine);
    engine->owes_step = !engine->is_own;
    control_submit(&engine->view, &engine->control);
    say_step(sim, engine);
    if (!is_early(engine)) {
        take_step(sim, engine, has_stopped);
    }
}

/* One that believes that it owes a step beats no more: the keeper ends it. */
static void answer(struct sim *sim, struct sim_engine *engine)
{
    uint64_t before = engine->control.heartbeat;
    if (!sim_fault(sim, SIM_FAULT_HANG)) {
        control_answer(&engine->control, engine->control.worker_epoch, engine->control.asked);
    }
    if (engine->control.heartbeat == before) {
        halt(sim, engine, SIM_WORKER_STOPPED);
    }
}

void sim_engine_ask(void *self, uint32_t index)
{
    struct sim *sim = self;
    struct sim_engine *engine = engine_of(sim, index);
    require_free(sim, engine, "a question");
    note_asked(sim, engine);
    control_ask(&engine->control);
    if (engine->worker == SIM_WORKER_IDLE) {
        answer(sim, engine);
    }
}

/* ---- life and death -------------------------------------------------------------------------- */

static void die(struct sim *sim, struct sim_engine *engine)
{
    sim_say(sim, "worker %u dies", engine->index);
    engine->worker = SIM_WORKER_DIED;
    engine->is_left = false;
    control_begin(&engine->control, engine->control.worker_epoch + 1);
}

/* Several workers may die of one cause. */
static void perish(struct sim *sim, struct sim_engine *engine)
{
    die(sim, engine);
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        struct sim_engine *other = &sim->engines[i];
        if (i != engine->index && other->worker < SIM_WORKER_DIED &&
            sim_fault(sim, SIM_FAULT_TOGETHER)) {
            die(sim, other);
        }
    }
}

/* As appliance/runner.c does. */
static void end_step(struct sim *sim, struct sim_engine *engine)
{
    struct control_engine *control = &engine->control;
    sim_engine_end(sim, engine);
    control_done(control, &engine->fake.step, control->submitted);
    control_answer(control, control->worker_epoch, control->asked);
    engine->worker = engine->is_left ? SIM_WORKER_IDLE : SIM_WORKER_DONE;
    engine->is_left = false;
}

static void run_round(struct sim *sim, struct sim_engine *engine)
{
    bool goes_on = fake_engine_round(&engine->fake) && engine->fake.rows_count > 0;
    if (engine->rounds_to_live > 0 && --engine->rounds_to_live == 0) {
        perish(sim, engine);
    } else if (goes_on) {
        engine->due_us += engine->round_us;
    } else {
        end_step(sim, engine);
    }
}

static void come_up(struct sim *sim, struct sim_engine *engine)
{
    if (sim_fault(sim, SIM_FAULT_DEATH)) {
        perish(sim, engine);
    } else {
        struct control_engine *control = &engine->control;
        control_answer(control, control->worker_epoch, control->asked);
        control->worker_ready = control->worker_epoch;
        engine->worker = SIM_WORKER_IDLE;
    }
}

/* A worker that takes back, before the core has heard it, that it is ready, is ended by the
 * keeper. */
static void scribble(struct sim *sim, struct sim_engine *engine)
{
    sim_worker_scribble(sim, engine);
    if (engine->worker == SIM_WORKER_IDLE && !engine->view.is_ready &&
        engine->control.worker_ready != engine->control.worker_epoch) {
        halt(sim, engine, SIM_WORKER_STOPPED);
    }
}

static bool advance(struct sim *sim, struct sim_engine *engine)
{
    enum sim_worker before = engine->worker;
    bool has_round = false;
    if (before < SIM_WORKER_DIED && sim_fault(sim, SIM_FAULT_SCRIBBLE)) {
        scribble(sim, engine);
    }
    while (engine->worker == SIM_WORKER_RUNS && engine->due_us <= sim->now_us) {
        run_round(sim, engine);
        has_round = true;
    }
    if (engine->worker == SIM_WORKER_STARTS && engine->due_us <= sim->now_us) {
        come_up(sim, engine);
    } else if (engine->worker >= SIM_WORKER_HANGS && engine->worker <= SIM_WORKER_CONDEMNED &&
               engine->due_us <= sim->now_us) {
        perish(sim, engine);
    } else if (engine->worker == SIM_WORKER_IDLE && sim_fault(sim, SIM_FAULT_DEATH)) {
        perish(sim, engine);
    }
    return has_round || engine->worker != before;
}

bool sim_workers_advance(struct sim *sim)
{
    bool has_changed = false;
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        has_changed = advance(sim, &sim->engines[i]) || has_changed;
    }
    return has_changed;
}

static uint64_t next_us(const struct sim_engine *engine)
{
    bool waits = engine->worker == SIM_WORKER_IDLE || engine->worker == SIM_WORKER_DONE ||
                 engine->worker >= SIM_WORKER_DIED;
    return waits ? UINT64_MAX : engine->due_us;
}

uint64_t sim_workers_next_us(const struct sim *sim)
{
    uint64_t first_us = UINT64_MAX;
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        uint64_t own_us = next_us(&sim->engines[i]);
        first_us = own_us < first_us ? own_us : first_us;
    }
    return first_us;
}

void sim_workers_by_hand(struct sim *sim, bool by_hand)
{
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        sim->engines[i].by_hand = by_hand;
        if (!by_hand) {
            sim->engines[i].round_us = 1;
            sim_worker_round(sim, i);
        }
    }
}

void sim_worker_round(struct sim *sim, uint32_t index)
{
    if (sim->engines[index].worker == SIM_WORKER_RUNS) {
        sim->engines[index].due_us = sim->now_us;
    }
}

void sim_worker_kill(struct sim *sim, uint32_t index)
{
    if (sim->engines[index].worker < SIM_WORKER_DIED) {
        die(sim, &sim->engines[index]);
    }
}

void sim_worker_give_up(struct sim *sim, uint32_t index)
{
    sim->engines[index].is_given_up = true;
    sim_worker_kill(sim, index);
}

static void lose_step(struct sim *sim, struct sim_engine *engine)
{
    if (engine->owes_step) {
        sim->counts.steps_lost++;
        sim_step_is_lost(sim, engine);
    }
    engine->owes_step = false;
}

/* One that is in a step ends it, or is ended; then it serves the next core. */
void sim_worker_leave(struct sim *sim, struct sim_engine *engine)
{
    engine->owes_step = false;
    if (engine->worker == SIM_WORKER_DIED) {
        start(sim, engine);
        engine->worker = engine->is_given_up ? SIM_WORKER_GONE : engine->worker;
    }
    engine->worker = engine->worker == SIM_WORKER_DONE ? SIM_WORKER_IDLE : engine->worker;
    engine->is_left = engine->worker == SIM_WORKER_RUNS || engine->worker == SIM_WORKER_HANGS;
    if (engine->worker == SIM_WORKER_HANGS && engine->is_beating) {
        engine->due_us = sim->now_us + sim_time(sim, KILLED_US_MAX);    /* ten times engine.hang */
    }
    control_leave(&engine->control);
    control_adopt(&engine->view, &engine->control);
    (void)control_poll(&engine->view, &engine->control, &engine->fake.step);
    engine->asked_us = sim->loop.now_us;
    if (engine->worker == SIM_WORKER_IDLE) {
        answer(sim, engine);
    }
}

/* The core does not wait for the worker's end. */
void sim_engine_condemn(void *self, uint32_t index, enum world_fault fault)
{
    struct sim *sim = self;
    struct sim_engine *engine = engine_of(sim, index);
    sim_say(sim, "worker %u is condemned: %s", index,
            fault == WORLD_FAULT_LATE ? "late" : "wrong");
    /* Should the core die now, the next one meets another worker. */
    SIM_REQUIRE(sim, fault == WORLD_FAULT_LATE || sim->loop.sched.workflows.cache.known == 0,
                INVARIANT_WORKFLOW, "values of a worker that is wrong are kept");
    lose_step(sim, engine);
    control_condemn(&engine->view, &engine->control,
                    fault == WORLD_FAULT_LATE ? CONTROL_HUNG : CONTROL_WRONG);
    sim_lockstep_condemn(sim, index);
    engine->worker = SIM_WORKER_CONDEMNED;
    engine->due_us = sim->now_us + 1 + sim_time(sim, KILLED_US_MAX);
}

/* What the core hears of a death, once. */
static void bury(struct sim *sim, struct sim_engine *engine)
{
    sim->counts.losses++;
    lose_step(sim, engine);
    start(sim, engine);
    engine->worker = engine->is_given_up ? SIM_WORKER_GONE : engine->worker;
}

static void take_results(struct sim *sim, struct sim_engine *engine)
{
    engine->worker = SIM_WORKER_IDLE;
    engine->owes_step = engine->owes_step && !sim_engine_is_believable(sim, engine);
    sim->counts.steps += !engine->is_own && !engine->owes_step;
}

enum world_engine sim_engine_poll(void *self, uint32_t index)
{
    struct sim *sim = self;
    struct sim_engine *engine = engine_of(sim, index);
    bool hangs_beating = engine->worker == SIM_WORKER_HANGS && engine->is_beating;
    sim_core_may_die(sim);
    engine->control.heartbeat += engine->worker == SIM_WORKER_RUNS || hangs_beating;
    enum world_engine result =
        control_poll(&engine->view, &engine->control, &engine->fake.step);
    sim_worker_check(sim, engine, result);
    if (result == WORLD_ENGINE_DONE) {
        take_results(sim, engine);
    } else if (result == WORLD_ENGINE_LOST) {
        bury(sim, engine);
    }
    sim_mix(sim, (uint64_t)result);
    sim_lockstep_poll(sim, index, result);
    return result;
}

uint64_t sim_engine_heartbeat(void *self, uint32_t index)
{
    return engine_of(self, index)->control.heartbeat;
}
