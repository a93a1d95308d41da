/* SPDX-License-Identifier: MIT */
/*
 * Goal: the page `metrics` has every statistic and every histogram under names by Prometheus's
 * conventions; its buckets count what was noted; its longest form fits.
 * Method: the page of a state set by hand. selftest/e2e/test_metrics.py asks Prometheus itself.
 */
#include "selftest/unit/appliance/textport_rig.h"

#include "appliance/text/page/metrics.h"

static char bytes[BOUND_METRICS_BYTES + 1];

static const char *render(void)
{
    struct text page;
    text_init(&page, bytes, BOUND_METRICS_BYTES);
    textpage_metrics(&page, &view, now);
    assert_false(page.cut);
    text_terminate(&page);
    return bytes;
}

static void test_names_follow_the_conventions(void **state)
{
    (void)state;
    stats.engine_busy_us = 1234567;
    stats.bytes_sent = 99;
    stats.recomputed_permille = 45;
    stats.kv_blocks_total = 16;
    const char *text = render();
    assert_contains(text, "# HELP agentix_calls_accepted_total calls accepted\n"
                          "# TYPE agentix_calls_accepted_total counter\n"
                          "agentix_calls_accepted_total 12\n");
    assert_contains(text, "\nagentix_engine_busy_seconds_total 1.234567\n");
    assert_contains(text, "\nagentix_sent_bytes_total 99\n");
    assert_contains(text, "\nagentix_recomputed_ratio 0.045\n");
    assert_contains(text, "\n# TYPE agentix_kv_blocks gauge\nagentix_kv_blocks 16\n");
    assert_contains(text, "\nagentix_uptime_seconds 9.000000\n");
    assert_contains(text, "\nagentix_serving 1\n");
}

static void test_serving_is_zero_where_health_is_not_200(void **state)
{
    (void)state;
    health.state = HEALTH_FAILED;
    assert_contains(render(), "\nagentix_serving 0\n");
}

static void test_buckets_count_what_was_noted_up_to_their_end(void **state)
{
    (void)state;
    histogram_note(&sched.times.all[TIME_CALL], 255, 1);
    histogram_note(&sched.times.all[TIME_CALL], 256, 2);
    histogram_note(&sched.times.all[TIME_CALL], UINT64_C(1) << 40, 1);
    const char *text = render();
    assert_contains(text, "# TYPE agentix_call_seconds histogram\n"
                          "agentix_call_seconds_bucket{le=\"0.000255\"} 1\n"
                          "agentix_call_seconds_bucket{le=\"0.000383\"} 3\n");
    assert_contains(text, "agentix_call_seconds_bucket{le=\"4294.967295\"} 3\n"
                          "agentix_call_seconds_bucket{le=\"+Inf\"} 4\n"
                          "agentix_call_seconds_sum 1099511.628543\n"
                          "agentix_call_seconds_count 4\n");
}

static void test_waits_have_a_histogram_for_each_queue(void **state)
{
    (void)state;
    histogram_note(&sched.times.queue_wait[1], 300, 1);
    const char *text = render();
    assert_contains(text, "agentix_queue_wait_seconds_bucket{queue=\"0\",le=\"0.000383\"} 0\n");
    assert_contains(text, "agentix_queue_wait_seconds_bucket{queue=\"1\",le=\"0.000383\"} 1\n");
    assert_contains(text, "agentix_queue_wait_seconds_sum{queue=\"1\"} 0.000300\n"
                          "agentix_queue_wait_seconds_count{queue=\"1\"} 1\n");
    assert_null(strstr(text, "queue=\"2\""));
}

static void test_the_longest_page_fits(void **state)
{
    (void)state;
    sched.settings.queues = SCHED_QUEUES_MAX;
    memset(&stats, 0xff, sizeof stats);
    for (uint32_t i = 0; i < TIMES_COUNT; i++) {
        sched.times.all[i].count = sched.times.all[i].buckets[0] = UINT64_MAX;
        sched.times.all[i].sum_us = UINT64_MAX;
    }
    for (uint32_t i = 0; i < SCHED_QUEUES_MAX; i++) {
        sched.times.queue_wait[i].buckets[0] = UINT64_MAX;
        sched.times.queue_wait[i].count = sched.times.queue_wait[i].sum_us = UINT64_MAX;
    }
    assert_contains(render(), "agentix_queue_wait_seconds_bucket{queue=\"15\",le=\"+Inf\"} "
                              "18446744073709551615\n");
}

static void test_statistics_and_percentiles_stand_side_by_side(void **state)
{
    (void)state;
    histogram_note(&sched.times.all[TIME_PROGRAM], 1000, 9);
    histogram_note(&sched.times.all[TIME_PROGRAM], 5000, 1);
    const char *text = ask(connect_peer(), "stats\n");
    assert_contains(text, "program_us_p50 1023\nprogram_us_p90 1023\nprogram_us_p99 5119\nend\n");
}

static void test_a_peer_from_afar_does_not_get_it(void **state)
{
    struct peer *peer = connect_peer();
    (void)state;
    peer->who.kind = WORLD_PEER_REMOTE;
    memcpy(peer->who.ip, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\1", 16);
    assert_status(STATUS_OK, config_peers_parse("10.0.0.1", &askers));
    assert_starts(ask(peer, "GET /metrics HTTP/1.0\r\n\r\n"), "HTTP/1.0 404 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_names_follow_the_conventions, set_up),
        cmocka_unit_test_setup(test_serving_is_zero_where_health_is_not_200, set_up),
        cmocka_unit_test_setup(test_buckets_count_what_was_noted_up_to_their_end, set_up),
        cmocka_unit_test_setup(test_waits_have_a_histogram_for_each_queue, set_up),
        cmocka_unit_test_setup(test_the_longest_page_fits, set_up),
        cmocka_unit_test_setup(test_statistics_and_percentiles_stand_side_by_side, set_up),
        cmocka_unit_test_setup(test_a_peer_from_afar_does_not_get_it, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
