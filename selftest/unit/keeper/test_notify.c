/* SPDX-License-Identifier: MIT */
/*
 * Goal: a service manager hears what is true, once, and nothing when nothing moves. Method: the
 * test is the service manager: it listens where NOTIFY_SOCKET points, and writes the control page.
 */
#include "selftest/unit/folder.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "appliance/keeper/notify.h"
#include "appliance/text/port.h"

#define NAME "agentix-test-notify-"

void heap_seal(void) {}

static int manager = -1;
static struct notify notify;
static struct control control;

/* A listening abstract address of this process; what $NOTIFY_SOCKET is to say about it. */
static void listen_abstract(char *text, size_t bytes)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(text, bytes, "@" NAME "%d", (int)getpid());
    memcpy(address.sun_path + 1, text + 1, (size_t)length - 1);
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(manager, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)length)), 0);
}

static int begin(void **state)
{
    char text[64];
    listen_abstract(text, sizeof text);
    setenv("NOTIFY_SOCKET", text, 1);
    setenv("WATCHDOG_USEC", "2000000", 1);
    unsetenv("WATCHDOG_PID");
    memset(&control, 0, sizeof control);
    notify_open(&notify);
    return 0;
}

static int end(void **state)
{
    notify_close(&notify);
    close(manager);
    return 0;
}

/* The next datagram, "" when there is none. */
static const char *heard(void)
{
    static char text[256];
    ssize_t count = recv(manager, text, sizeof text - 1, 0);
    text[count < 0 ? 0 : count] = '\0';
    return text;
}

static void test_tick_before_the_core_serves_says_nothing(void **state)
{
    notify_tick(&notify, &control);
    assert_string_equal(heard(), "");
}

static void test_health_that_changes_is_told_once(void **state)
{
    control.health = HEALTH_READY;
    notify_tick(&notify, &control);
    assert_string_equal(heard(), "READY=1\nSTATUS=ready");
    notify_tick(&notify, &control);
    assert_string_equal(heard(), "");
    control.health = HEALTH_DEGRADED;
    notify_tick(&notify, &control);
    assert_string_equal(heard(), "STATUS=degraded");
}

static void test_watchdog_is_fed_by_progress_only(void **state)
{
    control.progress = 7;
    notify_tick(&notify, &control);
    assert_string_equal(heard(), "WATCHDOG=1");
    notify_tick(&notify, &control);
    assert_string_equal(heard(), "");
    control.progress++;
    notify_tick(&notify, &control);
    assert_string_equal(heard(), "WATCHDOG=1");
}

/* Half of a watchdog's time is left when two sleeps come after each other: the core's, which shows
 * progress, and the keeper's, which tells of it. */
static void test_idle_time_is_a_quarter_of_the_watchdogs_at_most(void **state)
{
    assert_int_equal(notify_idle_us(&notify), 500000);
    notify_close(&notify);
    setenv("WATCHDOG_USEC", "30000000", 1);
    notify_open(&notify);
    assert_int_equal(notify_idle_us(&notify), 2000000);
    notify_close(&notify);
    unsetenv("NOTIFY_SOCKET");
    notify_open(&notify);
    assert_int_equal(notify_idle_us(&notify), 2000000);
}

static void test_watchdog_of_another_process_is_not_fed(void **state)
{
    notify_close(&notify);
    setenv("WATCHDOG_PID", "1", 1);
    notify_open(&notify);
    control.progress++;
    notify_tick(&notify, &control);
    assert_string_equal(heard(), "");
}

static void test_loading_tells_each_percent_once_and_asks_for_time(void **state)
{
    notify_loading(&notify, 421);
    assert_string_equal(heard(), "STATUS=loading model 42%\nEXTEND_TIMEOUT_USEC=60000000");
    notify_loading(&notify, 429);
    assert_string_equal(heard(), "");
    notify_loading(&notify, 430);
    assert_string_equal(heard(), "STATUS=loading model 43%\nEXTEND_TIMEOUT_USEC=60000000");
}

static void test_stopping_is_told_once(void **state)
{
    control.stop = CONTROL_DRAIN;
    notify_tick(&notify, &control);
    assert_string_equal(heard(), "STOPPING=1");
    control.stop = CONTROL_STOP_NOW;
    notify_tick(&notify, &control);
    assert_string_equal(heard(), "");
}

static void test_health_word_of_no_sense_is_not_told(void **state)
{
    control.health = HEALTH_FAILED + 1;
    notify_tick(&notify, &control);
    assert_string_equal(heard(), "");
}

/* More than the manager's queue takes: the keeper does not wait, and reports again later. */
static void test_manager_that_does_not_read_stops_no_one_else(void **state)
{
    for (uint32_t i = 1; i < 2000; i++) {
        control.progress = i;
        notify_tick(&notify, &control);
    }
    control.health = HEALTH_READY;
    control.stop = CONTROL_DRAIN;
    notify_tick(&notify, &control);
    while (heard()[0] != '\0') {
    }
    notify_tick(&notify, &control);
    assert_string_equal(heard(), "STOPPING=1");
    assert_string_equal(heard(), "READY=1\nSTATUS=ready");
    assert_string_equal(heard(), "WATCHDOG=1");
}

static void test_address_that_is_none_is_refused(void **state)
{
    char long_path[sizeof ((struct sockaddr_un *)NULL)->sun_path + 1] = "/";
    memset(long_path + 1, 'a', sizeof long_path - 2);
    const char *const bad[] = {"", "relative", "vsock:2:1234", long_path};
    for (uint32_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        notify_close(&notify);
        setenv("NOTIFY_SOCKET", bad[i], 1);
        notify_open(&notify);
        assert_int_equal(notify.handle, -1);
    }
    unsetenv("NOTIFY_SOCKET");
    notify_open(&notify);
    assert_int_equal(notify.handle, -1);
    control.health = HEALTH_READY;
    notify_tick(&notify, &control);
    assert_string_equal(heard(), "");
}

static void test_path_is_an_address_too(void **state)
{
    char name[64];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(name, sizeof name, "%s/s", test_folder());
    memcpy(address.sun_path, name, (size_t)length);
    close(manager);
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(manager, (struct sockaddr *)&address, sizeof address), 0);
    notify_close(&notify);
    setenv("NOTIFY_SOCKET", name, 1);
    notify_open(&notify);
    notify_loading(&notify, 10);
    assert_string_equal(heard(), "STATUS=loading model 1%\nEXTEND_TIMEOUT_USEC=60000000");
}

#define NOTIFY(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        NOTIFY(test_tick_before_the_core_serves_says_nothing),
        NOTIFY(test_health_that_changes_is_told_once),
        NOTIFY(test_watchdog_is_fed_by_progress_only),
        NOTIFY(test_idle_time_is_a_quarter_of_the_watchdogs_at_most),
        NOTIFY(test_watchdog_of_another_process_is_not_fed),
        NOTIFY(test_loading_tells_each_percent_once_and_asks_for_time),
        NOTIFY(test_stopping_is_told_once),
        NOTIFY(test_health_word_of_no_sense_is_not_told),
        NOTIFY(test_manager_that_does_not_read_stops_no_one_else),
        NOTIFY(test_address_that_is_none_is_refused),
        NOTIFY(test_path_is_an_address_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
