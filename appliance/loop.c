/* SPDX-License-Identifier: MIT */
/*
 * What: one pass of the pipeline, and the time that the stages see.
 * Invariants: stages run in one order; no stage reads a clock.
 * Bounds: a pass does the bounded work of each stage; it waits at most TICK_US, so that heartbeats
 * are sampled even when nothing happens, and as long as the keeper allows when all is quiet.
 */
#include "appliance/loop.h"

#include <string.h>

#include "config/base/assert.h"
#include "config/base/bounds.h"

#define TICK_US            UINT64_C(200000)     /* heartbeat sampling */
#define GAP_US             UINT64_C(2000000)    /* a longer pass: the process was stopped */
#define REST_US            UINT64_C(100000)     /* for connections that open, before it yields,
                                                   or leaves */
#define DRAIN_FLUSH_US     UINT64_C(1000000)    /* for the last frames after the drain limit */

struct step_layout loop_step_layout(const struct limits *limits)
{
    struct step_layout layout = {
        .rows_max = limits->batch_calls + limits->standby_calls,
        .steps_max = limits->steps_per_plan, .tokens_max = limits->step_tokens,
        .blocks_per_call = limits->blocks_per_call,
        .moves_max = kvmem_moves_max(limits->kv_blocks),
        .past_max = limits->past_tokens,
        .logprobs_max = limits->logprob_tokens > 0 ? 1 + limits->top_logprobs : 0};
    step_layout_init(&layout);
    return layout;
}

static struct exchange_counts exchange_counts_of(const struct limits *limits)
{
    return (struct exchange_counts){.commands = limits->commands, .calls = limits->calls,
                                    .workflows = limits->workflow.workflows};
}

void loop_plan_memory(struct memory_plan *plan, const struct options *options,
                      const struct limits *limits, const struct gguf_vocab_info *vocab)
{
    struct sched_settings sched;
    struct kvmem_settings kv;
    sched_settings_fill(&sched, options, limits);
    kvmem_settings_fill(&kv, limits);
    event_log_plan_memory(plan, limits->events, limits->ended);
    call_table_plan_memory(plan, limits->calls, limits->context_tokens);
    call_logprobs_plan_memory(plan, limits->calls, limits->logprob_tokens,
                              1 + limits->top_logprobs);
    workflow_table_plan_memory(plan, &limits->workflow);
    const struct exchange_counts exchange = exchange_counts_of(limits);
    exchange_plan_memory(plan, &exchange);
    engine_plan_memory(plan, &kv, limits->engines);
    sched_plan_memory(plan, &sched);
    net_plan_memory(plan, limits, vocab);
    textport_plan_memory(plan, limits);
}

static void init_engines(struct loop *loop, const struct kvmem_settings *kv, struct arena *arena)
{
    static const struct config_prefixes no_prefixes;
    const struct loop_settings *from = &loop->settings;
    const struct engine_settings settings = {
        .limits = from->limits, .kv = kv,
        .prefixes = from->prefixes != NULL ? from->prefixes : &no_prefixes,
        .step = from->step, .canary_us = from->options->engine_canary.number,
        .hang_us = from->options->engine_hang.number,
        .doubt_permille = from->can_doubt ? (uint32_t)from->options->engine_doubt.number : 0,
        .world = loop->world, .sched = &loop->sched, .stats = &loop->stats,
        .event_log = &loop->event_log,
    };
    loop->engines_count = from->limits->engines;
    loop->engines = arena_take(arena, loop->engines_count, sizeof(struct engine));
    for (uint32_t i = 0; i < loop->engines_count; i++) {
        engine_init(&loop->engines[i], i, &settings, loop->now_us, arena);
    }
}

static void init_sched(struct loop *loop, const struct sched_settings *settings,
                       struct arena *arena, struct arena *kept)
{
    struct sched_engine_wiring engines[WORLD_ENGINES_MAX];
    for (uint32_t i = 0; i < loop->engines_count; i++) {
        engines[i] = (struct sched_engine_wiring){.kv = &loop->engines[i].kv,
                                                  .step = loop->engines[i].step};
    }
    const struct sched_wiring wiring = {.calls = &loop->calls, .exchange = &loop->exchange,
                                        .stats = &loop->stats, .workflows = &loop->workflows,
                                        .engines = engines, .kept = kept};
    sched_init(&loop->sched, settings, &wiring, arena);
}

/* Each domain of the keys has an account of its own; one that has no keys any more, no weight. */
static void name_tenants(struct sched *sched, const struct config_keys *keys)
{
    for (uint32_t i = 0; keys != NULL && i < keys->domains_count; i++) {
        if (keys->weights[i] > 0) {
            sched_name_tenant(sched, net_domain_of_key(i), keys->weights[i], keys->domains[i]);
        }
    }
}

/* Of each table, what each domain may have. */
static void bind_quotas(struct loop *loop, const struct config_keys *keys)
{
    struct quotas quotas;
    config_quotas_fill(&quotas, keys, loop->settings.limits);
    quota_bind(&loop->calls.quota, &quotas, QUOTA_CALLS);
    quota_bind(&loop->sched.quota, &quotas, QUOTA_PROGRAMS);
    net_bind_quotas(&loop->net, &quotas);
    for (uint32_t i = 0; i < loop->settings.limits->engines; i++) {
        kvmem_bind_quotas(&loop->engines[i].kv, &quotas);
    }
}

static void admit_anew(struct loop *loop, const struct config_admission *admission)
{
    const struct config_keys *keys = &admission->keys;
    net_admit_anew(&loop->net, admission, loop->now_us);
    bind_quotas(loop, keys);
    sched_forget_names(&loop->sched);
    name_tenants(&loop->sched, keys);
}

static void source_fill(struct prompt_cache_source *source, const struct loop_settings *settings,
                        const struct world *world)
{
    world->entropy(world->self, source->secret, sizeof source->secret);
    source->upgrades = settings->upgrades;
}

void loop_init(struct loop *loop, const struct loop_settings *settings, const struct world *world,
               struct arena *arena)
{
    const struct limits *limits = settings->limits;
    struct sched_settings sched;
    struct kvmem_settings kv;
    struct net_settings net;
    struct arena *kept = settings->kept != NULL ? settings->kept : arena;
    memset(loop, 0, sizeof *loop);
    loop->settings = *settings;
    loop->settings.kept = NULL;         /* its owner may drop it: all of it is taken here */
    loop->world = world;
    sched_settings_fill(&sched, settings->options, limits);
    kvmem_settings_fill(&kv, limits);
    net_settings_fill(&net, settings->options, limits, &settings->access, settings->model_name);
    net.chat = settings->chat;
    sched.event_log = net.event_log = &loop->event_log;
    sched.predictor = settings->predictor;
    sched.demoted_to_head = settings->demoted_to_head;
    world->entropy(world->self, net.boot_id, sizeof net.boot_id);
    world->entropy(world->self, &kv.hash_key, sizeof kv.hash_key);
    world->entropy(world->self, sched.hash_key, sizeof sched.hash_key);
    source_fill(&sched.workflow.source, settings, world);
    sched.workflow.bos_id = settings->vocab->info.bos_id;
    sched.workflow.eos_id = settings->vocab->info.eos_id;
    sched.workflow.eot_id = settings->vocab->info.eot_id;
    loop->world_us = loop->now_us = world->now_us(world->self);
    loop->started_us = loop->call_done_us = loop->now_us;
    struct pages replies;           /* first: a file has the beginning of kept memory */
    net_replies_take(&replies, limits, kept);
    event_log_init(&loop->event_log, limits->events, limits->ended, arena);
    call_table_init(&loop->calls, limits->calls, limits->context_tokens, arena, kept);
    call_logprobs_init(&loop->calls, limits->logprob_tokens, 1 + limits->top_logprobs, arena);
    workflow_table_init(&loop->workflows, &limits->workflow, arena, kept);
    const struct exchange_counts exchange = exchange_counts_of(limits);
    exchange_init(&loop->exchange, &exchange, arena);
    init_engines(loop, &kv, arena);
    init_sched(loop, &sched, arena, kept);
    name_tenants(&loop->sched, settings->keys);
    const struct net_wiring wiring = {.world = world, .vocab = settings->vocab,
                                      .calls = &loop->calls, .exchange = &loop->exchange,
                                      .stats = &loop->stats, .workflows = &loop->workflows,
                                      .encoder = settings->encoder, .kept = kept,
                                      .replies = &replies};
    net_init(&loop->net, &net, settings->keys, &wiring, arena);
    bind_quotas(loop, settings->keys);
    sched_take_up(&loop->sched, loop->now_us);
    net_take_up(&loop->net, settings->was_killed);
    textport_init(&loop->textport, limits, world, &loop->stats, arena);
}

void loop_listen_text(struct loop *loop, int32_t handle)
{
    if (handle >= 0) {
        textport_listen(&loop->textport, handle);
    }
}

/* Takes the gap of SIGSTOP and SIGCONT out of time: else all deadlines would pass at once. After a
 * shorter one deadlines pass, but no engine is judged by it. */
static void advance_clock(struct loop *loop, uint64_t waited_until_us)
{
    uint64_t world_us = loop->world->now_us(loop->world->self);
    uint64_t expected_us = waited_until_us > loop->world_us ? waited_until_us : loop->world_us;
    loop->late_us = world_us > expected_us + TICK_US ? world_us - expected_us - TICK_US : 0;
    if (world_us > expected_us + GAP_US) {
        loop->skipped_us += world_us - expected_us;
        loop->late_us = 0;
    }
    loop->world_us = world_us;
    loop->now_us = world_us - loop->skipped_us;
}

bool loop_is_quiet(const struct loop *loop)
{
    for (uint32_t i = 0; i < loop->engines_count; i++) {
        if (!engine_is_quiet(&loop->engines[i], loop->now_us)) {
            return false;
        }
    }
    return loop->serving && !loop->draining && sched_is_idle(&loop->sched);
}

/* True when the keeper wants what has not been done. Its bell has ended the wait before this. */
static bool has_orders(const struct loop *loop, const struct loop_orders *orders)
{
    return orders->stop_now || (orders->drain && !loop->draining) ||
           (orders->yields && loop->rest_until_us == 0) || orders->admission != NULL;
}

static uint64_t longest_wait_us(const struct loop *loop, const struct loop_orders *orders)
{
    if (has_orders(loop, orders)) {
        return 0;
    }
    return orders->idle_us > TICK_US && loop_is_quiet(loop) ? orders->idle_us : TICK_US;
}

/* Connections that are not open yet are waited for. */
static bool rests(const struct loop *loop)
{
    return loop->now_us < loop->rest_until_us && net_has_newcomers(&loop->net);
}

/* Waits for events and hands each to its stage, which only notes it. */
static void gather_events(struct loop *loop, const struct loop_orders *orders)
{
    struct world_event events[WORLD_EVENTS_MAX];
    uint64_t until_us = loop->now_us + longest_wait_us(loop, orders);
    until_us = lesser(until_us, net_next_us(&loop->net, loop->now_us));
    until_us = lesser(until_us, sched_next_us(&loop->sched, loop->now_us));
    until_us = lesser(until_us, textport_next_us(&loop->textport, loop->now_us));
    until_us = rests(loop) ? lesser(until_us, loop->rest_until_us) : until_us;
    until_us = until_us < loop->now_us ? loop->now_us : until_us;
    until_us += loop->skipped_us;
    uint32_t count = loop->world->wait(loop->world->self, events, WORLD_EVENTS_MAX, until_us);
    ASSERT(count <= WORLD_EVENTS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        if (events[i].source == WORLD_SOURCE_TEXT) {
            textport_event(&loop->textport, &events[i]);
        } else if (events[i].source <= WORLD_SOURCE_CONNECTION) {
            net_event(&loop->net, &events[i]);
        }
    }
    advance_clock(loop, until_us);
}

static void settle_engines(struct loop *loop)
{
    for (uint32_t i = 0; i < loop->engines_count; i++) {
        engine_excuse(&loop->engines[i], loop->late_us);
        engine_settle(&loop->engines[i], loop->now_us);
    }
}

static void launch_engines(struct loop *loop)
{
    for (uint32_t i = 0; i < loop->engines_count; i++) {
        engine_launch(&loop->engines[i], loop->now_us);
    }
}

static void note_completions(struct loop *loop)
{
    uint64_t calls_done = loop->stats.calls_completed;
    if (calls_done != loop->calls_done) {
        loop->calls_done = calls_done;
        loop->call_done_us = loop->now_us;
    }
}

static struct health_facts facts_of(const struct loop *loop, const struct loop_orders *orders)
{
    return (struct health_facts){
        .engines = loop->engines, .orders = orders->engines,
        .engines_count = loop->engines_count, .load_permille = orders->load_permille,
        .now_us = loop->now_us, .started_us = loop->started_us,
        .call_done_us = loop->call_done_us, .serving = loop->serving,
        .draining = loop->draining, .stats = &loop->stats,
    };
}

void loop_health(const struct loop *loop, const struct loop_orders *orders, struct health *health)
{
    const struct health_facts facts = facts_of(loop, orders);
    health_judge(health, &facts);
}

/* True when no engine will serve any more. */
static bool engines_have_failed(const struct loop *loop, const struct loop_orders *orders)
{
    const struct health_facts facts = facts_of(loop, orders);
    return health_failure(&facts) != NULL;
}

static void answer_operator(struct loop *loop, const struct loop_orders *orders)
{
    struct health health;
    if (!textport_is_awake(&loop->textport)) {
        return;
    }
    loop->stats.core_restarts = orders->core_restarts;
    loop->stats.upgrades = loop->settings.upgrades;
    loop->stats.log_lines_lost = orders->lines_lost;
    sched_report(&loop->sched);         /* looks at every call: only when a peer asks */
    loop_health(loop, orders, &health);
    const struct textport_view view = {
        .stats = &loop->stats,
        .sched = &loop->sched,
        .net = &loop->net,
        .calls = &loop->calls,
        .event_log = &loop->event_log,
        .options = loop->settings.options,
        .limits = loop->settings.limits,
        .health = &health,
        .version = loop->settings.version,
        .wall_us = loop->world->wall_us(loop->world->self),
        .askers = &loop->settings.access.askers,
    };
    textport_poll(&loop->textport, &view, loop->now_us);
}

/* One engine may have its first canary while calls come: they wait for it either way. Of several,
 * none gets a call before it has given a known result. */
static bool is_proven(const struct loop *loop, const struct engine *engine)
{
    return loop->engines_count == 1 || !canary_is_awaited(&engine->canary);
}

/* All but those that are given up; for a core that takes over, which has clients that wait, any. */
static bool engines_are_ready(const struct loop *loop, const struct loop_orders *orders)
{
    uint32_t expected = 0, ready = 0;
    for (uint32_t i = 0; i < loop->engines_count; i++) {
        const struct engine *engine = &loop->engines[i];
        if (engine_failure(engine, &orders->engines[i]) == NULL) {
            expected++;
            ready += engine_is_ready(engine) && is_proven(loop, engine);
        }
    }
    bool takes_over = orders->core_restarts > 0 || loop->settings.upgrades > 0;
    return ready == expected || (takes_over && ready > 0);
}

/* Also when the engines have failed: a refusal is better than silence. */
static void start_serving(struct loop *loop, const struct loop_orders *orders,
                          const int32_t *listeners)
{
    if (loop->serving || !engines_are_ready(loop, orders)) {
        return;
    }
    for (uint32_t i = 0; i < NET_LISTENERS_MAX; i++) {
        net_listen(&loop->net, i, listeners[i]);
    }
    loop->serving = true;
}

static void start_draining(struct loop *loop)
{
    if (loop->draining) {
        return;
    }
    loop->draining = true;
    loop->drain_until_us = loop->now_us + loop->settings.drain_us;
    loop->sched.draining = true;
    net_drain(&loop->net);
}

/* Clients and operators that come, or come back, are to find the other process. */
static void leave(struct loop *loop)
{
    textport_leave(&loop->textport);
    net_leave(&loop->net);
}

static void start_resting(struct loop *loop)
{
    if (loop->rest_until_us == 0) {
        loop->rest_until_us = loop->now_us + REST_US;
        net_rest(&loop->net);
    }
}

bool loop_may_yield(const struct loop *loop)
{
    return loop->rest_until_us > 0 && !rests(loop);
}

/* True while there is a reason to go on. */
static bool drain_goes_on(struct loop *loop)
{
    if (sched_is_idle(&loop->sched) && net_is_flushed(&loop->net) && !rests(loop)) {
        return false;
    }
    if (loop->now_us >= loop->drain_until_us) {
        sched_fail_all(&loop->sched, STATUS_GONE_SHUTDOWN, loop->now_us);
        net_emit(&loop->net, loop->now_us);
    }
    return loop->now_us < loop->drain_until_us + DRAIN_FLUSH_US;
}

static void note_weights(struct loop *loop, const struct loop_orders *orders)
{
    loop->stats.weights_slices = orders->weights_slices;
    if (loop->stats.weights_damaged != orders->weights_damaged) {
        loop->stats.weights_damaged = orders->weights_damaged;
        sched_doubt_values_for(&loop->sched, orders->weights_damaged);
        event_log_note(&loop->event_log, loop->now_us,
                       (struct event_what){.kind = EVENT_WEIGHTS_DAMAGED});
    }
}

bool loop_pass(struct loop *loop, const struct loop_orders *orders, const int32_t *listeners)
{
    gather_events(loop, orders);
    if (orders->stop_now) {
        net_close_all(&loop->net);
        return false;
    }
    if (orders->drain) {
        start_draining(loop);
    }
    if (orders->yields || orders->leaves) {
        start_resting(loop);
    }
    if (orders->admission != NULL) {
        admit_anew(loop, orders->admission);
    }
    note_weights(loop, orders);
    net_poll(&loop->net, loop->now_us);
    settle_engines(loop);
    net_scan(&loop->net);
    if (engines_have_failed(loop, orders)) {
        sched_give_up(&loop->sched, loop->now_us);
    }
    sched_intake(&loop->sched, loop->now_us);
    launch_engines(loop);
    net_emit(&loop->net, loop->now_us);
    if (orders->leaves) {
        leave(loop);
    }
    note_completions(loop);
    start_serving(loop, orders, listeners);
    answer_operator(loop, orders);
    return !loop->draining || drain_goes_on(loop);
}

void loop_check(const struct loop *loop)
{
    for (uint32_t i = 0; i < loop->engines_count; i++) {
        engine_check(&loop->engines[i]);
    }
    sched_check(&loop->sched);
    net_check(&loop->net);
}
