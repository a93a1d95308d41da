/* SPDX-License-Identifier: MIT */
/*
 * What: the invariants of the appliance. Those of a state are checked here, in each pass or audit;
 * those of an event where the table says. An audit runs loop_check(), too; nothing relies on it.
 */
#include "selftest/sim/invariants.h"

#include <string.h>

#include "net/intake.h"
#include "net/open_calls.h"
#include "net/kept/replies.h"
#include "sched/policy.h"
#include "selftest/sim/sim.h"

#define SILENCE_US_MAX (2 * SIM_SECOND_US)

static void check_calls(struct sim *sim);
static void check_progress(struct sim *sim);
static void check_bounded(struct sim *sim);
static void check_memory(struct sim *sim);
static void check_statistics(struct sim *sim);
static void check_deadlines(struct sim *sim);
static void check_starvation(struct sim *sim);
static void check_orphans(struct sim *sim);
static void check_news(struct sim *sim);
static void check_health(struct sim *sim);
static void check_patience(struct sim *sim);
static void check_names(struct sim *sim);

enum when { WHEN_IT_HAPPENS, EACH_PASS, NOW_AND_THEN };

static const struct invariant_row {
    const char *text;
    enum when when;
    void (*check)(struct sim *sim);
} rows[INVARIANTS] = {
    [INVARIANT_BLOCKS] = {"every block of KV is in one place, and counted there", NOW_AND_THEN,
                          invariants_check_blocks},
    [INVARIANT_ISOLATION] = {"a shared block belongs to one trust domain, or to a declared prefix "
                             "that its calls begin with", NOW_AND_THEN, invariants_check_isolation},
    [INVARIANT_CALLS] = {"accepted = completed + cancelled + expired + failed + open", EACH_PASS,
                         check_calls},
    [INVARIANT_TERMINAL] = {"one ACCEPT, tokens in order, one end, and that for a reason "
                            "(oracle.c, SDK)", WHEN_IT_HAPPENS, NULL},
    [INVARIANT_TOKENS] = {"the tokens are those of an undisturbed engine (oracle.c)",
                          WHEN_IT_HAPPENS, NULL},
    [INVARIANT_PRIORITY] = {"levels, services and waits are those of the naive scheduler "
                            "(lockstep.c)", WHEN_IT_HAPPENS, NULL},
    [INVARIANT_SKIP] = {"each plan is the naive scheduler's (lockstep.c)", WHEN_IT_HAPPENS, NULL},
    [INVARIANT_STARVATION] = {"a call that has waited for sched.wait_max is in the first queue, "
                              "and its program becomes active (held.c)", EACH_PASS,
                              check_starvation},
    [INVARIANT_PROGRESS] = {"the engine is not idle while a call could run", EACH_PASS,
                            check_progress},
    [INVARIANT_BOUNDED] = {"a pass receives once from each connection, and accepts a few",
                           EACH_PASS, check_bounded},
    [INVARIANT_MEMORY] = {"the arena is as full as at boot", EACH_PASS, check_memory},
    [INVARIANT_SLOW_CLIENT] = {"readers that stop cost others no throughput (not here: unit "
                               "net/emit; here they are only dropped in time)", WHEN_IT_HAPPENS,
                               NULL},
    [INVARIANT_STATISTICS] = {"what is counted is what the world has seen", EACH_PASS,
                              check_statistics},
    [INVARIANT_DEADLINES] = {"a deadline ends a call in the pass in which it has passed, and "
                             "not before; no call waits for the end of a process", EACH_PASS,
                             check_deadlines},
    [INVARIANT_QUIESCENCE] = {"without faults everything ends, and every pool is full again "
                              "(run.c)", WHEN_IT_HAPPENS, NULL},
    [INVARIANT_ASSERTION] = {"no assertion fails (run.c)", WHEN_IT_HAPPENS, NULL},
    [INVARIANT_KV] = {"every position that a row reads, and every cached content, holds the hash "
                      "of its tokens (engine.c)", NOW_AND_THEN, invariants_check_contents},
    [INVARIANT_RECORD] = {"the record of a step in flight does not change (engine.c)",
                          WHEN_IT_HAPPENS, NULL},
    [INVARIANT_WORLD] = {"handles are open when they are used; the SDK and the options take what "
                         "they say they take (world.c, sockets.c)", WHEN_IT_HAPPENS, NULL},
    [INVARIANT_CLOSE] = {"no client is disconnected without a reason (session.c)", WHEN_IT_HAPPENS,
                         NULL},
    [INVARIANT_ANSWER] = {"every answer was asked for, and says what is so (oracle.c)",
                          WHEN_IT_HAPPENS, NULL},
    [INVARIANT_HEALTH] = {"the appliance is not ready when its worker has been silent for two "
                          "seconds, or is away", EACH_PASS, check_health},
    [INVARIANT_DETERMINISM] = {"the same tape gives the same run (main.c)", WHEN_IT_HAPPENS, NULL},
    [INVARIANT_CRASH] = {"no signal (run.c)", WHEN_IT_HAPPENS, NULL},
    [INVARIANT_HANG] = {"every pass ends (run.c)", WHEN_IT_HAPPENS, NULL},
    [INVARIANT_ORPHANS] = {"a call whose client has gone is gone, or leaves with its step",
                           EACH_PASS, check_orphans},
    [INVARIANT_TEXT] = {"the text is that of the tokens, up to the first stop string (words.c)",
                        WHEN_IT_HAPPENS, NULL},
    [INVARIANT_NEWS] = {"a pass tells everything that there is room for", EACH_PASS, check_news},
    [INVARIANT_STREAM] = {"the tokens of a round are published while its step goes on", EACH_PASS,
                          sim_oracle_check_stream},
    [INVARIANT_WORKFLOW] = {"a workflow gives what a client gets that makes every call itself, "
                            "and one answer for each row (flow/oracle.c)", WHEN_IT_HAPPENS, NULL},
    [INVARIANT_ROUTE] = {"a call goes to the engine that the naive load balancer says (routes.c)",
                         WHEN_IT_HAPPENS, NULL},
    [INVARIANT_ENGINE] = {"an open call is at one engine, which serves if any does", EACH_PASS,
                          invariants_check_engines},
    [INVARIANT_POISON] = {"a call that kills workers ends after few of them (poison.c); no other "
                          "ends so (oracle.c)", WHEN_IT_HAPPENS, NULL},
    [INVARIANT_PATIENCE] = {"no connection outlives the time for half a frame, or for what it does "
                            "not read", EACH_PASS, check_patience},
    [INVARIANT_NAMES] = {"the ids of a call mean nothing in another trust domain", NOW_AND_THEN,
                         check_names},
    [INVARIANT_ACCOUNTS] = {"no key has more calls than it may, no account more than its bound; "
                            "what is free is at least what others have not used of their minimums",
                            EACH_PASS, invariants_check_accounts},
    [INVARIANT_TENANTS] = {"a tenant's calls are accepted, right and in time, as its share says, "
                           "whatever other tenants do (tenants/)", WHEN_IT_HAPPENS, NULL},
    [INVARIANT_PROGRAMS] = {"a core that takes over knows the programs of the last one, and what "
                            "they have had (deaths/programs.c)", WHEN_IT_HAPPENS, NULL},
    [INVARIANT_REPLIES] = {"what is written has each reply that the core has, and no other "
                           "(deaths/writer.c)", WHEN_IT_HAPPENS, NULL},
};

const char *invariant_text(enum invariant invariant)
{
    ASSERT(invariant > INVARIANT_NONE && invariant < INVARIANTS);
    return rows[invariant].text;
}

static void look(struct sim *sim, enum when when)
{
    for (uint32_t i = 0; i < INVARIANTS; i++) {
        if (rows[i].check != NULL && rows[i].when == when) {
            rows[i].check(sim);
        }
    }
}

void invariants_check(struct sim *sim)
{
    look(sim, EACH_PASS);
}

void invariants_audit(struct sim *sim)
{
    loop_check(&sim->loop);
    textport_check(&sim->loop.textport);
    look(sim, NOW_AND_THEN);
}

static bool is_open(const struct call *call)
{
    return call->state == CALL_QUEUED || call->state == CALL_RUNNING;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static bool are_given_up(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        if (sim->orders.engines[i].failure == NULL) {
            return false;
        }
    }
    return true;
}

static void check_calls(struct sim *sim)
{
    const struct loop *loop = &sim->loop;
    const struct stats *stats = &loop->stats;
    uint32_t open = 0, unfree = 0;
    for (uint32_t i = 0; i < loop->calls.count; i++) {
        open += is_open(&loop->calls.calls[i]);
        unfree += loop->calls.calls[i].state != CALL_FREE;
    }
    uint64_t ended = stats->calls_completed + stats->calls_cancelled + stats->calls_expired +
                     stats->calls_failed;
    SIM_REQUIRE(sim, stats->calls_accepted == ended + open, INVARIANT_CALLS,
                "%llu accepted, %llu ended, %u open", (unsigned long long)stats->calls_accepted,
                (unsigned long long)ended, open);
    SIM_REQUIRE(sim, !are_given_up(sim) || open == 0, INVARIANT_CALLS,
                "no engine is left, and %u calls are open", open);
    uint32_t free = loop->calls.free_count;
    SIM_REQUIRE(sim, free + unfree == loop->calls.count, INVARIANT_CALLS,
                "%u slots free and %u in use of %u", free, unfree, loop->calls.count);
}

static bool can_run(const struct call *call)
{
    return call->state == CALL_QUEUED && !call->paused && !call->cancel;
}

/* It is made for an instance that waits for it, and ends before the workflow does. */
static void check_call_of_workflow(struct sim *sim, const struct call *call)
{
    const struct workflow *flow = &sim->loop.workflows.workflows[call->workflow];
    bool is_open = flow->state == WORKFLOW_OPEN || flow->state == WORKFLOW_CANCELLING;
    SIM_REQUIRE(sim, call->state == CALL_FINISHED ||
                         (is_open && flow->instances[call->instance].call == call->slot),
                INVARIANT_ORPHANS, "call %u of workflow %u, instance %u, has no owner", call->slot,
                call->workflow, call->instance);
}

/* A call without a client is in the step in flight, or has ended. It may also have lost its client
 * when this pass sent to it; then the next pass comes at once. */
static void check_orphans(struct sim *sim)
{
    const struct loop *loop = &sim->loop;
    if (!ring_is_empty(&loop->exchange.inbox_ring)) {
        SIM_REQUIRE(sim, net_next_us(&loop->net, loop->now_us) == 0, INVARIANT_ORPHANS,
                    "commands wait for a pass that does not come");
        return;
    }
    for (uint32_t i = 0; i < loop->calls.count; i++) {
        const struct call *call = &loop->calls.calls[i];
        bool is_running = call->state == CALL_RUNNING && call->cancel;
        if (call->state != CALL_FREE && call->workflow != CALL_NONE) {
            check_call_of_workflow(sim, call);
            continue;
        }
        SIM_REQUIRE(sim, call->state == CALL_FREE || call->connection != CALL_NONE || is_running,
                    INVARIANT_ORPHANS, "call %u has no client, and is in state %d", i, call->state);
    }
}

static bool has_been_told(const struct sim *sim, const struct call *call)
{
    const struct net_connection *connection = &sim->loop.net.connections[call->connection];
    bool all = call->emit.accept_sent && call->emit.sent_tokens >= call->published_tokens;
    bool end_waits = call->state == CALL_FINISHED && sim->loop.net.settings.ends_wait &&
                     call->emit.reply > pages_written(&sim->loop.net.replies.pages);
    return connection->backlog || end_waits || (all && call->state != CALL_FINISHED);
}

/* When a connection can go on, the next pass comes at once. */
static void check_connection(struct sim *sim, const struct net_connection *connection)
{
    const struct net *net = &sim->loop.net;
    bool is_at_once = net_next_us(net, sim->loop.now_us) == 0;
    SIM_REQUIRE(sim, connection->calls_count <= sim->limits.calls_per_connection, INVARIANT_CALLS,
                "%u calls of one connection", connection->calls_count);
    SIM_REQUIRE(sim, !connection->backlog || connection->unsent_bytes > 0 || is_at_once,
                INVARIANT_NEWS, "a backlog waits, and the send buffer is empty");
    SIM_REQUIRE(sim, !connection->pending || !net_intake_may_act(net, connection) || is_at_once,
                INVARIANT_NEWS, "a whole frame waits, and there is room for its answer");
}

/* A pass sends all news for which there is room. */
static void check_news(struct sim *sim)
{
    const struct loop *loop = &sim->loop;
    for (uint32_t i = 0; i < loop->calls.count; i++) {
        const struct call *call = &loop->calls.calls[i];
        bool has_client = call->state != CALL_FREE && call->connection != CALL_NONE;
        SIM_REQUIRE(sim, !has_client || call->cancel || has_been_told(sim, call), INVARIANT_NEWS,
                    "call %u has %u tokens, its client %u, and there is room", i,
                    call->published_tokens, call->emit.sent_tokens);
    }
    for (uint32_t i = 0; i < loop->net.open_count; i++) {
        check_connection(sim, &loop->net.connections[loop->net.order[i]]);
    }
}

/* At the end of a pass, in which each connection whose time was over was closed. The times are the
 * options'; since when they run the connection says. */
static void check_patience_of(struct sim *sim, const struct net_connection *connection)
{
    const struct options *options = &sim->options;
    uint64_t now_us = sim->loop.now_us;
    uint64_t unread_us = connection->progress_us + options->net_write_deadline.number;
    SIM_REQUIRE(sim, connection->unsent_bytes == 0 || now_us < unread_us, INVARIANT_PATIENCE,
                "a client has not read for %llu us, and is connected",
                (unsigned long long)(now_us - connection->progress_us));
    uint64_t bought_us =
        connection->received_bytes * SIM_SECOND_US / options->net_frame_rate.number;
    uint64_t whole_us =
        connection->frame_started_us + options->net_frame_deadline.number + bought_us;
    bool has_half = connection->state == NET_OPEN && connection->frame_started_us != 0;
    SIM_REQUIRE(sim, !has_half || now_us < whole_us, INVARIANT_PATIENCE,
                "a client has sent half a frame for %llu us, and is connected",
                (unsigned long long)(now_us - connection->frame_started_us));
}

static void check_patience(struct sim *sim)
{
    const struct net *net = &sim->loop.net;
    for (uint32_t i = 0; i < net->open_count; i++) {
        check_patience_of(sim, &net->connections[net->order[i]]);
    }
}

/* A stranger with the ids of each call that is open or on record. */
static void check_names(struct sim *sim)
{
    const struct net *net = &sim->loop.net;
    for (uint32_t i = 0; i < sim->limits.replies; i++) {
        const struct net_reply *reply = &net->replies.records[i];
        SIM_REQUIRE(sim, reply->number == 0 ||
                             net_reply_find(net, ~reply->domain, reply->program_id,
                                            reply->done.call_id) == NULL,
                    INVARIANT_NAMES, "a stranger is given the reply of call %llu",
                    (unsigned long long)reply->done.call_id);
    }
    for (uint32_t i = 0; i < sim->limits.calls; i++) {
        const struct call *call = &sim->loop.calls.calls[i];
        bool is_named = is_open(call) && call->workflow == CALL_NONE;
        SIM_REQUIRE(sim, !is_named || net_open_find(net, ~call->domain, call->program_id,
                                                    call->client_call_id) == CALL_NONE,
                    INVARIANT_NAMES, "a stranger finds open call %u", i);
    }
}

/* True when the engine could have planned. One whose canary has failed for good stands still. */
static bool is_idle(const struct sim *sim, uint32_t index)
{
    const struct engine *engine = &sim->loop.engines[index];
    return engine->state == WORLD_ENGINE_IDLE &&
           (sim->limits.engines == 1 || !canary_has_failed(&engine->canary));
}

/* At the end of a pass. A call that may run again only since this pass has sent to its client has
 * asked for another pass at once. */
static void check_progress(struct sim *sim)
{
    const struct loop *loop = &sim->loop;
    for (uint32_t i = 0; i < loop->calls.count && !loop->net.again; i++) {
        const struct call *call = &loop->calls.calls[i];
        SIM_REQUIRE(sim, !can_run(call) || !is_idle(sim, call->engine), INVARIANT_PROGRESS,
                    "engine %u is idle, and call %u could run", call->engine, i);
    }
}

STATIC_ASSERT(INVARIANTS_CALLS_MAX >= SIM_CALLS_MAX, "one for each slot");
STATIC_ASSERT(INVARIANTS_ENGINES_MAX >= SIM_ENGINES_MAX, "one for each engine");

void invariants_note_plan(struct sim *sim, uint32_t index)
{
    const struct sched_engine *engine = &sim->loop.sched.engines[index];
    for (uint32_t i = 0; i < sim->loop.calls.count; i++) {
        const struct call *call = &sim->loop.calls.calls[i];
        bool is_first = is_open(call) && sim->loop.sched.jobs[call->job].queue == 0;
        sim->memory.engines[index].was_passed[i] =
            call->paused || call->engine != index || is_first;
    }
    sim->memory.engines[index].was_turn = engine->turns_count > 0 || engine->turns_ahead_us > 0;
    invariants_check_held(sim, index);
}

/* Only jobs that the last plan could promote: others have waited too long only since then. Those
 * are looked at whose first call can run, and waited then, while no promoted job has a turn, or has
 * had more. */
static void check_starvation_at(struct sim *sim, const struct sched_engine *engine)
{
    const struct sched *sched = &sim->loop.sched;
    const bool *was_passed = sim->memory.engines[engine->index].was_passed;
    uint64_t wait_max_us = sched_policy_has_levels(sched) ? sched->settings.wait_max_us : 0;
    if (wait_max_us == 0 || !engine->step_in_flight ||
        sim->memory.engines[engine->index].was_turn) {
        return;
    }
    for (uint32_t i = 0; i < sched->calls->count; i++) {
        const struct call *call = &sched->calls->calls[i];
        if (!can_run(call) || call->engine != engine->index || was_passed[i]) {
            continue;
        }
        const struct sched_job *job = &sched->jobs[call->job];
        if (job->ends[CALL_LIST_ALL].head != i || job->queue == 0 ||
            call->waiting_since_us >= engine->step_submitted_us ||
            job->waiting_since_us >= engine->step_submitted_us) {
            continue;
        }
        uint64_t waited_us = job->wait_us + engine->step_submitted_us - job->waiting_since_us;
        SIM_REQUIRE(sim, waited_us < wait_max_us, INVARIANT_STARVATION,
                    "the job of call %u in queue %u had waited for %llu us when the step was "
                    "planned", i, job->queue, (unsigned long long)waited_us);
    }
}

static void check_starvation(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        check_starvation_at(sim, &sim->loop.sched.engines[i]);
    }
}

static void check_deadlines(struct sim *sim)
{
    const struct loop *loop = &sim->loop;
    SIM_REQUIRE(sim, loop->now_us == sim->now_us - sim->skipped_us, INVARIANT_DEADLINES,
                "the stages' clock is at %llu us, not at %llu us", (unsigned long long)loop->now_us,
                (unsigned long long)(sim->now_us - sim->skipped_us));
    for (uint32_t i = 0; i < loop->calls.count; i++) {
        const struct call *call = &loop->calls.calls[i];
        SIM_REQUIRE(sim, call->state != CALL_QUEUED || call->deadline_us > loop->now_us,
                    INVARIANT_DEADLINES, "call %u waits %llu us beyond its deadline", i,
                    (unsigned long long)(loop->now_us - call->deadline_us));
        SIM_REQUIRE(sim, call->state != CALL_RUNNING ||
                             sim->engines[call->engine].worker != SIM_WORKER_CONDEMNED,
                    INVARIANT_DEADLINES, "call %u waits for the end of a condemned worker", i);
    }
}

/* ---- health ---------------------------------------------------------------------------------- */

/* A heart that beats must not hide that a step is late. */
static void check_hung(struct sim *sim, uint32_t engine)
{
    struct health health;
    if (pace_is_late(&sim->loop.engines[engine].pace, sim->loop.now_us)) {
        loop_health(&sim->loop, &sim->orders, &health);
        SIM_REQUIRE(sim, health.state != HEALTH_READY, INVARIANT_HEALTH,
                    "ready, and worker %u hangs with a heart that beats", engine);
    }
}

static void check_health_of(struct sim *sim, uint32_t engine)
{
    struct health health;
    uint64_t now_us = sim->loop.now_us, heartbeat = sim->engines[engine].control.heartbeat;
    bool is_idle = sim->engines[engine].worker == SIM_WORKER_IDLE &&
                   !sim->engines[engine].view.in_flight;
    bool is_away = sim->loop.engines[engine].state == WORLD_ENGINE_DOWN;
    bool is_heard = sim->memory.engines[engine].heartbeat != heartbeat || is_away;
    if (is_heard || !sim->loop.serving) {
        sim->memory.engines[engine].heartbeat = heartbeat;
        sim->memory.engines[engine].beat_us = now_us;
    }
    if (sim->engines[engine].is_beating && sim->engines[engine].worker == SIM_WORKER_HANGS) {
        check_hung(sim, engine);
    }
    uint64_t asked_us = sim->engines[engine].asked_us;
    uint64_t beat_us = sim->memory.engines[engine].beat_us;
    uint64_t silent_us = is_idle ? 0 : now_us - (asked_us > beat_us ? asked_us : beat_us);
    /* It has stopped at a question; the core may have nothing to do but to look at it again. */
    uint64_t unasked_us =
        sim->engines[engine].worker == SIM_WORKER_STOPPED ? sim->orders.idle_us : 0;
    if (!is_away && silent_us <= SILENCE_US_MAX + unasked_us) {
        SIM_REQUIRE(sim, !is_idle || sim_worker_is_misheard(sim, engine) ||
                             engine_is_quiet(&sim->loop.engines[engine], now_us),
                    INVARIANT_HEALTH, "worker %u would answer, and is called silent", engine);
        return;
    }
    loop_health(&sim->loop, &sim->orders, &health);
    SIM_REQUIRE(sim, health.state != HEALTH_READY, INVARIANT_HEALTH,
                "ready, and worker %u %s", engine, is_away ? "is away" : "is silent");
}

static void check_health(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        check_health_of(sim, i);
    }
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void check_bounded(struct sim *sim)
{
    uint64_t receives_max = sim->limits.connections;
    SIM_REQUIRE(sim, sim->counts.pass_receives <= receives_max, INVARIANT_BOUNDED,
                "%llu receives in a pass", (unsigned long long)sim->counts.pass_receives);
}

static void check_memory(struct sim *sim)
{
    SIM_REQUIRE(sim, sim->arena.used_bytes == sim->memory.arena_bytes, INVARIANT_MEMORY,
                "the arena has grown");
}

static void require_count(struct sim *sim, const char *name, uint64_t counted, uint64_t seen)
{
    SIM_REQUIRE(sim, counted == seen, INVARIANT_STATISTICS, "%s = %llu, but there were %llu", name,
                (unsigned long long)counted, (unsigned long long)seen);
}

static void check_statistics(struct sim *sim)
{
    const struct stats *stats = &sim->loop.stats;
    const struct sim_counts *seen = &sim->counts;
    require_count(sim, "bytes_received", stats->bytes_received, seen->bytes_received);
    require_count(sim, "bytes_sent", stats->bytes_sent, seen->bytes_sent);
    require_count(sim, "connections_accepted", stats->connections_accepted +
                                                   stats->connections_refused, seen->accepts);
    require_count(sim, "steps", stats->steps, seen->steps);
    require_count(sim, "steps_lost", stats->steps_lost, seen->steps_lost);
    require_count(sim, "engine_restarts", stats->engine_restarts, seen->losses);
}
