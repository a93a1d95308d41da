/* SPDX-License-Identifier: MIT */
/*
 * Goal: the machine's first process starts the appliance again when that may help, and never
 * serves untested. Method: ends and reports by hand; no child is started.
 */
#include "selftest/unit/test.h"

#include <sys/socket.h>
#include <unistd.h>

#include "appliance/boot/exit.h"
#include "appliance/boot/init/service.h"

void heap_seal(void) {}

#define EXITED(status) ((status) << 8)      /* as wait() says it */
#define KILLED(signal) (signal)

static struct service service;

/* No child is started; one is said to be there. */
static int begin(void **state)
{
    service = (struct service){.pid = 1, .reports = -1};
    return 0;
}

static void test_a_self_test_that_fails_is_the_end(void **state)
{
    assert_int_equal(service_ended(&service, EXITED(1)), SERVICE_HOPELESS);
    begin(state);
    assert_int_equal(service_ended(&service, KILLED(4)), SERVICE_HOPELESS);
    assert_int_equal(service.pid, 0);
}

static void test_an_end_that_would_come_again_is_the_end(void **state)
{
    const int statuses[] = {BOOT_EXIT_USAGE, BOOT_EXIT_CONFIG, BOOT_EXIT_MODEL};
    for (uint32_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        service = (struct service){.pid = 1, .is_tested = true};
        assert_int_equal(service_ended(&service, EXITED(statuses[i])), SERVICE_HOPELESS);
    }
}

static void test_any_other_end_is_followed_by_a_pause(void **state)
{
    const int ends[] = {EXITED(BOOT_EXIT_OK), EXITED(BOOT_EXIT_CORE), EXITED(BOOT_EXIT_ENGINE),
                        KILLED(9)};
    for (uint32_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        service = (struct service){.pid = 1, .is_tested = true, .is_ready = true};
        assert_int_equal(service_ended(&service, ends[i]), SERVICE_GOES_ON);
        assert_int_equal(service.pid, 0);
        assert_false(service_stop(&service));
        assert_in_range(service_wait_ms(&service), 1, 10000);
    }
}

static void test_silence_is_judged_only_of_one_that_was_ready(void **state)
{
    service.is_tested = true;
    assert_int_equal(service_wait_ms(&service), -1);
    service.is_ready = true;
    assert_true(service_wait_ms(&service) > 0);
}

static void test_reports_tell_each_status_and_the_first_of_loading(void **state)
{
    int pair[2];
    char status[SERVICE_STATUS_BYTES];
    const char *const reports[] = {"STATUS=loading model 1%\nEXTEND_TIMEOUT_USEC=60000000",
                                   "STATUS=loading model 2%\nEXTEND_TIMEOUT_USEC=60000000",
                                   "WATCHDOG=1", "READY=1\nSTATUS=ready", "STATUS=degraded"};
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
    service.reports = pair[0];
    for (uint32_t i = 0; i < sizeof reports / sizeof reports[0]; i++) {
        assert_true(send(pair[1], reports[i], strlen(reports[i]), 0) > 0);
    }
    assert_true(service_hear(&service, status));
    assert_string_equal(status, "loading model 1%");
    assert_false(service.is_ready);
    assert_true(service_hear(&service, status));
    assert_string_equal(status, "ready");
    assert_true(service.is_ready);
    assert_true(service_hear(&service, status));
    assert_string_equal(status, "degraded");
    assert_false(service_hear(&service, status));
    close(pair[0]);
    close(pair[1]);
}

#define SERVICE(test) cmocka_unit_test_setup(test, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVICE(test_a_self_test_that_fails_is_the_end),
        SERVICE(test_an_end_that_would_come_again_is_the_end),
        SERVICE(test_any_other_end_is_followed_by_a_pause),
        SERVICE(test_silence_is_judged_only_of_one_that_was_ready),
        SERVICE(test_reports_tell_each_status_and_the_first_of_loading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
