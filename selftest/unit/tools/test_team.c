/* SPDX-License-Identifier: MIT */
/*
 * Goal: a team gets every agent served, over connections that break or are full, and despite busy,
 * refused or failed calls. A call that is not served costs its own agent only. Method: a thread
 * plays the appliance on a unix socket with the codec of net/wire.h; a list holds the fate of the
 * first, second, ... call that arrives. The only pauses are the team's own, in milliseconds.
 */
#include "selftest/unit/folder.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/wire.h"
#include "tools/agx/agents/team.h"

/* ---- an appliance that does as it is told ---------------------------------------------------- */

#define CONNECTIONS 16
#define FRAME_BYTES 65536
enum fate { SERVE, BUSY, REFUSE, FAIL, BREAK, BREAK_OFF, TOO_LONG };    /* OFF: amid its words */

struct connection { int descriptor; uint8_t bytes[FRAME_BYTES]; uint32_t count; };
static struct fake {
    char path[64], address[80];
    int listener, stop[2];
    pthread_t thread;
    const enum fate *fates;
    uint32_t fates_count, calls, calls_served, programs_ended, connections_most;
    uint32_t max_tokens_least;
    bool is_confused;
    struct connection connections[CONNECTIONS];
    uint32_t connections_count;
} fake;

static void put(int descriptor, const uint8_t *bytes, uint32_t count)
{
    ssize_t sent = send(descriptor, bytes, count, MSG_NOSIGNAL);
    fake.is_confused |= count == 0 || sent != (ssize_t)count;
}

static void put_error(int descriptor, enum status status, uint64_t call_id, uint64_t found,
                      uint64_t max)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_error error = {.fault = {.status = status, .frame_type = WIRE_CALL,
                                         .call_id = call_id, .found = found, .max = max}};
    snprintf(error.text, sizeof error.text, "%s", status_text(status));
    put(descriptor, bytes, wire_error_encode(&error, bytes, sizeof bytes));
}

static void put_words(int descriptor, uint64_t call_id, uint32_t index, const char *text)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_tokens tokens = {.call_id = call_id, .first_index = index, .tokens_count = 1,
                                 .text_bytes = (uint32_t)strlen(text), .queue = 3,
                                 .text = (const uint8_t *)text};
    put(descriptor, bytes, wire_tokens_encode(&tokens, &index, bytes, sizeof bytes));
}

/* The model's words, in two parts. */
static const char *const *say(const char *prompt)
{
    static const char *const act[] = {"Act: ", "calc[3*12]"}, *const answer[] = {"Ans", "wer: 36"};
    static const char *const found[] = {"Found", ": 3*12"}, *const reply[] = {" He", "llo."};
    return strncmp(prompt, "User:", 5) == 0    ? reply
           : strncmp(prompt, "Notes:", 6) == 0 ? found
           : strstr(prompt, "Obs: 36\n") != NULL || strncmp(prompt, "Sum:", 4) == 0 ? answer : act;
}

static void serve_call(int descriptor, const struct wire_call *call, enum fate fate)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    char prompt[1024];
    const uint32_t tokens[] = {0, 1};
    struct wire_accept accept = {.call_id = call->call_id, .prompt_tokens = 5};
    struct wire_done done = {.call_id = call->call_id, .finish = CALL_FINISH_EOS, .queue = 3,
                             .prompt_tokens = 5, .generated_tokens = 2, .wait_us = 7,
                             .service_us = 11, .total_us = 18,
                             .digest = wire_digest(WIRE_DIGEST_START, tokens, 2)};
    snprintf(prompt, sizeof prompt, "%.*s", (int)call->prompt_count, (const char *)call->prompt);
    put(descriptor, bytes, wire_accept_encode(&accept, bytes, sizeof bytes));
    put_words(descriptor, call->call_id, 0, say(prompt)[0]);
    if (fate == BREAK_OFF) {
        return;
    }
    put_words(descriptor, call->call_id, 1, say(prompt)[1]);
    done.finish = fate == FAIL ? CALL_FINISH_FAILED : CALL_FINISH_EOS;
    done.status = fate == FAIL ? STATUS_DEVICE_FAILED : STATUS_OK;
    fake.calls_served += fate != FAIL;
    put(descriptor, bytes, wire_done_encode(&done, bytes, sizeof bytes));
}

/* False: the connection is to be closed. */
static bool take_call(int descriptor, const struct wire_call *call)
{
    enum fate fate = fake.calls < fake.fates_count ? fake.fates[fake.calls] : SERVE;
    if (call->prompt_count >= 6 && memcmp(call->prompt, "Poison", 6) == 0) {
        fate = BREAK;
    }
    fake.calls++;
    fake.max_tokens_least = call->max_tokens < fake.max_tokens_least ? call->max_tokens
                                                                     : fake.max_tokens_least;
    if (fate == BUSY) {
        put_error(descriptor, STATUS_BUSY_CALLS, call->call_id, 4, 4);
    } else if (fate == REFUSE) {
        put_error(descriptor, STATUS_BAD_PROMPT_LENGTH, call->call_id, 1025 + call->max_tokens,
                  1024);
    } else if (fate == TOO_LONG) {
        put_error(descriptor, STATUS_BAD_PROMPT_LENGTH, call->call_id, 1000 + call->max_tokens,
                  1024);
    } else if (fate != BREAK) {
        serve_call(descriptor, call, fate);
    }
    return fate != BREAK && fate != BREAK_OFF;
}

static void welcome(int descriptor)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_welcome frame = {.version = 1, .frame_bytes_max = FRAME_BYTES / 2,
                                 .context_tokens_max = 1024, .vocab_tokens = 100,
                                 .calls_per_connection_max = 4, .programs_max = 8, .bos_id = 1,
                                 .eos_id = 2, .model = "fake"};
    put(descriptor, bytes, wire_welcome_encode(&frame, bytes, sizeof bytes));
}

static bool take_frame(int descriptor, uint8_t type, const uint8_t *payload, uint32_t count)
{
    struct wire_fault fault;
    struct wire_call call;
    struct wire_program program;
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    if (type == WIRE_HELLO) {
        welcome(descriptor);
    } else if (type == WIRE_CALL && wire_call_decode(payload, count, &call, &fault) == STATUS_OK) {
        return take_call(descriptor, &call);
    } else if (type == WIRE_PROGRAM_END &&
               wire_program_decode(payload, count, &program, &fault) == STATUS_OK) {
        struct wire_program_ok ok = {.kind = WIRE_PROGRAM_END};
        memcpy(ok.program_id, program.program_id, sizeof ok.program_id);
        fake.programs_ended++;
        put(descriptor, bytes, wire_program_ok_encode(&ok, bytes, sizeof bytes));
    } else {
        fake.is_confused = true;
    }
    return true;
}

static bool read_connection(struct connection *c)
{
    ssize_t got = recv(c->descriptor, c->bytes + c->count, sizeof c->bytes - c->count, 0);
    struct wire_header header;
    struct wire_fault fault;
    if (got <= 0) {
        return false;
    }
    c->count += (uint32_t)got;
    while (c->count >= WIRE_HEADER_BYTES) {
        if (wire_header_decode(c->bytes, FRAME_BYTES, &header, &fault) != STATUS_OK) {
            fake.is_confused = true;
            return false;
        }
        uint32_t whole = WIRE_HEADER_BYTES + header.length_bytes;
        if (c->count < whole) {
            return true;
        }
        if (!take_frame(c->descriptor, header.type, c->bytes + WIRE_HEADER_BYTES,
                        header.length_bytes)) {
            return false;
        }
        c->count -= whole;
        memmove(c->bytes, c->bytes + whole, c->count);
    }
    return true;
}

static void *run_fake(void *nothing)
{
    for (;;) {
        struct pollfd watched[CONNECTIONS + 2] = {{.fd = fake.stop[0], .events = POLLIN},
                                                  {.fd = fake.listener, .events = POLLIN}};
        for (uint32_t i = 0; i < fake.connections_count; i++) {
            watched[2 + i] = (struct pollfd){.fd = fake.connections[i].descriptor,
                                             .events = POLLIN};
        }
        uint32_t count = fake.connections_count;
        (void)poll(watched, 2 + count, -1);
        if (watched[0].revents != 0) {
            return nothing;
        }
        for (uint32_t i = count; i-- > 0;) {
            if (watched[2 + i].revents != 0 && !read_connection(&fake.connections[i])) {
                close(fake.connections[i].descriptor);
                fake.connections[i] = fake.connections[--fake.connections_count];
            }
        }
        if (watched[1].revents != 0 && fake.connections_count < CONNECTIONS) {
            struct connection *c = &fake.connections[fake.connections_count++];
            c->descriptor = accept(fake.listener, NULL, NULL);
            c->count = 0;
        }
        if (fake.connections_count > fake.connections_most) {
            fake.connections_most = fake.connections_count;
        }
    }
}

static void start_fake(const enum fate *fates, uint32_t count)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memset(&fake, 0, sizeof fake);
    fake.fates = fates;
    fake.fates_count = count;
    fake.max_tokens_least = UINT32_MAX;
    snprintf(fake.path, sizeof fake.path, "%s/s", test_folder());
    unlink(fake.path);
    snprintf(fake.address, sizeof fake.address, "unix:%s", fake.path);
    memcpy(address.sun_path, fake.path, strlen(fake.path) + 1);
    fake.listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fake.listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fake.listener, CONNECTIONS), 0);
    assert_int_equal(pipe(fake.stop), 0);
    assert_int_equal(pthread_create(&fake.thread, NULL, run_fake, NULL), 0);
}

static void stop_fake(void)
{
    assert_int_equal(write(fake.stop[1], "x", 1), 1);
    assert_int_equal(pthread_join(fake.thread, NULL), 0);
    for (uint32_t i = 0; i < fake.connections_count; i++) {
        close(fake.connections[i].descriptor);
    }
    close(fake.listener);
    close(fake.stop[0]);
    close(fake.stop[1]);
    assert_false(fake.is_confused);
}

/* ---- a team that is watched ------------------------------------------------------------------ */

static struct seen { uint32_t opened, ended, tools, over, taken_most; char got[64]; } seen;
static struct team team;

static void on_opened(void *context, const struct team_seat *seat, uint32_t call)
{
    uint32_t taken = 0;
    (void)context, (void)seat, (void)call;
    for (uint32_t i = 0; i < team.seats_count; i++) {
        taken += team.seats[i].is_taken;
    }
    seen.taken_most = taken > seen.taken_most ? taken : seen.taken_most;
    seen.opened++;
}

static void on_ended(void *context, const struct team_seat *seat, uint32_t call)
{
    (void)context;
    assert_int_equal(seat->queue, 3);
    if (seat->agent.task->kind == TASK_CHAT) {      /* no word twice, after any break */
        assert_string_equal(seat->agent.calls[call].said, " Hello.");
    }
    seen.ended++;
}

static void on_tool(void *context, const struct team_seat *seat)
{
    (void)context;
    assert_string_equal(seat->agent.observed, "36");
    seen.tools++;
}

static void on_over(void *context, const struct team_seat *seat)
{
    (void)context;
    seen.over++;
    if (!seat->agent.is_right) {
        snprintf(seen.got, sizeof seen.got, "%.63s", seat->agent.got);
    }
}

/* The team's exit code. */
static int work(const char *tasks, uint32_t seats, const enum fate *fates, uint32_t fates_count)
{
    struct task_book book = {0};
    char fault[TASK_FAULT_BYTES];
    memset(&seen, 0, sizeof seen);
    memset(&team, 0, sizeof team);
    assert_true(task_book_parse(&book, "x", tasks, strlen(tasks), fault));
    team.book = &book;
    team.seats_count = seats;
    team.retry.tries_max = 2;
    team.view = (struct team_view){.opened = on_opened, .ended = on_ended,
                                   .used_tool = on_tool, .over = on_over};
    start_fake(fates, fates_count);
    assert_int_equal(team_open(&team, fake.address), EXIT_COMPLETE);
    int code = team_run(&team);
    assert_int_equal(team.tasks_over, book.count);
    assert_int_equal(seen.over, book.count);
    team_close(&team);
    stop_fake();
    task_book_free(&book);
    return code;
}

#define REACT "task react a\n> Task: What?\n= 36\n"
#define CHAT  "task chat b\n> Hi.\n= hello\n> Bye.\n= hello\n"
#define MAP   "task map c\n> Notes: 1\n-\n> Notes: 2\n-\n> Notes: 3\n= 36\n"
#define VOTE  "task vote d\nsamples 9\n> Sum: What?\n= 36\n"

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_agents_of_every_kind_are_served(void **state)
{
    (void)state;
    assert_int_equal(work(REACT CHAT MAP VOTE, 4, NULL, 0), EXIT_COMPLETE);
    for (uint32_t kind = 0; kind < TASK_KINDS; kind++) {
        assert_int_equal(team.right[kind], 1);
    }
    assert_int_equal(fake.calls, 2 + 2 + 5 + 9);
    assert_int_equal(seen.opened, 18);
    assert_int_equal(seen.ended, 18);
    assert_int_equal(seen.tools, 2);
    assert_int_equal(fake.programs_ended, 4);
    assert_int_equal(fake.max_tokens_least, AGENT_MAX_TOKENS);
}

static void test_seats_are_taken_again(void **state)
{
    (void)state;
    assert_int_equal(work(REACT REACT REACT REACT REACT REACT REACT, 2, NULL, 0), EXIT_COMPLETE);
    assert_int_equal(team.right[TASK_REACT], 7);
    assert_int_equal(seen.taken_most, 2);
    assert_int_equal(fake.programs_ended, 7);
}

static void test_more_calls_than_a_connection_takes_need_more_of_them(void **state)
{
    (void)state;
    assert_int_equal(work(VOTE, 1, NULL, 0), EXIT_COMPLETE);
    assert_int_equal(fake.connections_most, 3);         /* 9 calls, 4 in each */
    assert_int_equal(team.right[TASK_VOTE], 1);
}

static void test_a_busy_call_is_asked_again(void **state)
{
    static const enum fate fates[] = {BUSY, BUSY, SERVE, BUSY};
    (void)state;
    assert_int_equal(work(REACT, 1, fates, 4), EXIT_COMPLETE);
    assert_int_equal(team.right[TASK_REACT], 1);
    assert_int_equal(fake.calls, 5);
    assert_int_equal(seen.ended, 2);
    assert_int_equal(team.retry.waits, 3);
}

static void test_a_call_that_stays_busy_costs_its_agent_only(void **state)
{
    static const enum fate fates[] = {BUSY, BUSY, BUSY};
    (void)state;
    assert_int_equal(work(REACT CHAT, 1, fates, 3), EXIT_REFUSED);
    assert_int_equal(team.right[TASK_REACT], 0);
    assert_int_equal(team.right[TASK_CHAT], 1);
    assert_int_equal(team.retry.waits, 2);
    assert_string_equal(seen.got, status_text(STATUS_BUSY_CALLS));
}

static void test_a_broken_connection_costs_no_words(void **state)
{
    static const enum fate fates[] = {BREAK_OFF, BREAK, SERVE, BREAK_OFF};
    (void)state;
    assert_int_equal(work(CHAT, 1, fates, 4), EXIT_COMPLETE);
    assert_int_equal(team.right[TASK_CHAT], 1);
    assert_int_equal(fake.calls_served, 2);
    assert_int_equal(fake.calls, 5);
}

static void test_a_connection_that_always_breaks_ends_the_agent(void **state)
{
    static const enum fate fates[] = {BREAK, BREAK, BREAK, BREAK, BREAK, BREAK};
    (void)state;
    assert_int_equal(work(REACT CHAT, 1, fates, 6), EXIT_INCOMPLETE);
    assert_int_equal(team.right[TASK_REACT], 0);
    assert_int_equal(team.right[TASK_CHAT], 1);
    assert_string_equal(seen.got, agx_result_text(AGX_ERROR_CLOSED));
}

/* Four calls fill a connection: the others, always with an open call, have a second one. */
static void test_a_call_that_breaks_its_connection_costs_that_connection_only(void **state)
{
    (void)state;
    assert_int_equal(work("task vote e\nsamples 4\n> Poison\n= 36\n"
                          CHAT CHAT CHAT CHAT CHAT CHAT CHAT CHAT CHAT CHAT, 2, NULL, 0),
                     EXIT_INCOMPLETE);
    assert_int_equal(team.right[TASK_VOTE], 0);
    assert_int_equal(team.right[TASK_CHAT], 10);
    assert_string_equal(seen.got, agx_result_text(AGX_ERROR_CLOSED));
}

static void test_a_long_prompt_gets_the_room_that_is_left(void **state)
{
    static const enum fate fates[] = {TOO_LONG};
    (void)state;
    assert_int_equal(work(REACT, 1, fates, 1), EXIT_COMPLETE);
    assert_int_equal(team.right[TASK_REACT], 1);
    assert_int_equal(fake.max_tokens_least, 24);
}

static void test_a_refused_call_costs_its_agent_only(void **state)
{
    static const enum fate fates[] = {SERVE, REFUSE};
    (void)state;
    assert_int_equal(work(VOTE REACT, 1, fates, 2), EXIT_REFUSED);
    assert_int_equal(team.right[TASK_VOTE], 0);
    assert_int_equal(team.right[TASK_REACT], 1);
    assert_string_equal(seen.got, status_text(STATUS_BAD_PROMPT_LENGTH));
}

static void test_a_failed_call_costs_its_agent_only(void **state)
{
    static const enum fate fates[] = {FAIL, SERVE, FAIL};
    (void)state;
    assert_int_equal(work(MAP CHAT, 1, fates, 3), EXIT_INCOMPLETE);
    assert_int_equal(team.right[TASK_MAP], 0);
    assert_int_equal(team.right[TASK_CHAT], 1);
    assert_string_equal(seen.got, agx_finish_text(AGX_FINISH_FAILED));
    assert_int_equal(fake.programs_ended, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agents_of_every_kind_are_served),
        cmocka_unit_test(test_seats_are_taken_again),
        cmocka_unit_test(test_more_calls_than_a_connection_takes_need_more_of_them),
        cmocka_unit_test(test_a_busy_call_is_asked_again),
        cmocka_unit_test(test_a_call_that_stays_busy_costs_its_agent_only),
        cmocka_unit_test(test_a_broken_connection_costs_no_words),
        cmocka_unit_test(test_a_connection_that_always_breaks_ends_the_agent),
        cmocka_unit_test(test_a_call_that_breaks_its_connection_costs_that_connection_only),
        cmocka_unit_test(test_a_long_prompt_gets_the_room_that_is_left),
        cmocka_unit_test(test_a_refused_call_costs_its_agent_only),
        cmocka_unit_test(test_a_failed_call_costs_its_agent_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
