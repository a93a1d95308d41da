/* SPDX-License-Identifier: MIT
 *
 * What: the scheduler's cost of an event, with 1,000, 10,000 and 1,000,000 live calls.
 *
 *     bench-sched [POLICY] [--live N] [--all-active]      (default: plas, and the three)
 *
 * An event is a call's arrival, its row in a plan, that row when the step settles, its promotion,
 * demotion or preemption, or its end. The time is that of sched_intake(), sched_plan(),
 * sched_launched() and sched_settle(), including kvmem and the event log in them. The events of a
 * plan share its cost. The time excludes net, the binding of blocks to rows, the engine (here one
 * that always answers 7), and the benchmark's own writing of prompts.
 *
 * The load: programs of four calls at a time, 16 tokens of prompt, 24 of output, no two equal. A
 * new call replaces each that ends, so the number of live calls is constant. KV for 512 calls on
 * each tier, a step of 50 ms, else the default configuration: a batch of 32 and 8 standbys, 8
 * decoding steps and 256 prompt tokens a plan. All other calls wait; with --all-active
 * (sched.active_set = off) all programs have their place in the KV. Each figure is one of RUNS
 * runs of STEPS plans; the live calls exist before. The time is CPU time of this thread, so other
 * work on the machine adds little; the cost of reading the clock is subtracted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "sched/sched.h"
#include "tools/command_line.h"

#define RUNS           5u
#define STEPS          2000u
#define BATCH          32u
#define STANDBYS       8u
#define DECODE_STEPS   8u
#define PREFILL_TOKENS 256u
#define PROMPT_TOKENS  16u
#define OUTPUT_TOKENS  24u
#define CONTEXT_TOKENS 48u
#define BLOCK_TOKENS   8u
#define BLOCKS         (512u * CONTEXT_TOKENS / BLOCK_TOKENS)
#define CALLS_EACH     4u           /* open calls of a program */
#define COMMANDS       256u
#define EVENTS_COUNT   16384u       /* as limits.events */
#define STEP_US        50000u
#define CLOCK_LOOKS    1000u
#define LIVE_MAX       10000000u

struct bench {
    struct sched sched;
    struct event_log event_log;
    struct call_table calls;
    struct exchange exchange;
    struct kvmem kv;
    struct step step;
    struct stats stats;
    uint64_t now_us, ns, events;
    uint32_t arrivals;
};
static struct bench bench;
static uint64_t clock_ns;           /* cost of reading the clock */

static _Noreturn void fail(const char *text)
{
    fprintf(stderr, "bench-sched: %s\n", text);
    exit(1);
}

static uint64_t spent_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The minimum of many readings: the rest is other work. */
static uint64_t look_ns(void)
{
    uint64_t least_ns = UINT64_MAX;
    for (uint32_t i = 0; i < CLOCK_LOOKS; i++) {
        uint64_t begun_ns = spent_ns();
        uint64_t look = spent_ns() - begun_ns;
        least_ns = look < least_ns ? look : least_ns;
    }
    return least_ns;
}

static enum sched_policy policy_of(const char *name)
{
    static const struct {
        const char *name;
        enum sched_policy policy;
    } policies[] = {
#define POLICY(name, word, ...) {word, SCHED_##name},
#include "config/policies.def"
    };
    for (uint32_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        if (strcmp(name, policies[i].name) == 0) {
            return policies[i].policy;
        }
    }
    fail("no such policy: config/policies.def has the words");
}

static struct arena map(const struct memory_plan *plan)
{
    uint64_t bytes = memory_plan_bytes(plan, MEMORY_CORE) + memory_plan_bytes(plan, MEMORY_KEPT);
    struct arena arena;
    if (arena_map(&arena, bytes, false) != STATUS_OK) {
        fail("no memory");
    }
    return arena;
}

static struct arena start(enum sched_policy policy, uint32_t live, bool all_active)
{
    uint32_t calls = live + BATCH + STANDBYS;
    struct sched_settings settings = {
        .policy = policy, .engines = 1, .queues = 6, .quantum_us = 50000, .quantum_growth = 2,
        .active_programs = all_active ? SCHED_ACTIVE_ALL : 0,
        .exchange_permille = 30, .small_permille = 60,
        .beta_milli = 32000, .wait_max_us = 300000000, .steps_per_plan = DECODE_STEPS,
        .batch_calls = BATCH, .standby_calls = STANDBYS, .prefill_tokens = PREFILL_TOKENS,
        .context_tokens = CONTEXT_TOKENS, .vocab_tokens = 1000, .program_idle_us = UINT64_MAX,
        .calls = calls, .programs = calls, .classes = 256,
        .sharing = SCHED_SHARING_PROGRAM,
        .event_log = &bench.event_log};
    struct kvmem_settings kv = {
        .device_blocks = BLOCKS, .host_blocks = BLOCKS, .block_tokens = BLOCK_TOKENS,
        .calls = calls, .holders = calls,
        .blocks_per_call = CONTEXT_TOKENS / BLOCK_TOKENS,
        .retain_device_us = STEP_US, .retain_host_us = 10 * STEP_US,
        .retain_drop_us = 100 * STEP_US};
    struct memory_plan plan = {0};
    memset(&bench, 0, sizeof bench);
    bench.now_us = 1;
    bench.step.layout = (struct step_layout){
        .rows_max = BATCH + STANDBYS, .steps_max = DECODE_STEPS,
        .tokens_max = PREFILL_TOKENS + BATCH + STANDBYS, .blocks_per_call = kv.blocks_per_call,
        .moves_max = kvmem_moves_max(BLOCKS)};
    step_layout_init(&bench.step.layout);
    event_log_plan_memory(&plan, EVENTS_COUNT, 0);
    call_table_plan_memory(&plan, calls, CONTEXT_TOKENS);
    exchange_plan_memory(&plan, &(struct exchange_counts){.commands = COMMANDS, .calls = calls});
    kvmem_plan_memory(&plan, &kv);
    sched_plan_memory(&plan, &settings);
    memory_plan_add(&plan, MEMORY_CORE, "step record", 1, bench.step.layout.total_bytes);
    struct arena arena = map(&plan);
    event_log_init(&bench.event_log, EVENTS_COUNT, 0, &arena);
    call_table_init(&bench.calls, calls, CONTEXT_TOKENS, &arena, &arena);
    exchange_init(&bench.exchange, &(struct exchange_counts){.commands = COMMANDS, .calls = calls},
                  &arena);
    kvmem_init(&bench.kv, &kv, &arena);
    bench.step.base = arena_take(&arena, 1, bench.step.layout.total_bytes);
    struct sched_engine_wiring engine = {.kv = &bench.kv, .step = bench.step};
    const struct sched_wiring wiring = {.calls = &bench.calls, .exchange = &bench.exchange,
                                        .stats = &bench.stats, .engines = &engine};
    sched_init(&bench.sched, &settings, &wiring, &arena);
    return arena;
}

/* net's part. */
static void send(uint32_t live)
{
    uint32_t index = call_take(&bench.calls, 0);
    struct call *call = &bench.calls.calls[index];
    uint32_t program = bench.arrivals % (live / CALLS_EACH);
    memcpy(call->program_id, &program, sizeof program);
    call->connection = 0;
    call->deadline_us = UINT64_MAX;
    call->sampling.repeat_penalty = 1;
    call->prompt_tokens = PROMPT_TOKENS;
    call->max_tokens = OUTPUT_TOKENS;
    for (uint32_t i = 0; i < PROMPT_TOKENS; i++) {
        call->tokens[i] = (bench.arrivals >> (i % 4 * 8)) & 0xff;
    }
    bench.arrivals++;
    exchange_command(&bench.exchange, &(struct command){.kind = COMMAND_CALL, .call = index});
}

/* net's part: releases calls that have ended. Returns their number. */
static uint32_t collect(void)
{
    uint32_t ended = 0;
    while (!ring_is_empty(&bench.exchange.emit_ring)) {
        uint32_t index = bench.exchange.emit[ring_pop(&bench.exchange.emit_ring)];
        struct call *call = &bench.calls.calls[index];
        call->in_emit_ring = false;
        if (call->state == CALL_FINISHED) {
            call_release(&bench.calls, index);
            ended++;
        }
    }
    return ended;
}

static void fill(uint32_t live)
{
    for (uint32_t i = 0; i < live; i++) {
        send(live);
        if ((i + 1) % (COMMANDS / 2) == 0 || i + 1 == live) {
            sched_intake(&bench.sched, bench.now_us);
            collect();
        }
    }
}

static void compute(void)
{
    const struct step_header *header = step_header(&bench.step);
    for (uint32_t i = 0; i < header->rows_count; i++) {
        uint32_t steps = i < header->rows_active ? step_row(&bench.step, i)->decode_steps : 0;
        *step_out(&bench.step, i) = (struct step_out){.result = STEP_ROW_OK, .produced = steps};
        for (uint32_t j = 0; j < steps; j++) {
            step_out_tokens(&bench.step, i)[j] = 7;
        }
    }
}

static uint64_t moved(void)
{
    return bench.stats.promotions + bench.stats.demotions + bench.stats.preemptions;
}

static void turn(uint32_t live, uint32_t *arriving)
{
    for (uint32_t i = 0; i < *arriving; i++) {
        send(live);
    }
    struct sched_engine *engine = &bench.sched.engines[0];
    uint64_t moved_before = moved();
    uint64_t begun_ns = spent_ns();
    sched_intake(&bench.sched, bench.now_us);
    if (!sched_engine_plan(engine, bench.now_us)) {
        fail("nothing to plan");
    }
    bench.ns += spent_ns() - begun_ns - clock_ns;
    kvmem_bind(&bench.kv, &bench.step, engine->planned, engine->planned_count);
    compute();
    begun_ns = spent_ns();
    sched_engine_launched(engine, bench.now_us);
    bench.now_us += STEP_US;
    if (sched_engine_settle(engine, bench.now_us) != SCHED_BELIEVED) {
        fail("a step is not believed");
    }
    bench.ns += spent_ns() - begun_ns - clock_ns;
    uint32_t ended = collect();
    bench.events += *arriving + 2u * step_header(&bench.step)->rows_count + ended;
    bench.events += moved() - moved_before;
    *arriving = ended;
}

/* Inserts a run into the `count` sorted ones before it. */
static void insert(double *runs, uint32_t count, double run)
{
    while (count > 0 && runs[count - 1] > run) {
        runs[count] = runs[count - 1];
        count--;
    }
    runs[count] = run;
}

static void measure(const char *name, uint32_t live, bool all_active)
{
    double runs[RUNS];
    uint32_t arriving = 0;
    struct arena arena = start(policy_of(name), live, all_active);
    fill(live);
    for (uint32_t i = 0; i < STEPS; i++) {
        turn(live, &arriving);          /* does not count: until all levels are in use */
    }
    for (uint32_t run = 0; run < RUNS; run++) {
        bench.ns = bench.events = 0;
        for (uint32_t i = 0; i < STEPS; i++) {
            turn(live, &arriving);
        }
        insert(runs, run, (double)bench.ns / (double)bench.events);
    }
    printf("sched %-5s %8u live calls: ns per event min %.0f, median %.0f, max %.0f; "
           "%.1f events per plan\n", name, live, runs[0], runs[RUNS / 2], runs[RUNS - 1],
           (double)bench.events / STEPS);
    fflush(stdout);
    if (munmap(arena.base, arena.size_bytes) != 0) {
        fail("munmap");
    }
}

int main(int argc, char **argv)
{
    static const uint32_t lives[] = {1000, 10000, 1000000};
    const char *policy = NULL;
    uint32_t live = 0;
    bool all_active = false;
    const struct argument rows[] = {
        {"--live", "N", ARGUMENT_U32, &live, CALLS_EACH, LIVE_MAX,
         "live calls (default: 1,000, 10,000 and 1,000,000)"},
        {"--all-active", NULL, ARGUMENT_FLAG, &all_active, 0, 0, "sched.active_set = off"},
    };
    const struct command_line line = {
        .program = "bench-sched", .usage = "[fcfs|mlfq|plas|atlas] [--live N] [--all-active]",
        .purpose = "The scheduler's cost of an event; the default policy is plas.",
        .operand = &policy, .operand_may_lack = true,
        .rows = rows, .rows_count = sizeof rows / sizeof rows[0]};
    int code = command_line_parse(&line, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    policy = policy != NULL ? policy : "plas";
    clock_ns = look_ns();
    for (uint32_t i = 0; i < sizeof lives / sizeof lives[0]; i++) {
        if (live == 0 || i == 0) {
            measure(policy, live > 0 ? live : lives[i], all_active);
        }
    }
    return 0;
}
