/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the net stage in the world in memory, a scheduler of ten lines that does what a test says,
 * and a client that speaks frames. Included by the tests of net/ and by its fuzz target.
 *
 * The vocabulary is a stand-in with the functions of config/vocab/vocab.h that net uses: token 1 is
 * BOS, 2 is EOS, 3 ends a turn, 4 + b is the byte b. From 260 on a test may give a token its text.
 */
#include <stddef.h>
#include <string.h>

#include "net/net.h"
#include "selftest/fake/fake_world.h"

#define FIXTURE_TOKENS 272
#define FIXTURE_BYTE(b) (4u + (uint8_t)(b))
#define FIXTURE_TEXT_TOKEN 260u
#define FIXTURE_CONTROL (FIXTURE_TOKENS - 1u)    /* it has no text of its own */

static const char *fixture_token_texts[FIXTURE_TOKENS - FIXTURE_TEXT_TOKEN];
static struct arena *fixture_kept;      /* of what a core's successor takes up; NULL: as the rest */
static bool fixture_keeps;              /* connections outlive a core; */
static bool fixture_goes_on;            /* this one is a successor, in the world as it is, */
static bool fixture_was_killed;         /* of a core that did not die of what it did */

uint64_t vocab_scratch_bytes(uint32_t text_bytes_max)
{
    return 64;
}

const char *vocab_control_text(const struct vocab *v, uint32_t token, uint32_t *bytes)
{
    *bytes = 6;
    return token == FIXTURE_CONTROL ? "[CALL]" : NULL;
}

uint64_t vocab_digest(const struct vocab *v)
{
    return v->info.tokens;
}

void vocab_scratch_init(struct vocab_scratch *scratch, void *memory, uint32_t text_bytes_max)
{
    *scratch = (struct vocab_scratch){.text_bytes_max = text_bytes_max, .memory = memory,
                                      .memory_bytes = 64};
}

enum status vocab_encode(const struct vocab *vocab, struct vocab_scratch *scratch,
                         const struct vocab_input *input, struct vocab_output *output)
{
    if (input->bytes > output->max || input->bytes > scratch->text_bytes_max) {
        return STATUS_BUSY_SPACE;
    }
    for (uint32_t i = 0; i < input->bytes; i++) {
        output->tokens[i] = FIXTURE_BYTE(input->text[i]);
    }
    output->count = input->bytes;
    return STATUS_OK;
}

uint32_t vocab_decode(const struct vocab *vocab, uint32_t token, bool first, char *bytes,
                      uint32_t max)
{
    if (token >= FIXTURE_TEXT_TOKEN && fixture_token_texts[token - FIXTURE_TEXT_TOKEN] != NULL) {
        const char *text = fixture_token_texts[token - FIXTURE_TEXT_TOKEN];
        uint32_t skip = first && text[0] == ' ' ? 1 : 0;
        uint32_t count = (uint32_t)strlen(text) - skip;
        ASSERT(count <= max);
        memcpy(bytes, text + skip, count);
        return count;
    }
    if (token < FIXTURE_BYTE(0) || token >= FIXTURE_TEXT_TOKEN) {
        return 0;
    }
    bytes[0] = (char)(token - FIXTURE_BYTE(0));
    return 1;
}

struct fixture {
    struct fake_world fake;         /* first: fixture_init() clears what comes after it */
    struct limits limits;
    struct vocab vocab;
    struct call_table calls;
    struct exchange exchange;
    struct stats stats;
    struct net net;
    struct memory_plan plan;
    /* what the scheduler does */
    enum status refuse_with;        /* refuses every CALL */
    enum status program_status;     /* answers PROGRAM_* with it */
    bool generates;                 /* one token for each call that is not paused, in each pass */
    uint32_t next_token;            /* what it generates: (call id + index) when 0 */
    uint32_t last_call;             /* slot of the last CALL that it saw */
    uint64_t commands[4];           /* how many of each kind */
    struct command last_command;
};

struct received {
    uint8_t type;
    struct wire_welcome welcome;
    struct wire_auth_reply auth_reply;
    struct wire_program_ok program_ok;
    struct wire_accept accept;
    struct wire_tokens tokens;
    struct wire_done done;
    struct wire_ping pong;
    struct wire_chat chat;
    struct wire_model model;
    struct wire_error error;
    uint8_t bytes[FAKE_QUEUE_BYTES];
};

static const struct limits fixture_limits = {
    .programs = 8,
    .calls = 8,
    .connections = 4,
    .calls_per_connection = 3,
    .context_tokens = 64,
    .vocab_tokens = FIXTURE_TOKENS,
    .steps_per_plan = 4,
    .top_logprobs = 2,
    .logprob_tokens = 64,               /* the scheduler here knows no pauses */
    .frame_bytes = 4096,
    .send_bytes = 4096,
    .frames_per_pass = 8,
    .bytes_per_pass = 65536,
    .preauth = 3,
    .preauth_per_address = 2,
    .calls_per_key = 8,
    .commands = 4 * 8 + 8,
    .replies = 4,
    .reply_tokens = 100,
};

/* Of each table, what the domains of `keys` may have; NULL: there are none. */
static inline void fixture_bind_quotas(struct fixture *f, const struct config_keys *keys)
{
    struct quotas quotas;
    config_quotas_fill(&quotas, keys, &f->limits);
    quota_bind(&f->calls.quota, &quotas, QUOTA_CALLS);
    net_bind_quotas(&f->net, &quotas);
}

static inline void fixture_init_keyed(struct fixture *f, struct arena *arena,
                                      const struct limits *limits, const struct config_keys *keys)
{
    if (fixture_goes_on) {
        fake_world_lose_core(&f->fake);
    } else {
        fake_world_init(&f->fake);
        f->fake.keeps = f->fake.counts = fixture_keeps;
    }
    memset(&f->limits, 0, sizeof *f - offsetof(struct fixture, limits));
    memset(fixture_token_texts, 0, sizeof fixture_token_texts);
    f->limits = *limits;
    static uint32_t first[FIXTURE_TOKENS + 1];      /* every token is written as "" */
    f->vocab.text_first = first;
    f->vocab.info = (struct gguf_vocab_info){.kind = VOCAB_SPM, .tokens = FIXTURE_TOKENS,
                                             .bos_id = 1, .eos_id = 2, .eot_id = 3,
                                             .unk_id = GGUF_NO_TOKEN, .token_bytes_max = 32};
    struct net_settings settings = {
        .limits = &f->limits,
        .handshake_us = 2000000, .frame_deadline_us = 5000000,
        .write_deadline_us = 10000000, .idle_us = 900000000,
        .frame_rate = 16384,
        .unsent_tokens = 16,
        .boot_id = "boot-boot-boot-",
        .model = "fixture",
        .access = {.tcp_needs_key = keys != NULL},
    };
    f->limits.keys = keys != NULL ? CONFIG_KEYS_MAX : 0;
    struct arena *kept = fixture_kept != NULL ? fixture_kept : arena;
    call_table_init(&f->calls, limits->calls, limits->context_tokens, arena, kept);
    call_logprobs_init(&f->calls, limits->logprob_tokens, 1 + limits->top_logprobs, arena);
    exchange_init(&f->exchange,
                  &(struct exchange_counts){.commands = limits->commands, .calls = limits->calls,
                                            .workflows = limits->workflow.workflows}, arena);
    uint64_t before = arena->used_bytes, kept_before = kept->used_bytes;
    net_plan_memory(&f->plan, &f->limits, &f->vocab.info);
    net_init(&f->net, &settings, keys,
             &(struct net_wiring){.world = &f->fake.world, .vocab = &f->vocab, .calls = &f->calls,
                                 .exchange = &f->exchange, .stats = &f->stats,
                                 .kept = fixture_kept}, arena);
    uint64_t apart = kept != arena ? kept->used_bytes - kept_before : 0;
    ASSERT(arena->used_bytes - before + apart == memory_plan_bytes(&f->plan, MEMORY_CORE) +
                       memory_plan_bytes(&f->plan, MEMORY_KEPT));
    fixture_bind_quotas(f, keys);
    net_take_up(&f->net, fixture_was_killed);
    net_listen(&f->net, 0, FAKE_LISTENER_HANDLE(0));
    net_listen(&f->net, 1, FAKE_LISTENER_HANDLE(1));
}

static inline void fixture_init(struct fixture *f, struct arena *arena, const struct limits *limits)
{
    fixture_init_keyed(f, arena, limits, NULL);
}

/* ---- the scheduler --------------------------------------------------------------------------- */

static inline struct call *fixture_call(struct fixture *f, uint32_t index)
{
    ASSERT(index < f->calls.count);
    return &f->calls.calls[index];
}

static inline void fixture_finish(struct fixture *f, uint32_t index, enum call_finish finish,
                           enum status status)
{
    struct call *call = fixture_call(f, index);
    ASSERT(call->state == CALL_QUEUED || call->state == CALL_INTAKE);
    call->state = CALL_FINISHED;
    call->finish = finish;
    call->status = status;
    call->finished_us = f->fake.now_us;
    exchange_emit(&f->exchange, &f->calls.calls[index]);
}

static inline void fixture_generate(struct fixture *f, uint32_t index, uint32_t token)
{
    struct call *call = fixture_call(f, index);
    ASSERT(call->state == CALL_QUEUED && call->generated_tokens < call->max_tokens);
    uint32_t entries = call_logprob_entries(&call->sampling);
    for (uint32_t i = 0; i < entries; i++) {
        call_logprobs_at(&f->calls, call, call->generated_tokens)[i] =
            (struct call_logprob){token + i, -(float)call->generated_tokens};
    }
    call->tokens[call->prompt_tokens + call->generated_tokens++] = token;
    call->published_tokens = call->generated_tokens;
    exchange_emit(&f->exchange, &f->calls.calls[index]);
}

static inline void fixture_take_call(struct fixture *f, uint32_t index)
{
    struct call *call = fixture_call(f, index);
    ASSERT(call->state == CALL_INTAKE && call->prompt_tokens > 0);
    ASSERT(call->prompt_tokens + call->max_tokens <= f->limits.context_tokens);
    f->last_call = index;
    if (f->refuse_with != STATUS_OK) {
        fixture_finish(f, index, CALL_FINISH_REFUSED, f->refuse_with);
        return;
    }
    call->state = CALL_QUEUED;
    exchange_emit(&f->exchange, &f->calls.calls[index]);
    if (call->cancel || call->connection == CALL_NONE) {
        fixture_finish(f, index, CALL_FINISH_CANCELLED, STATUS_GONE_CANCELLED);
    }
}

static inline void fixture_take_cancel(struct fixture *f, const struct command *command)
{
    struct call *call = fixture_call(f, command->call);
    if (call->generation != command->call_generation || call->state != CALL_QUEUED) {
        return;
    }
    ASSERT(call->cancel);
    if (call->stop_text_hit) {
        call->generated_tokens = call->published_tokens = call->stop_text_tokens;
        fixture_finish(f, command->call, CALL_FINISH_STOP_TEXT, STATUS_OK);
    } else {
        fixture_finish(f, command->call, CALL_FINISH_CANCELLED, STATUS_GONE_CANCELLED);
    }
}

static inline void fixture_generate_all(struct fixture *f)
{
    for (uint32_t i = 0; i < f->calls.count; i++) {
        struct call *call = fixture_call(f, i);
        if (call->state != CALL_QUEUED || call->paused || call->cancel) {
            continue;
        }
        uint32_t token = f->next_token != 0
                             ? f->next_token
                             : FIXTURE_BYTE(call->client_call_id + call->generated_tokens);
        fixture_generate(f, i, token);
        if (call->generated_tokens == call->max_tokens) {
            fixture_finish(f, i, CALL_FINISH_LENGTH, STATUS_OK);
        }
    }
}

static inline void fixture_sched(struct fixture *f)
{
    while (!ring_is_empty(&f->exchange.inbox_ring)) {
        struct command command = f->exchange.inbox[ring_pop(&f->exchange.inbox_ring)];
        f->commands[command.kind]++;
        f->last_command = command;
        if (command.kind == COMMAND_CALL) {
            fixture_take_call(f, command.call);
        } else if (command.kind == COMMAND_CANCEL) {
            fixture_take_cancel(f, &command);
        } else {
            struct answer answer = {.kind = command.kind, .connection = command.connection,
                                    .connection_generation = command.connection_generation,
                                    .status = f->program_status, .service_us = 11,
                                    .wait_us = 22, .calls = 33};
            memcpy(answer.program_id, command.program_id, sizeof answer.program_id);
            exchange_answer(&f->exchange, &answer);
        }
    }
    if (f->generates) {
        fixture_generate_all(f);
    }
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* One pass of the loop; the clock stands still unless `until_us` is ahead and nothing happens. */
static inline void fixture_pass_until(struct fixture *f, uint64_t until_us)
{
    struct world_event events[WORLD_EVENTS_MAX];
    uint32_t count = f->fake.world.wait(&f->fake, events, WORLD_EVENTS_MAX, until_us);
    for (uint32_t i = 0; i < count; i++) {
        if (events[i].source == WORLD_SOURCE_LISTENER ||
            events[i].source == WORLD_SOURCE_CONNECTION) {
            net_event(&f->net, &events[i]);
        }
    }
    net_poll(&f->net, f->fake.now_us);
    fixture_sched(f);
    net_emit(&f->net, f->fake.now_us);
    net_check(&f->net);
}

static inline void fixture_pass(struct fixture *f)
{
    fixture_pass_until(f, f->fake.now_us);
}

static inline void fixture_passes(struct fixture *f, uint32_t count)
{
    while (count-- > 0) {
        fixture_pass(f);
    }
}

/* Sleeps as the loop does, for `us`: every deadline on the way is met at its time. */
static inline void fixture_sleep(struct fixture *f, uint64_t us)
{
    uint64_t end_us = f->fake.now_us + us, last_us = 0;
    uint32_t spins = 0;
    while (f->fake.now_us < end_us) {
        uint64_t next_us = net_next_us(&f->net, f->fake.now_us);
        fixture_pass_until(f, next_us < end_us ? next_us : end_us);
        /* What clients have sent is finite: a stage that stays busy without time moving spins. */
        spins = f->fake.now_us == last_us ? spins + 1 : 0;
        last_us = f->fake.now_us;
        ASSERT(spins < 20000);
    }
}

/* ---- the client ------------------------------------------------------------------------------ */

static inline uint32_t fixture_connect(struct fixture *f)
{
    uint32_t peer = fake_client_connect(&f->fake, 0);
    ASSERT(peer != FAKE_NONE);
    fixture_pass(f);
    return peer;
}

static inline void fixture_send(struct fixture *f, uint32_t peer, const uint8_t *bytes,
                                uint32_t count)
{
    ASSERT(count > 0 && fake_client_send(&f->fake, peer, bytes, count) == count);
}

static inline void fixture_hello(struct fixture *f, uint32_t peer)
{
    uint8_t bytes[256];
    struct wire_hello hello = {.version_min = 1, .version_max = 1, .name = "test"};
    fixture_send(f, peer, bytes, wire_hello_encode(&hello, bytes, sizeof bytes));
    fixture_pass(f);
}

static inline const uint8_t *fixture_program_id(const char *name)
{
    static uint8_t id[CALL_PROGRAM_ID_BYTES];
    ASSERT(strlen(name) <= sizeof id);
    memset(id, 0, sizeof id);
    memcpy(id, name, strlen(name));
    return id;
}

/* A valid call of two token ids, for tests to change. */
static inline struct wire_call fixture_wire_call(uint64_t call_id)
{
    static const uint8_t prompt[8] = {1, 0, 0, 0, 9, 0, 0, 0};
    struct wire_call call = {.call_id = call_id, .max_tokens = 8,
                             .sampling = {.top_p = 1, .repeat_penalty = 1},
                             .prompt_count = 2, .prompt = prompt};
    memcpy(call.program_id, fixture_program_id("program"), sizeof call.program_id);
    return call;
}

static inline void fixture_send_call(struct fixture *f, uint32_t peer, const struct wire_call *call)
{
    static uint8_t bytes[FAKE_QUEUE_BYTES];
    fixture_send(f, peer, bytes, wire_call_encode(call, bytes, sizeof bytes));
}

static inline void fixture_send_cancel(struct fixture *f, uint32_t peer, uint64_t call_id,
                                const char *program)
{
    uint8_t bytes[64];
    struct wire_cancel cancel = {.call_id = call_id};
    memcpy(cancel.program_id, fixture_program_id(program), sizeof cancel.program_id);
    fixture_send(f, peer, bytes, wire_cancel_encode(&cancel, bytes, sizeof bytes));
}

static inline void fixture_send_program(struct fixture *f, uint32_t peer, enum wire_type type,
                                 const char *name)
{
    uint8_t bytes[64];
    struct wire_program_start start = {.class_name = ""};
    struct wire_program_end end;
    memcpy(start.program_id, fixture_program_id(name), sizeof start.program_id);
    memcpy(end.program_id, start.program_id, sizeof end.program_id);
    fixture_send(f, peer, bytes, type == WIRE_PROGRAM_START
                                     ? wire_program_start_encode(&start, bytes, sizeof bytes)
                                     : wire_program_end_encode(&end, bytes, sizeof bytes));
}

/* Any bytes as the name of the class. */
static inline void fixture_send_class(struct fixture *f, uint32_t peer, const char *name,
                                      const void *class_name, uint32_t class_bytes)
{
    uint8_t bytes[256];
    struct wire_program_start start = {.class_name = ""};
    memcpy(start.program_id, fixture_program_id(name), sizeof start.program_id);
    uint32_t count = wire_program_start_encode(&start, bytes, sizeof bytes);
    memcpy(bytes + count, class_name, class_bytes);
    bytes[8] = (uint8_t)(count - WIRE_HEADER_BYTES + class_bytes);
    uint32_t sum = wire_checksum(bytes, bytes + WIRE_HEADER_BYTES, bytes[8]);
    memcpy(bytes + 12, &sum, sizeof sum);
    fixture_send(f, peer, bytes, count + class_bytes);
}

static inline void fixture_send_ping(struct fixture *f, uint32_t peer, uint64_t nonce)
{
    uint8_t bytes[64];
    fixture_send(f, peer, bytes,
                 wire_ping_encode(&(struct wire_ping){nonce}, WIRE_PING, bytes, sizeof bytes));
}

static inline enum status fixture_decode(struct received *got, uint32_t count)
{
    const uint8_t *payload = got->bytes + WIRE_HEADER_BYTES;
    struct wire_fault fault;
    switch (got->type) {
    case WIRE_WELCOME: return wire_welcome_decode(payload, count, &got->welcome, &fault);
    case WIRE_AUTH_REPLY: return wire_auth_reply_decode(payload, count, &got->auth_reply, &fault);
    case WIRE_PROGRAM_OK: return wire_program_ok_decode(payload, count, &got->program_ok, &fault);
    case WIRE_ACCEPT: return wire_accept_decode(payload, count, &got->accept, &fault);
    case WIRE_TOKENS: return wire_tokens_decode(payload, count, &got->tokens, &fault);
    case WIRE_DONE: return wire_done_decode(payload, count, &got->done, &fault);
    case WIRE_PONG: return wire_ping_decode(payload, count, &got->pong, &fault);
    case WIRE_MODEL: return wire_model_decode(payload, count, &got->model, &fault);
    case WIRE_CHAT: return wire_chat_decode(payload, count, &got->chat, &fault);
    case WIRE_ERROR: return wire_error_decode(payload, count, &got->error, &fault);
    default: return STATUS_BAD_FRAME_TYPE;
    }
}

/* The next frame that the server has sent; false when there is no whole one. Asserts that it is
 * well formed. */
static inline bool fixture_receive(struct fixture *f, uint32_t peer, struct received *got)
{
    struct wire_header header;
    struct wire_fault fault;
    if (f->fake.peers[peer].to_client.count < WIRE_HEADER_BYTES) {
        return false;
    }
    uint32_t have = fake_client_recv(&f->fake, peer, got->bytes, WIRE_HEADER_BYTES);
    ASSERT(have == WIRE_HEADER_BYTES);
    enum status status =
        wire_header_decode(got->bytes, f->limits.frame_bytes, &header, &fault);
    ASSERT(status == STATUS_OK);
    /* The tests let the world deliver whole frames before they look, or pump it here. */
    uint32_t count = 0;
    for (uint32_t tries = 0; count < header.length_bytes; tries++) {
        ASSERT(tries < 100000);
        count += fake_client_recv(&f->fake, peer, got->bytes + WIRE_HEADER_BYTES + count,
                                  header.length_bytes - count);
        if (count < header.length_bytes && fake_client_is_closed(&f->fake, peer) &&
            f->fake.peers[peer].to_client.count == 0) {
            return false;           /* cut short by the end of the connection */
        }
        if (count < header.length_bytes) {
            fixture_pass(f);
        }
    }
    ASSERT(wire_checksum(got->bytes, got->bytes + WIRE_HEADER_BYTES, header.length_bytes) ==
           header.checksum);
    got->type = header.type;
    status = fixture_decode(got, header.length_bytes);
    ASSERT(status == STATUS_OK);
    return true;
}
