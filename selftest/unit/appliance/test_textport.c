/* SPDX-License-Identifier: MIT */
/*
 * Goal: every command, both HTTP requests, and every way in which a peer of the text port can
 * misbehave: garbage, half lines, no reading, too many of them. A peer that does loses its slot and
 * costs no other peer anything.
 * Method: sockets that are two arrays, of what a peer sent and what it got; a level-triggered pump;
 * a clock that the test moves.
 */
#include "selftest/unit/test.h"

#include <stdio.h>

#include "appliance/text/port.h"

/* ---- the world ------------------------------------------------------------------------------- */

#define PEERS_MAX   40
#define LISTENER    1000
#define SENT_MAX    16384
#define GOT_MAX     65536

struct peer {
    bool open;                      /* accepted and not closed by the port */
    bool closed;                    /* by the port */
    char sent[SENT_MAX];            /* by the peer: [taken, sent_bytes) waits in the socket */
    uint32_t sent_bytes, taken;
    bool fin, reset;
    char got[GOT_MAX];
    uint32_t got_bytes;
    uint32_t room;                  /* bytes that the peer still accepts */
    uint32_t chunk;                 /* most bytes that one recv or send moves */
    uint32_t interest, index;
};

static struct peer peers[PEERS_MAX];
static uint32_t peers_count, accepted_count, accepts_full, listener_interest;
static uint64_t now;

static int32_t fake_accept(void *self, int32_t listener, struct world_peer *peer)
{
    (void)self, (void)peer;
    assert_int_equal(listener, LISTENER);
    if (accepts_full > 0) {
        accepts_full--;
        return WORLD_EFULL;
    }
    if (accepted_count == peers_count) {
        return WORLD_EAGAIN;
    }
    peers[accepted_count].open = true;
    return (int32_t)accepted_count++;
}

static void fake_watch(void *self, int32_t handle, enum world_source source, uint32_t index,
                       uint32_t interest)
{
    (void)self;
    assert_int_equal(source, WORLD_SOURCE_TEXT);
    if (handle == LISTENER) {
        assert_int_equal(index, WORLD_TEXT_LISTENER);
        listener_interest = interest;
        return;
    }
    assert_true(peers[handle].open);
    peers[handle].interest = interest;
    peers[handle].index = index;
}

static uint32_t smallest(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t low = a < b ? a : b;
    return low < c ? low : c;
}

static int64_t fake_recv(void *self, int32_t handle, void *bytes, uint32_t max)
{
    struct peer *peer = &peers[handle];
    (void)self;
    assert_true(peer->open && max > 0);
    if (peer->reset) {
        return WORLD_ECLOSED;
    }
    uint32_t count = smallest(peer->sent_bytes - peer->taken, max, peer->chunk);
    if (count == 0) {
        return peer->fin ? 0 : WORLD_EAGAIN;
    }
    memcpy(bytes, peer->sent + peer->taken, count);
    peer->taken += count;
    return count;
}

static int64_t fake_send(void *self, int32_t handle, const void *bytes, uint32_t count)
{
    struct peer *peer = &peers[handle];
    (void)self;
    assert_true(peer->open && count > 0);
    count = smallest(count, peer->room, peer->chunk);
    if (peer->reset || count == 0) {
        return peer->reset ? WORLD_ECLOSED : WORLD_EAGAIN;
    }
    assert_true(peer->got_bytes + count < GOT_MAX);
    memcpy(peer->got + peer->got_bytes, bytes, count);
    peer->got_bytes += count;
    peer->room -= count;
    return count;
}

static void fake_close(void *self, int32_t handle)
{
    (void)self;
    assert_true(peers[handle].open);
    peers[handle].open = false;
    peers[handle].closed = true;
    peers[handle].interest = 0;
}

static const struct world world = {.accept = fake_accept, .watch = fake_watch, .recv = fake_recv,
                                   .send = fake_send, .close = fake_close};

/* ---- the port and what it shows -------------------------------------------------------------- */

static struct textport port;
static struct stats stats;
static struct sched sched;
static struct sched_engine engine;
static struct program programs[3];
static struct call_table calls;
static struct kvmem kv;
static struct options options;
static struct limits limits;
static struct health health;
static struct event_log event_log;
static const struct textport_view view = {.stats = &stats, .sched = &sched,
                                          .calls = &calls, .event_log = &event_log,
                                          .options = &options,
                                          .limits = &limits, .health = &health};

static int set_up(void **state)
{
    struct arena *arena = test_arena();
    (void)state;
    memset(peers, 0, sizeof peers);
    peers_count = accepted_count = accepts_full = listener_interest = 0;
    now = 1000000;
    stats = (struct stats){.calls_accepted = 12};
    engine = (struct sched_engine){.sched = &sched, .kv = &kv, .queues = {{.count = 4}}};
    sched = (struct sched){
        .settings = {.engines = 1, .programs = 3, .queues = 2},
        .programs = programs, .engines = &engine,
        .levels = {{.service_high_us = 50000, .quantum_us = 50000},
                   {.service_low_us = 50000, .service_high_us = UINT64_MAX, .quantum_us = 100000}}};
    memset(programs, 0, sizeof programs);
    limits = (struct limits){.text_slots = 8, .text_page_bytes = 16384 + 3 * 160};
    health = (struct health){.state = HEALTH_READY, .engines_count = 1, .worker_pid = {77},
                             .last_step_age_us = {5000}, .last_completion_age_us = UINT64_MAX,
                             .uptime_us = 9000000};
    config_defaults(&options);
    event_log_init(&event_log, 128, arena);
    call_table_init(&calls, 3, 64, arena);
    kvmem_init(&kv, &(struct kvmem_settings){.device_blocks = 16, .host_blocks = 5,
                                             .block_tokens = 16, .calls = 3,
                                             .blocks_per_call = 4}, arena);
    textport_init(&port, &limits, &world, &stats, arena);
    textport_listen(&port, LISTENER);
    return 0;
}

static struct peer *connect_peer(void)
{
    struct peer *peer = &peers[peers_count++];
    assert_true(peers_count <= PEERS_MAX);
    *peer = (struct peer){.room = GOT_MAX, .chunk = UINT32_MAX};
    return peer;
}

static void say_bytes(struct peer *peer, const char *bytes, uint32_t count)
{
    assert_true(peer->sent_bytes + count <= SENT_MAX);
    memcpy(peer->sent + peer->sent_bytes, bytes, count);
    peer->sent_bytes += count;
}

static void say(struct peer *peer, const char *text)
{
    say_bytes(peer, text, (uint32_t)strlen(text));
}

static void notify(const struct peer *peer)
{
    bool readable = peer->taken < peer->sent_bytes || peer->fin;
    struct world_event event = {.source = WORLD_SOURCE_TEXT, .index = peer->index};
    event.ready |= (peer->interest & WORLD_READABLE) && readable ? WORLD_READABLE : 0;
    event.ready |= (peer->interest & WORLD_WRITABLE) && peer->room > 0 ? WORLD_WRITABLE : 0;
    event.ready |= peer->reset ? WORLD_HANGUP : 0;
    if (peer->open && event.ready != 0) {
        textport_event(&port, &event);
    }
}

/* Passes of the loop at the present time. */
static void pump(uint32_t passes)
{
    for (; passes > 0; passes--) {
        bool waiting = accepted_count < peers_count || accepts_full > 0;
        if ((listener_interest & WORLD_READABLE) && waiting) {
            textport_event(&port, &(struct world_event){.source = WORLD_SOURCE_TEXT,
                                                        .index = WORLD_TEXT_LISTENER,
                                                        .ready = WORLD_READABLE});
        }
        for (uint32_t i = 0; i < accepted_count; i++) {
            notify(&peers[i]);
        }
        textport_poll(&port, &view, now);
        textport_check(&port);
    }
}

/* The answer to what was said, as a string. */
static const char *answer(struct peer *peer)
{
    peer->got_bytes = 0;
    pump(6);
    peer->got[peer->got_bytes] = '\0';
    return peer->got;
}

static const char *ask(struct peer *peer, const char *text)
{
    say(peer, text);
    return answer(peer);
}

static void assert_contains(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        print_error("no <%s> in:\n%s\n", part, text);
        fail();
    }
}

static void assert_starts(const char *text, const char *start)
{
    if (strncmp(text, start, strlen(start)) != 0) {
        print_error("does not start with <%s>:\n%s\n", start, text);
        fail();
    }
}

static void assert_ends(const char *text, const char *end)
{
    size_t length = strlen(text), count = strlen(end);
    assert_true(length >= count);
    assert_string_equal(text + length - count, end);
}

/* ---- commands -------------------------------------------------------------------------------- */

static void test_every_command_ends_with_end_and_short_lines(void **state)
{
    (void)state;
    static const char *const commands[] = {"help\n", "health\r\n", "STATS\n", " programs \r\n",
                                           "Calls\n", "queues\n", "kv\n", "config\n", "events\n"};
    struct peer *peer = connect_peer();
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        const char *text = ask(peer, commands[i]);
        assert_ends(text, "\nend\n");
        for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
            assert_true(strchr(line, '\n') - line <= 512);
        }
    }
    assert_int_equal(stats.text_requests, 9);
    assert_true(peer->open);
}

static void test_help_names_every_command(void **state)
{
    (void)state;
    const char *text = ask(connect_peer(), "help\n");
    static const char *const names[] = {"help ", "health ", "stats ", "programs ", "calls ",
                                        "queues ", "kv ", "events ", "config ", "quit ", "`end`"};
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
                        "canary_ms=0 uptime_s=9 worker_pid=77 restarts=0\nend\n");
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
    health.worker_pid[1] = 78;
    health.canary_age_us[1] = UINT64_MAX;
    assert_string_equal(ask(peer, "health\n"),
                        "ready last_step_ms=5,0 last_completion_ms=never heartbeat_ms=0,0 "
                        "canary_ms=0,never uptime_s=9 worker_pid=77,78 restarts=0\nend\n");
    two[1].index = 1;
    sched.engines = two;
    sched.settings.engines = 2;
    const char *text = ask(peer, "kv\n");
    assert_starts(text, "engine 0\nblock_tokens 16\n");
    assert_contains(text, "\nengine 1\nblock_tokens 16\n");
}

static void test_programs_and_calls_show_slots_and_no_contents(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    programs[1] = (struct program){.in_use = true, .id = {0xab, 0xcd, 0xef, 0x01, 0x77},
                                   .service_us = 2500000, .calls_ended = 7,
                                   .last_completion_us = 400000, .last_arrival_us = 300000};
    uint32_t slot = call_take(&calls);
    calls.calls[slot].state = CALL_RUNNING;
    calls.calls[slot].prompt_tokens = 33;
    calls.calls[slot].program = 1;
    calls.calls[slot].arrived_us = 1000000 - 80000;
    calls.calls[slot].cached_tokens = 16;
    calls.calls[slot].program_next = CALL_NONE;
    const struct kvmem_question question = {
        .call = slot, .tokens = calls.calls[slot].tokens, .count = 33};
    const struct kvmem_answer answer = kvmem_ask(&kv, &question);
    assert_int_equal(answer.positions, 0);
    kvmem_commit(&kv, &answer, 33);
    const char *text = ask(peer, "programs\n");
    assert_contains(text, "      1 abcdef01         2500          0      0       7        600 "
                          "     0        700 -\n");
    assert_null(strstr(text, "77"));
    programs[1].active_calls = 1;
    programs[1].first_call = slot;
    assert_contains(ask(peer, "programs\n"), "      0        700 0\n");
    text = ask(peer, "calls\n");
    assert_contains(text, " running        1     0      33       0          0          0      3"
                          "         0     16         80\n");
    calls.calls[slot].standby = true;
    assert_contains(ask(peer, "calls\n"), " standby        1     0      33");
    text = ask(peer, "kv\n");
    assert_contains(text, "blocks_used 3\n");
    assert_contains(text, "host_blocks_total 5\n");
    assert_contains(text, "calls_with_blocks 1\n");
    text = ask(peer, "queues\n");
    assert_contains(text, "    0       4           50                0               50\n");
    assert_contains(text, "    1       0          100               50                -\n");
}

static void test_stats_every_statistic(void **state)
{
    (void)state;
    const char *text = ask(connect_peer(), "stats\n");
    assert_contains(text, "calls_accepted 12\n");
#define STAT(name, unit, kind, help) assert_contains(text, #name " ");
#include "config/base/stats.def"
#undef STAT
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
                                       .calls_ended = UINT32_MAX};
        struct call *call = &calls.calls[call_take(&calls)];
        call->state = CALL_QUEUED;
        call->program = UINT32_MAX - 1;
        call->queue = call->prompt_tokens = call->generated_tokens = UINT32_MAX;
        call->lifetime_wait_us = call->lifetime_service_us = UINT64_MAX;
        call->preemptions = UINT32_MAX;
    }
    struct peer *peer = connect_peer();
    static const char *const commands[] = {"programs\n", "calls\n"};
    for (size_t i = 0; i < 2; i++) {
        const char *text = ask(peer, commands[i]);
        assert_null(strstr(text, "cut"));
        for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
            assert_true(strchr(line, '\n') - line < 160);
        }
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

static void note_steps(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        event_log_note(&event_log, 500 + event_log.next, (struct event_what){EVENT_STEP_ENDED,
                                                                             {77}});
    }
}

static uint32_t count_lines(const char *text)
{
    uint32_t lines = 0;
    for (; (text = strchr(text, '\n')) != NULL; text++) {
        lines++;
    }
    return lines;
}

static void test_events_are_lines_with_numbers(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    assert_string_equal(ask(peer, "events\n"), "next=0 end=0 lost=0 now_us=1000000\nend\n");
    uint32_t slot = call_take(&calls);
    struct call *call = &calls.calls[slot];
    call->client_call_id = 17;
    memset(call->program_id, 0xa5, sizeof call->program_id);
    call->program = 2;
    event_log_note_program(&event_log, 11, 2, call->program_id,
                         (struct event_what){.kind = EVENT_PROGRAM_STARTED});
    event_log_note_call(&event_log, 12, call, (struct event_what){EVENT_RAN, {3, 900, 5, 8}});
    event_log_note(&event_log, 13, (struct event_what){.kind = EVENT_ENGINE_LOST});
    assert_string_equal(ask(peer, "events\n"),
                        "0 11 program_started program=2:a5a5a5a5\n"
                        "1 12 ran call=0 id=17 program=2:a5a5a5a5 row=3 us=900 fed=5 tokens=8\n"
                        "2 13 engine_lost\n"
                        "next=3 end=3 lost=0 now_us=1000000\nend\n");
    assert_string_equal(ask(peer, " EVENTS \t 2 \n"),
                        "2 13 engine_lost\nnext=3 end=3 lost=0 now_us=1000000\nend\n");
}

static void test_events_go_on_page_by_page_and_say_what_is_lost(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    note_steps(128 + 40);
    const char *text = ask(peer, "events 7\n");
    uint32_t lines = count_lines(text) - 2;
    assert_true(lines >= 15 && lines < 128);    /* the page has 16,864 bytes */
    assert_starts(text, "40 540 step_ended us=77\n");
    char line[64];
    snprintf(line, sizeof line, "\nnext=%u end=168 lost=33 now_us=1000000\nend\n", 40 + lines);
    assert_ends(text, line);
    for (uint32_t next = 40 + lines; next < 168; next += count_lines(text) - 2) {
        snprintf(line, sizeof line, "events %u\n", next);
        text = ask(peer, line);
        snprintf(line, sizeof line, "%u %u step_ended us=77\n", next, 500 + next);
        assert_starts(text, line);
    }
    assert_ends(text, "\nnext=168 end=168 lost=0 now_us=1000000\nend\n");
    /* From the oldest that is kept, and from the one before it. */
    for (uint32_t lost = 0; lost <= 1; lost++) {
        snprintf(line, sizeof line, "events %u\n", 40 - lost);
        text = ask(peer, line);
        assert_starts(text, "40 540 step_ended us=77\n");
        assert_contains(text, lost == 0 ? " lost=0 " : " lost=1 ");
    }
    /* Without a number: the last ones. */
    text = ask(peer, "events\n");
    assert_int_equal(count_lines(text) - 2, lines);
    assert_contains(text, "\n167 667 step_ended us=77\nnext=168 ");
}

static void test_events_from_anywhere_are_answered_or_refused(void **state)
{
    static const char *const beyond[] = {"events 3\n", "events 4\n",
                                         "events 18446744073709551615\n",
                                         "events 000000000000000000000000000000000003\n"};
    static const char *const wrong[] = {"events 18446744073709551616\n", "events -1\n",
                                        "events 1 2\n", "events 0x1\n", "events 1e3\n",
                                        "events x\n", "eventsx\n", "event\n", "stats 1\n",
                                        "events 99999999999999999999999999999999999999\n"};
    (void)state;
    struct peer *peer = connect_peer();
    note_steps(3);
    for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; i++) {
        assert_string_equal(ask(peer, beyond[i]), "next=3 end=3 lost=0 now_us=1000000\nend\n");
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_string_equal(ask(peer, wrong[i]), "error unknown command, try help\nend\n");
    }
    assert_true(peer->open);
    event_log = (struct event_log){0};
    assert_string_equal(ask(peer, "events 0\n"),
                        "error no events are kept, limits.events is 0\nend\n");
}

static void test_events_of_the_longest_lines_fit_the_page(void **state)
{
    (void)state;
    uint32_t slot = call_take(&calls);
    calls.calls[slot].client_call_id = UINT64_MAX;
    calls.calls[slot].program = UINT32_MAX - 1;
    event_log.next = UINT64_MAX - 1000;           /* numbers of 20 digits */
    for (uint32_t i = 0; i < 128; i++) {
        uint32_t kind = i % EVENT_KINDS_COUNT;
        event_log_note_call(&event_log, UINT64_MAX, &calls.calls[slot],
                          (struct event_what){kind, {UINT32_MAX, UINT32_MAX, UINT32_MAX,
                                                     UINT32_MAX}});
        event_log.events[(event_log.next - 1) & (event_log.capacity - 1)].call = CALL_NONE - 1;
    }
    now = UINT64_MAX - 20 * TEXTPORT_IDLE_US;
    const char *text = ask(connect_peer(), "events 0\n");
    assert_null(strstr(text, "cut"));
    assert_ends(text, "\nend\n");
    assert_true(count_lines(text) > 15);
    ptrdiff_t longest = 0;
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        ptrdiff_t bytes = strchr(line, '\n') + 1 - line;
        longest = bytes > longest ? bytes : longest;
    }
    assert_true(longest == 192);                /* LINE_BYTES_MAX of events.c */
}

/* ---- HTTP ------------------------------------------------------------------------------------ */

static void test_http_health_and_stats(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    const char *text = ask(peer, "GET /health HTTP/1.0\r\n\r\n");
    assert_starts(text, "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: ");
    const char *body = strstr(text, "\r\n\r\n");
    assert_non_null(body);
    char length[64];
    snprintf(length, sizeof length, "Content-Length: %zu\r\nConnection: close\r\n\r\n",
             strlen(body + 4));
    assert_contains(text, length);
    assert_starts(body + 4, "ready ");
    assert_true(peer->closed);
    peer = connect_peer();
    assert_contains(ask(peer, "GET /stats HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n"),
                    "\r\n\r\nconnections_accepted 0\n");
    assert_true(peer->closed);
}

static void test_http_health_not_ready_is_503(void **state)
{
    (void)state;
    static const enum health_state not_ready[] = {HEALTH_STARTING, HEALTH_DRAINING, HEALTH_DEGRADED,
                                                  HEALTH_FAILED};
    for (size_t i = 0; i < 4; i++) {
        health.state = not_ready[i];
        assert_starts(ask(connect_peer(), "GET /health HTTP/1.0\n\n"), "HTTP/1.0 503 ");
        assert_starts(ask(connect_peer(), "GET /stats HTTP/1.0\n\n"), "HTTP/1.0 200 ");
    }
}

static void test_http_everything_else_is_refused_and_closed(void **state)
{
    (void)state;
    static const struct { const char *request, *start; } cases[] = {
        {"GET / HTTP/1.0\r\n\r\n", "HTTP/1.0 404 "},
        {"GET /healthz HTTP/1.0\r\n\r\n", "HTTP/1.0 404 "},
        {"GET /health?x=1 HTTP/1.0\r\n\r\n", "HTTP/1.0 404 "},
        {"GET /../stats HTTP/1.0\r\n\r\n", "HTTP/1.0 404 "},
        {"GET http://x/health HTTP/1.0\r\n\r\n", "HTTP/1.0 404 "},
        {"GET  HTTP/1.0\r\n\r\n", "HTTP/1.0 404 "},
        {"GET /nothing\r\n", "HTTP/1.0 404 "},
        {"GET /health\r\n", "HTTP/1.0 200 "},
        {"GET /health HTTP/2.0\r\n\r\n", "HTTP/1.0 400 "},
        {"GET /health HTTP/1.0 x\r\n\r\n", "HTTP/1.0 400 "},
        {"POST /health HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.0 400 "},
        {"HEAD /health HTTP/1.1\r\n\r\n", "HTTP/1.0 400 "},
        {"get /health HTTP/1.1\r\n\r\n", "HTTP/1.0 400 "},
        {"PRI * HTTP/2.0\r\n\r\n", "HTTP/1.0 400 "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct peer *peer = connect_peer();
        assert_starts(ask(peer, cases[i].request), cases[i].start);
        assert_true(peer->closed);
    }
}

static void test_http_headers_are_bounded_in_number_length_and_time(void **state)
{
    (void)state;
    struct peer *many = connect_peer(), *wide = connect_peer(), *slow = connect_peer();
    say(many, "GET /health HTTP/1.0\r\n");
    for (uint32_t i = 0; i <= TEXTPORT_HEADERS_MAX; i++) {
        say(many, "A: b\r\n");
    }
    pump(TEXTPORT_HEADERS_MAX + 8);
    many->got[many->got_bytes] = '\0';
    assert_starts(many->got, "HTTP/1.0 400 ");
    assert_true(many->closed);
    char header[600];
    memset(header, 'h', sizeof header);
    header[599] = '\0';
    say(wide, "GET /health HTTP/1.0\r\n");
    assert_starts(ask(wide, header), "HTTP/1.0 400 ");
    assert_true(wide->closed);
    say(slow, "GET /health HTTP/1.0\r\n");
    pump(2);
    for (uint32_t i = 0; i < 4; i++) {          /* a header now and then gains no time */
        now += 1200000;
        say(slow, "A: b\r\n");
        pump(2);
    }
    assert_true(slow->open);
    now += 300000;
    pump(1);
    assert_true(slow->closed);
    assert_int_equal(slow->got_bytes, 0);
    assert_int_equal(stats.text_dropped, 1);
}

static void test_http_peer_that_ends_before_its_headers_is_answered(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    peer->fin = true;
    assert_starts(ask(peer, "GET /health HTTP/1.0\r\nHost: x\r\n"), "HTTP/1.0 200 ");
    assert_true(peer->closed);
}

/* ---- bad peers ------------------------------------------------------------------------------- */

static void test_unknown_and_garbage_lines_are_refused_without_echo(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    static const struct { const char *bytes; uint32_t count; } lines[] = {
        {"nonsense\n", 9}, {"help me\n", 8}, {"hel\n", 4}, {"helpx\n", 6}, {"help\0\n", 6},
        {"\0\0\0\n", 4}, {"\x16\x03\x01\x02\n", 5}, {"SSH-2.0-x\r\n", 11}, {"\x80\xfe%n%s\n", 7},
        {"AGX1\x01\n", 6}, {"\r\r\n", 3}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        say_bytes(peer, lines[i].bytes, lines[i].count);
        assert_string_equal(answer(peer), "error unknown command, try help\nend\n");
    }
    assert_starts(ask(peer, "health\n"), "ready");
}

static void test_empty_lines_are_ignored(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    assert_string_equal(ask(peer, "\n\r\n  \n\t\n"), "");
    assert_int_equal(stats.text_requests, 0);
    assert_starts(ask(peer, "health\n"), "ready");
}

static void test_line_of_512_bytes_is_read_and_513_refused(void **state)
{
    (void)state;
    char line[600];
    memset(line, ' ', sizeof line);
    memcpy(line, "health", 6);
    struct peer *peer = connect_peer();
    line[512] = '\r';
    line[513] = '\n';
    say_bytes(peer, line, 514);
    assert_starts(answer(peer), "ready");
    line[512] = ' ';
    say_bytes(peer, line, 514);
    assert_string_equal(answer(peer), "error line too long, at most 512 bytes\nend\n");
    assert_true(peer->closed);
    peer = connect_peer();
    memset(line, 'x', sizeof line);
    for (uint32_t i = 0; i < 20; i++) {         /* 12,000 bytes without a line end */
        say_bytes(peer, line, sizeof line);
    }
    assert_string_equal(answer(peer), "error line too long, at most 512 bytes\nend\n");
    assert_true(peer->closed);
}

static void test_half_line_is_dropped_after_its_total_time(void **state)
{
    (void)state;
    struct peer *peer = connect_peer(), *other = connect_peer();
    pump(1);
    for (uint32_t i = 0; i < 5; i++) {          /* a byte a second gains no time */
        say(peer, "h");
        pump(1);
        now += 1000000;
    }
    assert_true(peer->open);
    assert_starts(ask(other, "health\n"), "ready");
    assert_true(peer->closed);
    assert_int_equal(peer->got_bytes, 0);
    assert_int_equal(stats.text_dropped, 1);
    assert_true(other->open);
}

static void test_idle_peer_is_closed_and_not_counted(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    pump(1);
    now += TEXTPORT_IDLE_US - 1;
    assert_starts(ask(peer, "health\n"), "ready");
    assert_int_equal(textport_next_us(&port, now), now + TEXTPORT_IDLE_US);
    now += TEXTPORT_IDLE_US;
    pump(1);
    assert_true(peer->closed);
    assert_int_equal(stats.text_dropped, 0);
    assert_int_equal(textport_next_us(&port, now), UINT64_MAX);
}

static void test_unread_answer_is_dropped_after_its_total_time(void **state)
{
    (void)state;
    struct peer *peer = connect_peer(), *other = connect_peer();
    peer->room = 10;
    say(peer, "stats\nhealth\n");
    pump(3);
    assert_int_equal(peer->got_bytes, 10);
    assert_int_equal(peer->interest, WORLD_WRITABLE);
    for (uint32_t i = 0; i < 9; i++) {          /* a byte a second gains no time */
        now += 1000000;
        peer->room = 1;
        pump(1);
    }
    assert_true(peer->open);
    now += 1000000;
    assert_starts(ask(other, "health\n"), "ready");
    assert_true(peer->closed);
    assert_int_equal(stats.text_dropped, 1);
}

static void test_slow_reader_gets_the_whole_snapshot(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    peer->chunk = 7;
    say(peer, "stats\n");
    pump(2);
    stats.calls_accepted = 99;                  /* later than the snapshot */
    const uint32_t got = peer->got_bytes;
    pump(400);
    peer->got[peer->got_bytes] = '\0';
    assert_true(got < peer->got_bytes);
    assert_ends(peer->got, "\nend\n");
    assert_contains(peer->got, "calls_accepted 12\n");
}

static void test_ninth_peer_is_closed_at_once_and_counted(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 9; i++) {
        connect_peer();
    }
    pump(2);
    for (uint32_t i = 0; i < 8; i++) {
        assert_true(peers[i].open);
    }
    assert_true(peers[8].closed);
    assert_int_equal(stats.text_refused, 1);
    ask(&peers[3], "quit\n");
    assert_starts(ask(connect_peer(), "health\n"), "ready");
}

static void test_flood_is_accepted_a_few_a_pass(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 30; i++) {
        connect_peer();
    }
    pump(1);
    assert_int_equal(accepted_count, TEXTPORT_ACCEPTS_PER_PASS_MAX);
    pump(3);
    assert_int_equal(accepted_count, 30);
    assert_int_equal(stats.text_refused, 22);
}

static void test_no_descriptors_pauses_the_listener(void **state)
{
    (void)state;
    accepts_full = 1;
    struct peer *peer = connect_peer();
    pump(3);
    assert_false(peer->open);
    assert_int_equal(listener_interest, 0);
    assert_int_equal(textport_next_us(&port, now), now + 1000000);
    now += 1000000;
    pump(1);
    assert_true(peer->open);
    assert_int_equal(listener_interest, WORLD_READABLE);
}

static void test_telnet_sequences_are_skipped(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    static const char bytes[] = "\xff\xfd\x03\xff\xfb\x18"          /* DO, WILL */
                                "he\xff\xfa\x18\x01health\n\xff\xff\xff\xf0"    /* SB ... SE */
                                "al\xff\xf1th\r\n";                 /* NOP */
    peer->chunk = 1;
    say_bytes(peer, bytes, sizeof bytes - 1);
    pump(60);
    peer->chunk = UINT32_MAX;
    assert_starts(answer(peer), "");
    pump(60);
    assert_int_equal(stats.text_requests, 1);
    assert_starts(ask(peer, "health\n"), "ready");
    assert_string_equal(ask(peer, "health\xff\xff\n"), "error unknown command, try help\nend\n");
}

static void test_endless_telnet_sequence_is_a_half_line(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    say(peer, "\xff\xfa\x18");
    for (uint32_t i = 0; i < 5; i++) {
        say(peer, "xxxxxxxx\n");
        pump(2);
        now += 1000000;
    }
    assert_true(peer->open);
    pump(1);
    assert_true(peer->closed);
    assert_int_equal(stats.text_requests, 0);
}

static void test_pipelined_lines_are_answered_one_a_pass(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    say(peer, "kv\nkv\nkv\nhea");
    pump(2);                                    /* accepted, then read */
    assert_int_equal(stats.text_requests, 1);
    assert_int_equal(textport_next_us(&port, now), 0);
    pump(2);
    assert_int_equal(stats.text_requests, 3);
    assert_int_equal(textport_next_us(&port, now), now + TEXTPORT_LINE_US);
    assert_starts(ask(peer, "lth\n"), "ready");
}

static void test_peer_that_ends_gets_its_answers_first(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    peer->fin = true;
    say(peer, "health\nkv\nhalf");
    const char *text = answer(peer);
    assert_starts(text, "ready");
    assert_contains(text, "blocks_free 16\n");
    assert_true(peer->closed);
    assert_int_equal(stats.text_dropped, 0);
}

static void test_reset_frees_the_slot(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    peer->room = 3;
    say(peer, "stats\n");
    pump(2);
    peer->reset = true;
    pump(1);
    assert_true(peer->closed);
    assert_int_equal(textport_next_us(&port, now), UINT64_MAX);
}

static void test_random_bytes_never_break_an_invariant(void **state)
{
    (void)state;
    uint64_t random = 88172645463325252u;
    static const char alphabet[] = "hkv \r\n\n\xff\xfa\xf0GET /health HTTP/1.0\nquit";
    for (uint32_t round = 0; round < 2000; round++) {
        peers_count = accepted_count = 0;
        memset(peers, 0, sizeof peers[0] * 2);
        struct peer *peer = connect_peer();
        peer->chunk = 1 + round % 37;
        for (uint32_t i = 0; i < 200; i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            char byte = (random & 1) ? alphabet[(random >> 8) % (sizeof alphabet - 1)]
                                     : (char)(random >> 8);
            say_bytes(peer, &byte, 1);
        }
        peer->fin = (random & 2) != 0;
        pump(30);
        peer->reset = true;
        pump(1);
        assert_true(peer->closed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_every_command_ends_with_end_and_short_lines, set_up),
        cmocka_unit_test_setup(test_help_names_every_command, set_up),
        cmocka_unit_test_setup(test_health_every_state, set_up),
        cmocka_unit_test_setup(test_health_and_kv_of_several_engines, set_up),
        cmocka_unit_test_setup(test_programs_and_calls_show_slots_and_no_contents, set_up),
        cmocka_unit_test_setup(test_stats_every_statistic, set_up),
        cmocka_unit_test_setup(test_config_says_where_values_come_from, set_up),
        cmocka_unit_test_setup(test_quit_closes, set_up),
        cmocka_unit_test_setup(test_pages_as_large_as_the_tables_are_never_cut, set_up),
        cmocka_unit_test_setup(test_events_are_lines_with_numbers, set_up),
        cmocka_unit_test_setup(test_events_go_on_page_by_page_and_say_what_is_lost, set_up),
        cmocka_unit_test_setup(test_events_from_anywhere_are_answered_or_refused, set_up),
        cmocka_unit_test_setup(test_events_of_the_longest_lines_fit_the_page, set_up),
        cmocka_unit_test_setup(test_http_health_and_stats, set_up),
        cmocka_unit_test_setup(test_http_health_not_ready_is_503, set_up),
        cmocka_unit_test_setup(test_http_everything_else_is_refused_and_closed, set_up),
        cmocka_unit_test_setup(test_http_headers_are_bounded_in_number_length_and_time, set_up),
        cmocka_unit_test_setup(test_http_peer_that_ends_before_its_headers_is_answered, set_up),
        cmocka_unit_test_setup(test_unknown_and_garbage_lines_are_refused_without_echo, set_up),
        cmocka_unit_test_setup(test_empty_lines_are_ignored, set_up),
        cmocka_unit_test_setup(test_line_of_512_bytes_is_read_and_513_refused, set_up),
        cmocka_unit_test_setup(test_half_line_is_dropped_after_its_total_time, set_up),
        cmocka_unit_test_setup(test_idle_peer_is_closed_and_not_counted, set_up),
        cmocka_unit_test_setup(test_unread_answer_is_dropped_after_its_total_time, set_up),
        cmocka_unit_test_setup(test_slow_reader_gets_the_whole_snapshot, set_up),
        cmocka_unit_test_setup(test_ninth_peer_is_closed_at_once_and_counted, set_up),
        cmocka_unit_test_setup(test_flood_is_accepted_a_few_a_pass, set_up),
        cmocka_unit_test_setup(test_no_descriptors_pauses_the_listener, set_up),
        cmocka_unit_test_setup(test_telnet_sequences_are_skipped, set_up),
        cmocka_unit_test_setup(test_endless_telnet_sequence_is_a_half_line, set_up),
        cmocka_unit_test_setup(test_pipelined_lines_are_answered_one_a_pass, set_up),
        cmocka_unit_test_setup(test_peer_that_ends_gets_its_answers_first, set_up),
        cmocka_unit_test_setup(test_reset_frees_the_slot, set_up),
        cmocka_unit_test_setup(test_random_bytes_never_break_an_invariant, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
