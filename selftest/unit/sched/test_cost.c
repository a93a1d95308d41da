/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the scheduler does for an event, a plan among them, does not grow with the number of
 * calls that wait.
 * Method: all that it keeps (calls, programs, blocks, rings, step record) lies in memory that is
 * closed before each event; the first touch of a page is a fault, which opens the page and counts
 * it. The most pages that any event of a kind has touched must be as few among 100,000 waiting
 * calls as among 1,000, but for a few: which records share a page differs. Walks past every call
 * would touch a hundred times as many.
 */
#include <signal.h>
#include <sys/mman.h>

#include "selftest/unit/sched/bench.h"

#include "sched/engine/starvation.h"

enum {
    PAGE_BYTES = 4096, FEW = 8, ROUNDS = 12, LOAD_SMALL = 1000, LOAD_LARGE = 100000,
    CONTEXT = 32, PROMPT = 12, OUTPUT = 6, RESIDENT = 8, BLOCKS = 64, BATCH = 4,
};

enum cost_event { EVENT_ARRIVE, EVENT_CANCEL, EVENT_PLAN, EVENT_LAUNCH, EVENT_SETTLE, EVENTS };
static const char *const event_names[EVENTS] = {"arrive", "cancel", "plan", "launch", "settle"};

static struct bench bench;
static uint8_t *memory;
static uint64_t memory_bytes;
static volatile uint32_t touched;

static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    uintptr_t at = (uintptr_t)info->si_addr;
    uintptr_t page = at & ~(uintptr_t)(PAGE_BYTES - 1);
    if (at - (uintptr_t)memory >= memory_bytes) {
        signal(signal_number, SIG_DFL);
        return;
    }
    touched++;
    if (mprotect((void *)page, PAGE_BYTES, PROT_READ | PROT_WRITE) != 0) {
        abort();
    }
}

static void close_memory(void)
{
    touched = 0;
    assert_int_equal(mprotect(memory, memory_bytes, PROT_NONE), 0);
}

static void open_memory(uint32_t *most)
{
    *most = touched > *most ? touched : *most;
    assert_int_equal(mprotect(memory, memory_bytes, PROT_READ | PROT_WRITE), 0);
}

static void start(enum sched_policy policy, uint32_t calls)
{
    struct sched_settings settings = bench_settings(policy);
    struct kvmem_settings kv = bench_kv(BLOCKS);
    struct arena arena;
    settings.batch_calls = BATCH;
    settings.standby_calls = BATCH;
    settings.steps_per_plan = 2;
    settings.prefill_tokens = PROMPT;
    settings.context_tokens = CONTEXT;
    settings.calls = calls;
    settings.programs = calls + 1;
    settings.beta_milli = 3000;
    settings.prefetch = true;
    kv.calls = calls;
    kv.host_blocks = BLOCKS;
    memory_bytes = (uint64_t)calls * 4096 + (8u << 20);
    memory = mmap(NULL, memory_bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(memory != MAP_FAILED);
    arena_init(&arena, memory, memory_bytes);
    memset(&bench, 0, sizeof bench);
    bench.now_us = 1;
    call_table_init(&bench.calls, calls, CONTEXT, &arena, &arena);
    exchange_init(&bench.exchange,
                  &(struct exchange_counts){.commands = BENCH_COMMANDS, .calls = calls}, &arena);
    kv.holders = settings.programs;
    kvmem_init(&bench.kv, &kv, &arena);
    bench.step.layout = (struct step_layout){
        .rows_max = BENCH_ROWS_MAX, .steps_max = BENCH_STEPS_MAX,
        .tokens_max = BENCH_PREFILL_MAX + BENCH_ROWS_MAX, .blocks_per_call = BENCH_BLOCKS_PER_CALL,
        .moves_max = kvmem_moves_max(BLOCKS)};
    step_layout_init(&bench.step.layout);
    bench.step.base = arena_take(&arena, 1, bench.step.layout.total_bytes);
    bench.engine = (struct fake_engine){
        .step = bench.step, .kv = bench.kv_bytes, .blocks = BENCH_BLOCKS_MAX,
        .device_blocks = BLOCKS,
        .block_tokens = BENCH_BLOCK_TOKENS, .vocab_tokens = BENCH_VOCAB, .steps_per_plan = 2};
    bench_init_sched(&bench, &bench.sched, &settings, &arena);
    fake_engine_forget(&bench.engine);
}

static void send(uint32_t program)
{
    bench_send(&bench, bench_take(&bench, program, PROMPT, OUTPUT, program));
}

static void release_finished(void)
{
    while (!ring_is_empty(&bench.exchange.emit_ring)) {
        uint32_t index = bench.exchange.emit[ring_pop(&bench.exchange.emit_ring)];
        bench_at(&bench, index)->in_emit_ring = false;
        if (bench_at(&bench, index)->state == CALL_FINISHED) {
            call_release(&bench.calls, index);
        }
    }
}

/* A step that is not counted. */
static void quiet_step(void)
{
    struct sched_engine *engine = bench_engine(&bench);
    if (sched_engine_plan(engine, bench.now_us)) {
        kvmem_bind(&bench.kv, &bench.step, engine->planned, engine->planned_count);
        sched_engine_launched(engine, bench.now_us);
        fake_engine_run(&bench.engine);
        bench.now_us += BENCH_UNIT;
        assert_int_equal(sched_engine_settle(engine, bench.now_us), SCHED_BELIEVED);
    }
    release_finished();
}

/* `load` calls wait, in several queues where there are several: every second program has had
 * service before. */
static void fill(uint32_t load)
{
    for (uint32_t i = 0; i < load; i++) {
        send(i);
        sched_intake(&bench.sched, bench.now_us);
        uint32_t program = bench_at(&bench, i)->program;
        if (i % 2 == 0) {
            bench.sched.programs[program].service_us = (i % 8) * 2 * BENCH_UNIT;
            bench_cancel(&bench, i);
            sched_intake(&bench.sched, bench.now_us);
            release_finished();
            send(i);
            sched_intake(&bench.sched, bench.now_us);
        }
        release_finished();
    }
    for (uint32_t i = 0; i < 4 * RESIDENT; i++) {
        quiet_step();
    }
}

static void round_of_events(uint32_t round, uint32_t *most)
{
    struct sched_engine *engine = bench_engine(&bench);
    send(round);
    close_memory();
    sched_intake(&bench.sched, bench.now_us);
    open_memory(&most[EVENT_ARRIVE]);
    uint32_t victim = engine->lanes[0].queues[0].lists[CALL_LIST_ALL].tail;
    bench_cancel(&bench, victim);
    close_memory();
    sched_intake(&bench.sched, bench.now_us);
    open_memory(&most[EVENT_CANCEL]);
    close_memory();
    bool planned = sched_engine_plan(engine, bench.now_us);
    open_memory(&most[EVENT_PLAN]);
    assert_true(planned);
    kvmem_bind(&bench.kv, &bench.step, engine->planned, engine->planned_count);
    close_memory();
    sched_engine_launched(engine, bench.now_us);
    open_memory(&most[EVENT_LAUNCH]);
    fake_engine_run(&bench.engine);
    bench.now_us += BENCH_UNIT;
    close_memory();
    enum sched_verdict verdict = sched_engine_settle(engine, bench.now_us);
    open_memory(&most[EVENT_SETTLE]);
    assert_int_equal(verdict, SCHED_BELIEVED);
    release_finished();
}

static void measure(enum sched_policy policy, uint32_t load, uint32_t *most)
{
    start(policy, load + 64);
    fill(load);
    memset(most, 0, EVENTS * sizeof *most);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        round_of_events(round, most);
    }
    assert_true(bench.sched.open_calls > load / 2);
    assert_int_equal(munmap(memory, memory_bytes), 0);
}

static void compare(const char *policy_name, enum sched_policy policy)
{
    uint32_t among_few[EVENTS], among_many[EVENTS];
    /* Here, because CMocka sets its own handler before each test. */
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    assert_int_equal(sigaction(SIGSEGV, &action, NULL), 0);
    measure(policy, LOAD_SMALL, among_few);
    measure(policy, LOAD_LARGE, among_many);
    for (uint32_t i = 0; i < EVENTS; i++) {
        print_message("%-5s %-6s touches at most %u pages among %u calls, %u among %u\n",
                      policy_name, event_names[i], among_few[i], LOAD_SMALL, among_many[i],
                      LOAD_LARGE);
        /* Among many, each call that is looked at for starvation has a program far from others. */
        uint32_t looks = (bench.sched.settings.queues - 1) * SCHED_STARVATION_CHECKS_MAX;
        assert_true(among_many[i] <= among_few[i] + FEW + (i == EVENT_PLAN ? looks : 0));
    }
}

static void test_events_touch_no_more_among_many_calls_in_one_queue(void **state)
{
    (void)state;
    compare("fcfs", SCHED_FCFS);
}

static void test_events_touch_no_more_among_many_calls_in_several_queues(void **state)
{
    (void)state;
    compare("plas", SCHED_PLAS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_touch_no_more_among_many_calls_in_one_queue),
        cmocka_unit_test(test_events_touch_no_more_among_many_calls_in_several_queues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
