/* SPDX-License-Identifier: MIT */
/*
 * What: one run, from a tape: boot, phase 1, phase 2, and its result.
 *
 *   boot    draws the swarm, and builds the loop from it
 *   wild    passes in which anything happens; cheap checks after each, an audit after each 64th
 *   calm    no faults and nothing new; all that is owed must come
 *   quiet   all clients leave, and time goes on until retention ends; all pools must be full
 *   drain   in some runs, instead of calm and quiet: the loop must end by itself
 *
 * The first failure ends the run by longjmp, also out of an assertion of the product, a crash, and
 * a pass that does not end.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "config/access.h"
#include "config/base/bounds.h"
#include "kvmem/block.h"
#include "selftest/fake/store_trap.h"
#include "selftest/sim/sim.h"

#define ARENA_BYTES_MAX  (UINT64_C(512) << 20)      /* mapped, not populated */
#define KEPT_BYTES_MAX   (UINT64_C(64) << 20)       /* behind it; and what a disk has of that */
#define STEPS_BYTES_MAX  (UINT64_C(64) << 20)       /* the step records, behind both */
#define BYTES_MAX        (ARENA_BYTES_MAX + 2 * KEPT_BYTES_MAX + STEPS_BYTES_MAX)
#define AUDIT_EVERY      64
#define CALM_PASSES_MAX  2000000
#define CALM_US_MAX      (20000 * SIM_SECOND_US)
#define QUIET_US_MAX     (4000 * SIM_SECOND_US)
#define QUIET_PASSES_MAX 2000000    /* with a canary each 10 ms, 130,000 have been needed */
#define PASS_CPU_S_MAX   20

static struct sim *running;

/* ---- ends ------------------------------------------------------------------------------------ */

static void fail_with(struct sim *sim, enum invariant invariant, const char *format,
                      va_list arguments)
{
    sim->failure = (struct sim_failure){
        .invariant = invariant, .pass = sim->pass, .now_us = sim->now_us};
    vsnprintf(sim->failure.text, sizeof sim->failure.text, format, arguments);
    sim_say(sim, "FAILURE %d: %s", invariant, sim->failure.text);
}

_Noreturn void sim_fail(struct sim *sim, enum invariant invariant, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail_with(sim, invariant, format, arguments);
    va_end(arguments);
    longjmp(sim->escape, 1);
}

/* Ends the product's assertions here: the linker takes this definition, not the library's. */
_Noreturn void assert_failed(const char *condition, const char *file, int line)
{
    if (running == NULL) {
        fprintf(stderr, "agentix-sim: %s:%d: %s\n", file, line, condition);
        abort();
    }
    sim_fail(running, running->asserting, "%s:%d: %s", file, line, condition);
}

static void on_signal(int number)
{
    struct sim *sim = running;
    sigset_t all;
    if (sim == NULL) {
        _exit(128 + number);
    }
    sigemptyset(&all);
    sigaddset(&all, number);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    if (number == SIGVTALRM) {
        sim_fail(sim, INVARIANT_HANG, "a pass takes more than %d s", PASS_CPU_S_MAX);
    }
    sim_fail(sim, INVARIANT_CRASH, "signal %d", number);
}

/* Sanitizers report a crash better than we do. */
static void catch_signals(void)
{
#ifndef AGENTIX_NO_TRAP
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGVTALRM};
#else
    static const int numbers[] = {SIGVTALRM};
#endif
    for (uint32_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        signal(numbers[i], on_signal);
    }
}

static void set_alarm(long seconds)
{
    struct itimerval timer = {.it_value = {.tv_sec = seconds}};
    setitimer(ITIMER_VIRTUAL, &timer, NULL);
}

/* ---- choices --------------------------------------------------------------------------------- */

/* In the worlds of exhaust.c only their driver chooses. */
uint32_t sim_choose(struct sim *sim, uint32_t bound)
{
    return sim->tape->mode == TAPE_COUNT ? 0 : tape_choose(sim->tape, bound);
}

uint32_t sim_between(struct sim *sim, uint32_t low, uint32_t high)
{
    return low + sim_choose(sim, high - low + 1);
}

uint64_t sim_time(struct sim *sim, uint64_t bound_us)
{
    uint32_t bits = 64 - (uint32_t)__builtin_clzll(bound_us | 1);
    uint64_t below = UINT64_C(1) << sim_choose(sim, bits + 1);
    uint64_t time_us = below < 65536 ? sim_choose(sim, (uint32_t)below)
                                     : below / 65536 * sim_choose(sim, 65536);
    return time_us < bound_us ? time_us : bound_us;
}

static bool is_the_nth(struct sim *sim, enum sim_fault fault)
{
    struct sim_nth *nth = &sim->nth;
    if (sim->calm || fault != nth->fault) {
        return false;
    }
    nth->seen++;
    return nth->seen == nth->at || (nth->for_ever && nth->seen > nth->at);
}

bool sim_fault(struct sim *sim, enum sim_fault fault)
{
    uint32_t rate = sim->swarm.rate[fault];
    if (sim->nth.is_on) {
        return is_the_nth(sim, fault);
    }
    if (sim->calm || rate == 0 || sim_choose(sim, rate) != rate - 1 ||
        (sim->tape->faults_masked >> fault & 1) != 0) {
        return false;
    }
    sim->faults[fault]++;
    return true;
}

void sim_say(struct sim *sim, const char *format, ...)
{
    va_list arguments;
    if (sim->script == NULL) {
        return;
    }
    fprintf(sim->script, "%6llu %12.6f  ", (unsigned long long)sim->pass,
            (double)sim->now_us / 1e6);
    va_start(arguments, format);
    vfprintf(sim->script, format, arguments);
    va_end(arguments);
    fputc('\n', sim->script);
}

/* ---- boot ------------------------------------------------------------------------------------ */

struct sim *sim_new(void)
{
    struct sim *sim = mmap(NULL, sizeof *sim, PROT_READ | PROT_WRITE,
                           MAP_ANONYMOUS | MAP_PRIVATE | MAP_NORESERVE, -1, 0);
    void *memory = mmap(NULL, BYTES_MAX, PROT_READ | PROT_WRITE,
                        MAP_ANONYMOUS | MAP_PRIVATE | MAP_NORESERVE, -1, 0);
    if (sim == MAP_FAILED || memory == MAP_FAILED) {
        fprintf(stderr, "agentix-sim: no memory\n");
        exit(1);
    }
    sim->arena.base = memory;
    catch_signals();
    return sim;
}

static void clear(struct sim *sim)
{
    uint8_t *base = sim->arena.base;
    FILE *script = sim->script;
    struct sim_nth nth = sim->nth;
    memset(sim, 0, offsetof(struct sim, peers));
    sim->arena.base = base;
    sim->script = script;
    sim->nth = nth;
}

static const struct vocab *vocab_of(const struct sim *sim)
{
    return sim->swarm.has_words ? sim_words() : &sim->wordless;
}

/* What a core and the workers take, but for what is kept: the bytes of that. */
static uint64_t plan_memory(struct sim *sim)
{
    struct memory_plan plan = {0};
    sim->step.layout = loop_step_layout(&sim->limits);
    loop_plan_memory(&plan, &sim->options, &sim->limits, &vocab_of(sim)->info);
    sim->arena.size_bytes = memory_plan_bytes(&plan, MEMORY_CORE);
    uint64_t kept = memory_plan_bytes(&plan, MEMORY_KEPT);
    uint64_t steps = sim->limits.engines * sim->step.layout.total_bytes;
    SIM_REQUIRE(sim, sim->arena.size_bytes <= ARENA_BYTES_MAX && kept <= KEPT_BYTES_MAX &&
                         steps <= STEPS_BYTES_MAX,
                INVARIANT_WORLD, "a plan of %llu, %llu and %llu bytes",
                (unsigned long long)sim->arena.size_bytes, (unsigned long long)kept,
                (unsigned long long)steps);
    return kept;
}

/* Zeroed pages, as if no run had been before. */
static void take_memory(struct sim *sim)
{
    madvise(sim->arena.base, BYTES_MAX, MADV_DONTNEED);
    sim->kept = (struct arena){.base = sim->arena.base + ARENA_BYTES_MAX,
                               .size_bytes = plan_memory(sim)};
    sim->disk = sim->kept.base + KEPT_BYTES_MAX;
    sim->step.base = sim->disk + KEPT_BYTES_MAX;
}

void sim_plan_anew(struct sim *sim)
{
    uint64_t kept = plan_memory(sim);
    madvise(sim->step.base, STEPS_BYTES_MAX, MADV_DONTNEED);
    SIM_REQUIRE(sim, kept == sim->kept.size_bytes, INVARIANT_WORLD,
                "another form of what is kept: %llu bytes, and %llu before the upgrade",
                (unsigned long long)kept, (unsigned long long)sim->kept.size_bytes);
}

void sim_build_loop(struct sim *sim)
{
    struct config_error error;
    struct arena kept = sim->kept;
    struct loop_settings settings = {
        .can_doubt = true,
        .options = &sim->options, .limits = &sim->limits,
        .vocab = vocab_of(sim),
        .model_name = "simulated", .step = sim->step, .prefixes = &sim->prefixes,
        .drain_us = sim->options.limits_drain.number,
        .keys = sim->swarm.has_keys ? &sim->admission.keys : NULL, .kept = &kept,
        .was_killed = sim->was_killed, .upgrades = sim->upgrades,
    };
    config_quotas_fill(&sim->quotas, settings.keys, &sim->limits);
    SIM_REQUIRE(sim, config_access_fill(&settings.access, &sim->options, 0, &error) == STATUS_OK,
                INVARIANT_WORLD, "%s", error.text);
    config_access_admit(&settings.access, &sim->admission.access);
    loop_init(&sim->loop, &settings, &sim->world, &sim->arena);
    SIM_REQUIRE(sim, sim->arena.used_bytes == sim->arena.size_bytes &&
                         kept.used_bytes == kept.size_bytes,
                INVARIANT_MEMORY, "the loop takes less than it has planned");
    arena_seal(&sim->arena);
    sim->memory = (struct invariants_memory){.arena_bytes = sim->arena.used_bytes};
    sim->queues_most = (uint32_t)greater(sim->queues_most, sim->loop.sched.settings.queues);
    loop_listen_text(&sim->loop, SIM_LISTENER_TEXT);
}

void sim_boot(struct sim *sim)
{
    sim->wordless.info = (struct gguf_vocab_info){
        .tokens = sim->limits.vocab_tokens, .bos_id = GGUF_NO_TOKEN, .eos_id = GGUF_NO_TOKEN,
        .unk_id = GGUF_NO_TOKEN, .eot_id = GGUF_NO_TOKEN};
    take_memory(sim);
    sim_admit_all(sim);
    sim_world_init(sim);
    sim_sockets_init(sim);
    sim_build_loop(sim);
    sim_workers_init(sim);
    sim_clients_init(sim);
    sim_lockstep_init(sim);
    sim->orders.load_permille = 1000;
    sim->orders.idle_us = 2 * SIM_SECOND_US;
}

/* ---- pools ----------------------------------------------------------------------------------- */

static void require_pool(struct sim *sim, const char *name, uint64_t now, uint64_t at_boot)
{
    SIM_REQUIRE(sim, now == at_boot, INVARIANT_QUIESCENCE, "%s: %llu, at boot %llu", name,
                (unsigned long long)now, (unsigned long long)at_boot);
}

/* Device blocks that declared prefixes own, whether they are computed yet or not. */
static uint32_t blocks_of_prefixes(const struct kvmem *kv)
{
    static bool is_owned[SIM_BLOCKS_MAX];
    uint32_t count = 0;
    memset(is_owned, false, sizeof is_owned);
    for (uint32_t i = 0; i < kv->settings.prefixes; i++) {
        uint32_t call = kv->settings.calls + i;
        for (uint32_t at = 0; at < kv->calls[call].count; at++) {
            bool *is_counted = &is_owned[kvmem_table_of(kv, call)[at]];
            count += !*is_counted;
            *is_counted = true;
        }
    }
    return count;
}

uint32_t sim_workflows_open(const struct sim *sim)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sim->limits.workflow.workflows; i++) {
        count += sim->loop.workflows.workflows[i].state != WORKFLOW_FREE;
    }
    return count;
}

void invariants_check_done(struct sim *sim)
{
    const struct loop *loop = &sim->loop;
    require_pool(sim, "free call slots", loop->calls.free_count, loop->calls.count);
    require_pool(sim, "open calls", loop->sched.open_calls, 0);
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        const struct kvmem *kv = &loop->engines[i].kv;
        require_pool(sim, "calls with blocks", loop->sched.engines[i].resident_calls, 0);
        require_pool(sim, "device blocks of calls", kvmem_owned(kv) - blocks_of_prefixes(kv), 0);
    }
    require_pool(sim, "calls with a deadline", loop->sched.deadlines.count, 0);
    require_pool(sim, "connections", loop->net.open_count, 0);
    require_pool(sim, "open handles", sim_handles_open(sim), 0);
    for (uint32_t i = 0; i < SIM_CONNECTIONS_MAX; i++) {
        require_pool(sim, "kept handles", sim->kept_handles[i], 0);
    }
    require_pool(sim, "commands", ring_count(&loop->exchange.inbox_ring), 0);
    require_pool(sim, "answers", ring_count(&loop->exchange.outbox_ring), 0);
    require_pool(sim, "news", ring_count(&loop->exchange.emit_ring), 0);
    require_pool(sim, "news of workflows", ring_count(&loop->exchange.news_ring), 0);
    require_pool(sim, "workflows", sim_workflows_open(sim), 0);
}

/* Whatever a worker did before, it or its successor serves in the end. */
static bool has_settled(const struct sim *sim, uint32_t engine)
{
    return sim->loop.sched.engines[engine].serves || sim->orders.engines[engine].failure != NULL ||
           canary_has_failed(&sim->loop.engines[engine].canary);
}

void invariants_check_quiet(struct sim *sim)
{
    require_pool(sim, "programs", sim->loop.sched.programs_count, 0);
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        const struct kvmem *kv = &sim->loop.engines[i].kv;
        require_pool(sim, "free device blocks", kvmem_free(kv) + blocks_of_prefixes(kv),
                     kv->device.count);
        require_pool(sim, "host blocks in use", kvmem_host_used(kv), 0);
        SIM_REQUIRE(sim, has_settled(sim, i), INVARIANT_QUIESCENCE, "engine %u does not serve", i);
    }
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* The keeper gives up an engine whose worker has died. With one engine the worker stays: the core
 * has no use for it any more, and the runs stay as they are. */
static void give_up(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        if (sim->orders.engines[i].failure != NULL || !sim_fault(sim, SIM_FAULT_GIVEN_UP)) {
            continue;
        }
        sim->orders.engines[i].failure = "given up";
        sim_say(sim, "the keeper gives engine %u up", i);
        if (sim->limits.engines > 1) {
            sim_worker_give_up(sim, i);
        }
    }
}

bool sim_pass(struct sim *sim)
{
    static const int32_t listeners[NET_LISTENERS_MAX] = {SIM_LISTENER_UNIX, SIM_LISTENER_TCP};
    give_up(sim);
    sim_may_upgrade(sim);
    sim_may_reload(sim);
    sim_write_replies(sim);
    if (setjmp(sim->core_death) != 0) {
        sim_core_again(sim);
    }
    sim->is_in_pass = true;
    sim_core_may_die_at_a_store(sim);
    bool goes_on = loop_pass(&sim->loop, &sim->orders, listeners);
    store_trap_disarm();
    sim->is_in_pass = false;
    sim->moved = NULL;
    sim->was_at_a_store = false;
    sim->deaths_in_a_row = 0;
    sim_lockstep_compare(sim);
    sim->pass++;
    invariants_check(sim);
    sim_reload_end(sim);
    sim_core_may_yield(sim);
    if (sim->pass % AUDIT_EVERY == 0) {
        set_alarm(PASS_CPU_S_MAX);
        invariants_audit(sim);
        sim_mix(sim, sim->loop.stats.tokens_generated);
    }
    return goes_on;
}

static void run_wild(struct sim *sim)
{
    while (sim->pass < sim->tape->steps) {
        bool goes_on = sim_pass(sim);
        SIM_REQUIRE(sim, goes_on, INVARIANT_QUIESCENCE, "the loop ended without an order");
    }
}

void sim_run_calm(struct sim *sim)
{
    uint64_t last_pass = sim->pass + CALM_PASSES_MAX, last_us = sim->now_us + CALM_US_MAX;
    sim_say(sim, "from here on there are no faults");
    sim->calm = true;
    while (!sim_clients_are_done(sim)) {
        bool goes_on = sim_pass(sim);
        SIM_REQUIRE(sim, goes_on, INVARIANT_QUIESCENCE, "the loop ended without an order");
        SIM_REQUIRE(sim, sim->pass < last_pass && sim->now_us < last_us, INVARIANT_QUIESCENCE,
                    "without faults some clients still wait after %llu s",
                    (unsigned long long)(CALM_US_MAX / SIM_SECOND_US));
    }
}

static bool is_quiet(const struct sim *sim)
{
    const struct loop *loop = &sim->loop;
    bool is_empty = sim_handles_open(sim) == 0 && loop->sched.programs_count == 0 &&
                    sim_workflows_open(sim) == 0;
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        const struct kvmem *kv = &loop->engines[i].kv;
        is_empty = is_empty && kvmem_free(kv) + kvmem_owned(kv) == kv->device.count &&
                   kvmem_host_used(kv) == 0 && has_settled(sim, i);
    }
    return is_empty;
}

static void run_quiet(struct sim *sim)
{
    uint64_t last_us = sim->now_us + QUIET_US_MAX, last_pass = sim->pass + QUIET_PASSES_MAX;
    sim_say(sim, "all clients leave");
    sim_clients_leave(sim);
    while (!is_quiet(sim) && sim->now_us < last_us && sim->pass < last_pass) {
        (void)sim_pass(sim);
    }
    invariants_audit(sim);
    invariants_check_done(sim);
    invariants_check_quiet(sim);
}

static void run_drain(struct sim *sim)
{
    uint64_t last_us = sim->now_us + sim->options.limits_drain.number + 10 * SIM_SECOND_US;
    sim_say(sim, "the appliance is told to drain");
    sim->calm = true;
    sim->orders.yields = false;
    sim->orders.drain = true;
    sim->orders.leaves = sim_choose(sim, 2) == 1;
    while (sim_pass(sim)) {
        SIM_REQUIRE(sim, sim->now_us < last_us, INVARIANT_QUIESCENCE, "the drain does not end");
    }
    invariants_audit(sim);
    SIM_REQUIRE(sim, sim->loop.sched.open_calls == 0, INVARIANT_QUIESCENCE,
                "the loop has ended with %u calls open", sim->loop.sched.open_calls);
}

static void run_all(struct sim *sim)
{
    swarm_draw(sim);
    sim_boot(sim);
    run_wild(sim);
    if (sim->swarm.ends_by_drain) {
        run_drain(sim);
    } else {
        sim_run_calm(sim);
        run_quiet(sim);
    }
}

enum sim_outcome sim_run_body(struct sim *sim, struct tape *tape, void (*body)(struct sim *sim))
{
    clear(sim);
    sim->tape = tape;
    sim->asserting = INVARIANT_ASSERTION;
    running = sim;
    set_alarm(PASS_CPU_S_MAX);
    if (setjmp(sim->escape) == 0) {
        body(sim);
    }
    set_alarm(0);
    store_trap_disarm();
    running = NULL;
    return sim->failure.invariant == INVARIANT_NONE ? SIM_CLEAN : SIM_FAILED;
}

enum sim_outcome sim_run(struct sim *sim, struct tape *tape)
{
    return sim_run_body(sim, tape, run_all);
}
