/* SPDX-License-Identifier: MIT */
/*
 * What: the naive scheduler (selftest/fake/naive_sched.h) beside the real one, in every pass. The
 * calls of struct world drive it, because they fall between two verbs of the real scheduler:
 *
 *   engine_poll()       before settle and intake: flags of net, the commands, the step's outputs
 *   engine_submit()     after intake and plan, before the launch
 *   the end of a pass   the two are compared
 *
 * When the engine is given up, the real scheduler ends all calls, and the naive one starts again
 * without calls. From a drain on it is off, and once a workflow has been opened: it knows none. It
 * takes two things from the real one: the entry of each program in the process table, and whether
 * that table was full.
 */
#include <string.h>

#include "sched/policy.h"
#include "selftest/sim/sim.h"

static struct sim_lockstep *lockstep_of(struct sim *sim)
{
    return &sim->lockstep;
}

static uint32_t oracle(void *context, const struct call *call, uint32_t known, uint32_t max,
                       uint32_t *tokens)
{
    static struct fake_engine engine;
    const struct sim *sim = context;
    engine.vocab_tokens = sim->limits.vocab_tokens;
    engine.repeats = sim->loop.sched.settings.speculate > 0;
    engine.declared = &sim->declared;
    engine.salts[0] = sim_salt(sim, sim_call_domain(sim, call->slot), call->program_id);
    memcpy(tokens, call->tokens, known * sizeof *tokens);
    return fake_engine_oracle(&engine, tokens, known, max, &call->sampling);
}

void sim_lockstep_init(struct sim *sim)
{
    struct sim_lockstep *lockstep = lockstep_of(sim);
    memset(lockstep, 0, sizeof *lockstep);
    /* Between intake and plan nothing shows which programs became active when. */
    lockstep->is_on = sim->loop.sched.settings.active_programs == SCHED_ACTIVE_ALL;
    lockstep->naive.sched = &sim->loop.sched;
    lockstep->naive.set = sim->loop.sched.settings;
    memcpy(lockstep->naive.levels, sim->loop.sched.levels, sizeof lockstep->naive.levels);
    lockstep->naive.oracle = oracle;
    lockstep->naive.oracle_context = sim;
    naive_choose(&lockstep->naive, 0);
    sim_routes_init(sim);
}

/* ---- engine_poll() --------------------------------------------------------------------------- */

static void take_flags(struct sim *sim)
{
    struct naive *naive = &lockstep_of(sim)->naive;
    for (uint32_t i = 0; i < sim->limits.calls; i++) {
        const struct call *call = &sim->loop.calls.calls[i];
        struct naive_call *mirror = &naive->calls[i];
        if (mirror->open) {
            mirror->paused = call->paused;
            mirror->cancel = call->cancel;
            mirror->stop_text = call->stop_text_hit;
            mirror->stop_text_tokens = call->stop_text_tokens;
        }
    }
}

/* True when the call ends as it arrives. Net may find that out later in the pass, too; then intake
 * did not know it. */
static bool is_doomed(const struct sim *sim, uint32_t index)
{
    const struct call *call = &sim->loop.calls.calls[index];
    return call->cancel || call->connection == CALL_NONE;
}

/* Of the client at a connection, from the simulator's own records. */
static uint64_t domain_at(const struct sim *sim, uint32_t connection)
{
    int32_t handle = sim->loop.net.connections[connection].handle;
    return sim_client_domain(sim, sim->peers[handle - SIM_LISTENERS].client);
}

/* Where the client has gone in the same pass, and KEEP lets its workflow go on, only the appliance
 * still knows whose it is. */
static uint64_t domain_of_workflow(const struct sim *sim, const struct workflow *flow)
{
    if (flow->connection != CALL_NONE) {
        return domain_at(sim, flow->connection);
    }
    return flow->domain == 0 ? 0 : 1 + (uint64_t)(uint32_t)flow->domain;
}

/* Notes the domain of the client of a call or a workflow. */
static void note_domain(struct sim *sim, const struct command *command)
{
    if (command->kind == COMMAND_CALL) {
        const struct call *call = &sim->loop.calls.calls[command->call];
        if (call->connection != CALL_NONE) {
            sim->slot_domains[command->call] = domain_at(sim, call->connection);
        }
    } else if (command->kind == COMMAND_WORKFLOW_OPEN) {
        sim->flow_domains[command->workflow] =
            domain_of_workflow(sim, &sim->loop.workflows.workflows[command->workflow]);
    }
}

static void take_commands(struct sim *sim)
{
    struct sim_lockstep *lockstep = lockstep_of(sim);
    const struct exchange *exchange = &sim->loop.exchange;
    uint32_t count = ring_count(&exchange->inbox_ring);
    ASSERT(count <= SIM_COMMANDS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = (exchange->inbox_ring.head + i) & (exchange->inbox_ring.capacity - 1);
        const struct command *command = &exchange->inbox[at];
        lockstep->commands[i] = *command;
        lockstep->is_doomed[i] = command->kind == COMMAND_CALL && is_doomed(sim, command->call);
        note_domain(sim, command);
        lockstep->is_on = lockstep->is_on && command->kind != COMMAND_WORKFLOW_OPEN;
    }
    lockstep->commands_count = count;
    lockstep->commands_end = exchange->inbox_ring.tail;
}

static void settle(struct sim *sim, uint32_t engine)
{
    struct naive *naive = &lockstep_of(sim)->naive;
    const struct step *step = &sim->engines[engine].fake.step;
    uint32_t rounds = *step_rounds(step);
    struct naive_engine *on = naive->on;
    on->rounds = rounds < naive->set.steps_per_plan ? rounds : naive->set.steps_per_plan;
    for (uint32_t i = 0; i < on->rows_count; i++) {
        on->produced[i] = step_out(step, i)->produced;
        on->fault[i] = sim_engine_fault(sim, engine, i);
    }
    if (!naive_refute(naive)) {
        naive_settle(naive, sim->loop.calls.calls, naive->now - on->submitted);
        on->rows_count = 0;
    }
}

/* What classes foresee, as a number. */
static uint64_t foreseen(const struct sim *sim)
{
    const struct sched *sched = &sim->loop.sched;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < sched->settings.classes; i++) {
        const struct sched_class *class = &sched->classes.each[i];
        sum += class->number * class->learnt.promises.of[0];
    }
    return sum;
}

static void begin_pass(struct sim *sim)
{
    struct sim_lockstep *lockstep = lockstep_of(sim);
    take_commands(sim);
    lockstep->is_on = lockstep->is_on && !sim->orders.drain;
    lockstep->naive.now = sim->loop.now_us;
    lockstep->has_taken_in = false;
    memset(lockstep->has_planned, 0, sizeof lockstep->has_planned);
    if (lockstep->is_on) {
        lockstep->foreseen = foreseen(sim);
        take_flags(sim);
    }
}

/* An engine whose canary has failed for good has dropped everything as it settled that. */
static void follow_failures(struct sim *sim)
{
    struct sim_lockstep *lockstep = lockstep_of(sim);
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        bool has_failed = canary_has_failed(&sim->loop.engines[i].canary);
        if (has_failed && !lockstep->has_failed[i] && lockstep->is_on) {
            naive_choose(&lockstep->naive, i);
            naive_lost(&lockstep->naive);
        }
        lockstep->has_failed[i] = has_failed;
    }
}

void sim_lockstep_poll(struct sim *sim, uint32_t engine, enum world_engine result)
{
    struct sim_lockstep *lockstep = lockstep_of(sim);
    if (engine == 0) {
        begin_pass(sim);
    }
    sim->asserting = INVARIANT_PRIORITY;
    follow_failures(sim);
    sim_routes_poll(sim, engine, result);
    naive_choose(&lockstep->naive, engine);
    bool is_settled = !sim->engines[engine].is_own && !sim->engines[engine].fake.is_wrong;
    if (lockstep->is_on && result == WORLD_ENGINE_DONE && is_settled) {
        settle(sim, engine);
    } else if (lockstep->is_on && result == WORLD_ENGINE_LOST) {
        naive_lost(&lockstep->naive);
    }
    sim->asserting = INVARIANT_ASSERTION;
}

void sim_lockstep_condemn(struct sim *sim, uint32_t engine)
{
    struct sim_lockstep *lockstep = lockstep_of(sim);
    sim->routes.was_lost = true;
    sim->routes.is_still = false;
    if (lockstep->is_on) {
        naive_choose(&lockstep->naive, engine);
        naive_lost(&lockstep->naive);
    }
}

/* ---- after intake ---------------------------------------------------------------------------- */

/* Resets the accounts of an entry that was given to another program. */
static void meet_program(struct sim *sim, uint32_t program)
{
    struct sim_lockstep *lockstep = lockstep_of(sim);
    struct naive *naive = &lockstep->naive;
    const struct program *entry = &sim->loop.sched.programs[program];
    if (lockstep->salts[program] != entry->salt) {
        lockstep->salts[program] = entry->salt;
        naive->known[program] = true;
        naive->halved[program] = entry->started_us;
        naive->service[program] = naive->wait[program] = 0;
        naive_key_meet(naive, program);
    }
}

/* A call that ends as it arrives leaves nothing but the program that it asked for. */
static void arrive(struct sim *sim, uint32_t index, bool is_doomed)
{
    struct naive *naive = &lockstep_of(sim)->naive;
    const struct call *call = &sim->loop.calls.calls[index];
    if (is_doomed && sched_policy_has_stages(naive->set.policy)) {
        lockstep_of(sim)->is_on = false;    /* it has moved the keys of others on */
    }
    if (sim_was_refused(call) || is_doomed) {
        return;
    }
    meet_program(sim, call->program);
    const struct sched_prediction *predicted =
        &sim->loop.sched.programs[call->program].predicted;
    bool counts_tokens =
        naive->set.policy == SCHED_JUSTITIA_C || naive->set.policy == SCHED_VTC;
    uint64_t cost = counts_tokens ? predicted->tokens : predicted->rounds;
    naive_arrive(naive, index, &(struct naive_call){
        .generated = call->generated_tokens,    /* left by a core that has died */
        .goes_on = call->goes_on,
        .program = call->program, .engine = call->engine,
        .tenant = sim->loop.sched.programs[call->program].tenant,
        .prompt = call->prompt_tokens, .max = call->max_tokens, .deadline = call->deadline_us,
        .output = predicted->output_tokens,
        .cost = cost + (predicted->source == SCHED_SOURCE_CLASS ? cost / 2 : 0)});
}

/* After all commands, when the entry of each program is certain. */
static void start_program(struct sim *sim, uint64_t domain, const uint8_t *id)
{
    for (uint32_t i = 0; i < sim->limits.programs; i++) {
        const struct program *program = &sim->loop.sched.programs[i];
        if (program->in_use && program->domain == domain &&
            memcmp(program->id, id, CALL_PROGRAM_ID_BYTES) == 0) {
            meet_program(sim, i);
            naive_decay(&lockstep_of(sim)->naive, i);
        }
    }
}

/* A refused call does not touch its program. */
static void start_doomed(struct sim *sim, const struct call *call)
{
    if (!sim_was_refused(call)) {
        start_program(sim, call->domain, call->program_id);
    }
}

static void cancel(struct sim *sim, uint32_t index)
{
    struct naive *naive = &lockstep_of(sim)->naive;
    struct naive_call *call = &naive->calls[index];
    if (call->open && call->cancel && !call->running) {
        naive_end(naive, call, CALL_FINISH_CANCELLED);
    }
}

/* Stop strings that net has found in the tokens of the step that was settled: these calls are to
 * end when the commands come, and none of them can run any more, ... */
static void note_stops(struct sim *sim)
{
    struct naive *naive = &lockstep_of(sim)->naive;
    for (uint32_t i = 0; i < sim->limits.calls; i++) {
        const struct call *call = &sim->loop.calls.calls[i];
        struct naive_call *mirror = &naive->calls[i];
        if (mirror->open && call->stop_text_hit && !mirror->stop_text) {
            mirror->stop_text = mirror->cancel = true;
            mirror->stop_text_tokens = call->stop_text_tokens;
        }
    }
}

/* ... and they end after all other commands, in the order in which net has found them. */
static void take_stops(struct sim *sim)
{
    const struct sim_lockstep *lockstep = lockstep_of(sim);
    const struct exchange *exchange = &sim->loop.exchange;
    for (uint32_t i = lockstep->commands_end; i != exchange->inbox_ring.tail; i++) {
        const struct command *command = &exchange->inbox[i & (exchange->inbox_ring.capacity - 1)];
        if (command->kind == COMMAND_CANCEL && lockstep->naive.calls[command->call].stop_text) {
            cancel(sim, command->call);
        }
    }
}

/* The accounts of programs are the real scheduler's: of a core that takes over, deaths/programs.c
 * says that they are those of the last one. */
static void take_accounts(struct sim *sim)
{
    struct naive *naive = &lockstep_of(sim)->naive;
    for (uint32_t i = 0; i < sim->limits.programs; i++) {
        const struct program *program = &sim->loop.sched.programs[i];
        meet_program(sim, i);
        naive->known[i] = true;
        naive->service[i] = program->service_us;
        naive->wait[i] = program->wait_us;
        naive->halved[i] = program->halved_us;
        naive_key_take_up(naive, i, program);
    }
}

void sim_lockstep_again(struct sim *sim)
{
    sim_lockstep_init(sim);
    take_accounts(sim);
}

/* After sched_give_up() all calls have ended. */
static void begin_again(struct sim *sim)
{
    struct naive *naive = &lockstep_of(sim)->naive;
    lockstep_of(sim)->is_on = !sched_policy_has_stages(naive->set.policy);
    for (uint32_t i = 0; i < NAIVE_ENGINES_MAX; i++) {
        naive->engines[i].rows_count = naive->engines[i].rows_active = 0;
        naive->engines[i].busy = false;
    }
    for (uint32_t i = 0; i < NAIVE_CALLS_MAX; i++) {
        naive->calls[i].open = false;
    }
    take_accounts(sim);
}

static void take_in(struct sim *sim)
{
    struct sim_lockstep *lockstep = lockstep_of(sim);
    if (lockstep->has_taken_in) {
        return;
    }
    lockstep->has_taken_in = true;
    follow_failures(sim);
    sim_routes_take_in(sim);
    if (!lockstep->is_on) {
        return;
    }
    if (lockstep->naive.set.policy == SCHED_FORESIGHT && foreseen(sim) != lockstep->foreseen) {
        lockstep->is_on = false;    /* calls came before and after a class had learnt */
        return;
    }
    if (sim->loop.sched.engine_failed) {
        begin_again(sim);
    }
    note_stops(sim);
    for (uint32_t i = 0; i < lockstep->commands_count; i++) {
        const struct command *command = &lockstep->commands[i];
        if (command->kind == COMMAND_CALL) {
            arrive(sim, command->call, lockstep->is_doomed[i]);
        } else if (command->kind == COMMAND_CANCEL) {
            cancel(sim, command->call);
        }
    }
    take_stops(sim);
    naive_expire(&lockstep->naive);
    for (uint32_t i = 0; i < lockstep->commands_count; i++) {
        const struct command *command = &lockstep->commands[i];
        if (command->kind == COMMAND_PROGRAM_START) {
            start_program(sim, command->domain, command->program_id);
        } else if (lockstep->is_doomed[i]) {
            start_doomed(sim, &sim->loop.calls.calls[command->call]);
        }
    }
}

static void follow_plan(struct sim *sim, uint32_t engine, bool planned)
{
    struct naive *naive = &lockstep_of(sim)->naive;
    lockstep_of(sim)->has_planned[engine] = true;
    naive_choose(naive, engine);
    naive_promote_all(naive);
    sim->asserting = INVARIANT_SKIP;
    naive_follow_plan(naive, planned);
    sim->asserting = INVARIANT_PRIORITY;
    naive_launch(naive);
}

/* The plans of the engines before this one, which have given nothing to launch. */
static void follow_empty_plans(struct sim *sim, uint32_t end)
{
    for (uint32_t i = 0; i < end && lockstep_of(sim)->is_on; i++) {
        const struct engine *engine = &sim->loop.engines[i];
        if (engine->state == WORLD_ENGINE_IDLE && !lockstep_of(sim)->has_planned[i] &&
            !canary_has_failed(&engine->canary)) {
            follow_plan(sim, i, false);
        }
    }
}

void sim_lockstep_plan(struct sim *sim, uint32_t engine)
{
    sim->asserting = INVARIANT_PRIORITY;
    take_in(sim);
    follow_empty_plans(sim, engine);
    if (lockstep_of(sim)->is_on) {
        follow_plan(sim, engine, true);
    }
    sim->asserting = INVARIANT_ASSERTION;
}

static void compare_programs(struct sim *sim)
{
    const struct sim_lockstep *lockstep = lockstep_of(sim);
    for (uint32_t i = 0; i < sim->limits.programs; i++) {
        const struct program *program = &sim->loop.sched.programs[i];
        if (program->in_use && program->salt == lockstep->salts[i]) {
            ASSERT(program->wait_us == lockstep->naive.wait[i]);
            /* With a half-life each side is up to date only after it was read. */
            ASSERT(lockstep->naive.set.half_life_us > 0 ||
                   program->service_us == lockstep->naive.service[i]);
        }
    }
}

void sim_lockstep_compare(struct sim *sim)
{
    struct sim_lockstep *lockstep = lockstep_of(sim);
    sim->asserting = INVARIANT_PRIORITY;
    take_in(sim);
    follow_empty_plans(sim, sim->limits.engines);
    if (lockstep->is_on) {
        naive_compare(&lockstep->naive);
        compare_programs(sim);
    }
    sim->asserting = INVARIANT_ASSERTION;
}
