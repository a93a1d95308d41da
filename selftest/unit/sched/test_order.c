/* SPDX-License-Identifier: MIT */
/*
 * Goal: a queue whose jobs are in the order of a key: they stand in that order, equal keys as they
 * came, and a job that comes among very many finds its place in few comparisons.
 * Method: calls enter and leave a queue and nothing else is done with them; an array that is kept
 * sorted says where they belong; the comparisons are those of a walk down the tree before each.
 */
#include "selftest/unit/sched/bench.h"

#include <stdlib.h>

#include "sched/engine/order.h"
#include "sched/engine/queue.h"

enum { CALLS = 10000, AVERAGE_MAX = 20, MOST_MAX = 48, FEW = 200, EVENTS = 20000 };

static struct sched sched;
static struct sched_engine *engine;
static struct call_table table;
static uint64_t random_state;

static uint32_t below(uint32_t bound)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % bound;
}

/* One empty queue, and calls of which only the queue knows. */
static struct sched_lane lane;

static void start(uint32_t calls)
{
    static struct sched_engine only;
    lane = (struct sched_lane){.jobs_count = 0};
    sched = (struct sched){.settings = {.queues = 1, .policy = SCHED_SRPT}, .engines = &only,
                           .calls = &table};
    sched.nodes = calloc(calls, sizeof *sched.nodes);
    sched.jobs = calloc(calls, sizeof *sched.jobs);
    table = (struct call_table){.calls = calloc(calls, sizeof *table.calls), .count = calls};
    assert_true(sched.nodes != NULL && sched.jobs != NULL && table.calls != NULL);
    const struct sched_list empty = {.head = CALL_NONE, .tail = CALL_NONE};
    for (uint32_t i = 0; i < calls; i++) {
        table.calls[i].slot = table.calls[i].job = i;
        sched.jobs[i] = (struct sched_job){.ends = {empty, empty, empty}};
    }
    only = (struct sched_engine){.sched = &sched, .lanes = &lane};
    lane.queues[0] = (struct sched_queue){.lists = {empty, empty, empty}, .jobs = empty,
                                          .cursor = SCHED_JOB_NONE, .root = SCHED_JOB_NONE};
    engine = &only;
    random_state = 1;
}

static void stop(void)
{
    free(sched.nodes);
    free(sched.jobs);
    free(table.calls);
}

static uint32_t comparisons(uint64_t key)
{
    uint32_t tail = lane.queues[0].jobs.tail;
    uint32_t count = 1;
    if (tail == SCHED_JOB_NONE || sched.jobs[tail].key <= key) {
        return count;
    }
    for (uint32_t at = lane.queues[0].root; at != SCHED_JOB_NONE; count++) {
        at = sched.nodes[at].child[key >= sched.jobs[at].key];
    }
    return count;
}

static void enter(uint32_t slot, uint64_t key)
{
    sched.jobs[slot].key = key;
    sched.jobs[slot].tie = ++sched.ties;
    sched_queue_enter(engine, &table.calls[slot]);
}

static const struct call *first(void)
{
    return sched_queue_first(engine, &lane.queues[0], CALL_LIST_ALL);
}

static void check_all(void)
{
    for (const struct call *call = first(); call != NULL; call = sched_queue_next(engine, call)) {
        sched_order_check(engine, &sched.jobs[call->slot]);
    }
}

enum order { SORTED, REVERSE, RANDOM, ALTERNATING, ORDERS };

static uint64_t key_of(enum order order, uint32_t i)
{
    switch (order) {
    case SORTED: return i;
    case REVERSE: return CALLS - i;
    case RANDOM: return below(CALLS);
    case ALTERNATING: return i % 2 == 0 ? i : 2 * CALLS - i;
    case ORDERS: break;
    }
    return 0;
}

static void test_enter_compares_few_whatever_the_order(void **state)
{
    (void)state;
    static const char *const names[ORDERS] = {"sorted", "reverse", "random", "alternating"};
    for (enum order order = SORTED; order < ORDERS; order++) {
        uint64_t sum = 0;
        uint32_t most = 0;
        start(CALLS);
        for (uint32_t i = 0; i < CALLS; i++) {
            uint64_t key = key_of(order, i);
            uint32_t count = comparisons(key);
            sum += count;
            most = count > most ? count : most;
            enter(i, key);
        }
        check_all();
        print_message("%-11s %u calls: %.1f comparisons on average, %u at most\n", names[order],
                      CALLS, (double)sum / CALLS, most);
        assert_true(sum <= (uint64_t)AVERAGE_MAX * CALLS && most <= MOST_MAX);
        assert_true(order != SORTED || most == 1);
        stop();
    }
}

/* Slots in the order of their keys, sorted by what came first among equals. */
static uint32_t sorted[FEW], sorted_count;

static void model_enter(uint32_t slot)
{
    uint32_t at = sorted_count++;
    for (; at > 0 && sched.jobs[sorted[at - 1]].key > sched.jobs[slot].key; at--) {
        sorted[at] = sorted[at - 1];
    }
    sorted[at] = slot;
}

static uint32_t model_remove(uint32_t at)
{
    uint32_t slot = sorted[at];
    memmove(&sorted[at], &sorted[at + 1], (--sorted_count - at) * sizeof sorted[0]);
    return slot;
}

static void compare(void)
{
    uint32_t at = 0;
    for (const struct call *call = first(); call != NULL; call = sched_queue_next(engine, call)) {
        assert_int_equal(call->slot, sorted[at++]);
    }
    assert_int_equal(at, sorted_count);
}

static void test_calls_that_come_and_go_stand_in_order(void **state)
{
    (void)state;
    uint32_t free_slots[FEW], free_count = FEW;
    start(FEW);
    sorted_count = 0;
    for (uint32_t i = 0; i < FEW; i++) {
        free_slots[i] = i;
    }
    for (uint32_t event = 0; event < EVENTS; event++) {
        bool comes = below(2) == 0;
        if (comes && free_count > 0) {
            uint32_t slot = free_slots[--free_count];
            enter(slot, below(FEW));
            model_enter(slot);
        } else if (!comes && sorted_count > 0) {
            uint32_t slot = model_remove(below(sorted_count));
            sched_queue_remove(engine, &table.calls[slot]);
            free_slots[free_count++] = slot;
        }
        compare();
        check_all();
    }
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_enter_compares_few_whatever_the_order),
        cmocka_unit_test(test_calls_that_come_and_go_stand_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
