/* SPDX-License-Identifier: MIT
 *
 * Goal: all threads run, and no thread passes a barrier before all have come, with fewer CPUs than
 * threads too. In a run of the caller alone the others do not take part.
 * Method: counters that each phase checks; many runs and phases, every third one alone; 1 to 24
 * threads.
 */
#define TEST_ARENA_BYTES (64u << 20)    /* stacks, which are larger under a thread sanitizer */
#include "selftest/unit/test.h"

#include "kernels/threads.h"

#define PHASES 50
#define RUNS   40

static struct kernels_threads threads;
static _Atomic uint32_t arrivals[PHASES];
static _Atomic uint32_t early, runs_seen[KERNELS_THREADS_MAX];

static void work(void *context, uint32_t thread)
{
    runs_seen[thread]++;
    for (uint32_t phase = 0; phase < PHASES; phase++) {
        arrivals[phase]++;
        kernels_threads_wait(&threads);
        early += arrivals[phase] != threads.active;
        kernels_threads_wait(&threads);
    }
}

static void check_threads(uint32_t count)
{
    struct arena *arena = test_arena();
    struct memory_plan plan = {0};
    kernels_threads_plan_memory(&plan, count);
    assert_status(STATUS_OK, kernels_threads_init(&threads, count, work, NULL, arena));
    assert_int_equal(arena->used_bytes, memory_plan_bytes(&plan, MEMORY_ENGINE));
    memset(runs_seen, 0, sizeof runs_seen);
    for (uint32_t run = 0, together = 0; run < RUNS; run++) {
        bool alone = run % 3 == 1;
        together += !alone;
        memset(arrivals, 0, sizeof arrivals);
        kernels_threads_run(&threads, alone);
        assert_int_equal(threads.active, alone ? 1 : count);
        assert_int_equal(runs_seen[0], run + 1);
        for (uint32_t i = 1; i < count; i++) {
            assert_int_equal(runs_seen[i], together);
        }
    }
    assert_int_equal(early, 0);
    kernels_threads_stop(&threads);
}

static void test_run_any_count_barriers_hold(void **state)
{
    (void)state;
    const uint32_t counts[] = {1, 2, 3, 8};
    for (uint32_t i = 0; i < 4; i++) {
        check_threads(counts[i]);
    }
}

/* More threads than CPUs on most machines: nearly every wait sleeps on the futex. */
static void test_run_many_threads_all_wake(void **state)
{
    (void)state;
    check_threads(24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_any_count_barriers_hold),
        cmocka_unit_test(test_run_many_threads_all_wake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
