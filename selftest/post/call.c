/* SPDX-License-Identifier: MIT */
/*
 * What: the real loop in this process, over real sockets, with the engine called in place of a
 * worker: HELLO and the same CALL twice; both must end by length with consecutive indices, a true
 * digest and the same tokens.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "appliance/loop.h"
#include "appliance/world_linux.h"
#include "selftest/post/post.h"

#define CALL_TOKENS  8
#define PASSES_MAX   100000
#define CLIENT_BYTES 65536

struct in_place {                   /* a world whose engine runs inside submit() */
    struct world_linux base;        /* first: world.self is its address */
    struct kernels *kernels;
    struct step step;
    bool done;
};

struct client {
    int handle;
    uint8_t bytes[CLIENT_BYTES];
    uint32_t count;
    uint32_t tokens_seen, calls_done;
    uint64_t digest, first_digest;
    bool broken;
};

static void submit_in_place(void *self)
{
    struct in_place *world = self;
    kernels_run(world->kernels, &world->step);
    world->done = true;
}

static enum world_engine poll_in_place(void *self)
{
    struct in_place *world = self;
    bool done = world->done;
    world->done = false;
    return done ? WORLD_ENGINE_DONE : WORLD_ENGINE_IDLE;
}

static bool start_engine(struct boot *boot, struct in_place *world)
{
    struct arena arena;
    static volatile uint64_t heartbeat;
    if (world_linux_init(&world->base, &boot->shared) != STATUS_OK ||
        arena_map(&arena, plan_tier_bytes(&boot->plan, TIER_ENGINE), false) != STATUS_OK ||
        kernels_init(&world->kernels, &boot->engine, boot->weights, &arena, &heartbeat) !=
            STATUS_OK) {
        return false;
    }
    world->step = boot->step;
    world->base.world.engine_submit = submit_in_place;
    world->base.world.engine_poll = poll_in_place;
    return true;
}

/* An abstract address that the kernel chooses: nothing in the file system, nobody else knows it. */
static bool open_pair(int *listener, int *client)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t length = sizeof address;
    *listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    *client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return bind(*listener, (struct sockaddr *)&address, sizeof(sa_family_t)) == 0 &&
           listen(*listener, 1) == 0 &&
           getsockname(*listener, (struct sockaddr *)&address, &length) == 0 &&
           connect(*client, (struct sockaddr *)&address, length) == 0;
}

static bool send_call(const struct client *client, uint64_t call_id, uint32_t vocab_tokens)
{
    uint8_t frame[512];
    uint8_t prompt[4 * sizeof(uint32_t)];
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t token = (i * 5 + 1) % vocab_tokens;
        memcpy(prompt + i * sizeof token, &token, sizeof token);
    }
    const struct wire_call call = {
        .call_id = call_id,
        .flags = WIRE_CALL_IGNORE_EOS,
        .max_tokens = CALL_TOKENS,
        .sampling = {.seed = 7, .temperature = 1, .top_p = 1, .repeat_penalty = 1},
        .prompt_count = 4,
        .prompt = prompt,
    };
    uint32_t count = wire_call_encode(&call, frame, sizeof frame);
    return count > 0 && send(client->handle, frame, count, 0) == (ssize_t)count;
}

static bool send_hello(const struct client *client)
{
    uint8_t frame[256];
    const struct wire_hello hello = {.version_min = 1, .version_max = 1, .name = "selftest"};
    uint32_t count = wire_hello_encode(&hello, frame, sizeof frame);
    return count > 0 && send(client->handle, frame, count, 0) == (ssize_t)count;
}

static void take_tokens(struct client *client, const struct wire_tokens *tokens)
{
    client->broken = client->broken || tokens->first_index != client->tokens_seen;
    for (uint32_t i = 0; i < tokens->tokens_count; i++) {
        uint32_t token = 0;
        memcpy(&token, tokens->tokens + i * sizeof token, sizeof token);
        client->digest = wire_digest(client->digest, &token, 1);
    }
    client->tokens_seen += tokens->tokens_count;
}

static void take_done(struct client *client, const struct wire_done *done)
{
    bool good = done->finish == CALL_FINISH_LENGTH && done->generated_tokens == CALL_TOKENS &&
                client->tokens_seen == CALL_TOKENS && done->digest == client->digest;
    if (client->calls_done == 0) {
        client->first_digest = done->digest;
    }
    client->broken = client->broken || !good || done->digest != client->first_digest;
    client->calls_done++;
    client->tokens_seen = 0;
    client->digest = WIRE_DIGEST_START;
}

static void take_frame(struct client *client, uint8_t type, const uint8_t *payload,
                       uint32_t count)
{
    struct wire_fault fault;
    struct wire_tokens tokens;
    struct wire_done done;
    if (type == WIRE_TOKENS && wire_tokens_decode(payload, count, &tokens, &fault) == STATUS_OK) {
        take_tokens(client, &tokens);
    } else if (type == WIRE_DONE && wire_done_decode(payload, count, &done, &fault) == STATUS_OK) {
        take_done(client, &done);
    } else {
        client->broken = client->broken || (type != WIRE_WELCOME && type != WIRE_ACCEPT);
    }
}

static void client_read(struct client *client)
{
    struct wire_header header;
    struct wire_fault fault;
    ssize_t got = recv(client->handle, client->bytes + client->count,
                       CLIENT_BYTES - client->count, MSG_DONTWAIT);
    client->count += got > 0 ? (uint32_t)got : 0;
    while (client->count >= WIRE_HEADER_BYTES && !client->broken) {
        if (wire_header_decode(client->bytes, CLIENT_BYTES / 2, &header, &fault) != STATUS_OK) {
            client->broken = true;
            return;
        }
        uint32_t frame_bytes = WIRE_HEADER_BYTES + header.length_bytes;
        if (client->count < frame_bytes) {
            return;
        }
        take_frame(client, header.type, client->bytes + WIRE_HEADER_BYTES, header.length_bytes);
        client->count -= frame_bytes;
        memmove(client->bytes, client->bytes + frame_bytes, client->count);
    }
}

static bool build_loop(struct boot *boot, struct loop *loop, const struct world *world)
{
    struct arena arena;
    struct loop_settings settings;
    boot_loop_settings(boot, &settings);
    if (arena_map(&arena, plan_tier_bytes(&boot->plan, TIER_CORE), false) != STATUS_OK) {
        return false;
    }
    loop_init(loop, &settings, world, &arena);
    return true;
}

bool post_call(struct boot *boot)
{
    static struct in_place world;
    static struct loop loop;
    static struct client client = {.digest = WIRE_DIGEST_START};
    const struct loop_orders orders = {.load_permille = 1000};
    int32_t listeners[NET_LISTENERS_MAX] = {-1, -1};
    if (!start_engine(boot, &world) || !build_loop(boot, &loop, &world.base.world) ||
        !open_pair(&listeners[0], &client.handle) || !send_hello(&client) ||
        !send_call(&client, 1, boot->limits.vocab_tokens) ||
        !send_call(&client, 2, boot->limits.vocab_tokens)) {
        printf("call: cannot set up\n");
        return false;
    }
    for (uint32_t i = 0; i < PASSES_MAX && client.calls_done < 2 && !client.broken; i++) {
        loop_pass(&loop, &orders, listeners);
        loop_check(&loop);
        client_read(&client);
    }
    kernels_stop(world.kernels);
    printf("call: %u of 2 done, digest %016llx\n", client.calls_done,
           (unsigned long long)client.first_digest);
    return client.calls_done == 2 && !client.broken;
}
