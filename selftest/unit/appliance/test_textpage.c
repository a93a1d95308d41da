/* SPDX-License-Identifier: MIT */
/*
 * Goal: each command of the text port says what it promises, whole, in lines of bounded length.
 * Method: the port over sockets in memory; its state is set by hand and its pages are compared.
 */
#include "selftest/unit/appliance/textport_rig.h"

#define NO_NAMES "tcp              -                -                       "

/* ---- commands -------------------------------------------------------------------------------- */

static void test_every_command_ends_with_end_and_short_lines(void **state)
{
    (void)state;
    static const char *const commands[] = {"help\n", "health\r\n", "STATS\n", " programs \r\n",
                                           "classes\n", "Calls\n", "queues\n", "kv\n", "config\n",
                                           "events\n", "connections\n"};
    struct peer *peer = connect_peer();
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        const char *text = ask(peer, commands[i]);
        assert_ends(text, "\nend\n");
        for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
            assert_true(strchr(line, '\n') - line <= 512);
        }
    }
    assert_int_equal(stats.text_requests, 11);
    assert_true(peer->open);
}

static void test_help_names_every_command(void **state)
{
    (void)state;
    const char *text = ask(connect_peer(), "help\n");
    static const char *const names[] = {"help ", "health ", "engines ", "stats ", "programs ",
                                        "classes ", "calls ", "queues ", "kv ", "events ",
                                        "config ", "quit ", "connections ",
                                        "agent-check ", "`end`"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_contains(text, names[i]);
    }
}

static void test_health_every_state(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    assert_string_equal(ask(peer, "health\n"),
                        "ready last_step_ms=5 last_completion_ms=never heartbeat_ms=0 "
                        "canary_ms=0 uptime_s=9 worker_pid=77 restarts=0 "
                        "core_restarts=0 upgrades=0 version=-\nend\n");
    health = (struct health){.state = HEALTH_STARTING, .reason = "loading model",
                             .engines_count = 1, .progress_permille = 425};
    assert_starts(ask(peer, "health\n"), "starting(loading model 42%) last_step_ms=0 ");
    health = (struct health){.state = HEALTH_STARTING, .reason = "starting engine",
                             .progress_permille = 1000};
    assert_starts(ask(peer, "health\n"), "starting(starting engine) ");
    health = (struct health){.state = HEALTH_DRAINING};
    assert_starts(ask(peer, "health\n"), "draining last_step_ms=");
    health = (struct health){.state = HEALTH_DEGRADED, .reason = "engine silent"};
    assert_starts(ask(peer, "health\n"), "degraded(engine silent) ");
    health = (struct health){.state = HEALTH_FAILED, .reason = "engine died"};
    assert_starts(ask(peer, "health\n"), "failed(engine died) ");
}

static void test_health_and_kv_of_several_engines(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    struct sched_engine two[] = {engine, engine};
    health.engines_count = 2;
    health.worker_pid[1] = 0;
    health.canary_age_us[1] = UINT64_MAX;
    assert_string_equal(ask(peer, "health\n"),
                        "ready last_step_ms=5,0 last_completion_ms=never heartbeat_ms=0,0 "
                        "canary_ms=0,never uptime_s=9 worker_pid=77,- restarts=0 "
                        "core_restarts=0 upgrades=0 version=-\nend\n");
    two[1].index = 1;
    sched.engines = two;
    sched.settings.engines = 2;
    const char *text = ask(peer, "kv\n");
    assert_starts(text, "engine 0\nblock_tokens 16\n");
    assert_contains(text, "\nengine 1\nblock_tokens 16\n");
}

static void test_health_names_the_engine_where_there_are_several(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    health = (struct health){.state = HEALTH_DEGRADED, .reason = "engine restarting",
                             .engines_count = 3, .engine = 2};
    assert_starts(ask(peer, "health\n"), "degraded(engine 2 restarting) ");
    health.reason = "no progress";
    assert_starts(ask(peer, "health\n"), "degraded(engine 2: no progress) ");
    health.engine = HEALTH_ALL;
    health.state = HEALTH_FAILED;
    health.reason = "engine died";
    assert_starts(ask(peer, "health\n"), "failed(engine died) ");
}

static void test_engines_show_what_each_does_and_has(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    struct sched_engine two[] = {engine, engine};
    two[1].active.programs = 7;
    sched.engines = two;
    sched.settings.engines = health.engines_count = 2;
    health.worker_pid[1] = 78;
    health.restarts[1] = 4;
    health.steps[1] = 12345;
    health.canary_age_us[1] = UINT64_MAX;
    health.word[0] = "busy";
    health.word[1] = "given_up";
    static const enum call_state states[] = {CALL_RUNNING, CALL_QUEUED, CALL_FINISHED};
    for (uint32_t i = 0; i < 3; i++) {
        struct call *call = &calls.calls[call_take(&calls, 0)];
        call->state = states[i];
        call->engine = 1;
    }
    const char *text = ask(peer, "engines\n");
    assert_starts(text, "engine state    worker_pid   open running waiting blocks_used "
                        "blocks_total host_used host_total active      steps restarts    step_ms"
                        "    beat_ms  canary_ms\n");
    assert_contains(text, "\n     0 busy             77      0       0       0           0"
                          "           16         0          5      0          0        0"
                          "          5          0          0\n");
    assert_contains(text, "\n     1 given_up         78      2       1       1           0"
                          "           16         0          5      7      12345        4"
                          "          0          0          -\n");
}

static void test_programs_and_calls_show_slots_and_no_contents(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    programs[1] = (struct program){.in_use = true, .id = {0xab, 0xcd, 0xef, 0x01, 0x77},
                                   .service_us = 2500000, .calls_ended = 7,
                                   .last_completion_us = 400000, .last_arrival_us = 300000};
    uint32_t slot = call_take(&calls, 0);
    calls.calls[slot].state = CALL_RUNNING;
    calls.calls[slot].prompt_tokens = 33;
    calls.calls[slot].program = 1;
    calls.calls[slot].arrived_us = 1000000 - 80000;
    calls.calls[slot].cached_tokens = 16;
    calls.calls[slot].program_next = CALL_NONE;
    calls.calls[slot].job = 2;
    jobs[2].queue = 6;              /* its job has moved since the call was looked at */
    const struct kvmem_question question = {
        .call = slot, .tokens = calls.calls[slot].tokens, .count = 33};
    const struct kvmem_answer answer = kvmem_ask(&kv, &question);
    assert_int_equal(answer.positions, 0);
    kvmem_commit(&kv, &answer, 33);
    const char *text = ask(peer, "programs\n");
    assert_contains(text, "      1 abcdef01         2500          0      0       7        600 "
                          "     0        700 none         0         0     - " NO_NAMES " -\n");
    assert_null(strstr(text, "77"));
    programs[1].active_calls = 1;
    members[1].first_call = slot;
    members[1].history_blocks = 3;
    programs[1].displacements = 2;
    text = ask(peer, "programs\n");
    assert_contains(text, "      0        700 waiting      3         2     - " NO_NAMES " 0\n");
    members[1].is_active = true;
    text = ask(peer, "programs\n");
    assert_contains(text, "      0        700 active       3         2     - " NO_NAMES " 0\n");
    text = ask(peer, "calls\n");
    assert_contains(text, " running        1     6      33       0          0          0      3"
                          "         0     16         80      0      - -\n");
    calls.calls[slot].standby = true;
    assert_contains(ask(peer, "calls\n"), " standby        1     6      33");
    text = ask(peer, "kv\n");
    assert_contains(text, "blocks_used 3\nblocks_cached ");
    assert_contains(text, "host_blocks_total 5\n");
    assert_contains(text, "calls_with_blocks 1\n");
    text = ask(peer, "queues\n");
    assert_contains(text, "    0       4       9          0          0           50"
                          "                0               50\n");
    assert_contains(text, "    1       0       0          0          0          100"
                          "               50                -\n");
}

/* One call that waits; each reason overrules those that are looked at after it. */
static void test_calls_say_why_they_wait(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    struct call *call = &calls.calls[call_take(&calls, 0)];
    struct sched_hand *hand = &lanes[0].hand;
    call->state = CALL_QUEUED;
    call->program = call->job = 1;
    call->connection = 2;
    sched.settings.batch_calls = 4;
    engine.step_in_flight = true;
    engine.step_submitted_us = now;
    hand->sequence = engine.sequence;
    hand->is_out = true;
    hand->kept_out = CALL_NONE;
    assert_contains(ask(peer, "calls\n"), "      0      2 engine\n");
    engine.serves = true;
    assert_contains(ask(peer, "calls\n"), "      2 moves\n");
    hand->is_limited = true;
    assert_contains(ask(peer, "calls\n"), "      2 budget\n");
    hand->is_out = false;
    assert_contains(ask(peer, "calls\n"), "      2 kv\n");
    engine.planned_active = 4;
    assert_contains(ask(peer, "calls\n"), "      2 batch\n");
    engine.step_in_flight = false;
    assert_contains(ask(peer, "calls\n"), "      2 next\n");
    jobs[1].held = true;
    assert_contains(ask(peer, "calls\n"), "      2 inactive\n");
    call->paused = true;
    assert_contains(ask(peer, "calls\n"), "      2 client\n");
}

static void test_program_without_a_call_shows_no_arrival(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    programs[1] = (struct program){.in_use = true, .id = {0xab, 0xcd, 0xef, 0x01}};
    assert_contains(ask(peer, "programs\n"), "      0          - none         0         0     - ");
}

static void test_programs_name_domain_class_and_client(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    programs[1] = (struct program){.in_use = true, .domain = (UINT64_C(1) << 32) | 1000,
                                   .connection = 2, .last_arrival_us = 500000};
    connections[2] = (struct net_connection){.state = NET_OPEN, .domain = programs[1].domain,
                                             .accepted_us = 400000, .name = "agents\x1b[2J 7"};
    assert_contains(ask(peer, "programs\n"),
                    " - user:1000        -                agents.[2J.7             -\n");
    connections[2].accepted_us = 600000;        /* the place has been given to another since */
    assert_contains(ask(peer, "programs\n"),
                    " - user:1000        -                -                        -\n");
    memcpy(tenants[0].name, "research", sizeof "research");
    tenants[0].domain = programs[1].domain;
    assert_contains(ask(peer, "programs\n"), " - research         - ");
}

static void test_classes_show_what_was_learnt(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    assert_null(strstr(ask(peer, "classes\n"), "web"));
    classes[1] = (struct sched_class){
        .in_use = true, .number = 9, .hash = 0x1122334444332211, .name = "web-search",
        .learnt = {.programs = 12, .predicted = 11, .rounds = 123456, .rounds_most = 2000000,
                   .tokens = 4321, .output_tokens = 33 * SCHED_CLASS_ONE,
                   .error = SCHED_CLASS_ONE}};
    assert_contains(ask(peer, "classes\n"),
                    "      1         12         11    200       123456      2000000         4321"
                    "          33 11223344 web-search\n");
    programs[1] = (struct program){.in_use = true, .class = {.slot = 1, .number = 9}};
    programs[2] = (struct program){.in_use = true, .class = {.slot = 1, .number = 8}};
    const char *text = ask(peer, "programs\n");
    assert_contains(text, "none         0         0     1 tcp              web-search       -"
                          "                        -\n");
    assert_contains(text, "none         0         0     - " NO_NAMES " -\n");    /* forgotten */
}

static void test_stats_every_statistic(void **state)
{
    (void)state;
    const char *text = ask(connect_peer(), "stats\n");
    assert_contains(text, "calls_accepted 12\n");
#define STAT(name, unit, kind, help) assert_contains(text, #name " ");
#include "config/base/stats.def"
}

static void test_config_says_where_values_come_from(void **state)
{
    (void)state;
    struct config_error error;
    static const char ini[] = "[sched]\nqueues = 3\n";
    assert_status(STATUS_OK, config_load_bytes(&options, "a", ini, sizeof ini - 1, &error));
    assert_status(STATUS_OK, config_set(&options, "sched.quantum=5ms", &error));
    const char *text = ask(connect_peer(), "config\n");
    assert_contains(text, "sched.queues = 3 (line 2)\n");
    assert_contains(text, "sched.quantum = 5ms (--set)\n");
    assert_contains(text, "sched.policy = plas (default)\n");
}

static void test_quit_closes(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    assert_string_equal(ask(peer, "QUIT\r\n"), "end\n");
    assert_true(peer->closed);
    assert_int_equal(stats.text_dropped, 0);
}

static void test_pages_as_large_as_the_tables_are_never_cut(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        programs[i] = (struct program){.in_use = true, .service_us = UINT64_MAX,
                                       .wait_us = UINT64_MAX, .active_calls = UINT32_MAX,
                                       .calls_ended = UINT32_MAX, .displacements = UINT32_MAX,
                                       .engine = 7, .class = {.slot = 1, .number = UINT64_MAX},
                                       .domain = UINT64_MAX};
        memset(connections[i].name, 'n', WIRE_NAME_BYTES);
        connections[i].state = NET_OPEN;
        connections[i].domain = UINT64_MAX;
        struct call *call = &calls.calls[call_take(&calls, 0)];
        call->state = CALL_QUEUED;
        call->program = UINT32_MAX - 1;
        call->prompt_tokens = call->generated_tokens = jobs[0].queue = UINT32_MAX;
        call->wait_us = call->service_us = UINT64_MAX;
        call->preemptions = UINT32_MAX;
        memset(&classes[i], 0xff, sizeof classes[i]);
        classes[i].in_use = true;
        memset(classes[i].name, 'x', CALL_CLASS_BYTES);
        classes[i].name[CALL_CLASS_BYTES] = '\0';
        classes[i].learnt.error = 63 * SCHED_CLASS_ONE;
    }
    struct peer *peer = connect_peer();
    static const char *const commands[] = {"programs\n", "classes\n", "calls\n"};
    for (size_t i = 0; i < 3; i++) {
        const char *text = ask(peer, commands[i]);
        assert_null(strstr(text, "cut"));
        for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
            assert_true(strchr(line, '\n') - line < 224);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_every_command_ends_with_end_and_short_lines, set_up),
        cmocka_unit_test_setup(test_help_names_every_command, set_up),
        cmocka_unit_test_setup(test_health_every_state, set_up),
        cmocka_unit_test_setup(test_health_and_kv_of_several_engines, set_up),
        cmocka_unit_test_setup(test_health_names_the_engine_where_there_are_several, set_up),
        cmocka_unit_test_setup(test_engines_show_what_each_does_and_has, set_up),
        cmocka_unit_test_setup(test_programs_and_calls_show_slots_and_no_contents, set_up),
        cmocka_unit_test_setup(test_calls_say_why_they_wait, set_up),
        cmocka_unit_test_setup(test_program_without_a_call_shows_no_arrival, set_up),
        cmocka_unit_test_setup(test_programs_name_domain_class_and_client, set_up),
        cmocka_unit_test_setup(test_classes_show_what_was_learnt, set_up),
        cmocka_unit_test_setup(test_stats_every_statistic, set_up),
        cmocka_unit_test_setup(test_config_says_where_values_come_from, set_up),
        cmocka_unit_test_setup(test_quit_closes, set_up),
        cmocka_unit_test_setup(test_pages_as_large_as_the_tables_are_never_cut, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
