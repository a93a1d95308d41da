/* SPDX-License-Identifier: MIT */
/*
 * Goal: the whole core, from bytes to bytes, gives every call the right tokens and everything back,
 * whatever the sockets and the engine do.
 * Method: the real loop over the fake world, clients through the SDK's machine, an engine whose
 * tokens betray every wrong block; faults drawn from seeds: short transfers, EAGAIN, resets, a slow
 * engine, workers that die. Half of the calls go on where the one before ended, KV is shared,
 * swapped and retained, by seed. Every invariant is checked after every pass.
 */
#define TEST_ARENA_BYTES (96u << 20)
#include "selftest/unit/test.h"

#include "appliance/loop.h"
#include "selftest/fake/fake_engine.h"
#include "selftest/fake/fake_world.h"
#include "tools/sdk/session.h"

enum {
    CLIENTS = 6, CALLS_EACH = 4, CONTEXT = 64, VOCAB = 50, BLOCK_TOKENS = 8, BLOCKS = 20,
    HOST_BLOCKS = 24, BATCH = 5, STANDBYS = 3, PREFILL = 16,
    PASSES_MAX = 200000,
};

struct client {
    uint32_t peer;
    struct agx agx;
    uint8_t buffer[AGX_BUFFER_BYTES_MIN];
    bool greeted, gone;
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

static uint32_t draw(uint32_t below)
{
    rig.random = rig.random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(rig.random >> 33) % below;
}

static void fill_limits(struct limits *limits)
{
    *limits = (struct limits){
        .programs = 8, .calls = CLIENTS * CALLS_EACH, .connections = CLIENTS + 2,
        .calls_per_connection = CALLS_EACH, .context_tokens = CONTEXT, .vocab_tokens = VOCAB,
        .batch_calls = BATCH, .standby_calls = STANDBYS, .steps_per_plan = 3,
        .prefill_tokens = PREFILL, .step_tokens = PREFILL + BATCH + STANDBYS,
        .kv_block_tokens = BLOCK_TOKENS, .kv_blocks = BLOCKS, .kv_host_blocks = HOST_BLOCKS,
        .retain_host_us = 100000, .retain_drop_us = 20000000,
        .blocks_per_call = CONTEXT / BLOCK_TOKENS, .frame_bytes = 65536, .send_bytes = 4096,
        .frames_per_pass = 8, .bytes_per_pass = 65536, .anteroom = 4,
        .anteroom_per_address = 4, .calls_per_key = 1,
        .commands = (CLIENTS + 2) * 8 + CLIENTS * CALLS_EACH,
        .engine_threads = 1, .text_slots = 2, .text_page_bytes = 32768,
    };
}

static void start(uint64_t seed)
{
    struct arena *arena = test_arena();
    memset(&rig, 0, sizeof rig);
    rig.random = seed * 977 + 1;
    fake_world_init(&rig.fake);
    config_defaults(&rig.options);
    rig.options.sched_quantum.number = 2000;
    static const char *const sharing[] = {"program", "domain", "off"};
    strcpy(rig.options.kv_sharing.text, sharing[seed % 3]);
    strcpy(rig.options.sched_prefetch.text, seed % 2 == 0 ? "no" : "yes");
    fill_limits(&rig.limits);
    rig.limits.retain_device_us = seed % 5 * 10000;
    rig.vocab.info.tokens = VOCAB;
    rig.vocab.info.bos_id = rig.vocab.info.eos_id = GGUF_NO_TOKEN;
    rig.vocab.info.unk_id = rig.vocab.info.eot_id = GGUF_NO_TOKEN;
    struct step step;
    step_layout_init(&step.layout, BATCH + STANDBYS, rig.limits.steps_per_plan,
                     rig.limits.step_tokens, rig.limits.blocks_per_call,
                     kvmem_moves_max(BLOCKS));
    step.base = arena_take(arena, 1, step.layout.total_bytes);
    rig.engine = (struct fake_engine){.step = step, .blocks = BLOCKS + HOST_BLOCKS,
                                      .device_blocks = BLOCKS,
                                      .block_tokens = BLOCK_TOKENS, .vocab_tokens = VOCAB};
    rig.engine.kv = arena_take(arena, (uint64_t)rig.engine.blocks * BLOCK_TOKENS,
                               sizeof(uint64_t));
    fake_engine_forget(&rig.engine);
    rig.fake.engine = fake_engine_run;
    rig.fake.engine_context = &rig.engine;
    rig.fake.engine_takes_us = 500;
    const struct loop_settings settings = {
        .options = &rig.options, .limits = &rig.limits, .vocab = &rig.vocab, .model_name = "fake",
        .step = step, .drain_us = 1000000,
    };
    loop_init(&rig.loop, &settings, &rig.fake.world, arena);
}

static bool pass(const struct loop_orders *orders)
{
    static const int32_t listeners[NET_LISTENERS_MAX] = {FAKE_LISTENER_HANDLE(0), -1};
    bool goes_on = loop_pass(&rig.loop, orders, listeners);
    loop_check(&rig.loop);
    return goes_on;
}

static void client_connect(struct client *client)
{
    client->peer = fake_client_connect(&rig.fake, 0);
    assert_int_not_equal(client->peer, FAKE_NONE);
    assert_int_equal(agx_session_init(&client->agx, client->buffer, sizeof client->buffer),
                     AGX_OK);
    assert_int_equal(agx_session_hello(&client->agx), AGX_OK);
}

/* A call with a drawn prompt; the oracle's answer is kept to compare. */
static void client_call(struct client *client, uint32_t index)
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
    client->prompt[index] = prompt;
    client->expected_count[index] =
        fake_engine_oracle(&rig.engine, tokens, prompt, max_tokens, &no_stops);
    call.prompt_ids = tokens;
    call.prompt_ids_count = prompt;
    if (agx_session_call(&client->agx, &call) == AGX_OK) {
        client->sent++;
    }
}

static void client_event(struct client *client, const struct agx_event *event)
{
    uint32_t index = (uint32_t)event->call_id - 1;
    if (event->kind == AGX_TOKENS) {
        assert_true(index < CALLS_EACH);
        const uint32_t *expected = client->expected[index] + client->prompt[index];
        assert_int_equal(event->first_index, client->seen[index]);
        assert_memory_equal(event->tokens, expected + event->first_index,
                            event->tokens_count * sizeof(uint32_t));
        client->seen[index] += event->tokens_count;
    } else if (event->kind == AGX_DONE) {
        assert_int_equal(event->finish, AGX_FINISH_LENGTH);
        assert_int_equal(client->seen[index], client->expected_count[index]);
        client->done++;
    } else {
        client->refused += event->kind == AGX_REFUSED;
    }
}

static void client_move(struct client *client)
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

static bool all_done(void)
{
    for (uint32_t i = 0; i < CLIENTS; i++) {
        if (!rig.clients[i].gone && rig.clients[i].done < CALLS_EACH) {
            return false;
        }
    }
    return true;
}

static void everything_is_back(void)
{
    const struct loop_orders orders = {.load_permille = 1000};
    for (uint32_t i = 0; i < 10000 && !(sched_is_idle(&rig.loop.sched) &&
                                        rig.loop.calls.free_count == rig.loop.calls.count); i++) {
        pass(&orders);
    }
    assert_true(sched_is_idle(&rig.loop.sched));
    assert_int_equal(kvmem_owned(&rig.loop.kv), 0);
    assert_int_equal(rig.loop.calls.free_count, rig.loop.calls.count);
    const struct stats *stats = &rig.loop.stats;
    assert_true(stats->engine_busy_us > 0);
    assert_true(stats->engine_busy_us <= rig.loop.now_us - rig.loop.started_us);
    assert_int_equal(stats->calls_accepted, stats->calls_completed + stats->calls_cancelled +
                                                stats->calls_expired + stats->calls_failed);
}

/* What a seed may do to the run besides drawing the calls. */
struct faults {
    uint32_t transfer_max, again_every, kill_one_in, reset_one_in;
};

static void run_seed(uint64_t seed, const struct faults *faults)
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

static void test_calls_end_with_the_right_tokens(void **state)
{
    struct stats seen = {0};
    for (uint64_t seed = 0; seed < 20; seed++) {
        run_seed(seed, &(struct faults){0});
        assert_int_equal(rig.loop.stats.calls_completed, CLIENTS * CALLS_EACH);
        sched_report(&rig.loop.sched);
        seen.prefix_hit_tokens += rig.loop.stats.prefix_hit_tokens;
        seen.swap_in_blocks += rig.loop.stats.swap_in_blocks;
        seen.standbys_entered += rig.loop.stats.standbys_entered;
    }
    assert_true(seen.prefix_hit_tokens > 0 && seen.swap_in_blocks > 0);
    assert_true(seen.standbys_entered > 0);
}

static void test_short_transfers_and_eagain_change_nothing(void **state)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        run_seed(seed, &(struct faults){.transfer_max = 1 + (uint32_t)seed * 5,
                                        .again_every = 2 + (uint32_t)seed % 5});
    }
}

static void test_dying_workers_cost_no_token(void **state)
{
    uint64_t lost = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        run_seed(seed, &(struct faults){.kill_one_in = 40});
        lost += rig.loop.stats.steps_lost;
    }
    assert_true(lost > 20);
}

static void test_resets_give_everything_back_and_hurt_nobody(void **state)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        run_seed(seed, &(struct faults){.reset_one_in = 60, .transfer_max = 200,
                                        .kill_one_in = 200});
    }
}

static void test_drain_ends_after_the_last_call(void **state)
{
    struct loop_orders orders = {.load_permille = 1000};
    start(1);
    client_connect(&rig.clients[0]);
    for (uint32_t i = 0; i < 1000 && rig.clients[0].sent < CALLS_EACH; i++) {
        assert_true(pass(&orders));
        client_move(&rig.clients[0]);
    }
    orders.drain = true;
    uint32_t passes = 0;
    while (pass(&orders)) {
        client_move(&rig.clients[0]);
        assert_true(passes++ < PASSES_MAX);
    }
    client_move(&rig.clients[0]);
    assert_int_equal(rig.clients[0].done + rig.clients[0].refused, CALLS_EACH);
}

/* The engine has nothing to do, so nothing can be moved; what is due is forgotten all the same, and
 * the loop sleeps from one tick to the next. */
static void test_an_idle_loop_forgets_what_was_kept_long_enough(void **state)
{
    const struct loop_orders orders = {.load_permille = 1000};
    uint32_t passes = 0;
    run_seed(1, &(struct faults){0});
    const struct kvmem *kv = &rig.loop.kv;
    assert_true(kvmem_free(kv) < BLOCKS || kvmem_host_used(kv) > 0);
    uint64_t until_us = rig.fake.now_us + 21000000;
    for (; rig.fake.now_us < until_us; passes++) {
        assert_true(pass(&orders));
    }
    assert_int_equal(kvmem_free(kv), BLOCKS);
    assert_int_equal(kvmem_host_used(kv), 0);
    assert_true(passes < 200);
}

static void test_a_gap_in_time_expires_nothing(void **state)
{
    const struct loop_orders orders = {.load_permille = 1000};
    start(2);
    client_connect(&rig.clients[0]);
    for (uint32_t i = 0; i < PASSES_MAX && rig.clients[0].done < CALLS_EACH; i++) {
        assert_true(pass(&orders));
        client_move(&rig.clients[0]);
        if (i == 20) {
            rig.fake.now_us += UINT64_C(600000000);     /* ten minutes of SIGSTOP */
        }
    }
    assert_int_equal(rig.clients[0].done, CALLS_EACH);
}

static uint64_t stopped_heart(void *self)
{
    return 7;
}

/* Goes on for `us` of the world's time; the text port has nobody, so gauges are taken here. */
static void wait_us(uint64_t us, struct health *health)
{
    const struct loop_orders orders = {.load_permille = 1000};
    static const int32_t listeners[NET_LISTENERS_MAX] = {FAKE_LISTENER_HANDLE(0), -1};
    uint64_t until_us = rig.fake.now_us + us;
    while (rig.fake.now_us < until_us) {
        assert_true(loop_pass(&rig.loop, &orders, listeners));
    }
    sched_report(&rig.loop.sched);
    loop_health(&rig.loop, &orders, health);
}

static void test_health_is_ready_while_there_is_nothing_to_do(void **state)
{
    struct health health;
    start(3);
    wait_us(5000000, &health);
    assert_int_equal(health.state, HEALTH_READY);
    assert_true(health.moves);
}

static void test_health_leaves_ready_when_calls_wait_and_no_plan_comes(void **state)
{
    struct health health;
    start(4);
    rig.loop.sched.settings.batch_calls = 0;        /* a scheduler that chooses nobody */
    client_connect(&rig.clients[0]);
    for (uint32_t i = 0; i < 200 && rig.clients[0].sent == 0; i++) {
        wait_us(1000, &health);
        client_move(&rig.clients[0]);
    }
    client_move(&rig.clients[0]);
    wait_us(5000000, &health);
    assert_int_equal(health.state, HEALTH_DEGRADED);
    assert_string_equal(health.reason, "no progress");
    assert_false(health.moves);
}

static void test_health_leaves_ready_when_the_heart_stops(void **state)
{
    struct health health;
    start(5);
    wait_us(100000, &health);
    assert_int_equal(health.state, HEALTH_READY);
    rig.fake.world.engine_heartbeat = stopped_heart;
    wait_us(2000000, &health);
    assert_int_equal(health.state, HEALTH_DEGRADED);
    assert_string_equal(health.reason, "engine silent");
    assert_false(health.moves);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_end_with_the_right_tokens),
        cmocka_unit_test(test_short_transfers_and_eagain_change_nothing),
        cmocka_unit_test(test_dying_workers_cost_no_token),
        cmocka_unit_test(test_resets_give_everything_back_and_hurt_nobody),
        cmocka_unit_test(test_drain_ends_after_the_last_call),
        cmocka_unit_test(test_an_idle_loop_forgets_what_was_kept_long_enough),
        cmocka_unit_test(test_a_gap_in_time_expires_nothing),
        cmocka_unit_test(test_health_is_ready_while_there_is_nothing_to_do),
        cmocka_unit_test(test_health_leaves_ready_when_calls_wait_and_no_plan_comes),
        cmocka_unit_test(test_health_leaves_ready_when_the_heart_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
