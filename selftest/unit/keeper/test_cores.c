/* SPDX-License-Identifier: MIT */
/*
 * Goal: at most one process is the core. It is the one that has waited if that has got its keys,
 * else one that is forked with them; none where the appliance is to end, cores die too often, or
 * there are no keys. One that waits is there only beside a core that serves.
 * Method: the module with the system calls and the keeper's reload scripted; processes are numbers.
 */
#include "selftest/unit/test.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "appliance/clock.h"
#include "appliance/core.h"
#include "appliance/health.h"
#include "appliance/keeper/cores.h"
#include "appliance/log.h"

enum { PROCESSES = 32 };

static enum { NONE, BORN, KILLED, REAPED } process[PROCESSES];
static pid_t last_forked;
static bool fork_fails, has_keys, hands_over;
static uint32_t renewals, begun;    /* readings of the keys; orders to the one that waits */
static uint64_t time_us, rested_us;

static pid_t scripted_fork(void)
{
    if (fork_fails) {
        return -1;
    }
    assert_true(++last_forked < PROCESSES);
    process[last_forked] = BORN;
    return last_forked;
}

static int scripted_kill(pid_t pid, int number)
{
    assert_int_equal(number, SIGKILL);
    assert_true(pid > 0 && pid < PROCESSES && process[pid] == BORN);
    process[pid] = KILLED;
    return 0;
}

static pid_t scripted_waitpid(pid_t pid, int *status, int options)
{
    assert_int_equal(process[pid], KILLED);
    process[pid] = REAPED;
    return pid;
}

static bool scripted_renew(struct reload *reload)
{
    renewals++;
    return has_keys;
}

static bool scripted_hand_over(struct reload *reload)
{
    return hands_over;
}

static void scripted_begin(struct reload *reload)
{
}

static void scripted_begin_core(struct control *control, bool was_killed)
{
    begun++;
    atomic_store(&control->core_was_killed, was_killed);
}

static uint64_t scripted_clock(clockid_t clock)
{
    return time_us;
}

static void scripted_rest(uint64_t us)
{
    rested_us += us;
}

/* No child runs here. */
static void scripted_core(const struct boot *boot)
{
    assert_null(boot);
}

static void scripted_next(const struct boot *boot, uint32_t core_restarts)
{
    assert_null(boot);
}

static void be_silent(enum log_level level, const char *format, ...)
{
}

#define fork               scripted_fork
#define kill               scripted_kill
#define waitpid            scripted_waitpid
#define reload_renew       scripted_renew
#define reload_hand_over   scripted_hand_over
#define reload_begin       scripted_begin
#define control_begin_core scripted_begin_core
#define clock_us           scripted_clock
#define clock_rest         scripted_rest
#define core_run           scripted_core
#define core_wait          scripted_next
#define log_event          be_silent
#include "appliance/keeper/cores.c"
#undef log_event

static struct boot boot;
static struct control control;
static struct cores cores;

/* A core serves; none waits yet. */
static int begin(void **state)
{
    memset(process, 0, sizeof process);
    memset(&control, 0, sizeof control);
    boot = (struct boot){.shared.control = &control};
    config_defaults(&boot.options);
    cores = (struct cores){.boot = &boot};
    cores_init(&cores);
    last_forked = 0;
    fork_fails = false;
    has_keys = hands_over = true;
    renewals = begun = 0;
    time_us = 1000000;
    rested_us = 0;
    assert_int_equal(cores_start(&cores), BOOT_EXIT_OK);
    atomic_store(&control.health, HEALTH_READY);
    return 0;
}

static void tick(void)
{
    time_us += GUARD_TICK_US;
    cores_tick(&cores, true, false);
}

/* Until one waits. */
static pid_t next_core(void)
{
    tick();
    assert_true(cores.next > 0);
    return cores.next;
}

/* The child ends by the signal, or with the status. */
static bool ends(pid_t pid, int wait_status)
{
    enum boot_exit exit_status = BOOT_EXIT_OK;
    process[pid] = REAPED;
    bool was_ours = cores_reap(&cores, pid, wait_status, &exit_status);
    assert_int_equal(exit_status, WIFSIGNALED(wait_status) && cores.core < 0 ? BOOT_EXIT_CORE
                                                                            : BOOT_EXIT_OK);
    return was_ours;
}

static uint32_t count_living(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < PROCESSES; i++) {
        count += process[i] == BORN;
    }
    return count;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_the_one_that_waits_is_the_next_core(void **state)
{
    pid_t first = cores.core, next = next_core();
    assert_true(ends(first, SIGSEGV));
    assert_int_equal(cores.core, -1);
    assert_true(cores_replace(&cores, false));
    assert_int_equal(cores.core, next);
    assert_int_equal(cores.next, -1);
    assert_int_equal(begun, 1);
    assert_int_equal(count_living(), 1);
    assert_int_not_equal(next_core(), next);    /* another one waits for that */
}

/* It might begin with the keys of another: it is killed before there is another core. */
static void test_one_that_got_no_keys_never_begins(void **state)
{
    pid_t first = cores.core, next = next_core();
    hands_over = false;
    assert_true(ends(first, SIGKILL));
    assert_true(cores_replace(&cores, true));
    assert_int_equal(process[next], REAPED);
    assert_int_equal(cores.core, last_forked);
    assert_int_not_equal(cores.core, next);
    assert_int_equal(count_living(), 1);
    assert_int_equal(control.core_was_killed, 1);
}

static void test_one_that_ends_in_its_wait_leaves_the_core_and_has_a_successor_later(void **state)
{
    pid_t first = cores.core, next = next_core();
    assert_true(ends(next, SIGKILL));
    assert_int_equal(cores.core, first);
    assert_int_equal(cores.next, -1);
    tick();
    assert_int_equal(cores.next, -1);
    for (uint32_t i = 0; i < NEXT_PAUSE_TICKS && cores.next < 0; i++) {
        tick();
    }
    assert_true(cores.next > 0);
    assert_false(ends(29, SIGKILL));            /* a worker, for example */
}

/* It is reaped as the core that it has become. */
static void test_one_that_has_died_unseen_is_replaced_as_a_core(void **state)
{
    pid_t first = cores.core, next = next_core();
    assert_true(ends(first, SIGSEGV));
    assert_true(cores_replace(&cores, false));
    assert_true(ends(next, SIGKILL));
    assert_int_equal(cores.core, -1);
    assert_true(cores_replace(&cores, true));
    assert_int_equal(cores.core, last_forked);
    assert_int_equal(count_living(), 1);
}

static void expect_no_successor(void)
{
    pid_t first = cores.core;
    assert_true(ends(first, SIGSEGV));
    assert_false(cores_replace(&cores, false));
    assert_int_equal(cores.core, -1);
    assert_int_equal(begun, 0);
    cores_end(&cores);
    assert_int_equal(count_living(), 0);
}

static void test_no_core_follows_one_that_was_to_end(void **state)
{
    static const uint32_t orders[] = {CONTROL_DRAIN, CONTROL_STOP_NOW, CONTROL_YIELD,
                                      CONTROL_LEAVE};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        begin(state);
        (void)next_core();
        atomic_store(&control.stop, orders[i]);
        expect_no_successor();
        assert_int_equal(renewals, 0);
    }
}

static void test_no_core_begins_without_keys(void **state)
{
    (void)next_core();
    has_keys = false;
    expect_no_successor();
}

/* Three within the window, by default; what comes after it does not count. */
static void test_cores_that_die_too_often_have_no_successor(void **state)
{
    uint64_t window_us = boot.options.engine_failure_window.number;
    for (uint32_t i = 0; i < 6; i++) {
        time_us += window_us;
        assert_true(ends(cores.core, SIGSEGV));
        assert_true(cores_replace(&cores, false));
    }
    time_us += 2 * window_us;
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(ends(cores.core, SIGSEGV));
        assert_true(cores_replace(&cores, false));
    }
    assert_true(ends(cores.core, SIGSEGV));
    assert_false(cores_replace(&cores, false));
    assert_int_equal(count_living(), 0);
}

/* Those that die at once take no more of the machine than one for each tick. */
static void test_a_core_that_died_at_once_is_followed_a_tick_later(void **state)
{
    assert_true(ends(cores.core, SIGSEGV));
    assert_true(cores_replace(&cores, false));
    assert_int_equal(rested_us, GUARD_TICK_US);
    time_us += GUARD_TICK_US;
    assert_true(ends(cores.core, SIGSEGV));
    assert_true(cores_replace(&cores, false));
    assert_int_equal(rested_us, GUARD_TICK_US);
}

static void test_none_waits_where_it_could_not_take_over(void **state)
{
    atomic_store(&control.health, HEALTH_STARTING);
    tick();
    assert_int_equal(cores.next, -1);
    atomic_store(&control.health, HEALTH_READY);
    atomic_store(&control.stop, CONTROL_DRAIN);
    tick();
    assert_int_equal(cores.next, -1);
    atomic_store(&control.stop, CONTROL_RUN);
    boot.options.appliance_core_failures.number = 1;    /* none has a successor */
    tick();
    assert_int_equal(cores.next, -1);
    boot.options.appliance_core_failures.number = 3;
    time_us += GUARD_TICK_US;
    cores_tick(&cores, false, false);
    assert_int_equal(cores.next, -1);
    fork_fails = true;
    tick();
    assert_int_equal(cores.next, -1);
    assert_int_equal(count_living(), 1);
}

static void test_a_core_that_does_not_end_is_killed(void **state)
{
    pid_t core = cores.core;
    for (uint32_t i = 0; i < END_TICKS; i++) {
        assert_int_equal(process[core], BORN);
        cores_tick(&cores, true, true);
    }
    assert_int_equal(process[core], KILLED);
}

static void test_a_fork_that_fails_ends_the_succession(void **state)
{
    assert_true(ends(cores.core, SIGSEGV));
    fork_fails = true;
    assert_false(cores_replace(&cores, false));
    cores_end(&cores);
    assert_int_equal(count_living(), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, begin)
    const struct CMUnitTest tests[] = {
        T(test_the_one_that_waits_is_the_next_core),
        T(test_one_that_got_no_keys_never_begins),
        T(test_one_that_ends_in_its_wait_leaves_the_core_and_has_a_successor_later),
        T(test_one_that_has_died_unseen_is_replaced_as_a_core),
        T(test_no_core_follows_one_that_was_to_end),
        T(test_no_core_begins_without_keys),
        T(test_cores_that_die_too_often_have_no_successor),
        T(test_a_core_that_died_at_once_is_followed_a_tick_later),
        T(test_none_waits_where_it_could_not_take_over),
        T(test_a_core_that_does_not_end_is_killed),
        T(test_a_fork_that_fails_ends_the_succession),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
