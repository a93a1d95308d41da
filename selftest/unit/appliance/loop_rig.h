/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the real loop over the fake world, with clients through the SDK's machine and an engine
 * whose tokens betray every wrong block. loop_check() follows every pass; every call must end with
 * the tokens of an undisturbed engine, and with all its resources given back.
 */
#define TEST_ARENA_BYTES (96u << 20)
#include "selftest/unit/test.h"

#include "appliance/loop.h"
#include "selftest/fake/fake_engine.h"
#include "selftest/fake/fake_world.h"
#include "tools/sdk/session.h"

enum {
    CLIENTS = 6, CALLS_EACH = 4, CONTEXT = 64, VOCAB = 50, BLOCK_TOKENS = 8, BLOCKS = 20,
    HOST_BLOCKS = 24, BATCH = 5, STANDBYS = 3, PREFILL = 16, CANARY_PROMPT = 6, CANARY_BLOCKS = 1,
    PASSES_MAX = 200000,
};

struct client {
    uint32_t peer;
    struct agx agx;
    uint8_t buffer[AGX_BUFFER_BYTES_MIN];
    bool greeted, gone;
    bool may_fail, may_lie;                     /* its calls may; or results of them may be wrong */
    uint32_t sent, done, refused;
    uint32_t seen[CALLS_EACH];                  /* tokens received */
    uint32_t expected[CALLS_EACH][CONTEXT];     /* prompt, then what the oracle says */
    uint32_t prompt[CALLS_EACH], expected_count[CALLS_EACH];
};

struct rig {
    struct fake_world fake;
    struct fake_engine engine;
    struct loop loop;
    struct options options;
    struct limits limits;
    struct vocab vocab;
    struct client clients[CLIENTS];
    uint64_t random;
};

static struct rig rig;
static struct config_prefixes declared;         /* for the next start(); none, if not set */
static struct fake_declared declared_hashes;

static inline uint32_t draw(uint32_t below)
{
    rig.random = rig.random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(rig.random >> 33) % below;
}

static inline void fill_limits(struct limits *limits)
{
    *limits = (struct limits){
        .engines = 1,
        .programs = 8, .classes = 8, .calls = CLIENTS * CALLS_EACH, .connections = CLIENTS + 2,
        .calls_per_connection = CALLS_EACH, .context_tokens = CONTEXT, .past_tokens = CONTEXT,
        .vocab_tokens = VOCAB,
        .batch_calls = BATCH, .standby_calls = STANDBYS, .steps_per_plan = 3,
        .prefill_tokens = PREFILL, .step_tokens = PREFILL + BATCH + STANDBYS,
        .kv_block_tokens = BLOCK_TOKENS, .kv_blocks = BLOCKS, .kv_host_blocks = HOST_BLOCKS,
        .canary_prompt_tokens = CANARY_PROMPT, .canary_decode_steps = 3,
        .canary_blocks = CANARY_BLOCKS, .retain_host_us = 100000, .retain_drop_us = 20000000,
        .blocks_per_call = CONTEXT / BLOCK_TOKENS, .frame_bytes = 65536, .send_bytes = 4096,
        .frames_per_pass = 8, .bytes_per_pass = 65536, .preauth = 4,
        .preauth_per_address = 4, .calls_per_key = 1,
        .commands = (CLIENTS + 2) * 8 + CLIENTS * CALLS_EACH,
        .engine_threads = 1, .text_slots = 2, .text_page_bytes = 32768,
    };
}

static inline void start(uint64_t seed)
{
    struct arena *arena = test_arena();
    memset(&rig, 0, sizeof rig);
    rig.random = seed * 977 + 1;
    fake_world_init(&rig.fake);
    config_defaults(&rig.options);
    rig.options.sched_quantum.number = 2000;
    rig.options.engine_canary.number = seed % 2 == 0 ? 300000000 : 3000;
    static const enum sched_sharing sharing[] = {
        SCHED_SHARING_PROGRAM, SCHED_SHARING_DOMAIN, SCHED_SHARING_OFF};
    rig.options.kv_sharing.value.number = sharing[seed % 3];
    rig.options.sched_prefetch.value.number = seed % 2;
    fill_limits(&rig.limits);
    rig.limits.retain_device_us = seed % 5 * 10000;
    config_limits_add_prefixes(&rig.limits, &declared);
    fake_engine_declare(&declared_hashes, &declared);
    rig.vocab.info.tokens = VOCAB;
    rig.vocab.info.bos_id = rig.vocab.info.eos_id = GGUF_NO_TOKEN;
    rig.vocab.info.unk_id = rig.vocab.info.eot_id = GGUF_NO_TOKEN;
    struct step step;
    step.layout = loop_step_layout(&rig.limits);
    step.base = arena_take(arena, 1, step.layout.total_bytes);
    uint32_t device_blocks = rig.limits.kv_blocks + CANARY_BLOCKS;
    rig.engine = (struct fake_engine){.step = step,
                                      .blocks = device_blocks + HOST_BLOCKS,
                                      .device_blocks = device_blocks,
                                      .declared = &declared_hashes,
                                      .block_tokens = BLOCK_TOKENS, .vocab_tokens = VOCAB};
    rig.engine.kv = arena_take(arena, (uint64_t)rig.engine.blocks * BLOCK_TOKENS,
                               sizeof(uint64_t));
    fake_engine_forget(&rig.engine);
    rig.fake.engine = fake_engine_run;
    rig.fake.engine_context = &rig.engine;
    rig.fake.engine_takes_us = 500;
    const struct loop_settings settings = {
        .can_doubt = true,
        .options = &rig.options, .limits = &rig.limits, .vocab = &rig.vocab, .model_name = "fake",
        .step = step, .drain_us = 1000000, .prefixes = &declared,
    };
    loop_init(&rig.loop, &settings, &rig.fake.world, arena);
}

static inline bool pass(const struct loop_orders *orders)
{
    static const int32_t listeners[NET_LISTENERS_MAX] = {FAKE_LISTENER_HANDLE(0), -1};
    bool goes_on = loop_pass(&rig.loop, orders, listeners);
    loop_check(&rig.loop);
    return goes_on;
}

static inline void client_connect(struct client *client)
{
    client->peer = fake_client_connect(&rig.fake, 0);
    assert_int_not_equal(client->peer, FAKE_NONE);
    assert_int_equal(agx_session_init(&client->agx, client->buffer, sizeof client->buffer),
                     AGX_OK);
    assert_int_equal(agx_session_hello(&client->agx), AGX_OK);
}

/* A call with a drawn prompt; the oracle's answer is kept to compare. */
static inline void client_call(struct client *client, uint32_t index)
{
    static const struct call_sampling no_stops;
    uint32_t prompt = 1 + draw(30), max_tokens = 1 + draw(CONTEXT - 30);
    struct agx_call call = {.call_id = index + 1, .max_tokens = max_tokens, .no_bos = 1,
                            .ignore_eos = 1};
    uint32_t *tokens = client->expected[index];
    call.program_id[0] = (uint8_t)(1 + (client - rig.clients));
    bool goes_on = index > 0 && draw(2) == 0;
    for (uint32_t i = 0; i < prompt; i++) {
        tokens[i] = goes_on ? client->expected[index - 1][i] : draw(VOCAB);
    }
    if (declared.count > 0 && draw(2) == 0) {
        const struct config_prefix *prefix = &declared.each[draw(declared.count)];
        uint32_t common = prefix->tokens_count < prompt ? prefix->tokens_count : prompt;
        memcpy(tokens, prefix->tokens, common * sizeof *tokens);
    }
    client->prompt[index] = prompt;
    client->expected_count[index] =
        fake_engine_oracle(&rig.engine, tokens, prompt, max_tokens, &no_stops);
    call.prompt_ids = tokens;
    call.prompt_ids_count = prompt;
    if (agx_session_call(&client->agx, &call) == AGX_OK) {
        client->sent++;
    }
}

static inline void client_event(struct client *client, const struct agx_event *event)
{
    uint32_t index = (uint32_t)event->call_id - 1;
    if (event->kind == AGX_TOKENS) {
        assert_true(index < CALLS_EACH);
        const uint32_t *expected = client->expected[index] + client->prompt[index];
        assert_int_equal(event->first_index, client->seen[index]);
        assert_true(client->may_lie ||
                    memcmp(event->tokens, expected + event->first_index,
                           event->tokens_count * sizeof(uint32_t)) == 0);
        client->seen[index] += event->tokens_count;
    } else if (event->kind == AGX_DONE) {
        if (!client->may_fail || event->finish != AGX_FINISH_FAILED) {
            assert_int_equal(event->finish, AGX_FINISH_LENGTH);
            assert_int_equal(client->seen[index], client->expected_count[index]);
        }
        client->done++;
    } else {
        client->refused += event->kind == AGX_REFUSED;
    }
}

static inline void client_move(struct client *client)
{
    uint32_t count = 0;
    struct agx_event event;
    const uint8_t *unsent = agx_session_unsent(&client->agx, &count);
    agx_session_sent(&client->agx, fake_client_send(&rig.fake, client->peer, unsent, count));
    uint8_t *room = agx_session_room(&client->agx, &count);
    agx_session_received(&client->agx, fake_client_recv(&rig.fake, client->peer, room, count));
    if (!client->greeted) {
        client->greeted = agx_session_welcome(&client->agx) == AGX_OK;
        return;
    }
    enum agx_result result = AGX_OK;
    while ((result = agx_session_next(&client->agx, &event)) == AGX_OK) {
        client_event(client, &event);
    }
    assert_int_equal(result, AGX_AGAIN);
    if (client->sent < CALLS_EACH && draw(4) == 0) {
        client_call(client, client->sent);
    }
}

static inline bool all_done(void)
{
    for (uint32_t i = 0; i < CLIENTS; i++) {
        if (!rig.clients[i].gone && rig.clients[i].done + rig.clients[i].refused < CALLS_EACH) {
            return false;
        }
    }
    return true;
}

/* Until all calls have ended; a condemned worker takes its KV along. */
static inline void run_until_done(void)
{
    const struct loop_orders orders = {.load_permille = 1000};
    uint64_t condemned = rig.fake.engine_condemned;
    for (uint32_t i = 0; i < PASSES_MAX && !all_done(); i++) {
        assert_true(pass(&orders));
        client_move(&rig.clients[i % CLIENTS]);
        if (rig.fake.engine_condemned != condemned) {
            condemned = rig.fake.engine_condemned;
            fake_engine_forget(&rig.engine);
        }
    }
    assert_true(all_done());
}

static inline void everything_is_back(void)
{
    const struct loop_orders orders = {.load_permille = 1000};
    for (uint32_t i = 0; i < 10000 && !(sched_is_idle(&rig.loop.sched) &&
                                        rig.loop.calls.free_count == rig.loop.calls.count); i++) {
        pass(&orders);
    }
    assert_true(sched_is_idle(&rig.loop.sched));
    assert_int_equal(kvmem_owned(&rig.loop.engines[0].kv), kvmem_declared(&rig.loop.engines[0].kv));
    assert_int_equal(rig.loop.calls.free_count, rig.loop.calls.count);
    const struct stats *stats = &rig.loop.stats;
    assert_int_equal(stats->engine_busy_us > 0, stats->steps + stats->steps_lost > 0);
    assert_true(stats->engine_busy_us <= rig.loop.now_us - rig.loop.started_us);
    assert_int_equal(stats->calls_accepted, stats->calls_completed + stats->calls_cancelled +
                                                stats->calls_expired + stats->calls_failed);
}

/* Faults of a run, besides the calls that its seed draws. */
struct faults {
    uint32_t transfer_max, again_every, kill_one_in, reset_one_in;
};

static inline void run_seed(uint64_t seed, const struct faults *faults)
{
    const struct loop_orders orders = {.load_permille = 1000};
    start(seed);
    rig.fake.transfer_max = faults->transfer_max;
    rig.fake.random = faults->transfer_max == 0 ? 0 : seed + 1;
    rig.fake.again_every = faults->again_every;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        client_connect(&rig.clients[i]);
    }
    for (uint32_t i = 0; i < PASSES_MAX && !all_done(); i++) {
        assert_true(pass(&orders));
        struct client *client = &rig.clients[i % CLIENTS];
        if (!client->gone) {
            client_move(client);
        }
        if (faults->kill_one_in != 0 && draw(faults->kill_one_in) == 0) {
            fake_engine_forget(&rig.engine);
            rig.fake.engine_dies = true;
        }
        if (faults->reset_one_in != 0 && client->sent > 0 && i % CLIENTS != 0 &&
            draw(faults->reset_one_in) == 0 && !client->gone) {
            fake_client_reset(&rig.fake, client->peer);
            client->gone = true;
        }
    }
    assert_true(all_done());
    everything_is_back();
}
