/* SPDX-License-Identifier: MIT */
/*
 * Goal: lab_submit() leaves a call exactly as a CALL frame would leave it.
 * Method: the same call twice on one connection, once through lab_submit() and once as a frame
 * through net, and the two records compared byte by byte but for what must differ: identity and
 * links.
 */
#include "selftest/unit/lab/traces.h"

#include "net/wire.h"

static struct lab lab;

static const char one_call[] =
    "agentix-trace 1\nprogram p 0 x\n"
    "call 0 after=- gap=3600000000 in=s:doc:100+u:9 out=7\n";

static void send_frame(const struct call *like)
{
    struct wire_call frame = {
        .call_id = 99, .thread = like->thread, .flags = WIRE_CALL_IGNORE_EOS,
        .max_tokens = like->max_tokens, .prompt_count = like->prompt_tokens,
        .prompt = (const uint8_t *)like->tokens,    /* little-endian, as this machine is */
        .sampling = {.top_p = 1, .repeat_penalty = 1},
    };
    frame.program_id[0] = 1;
    struct lab_socket *socket = &lab.sockets.sockets[0];
    socket->count = wire_call_encode(&frame, socket->to_server, LAB_SOCKET_BYTES);
    assert_true(socket->count > 0);
}

/* The call without what differs between any two calls. */
static struct call without_identity(const struct call *call)
{
    struct call same = *call;
    same.client_call_id = same.emit.request = 0;
    same.generation = same.slot = 0;
    same.foretold = (struct call_foretold){0};   /* a frame has none */
    same.tokens = NULL;
    same.emit.conn_next = same.emit.conn_prev = same.emit.open_next = 0;
    memset(same.program_id, 0, sizeof same.program_id);
    return same;
}

static void test_submitted_call_equals_one_from_a_frame(void **state)
{
    (void)state;
    struct lab_settings settings = traces_settings("plas", "a100-llama-3.1-8b");
    struct trace trace;
    trace_text_load(&trace, one_call);
    assert_int_equal(lab_begin(&lab, &settings, &trace), LAB_EXIT_OK);
    while (lab.sockets.opened == 0) {
        lab_pass(&lab);
    }
    assert_true(lab_submit(&lab, 0));
    const struct call *calls = lab.loop.calls.calls;
    send_frame(&calls[0]);
    net_event(&lab.loop.net, &(struct world_event){.source = WORLD_SOURCE_CONNECTION,
                                                   .index = lab.sockets.sockets[0].slot,
                                                   .ready = WORLD_READABLE});
    net_poll(&lab.loop.net, lab.now_us);
    assert_int_equal(calls[0].state, CALL_INTAKE);
    assert_int_equal(calls[1].state, CALL_INTAKE);
    assert_int_equal(calls[0].prompt_tokens, 109);
    assert_memory_equal(calls[0].tokens, calls[1].tokens, 109 * sizeof(uint32_t));
    struct call direct = without_identity(&calls[0]), framed = without_identity(&calls[1]);
    assert_memory_equal(&direct, &framed, sizeof direct);
    assert_int_equal(calls[0].connection, calls[1].connection);
    const struct exchange *exchange = &lab.loop.exchange;
    assert_int_equal(ring_count(&exchange->inbox_ring), 2);
    assert_int_equal(exchange->inbox[exchange->inbox_ring.head].kind, COMMAND_CALL);
    net_check(&lab.loop.net);
    lab_end(&lab);
    trace_free(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_submitted_call_equals_one_from_a_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
