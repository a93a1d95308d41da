/* SPDX-License-Identifier: MIT */
/*
 * What: the real loop in this process, over real sockets, with the engine called in place of a
 * worker. Calls run alone, one after the other, then all at once, in rounds. Every answer must end
 * by length, with consecutive indices, a true digest, and the tokens that it had alone. For the
 * embedded model the canary's tokens are known, too.
 * Bounds: PASSES_MAX passes without a call that ends are too many.
 */
#include "selftest/post/call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "appliance/loop.h"
#include "appliance/world_linux.h"
#include "config/base/assert.h"
#include "config/base/bounds.h"
#include "selftest/post/known.h"

#define CANARY_PROMPT  4u
#define CANARY_TOKENS  8u
#define PROMPT_MAX     96u          /* of other calls */
#define TOKENS_MAX     24u
#define PROGRAMS_MAX   7u
#define PASSES_MAX     1000000u

struct in_place {                   /* a world whose engine runs inside submit() */
    struct world_linux base;        /* first: world.self is its address */
    struct kernels *kernels;
    struct step step;
    bool done;
    uint64_t heartbeat;
};

struct serving {
    struct in_place world;
    struct loop loop;
    struct post_client client;
    int32_t listeners[NET_LISTENERS_MAX];
};

static void submit_in_place(void *self, uint32_t engine)
{
    struct in_place *world = self;
    ASSERT(engine == 0);
    kernels_run(world->kernels, &world->step);
    world->done = true;
    control_ring(world->base.shared.engine_bell);
}

static enum world_engine poll_in_place(void *self, uint32_t engine)
{
    struct in_place *world = self;
    ASSERT(engine == 0);
    bool done = world->done;
    world->done = false;
    return done ? WORLD_ENGINE_DONE : WORLD_ENGINE_IDLE;
}

static void ask_in_place(void *self, uint32_t engine)
{
    ASSERT(engine == 0);
    ((struct in_place *)self)->heartbeat++;
}

static uint64_t heartbeat_in_place(void *self, uint32_t engine)
{
    ASSERT(engine == 0);
    return ((struct in_place *)self)->heartbeat;
}

static bool start_engine(const struct boot *boot, struct arena *arena, struct in_place *world)
{
    if (world_linux_init(&world->base, &boot->shared, &boot->step, &boot->pockets) !=
            STATUS_OK ||
        kernels_init(&world->kernels, &boot->engine, boot->weights, arena, &world->heartbeat) !=
            STATUS_OK) {
        return false;
    }
    world->step = boot->step;
    world->base.world.engine_submit = submit_in_place;
    world->base.world.engine_poll = poll_in_place;
    world->base.world.engine_ask = ask_in_place;
    world->base.world.engine_heartbeat = heartbeat_in_place;
    return true;
}

/* An abstract address that the kernel chooses: not in the file system, and unknown to others. */
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

/* ---- the client's calls ---- */

void post_client_init(struct post_client *client, const struct limits *limits, uint32_t calls,
                      struct post_faults *faults)
{
    memset(client, 0, sizeof *client);
    client->vocab_tokens = limits->vocab_tokens;
    client->context_tokens = limits->context_tokens;
    client->calls_count = lesser(lesser(calls, POST_CALLS_MAX), limits->calls_per_connection);
    client->programs_count = lesser(limits->programs, PROGRAMS_MAX);
    client->faults = faults;
}

struct shape {                      /* of a call */
    uint32_t prompt, tokens;
    uint64_t seed;
};

static struct shape shape_of(const struct post_client *client, uint32_t call)
{
    struct shape shape = {.prompt = CANARY_PROMPT, .tokens = CANARY_TOKENS, .seed = 7};
    if (call % POST_CANARY_EVERY != 0) {
        shape.seed = splitmix_at(1, call);
        shape.prompt = 1 + (uint32_t)(shape.seed % PROMPT_MAX);
        shape.tokens = 1 + (uint32_t)(shape.seed / PROMPT_MAX % TOKENS_MAX);
    }
    shape.tokens = lesser(shape.tokens, client->context_tokens - 1);
    shape.prompt = lesser(shape.prompt, client->context_tokens - shape.tokens);
    return shape;
}

uint32_t post_client_encode(const struct post_client *client, uint32_t call, uint8_t *frame,
                            uint32_t max)
{
    uint8_t prompt[PROMPT_MAX * sizeof(uint32_t)];
    struct shape shape = shape_of(client, call);
    for (uint32_t i = 0; i < shape.prompt; i++) {
        uint32_t token = (i * 5 + 1) % client->vocab_tokens;
        if (call % POST_CANARY_EVERY != 0) {
            token = (uint32_t)(splitmix_at(shape.seed, i) % client->vocab_tokens);
        }
        memcpy(prompt + i * sizeof token, &token, sizeof token);
    }
    struct wire_call wire = {
        .call_id = call + 1,
        .flags = WIRE_CALL_IGNORE_EOS,
        .max_tokens = shape.tokens,
        .sampling = {.seed = shape.seed, .temperature = 1, .top_p = 1, .repeat_penalty = 1},
        .prompt_count = shape.prompt,
        .prompt = prompt,
    };
    uint64_t program = client->round * PROGRAMS_MAX + call % client->programs_count + 1;
    memcpy(wire.program_id, &program, sizeof program);
    return wire_call_encode(&wire, frame, max);
}

static void take_tokens(struct post_client *client, const struct wire_tokens *tokens)
{
    uint32_t call = (uint32_t)tokens->call_id - 1;
    if (tokens->call_id - 1 >= client->calls_count) {
        post_fault_say(client->faults, "tokens of a call that was not made");
        return;
    }
    struct post_asked *asked = &client->asked[call];
    if (tokens->first_index != asked->tokens_seen) {
        post_fault_say(client->faults, "call %u: token %u came where %u is next", call,
                       tokens->first_index, asked->tokens_seen);
    }
    for (uint32_t i = 0; i < tokens->tokens_count; i++) {
        uint32_t token = 0;
        memcpy(&token, tokens->tokens + i * sizeof token, sizeof token);
        asked->digest = wire_digest(asked->digest, &token, 1);
    }
    asked->tokens_seen += tokens->tokens_count;
}

/* Compares a DONE frame with the tokens received, and with the answer that the call had alone. */
static void compare_done(struct post_client *client, uint32_t call, const struct wire_done *done)
{
    struct post_asked *asked = &client->asked[call];
    uint32_t tokens = shape_of(client, call).tokens;
    if (done->finish != CALL_FINISH_LENGTH || done->generated_tokens != tokens ||
        asked->tokens_seen != tokens) {
        post_fault_say(client->faults, "call %u: ended by %u after %u tokens, %u came, %u asked",
                       call, done->finish, done->generated_tokens, asked->tokens_seen, tokens);
    } else if (done->digest != asked->digest) {
        post_fault_say(client->faults, "call %u: digest %016llx, its tokens have %016llx", call,
                       (unsigned long long)done->digest, (unsigned long long)asked->digest);
    } else if (asked->is_known && asked->digest != asked->known) {
        post_fault_say(client->faults, "call %u: digest %016llx among others, alone %016llx", call,
                       (unsigned long long)asked->digest, (unsigned long long)asked->known);
    }
}

static void take_done(struct post_client *client, const struct wire_done *done)
{
    if (done->call_id - 1 >= client->calls_count ||
        client->asked[done->call_id - 1].done) {
        post_fault_say(client->faults, "an end of a call that was not made, or has ended");
        return;
    }
    struct post_asked *asked = &client->asked[done->call_id - 1];
    compare_done(client, (uint32_t)done->call_id - 1, done);
    asked->known = asked->is_known ? asked->known : asked->digest;
    asked->is_known = true;
    asked->done = true;
    client->done_count++;
    client->calls_total++;
}

void post_client_take(struct post_client *client, uint8_t type, const uint8_t *payload,
                      uint32_t count)
{
    struct wire_fault fault;
    struct wire_tokens tokens;
    struct wire_done done;
    if (type == WIRE_TOKENS && wire_tokens_decode(payload, count, &tokens, &fault) == STATUS_OK) {
        take_tokens(client, &tokens);
    } else if (type == WIRE_DONE && wire_done_decode(payload, count, &done, &fault) == STATUS_OK) {
        take_done(client, &done);
    } else if (type != WIRE_WELCOME && type != WIRE_ACCEPT) {
        post_fault_say(client->faults, "a frame %s that nothing asked for, or a bad one",
                       wire_type_name(type));
    }
}

/* ---- the client's socket; the server is in the same thread, so nothing here waits ---- */

static void client_read(struct post_client *client)
{
    struct wire_header header;
    struct wire_fault fault;
    ssize_t got = recv(client->handle, client->in + client->in_count,
                       POST_CLIENT_BYTES - client->in_count, MSG_DONTWAIT);
    client->in_count += got > 0 ? (uint32_t)got : 0;
    while (client->in_count >= WIRE_HEADER_BYTES && client->faults->count == 0) {
        if (wire_header_decode(client->in, POST_CLIENT_BYTES / 2, &header, &fault) != STATUS_OK) {
            post_fault_say(client->faults, "a frame without a right header");
            return;
        }
        uint32_t frame_bytes = WIRE_HEADER_BYTES + header.length_bytes;
        if (client->in_count < frame_bytes) {
            return;
        }
        post_client_take(client, header.type, client->in + WIRE_HEADER_BYTES, header.length_bytes);
        client->in_count -= frame_bytes;
        memmove(client->in, client->in + frame_bytes, client->in_count);
    }
}

static void client_write(struct post_client *client)
{
    ssize_t sent = send(client->handle, client->out + client->out_sent,
                        client->out_count - client->out_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    client->out_sent += sent > 0 ? (uint32_t)sent : 0;
    if (client->out_sent == client->out_count) {
        client->out_sent = client->out_count = 0;
    }
}

static void client_ask(struct post_client *client, uint32_t call)
{
    uint32_t bytes = post_client_encode(client, call, client->out + client->out_count,
                                        POST_CLIENT_BYTES - client->out_count);
    if (bytes == 0) {
        post_fault_say(client->faults, "call %u does not fit the client's buffer", call);
    }
    client->asked[call].tokens_seen = 0;
    client->asked[call].digest = WIRE_DIGEST_START;
    client->asked[call].done = false;
    client->out_count += bytes;
}

static void client_hello(struct post_client *client)
{
    const struct wire_hello hello = {.version_min = 1, .version_max = 1, .name = "selftest"};
    client->out_count = wire_hello_encode(&hello, client->out, sizeof client->out);
}

/* ---- the check ---- */

static void plan_call(const struct post *post, struct memory_plan *plan)
{
    const struct boot *boot = post->boot;
    memory_plan_add(plan, MEMORY_SELFTEST, "call serving", 1, sizeof(struct serving));
    kernels_plan_memory(plan, &boot->engine, &boot->gguf->shape);
    loop_plan_memory(plan, &boot->options, &boot->limits, &boot->gguf->vocab);
}

static void *init_call(const struct post *post, struct arena *arena)
{
    struct serving *serving = arena_take(arena, 1, sizeof *serving);
    struct loop_settings settings;
    boot_loop_settings(post->boot, &settings);
    for (uint32_t i = 0; i < NET_LISTENERS_MAX; i++) {
        serving->listeners[i] = -1;
    }
    if (!start_engine(post->boot, arena, &serving->world)) {
        return NULL;
    }
    loop_init(&serving->loop, &settings, &serving->world.base.world, arena);
    return serving;
}

/* Passes until `count` calls of the round have ended. */
static void serve(struct serving *serving, uint32_t count)
{
    const struct loop_orders orders = {.load_permille = 1000};
    struct post_client *client = &serving->client;
    uint32_t before = client->done_count;
    for (uint32_t passes = 0; client->done_count < count && client->faults->count == 0; passes++) {
        client_write(client);
        loop_pass(&serving->loop, &orders, serving->listeners);
        loop_check(&serving->loop);
        client_read(client);
        passes = client->done_count == before ? passes : 0;
        before = client->done_count;
        if (passes == PASSES_MAX) {
            post_fault_say(client->faults, "%u of %u calls have ended, and no more do", before,
                           count);
        }
    }
}

static void serve_alone(struct serving *serving)
{
    struct post_client *client = &serving->client;
    client->done_count = 0;
    for (uint32_t i = 0; i < client->calls_count; i++) {
        client_ask(client, i);
        serve(serving, i + 1);
    }
}

/* All calls at once, in another order in each round. */
static void serve_together(struct serving *serving)
{
    struct post_client *client = &serving->client;
    uint32_t turn = (uint32_t)splitmix_at(client->round, 0);
    client->done_count = 0;
    client->round++;
    for (uint32_t i = 0; i < client->calls_count; i++) {
        client_ask(client, (i + turn % client->calls_count) % client->calls_count);
    }
    serve(serving, client->calls_count);
}

/* Canaries are the same call: all must have had the answer of the first. */
static void compare_canaries(const struct post *post, const struct post_client *client,
                             struct post_faults *faults)
{
    uint64_t first = client->asked[0].known;
    if (client->context_tokens > CANARY_PROMPT + CANARY_TOKENS) {
        post_known_compare(post, "canary", first,
                           POST_KNOWN_CANARY[post->boot->engine.kv_type], faults);
    }
    for (uint32_t i = 0; i < client->calls_count; i += POST_CANARY_EVERY) {
        if (client->asked[i].known != first) {
            post_fault_say(faults, "canary %u: digest %016llx, of the first it is %016llx", i,
                           (unsigned long long)client->asked[i].known, (unsigned long long)first);
        }
    }
}

static void run_call(void *state, const struct post *post, uint32_t variant,
                     struct post_outcome *outcome)
{
    struct serving *serving = state;
    struct post_client *client = &serving->client;
    uint32_t calls = post->settings.level == POST_QUICK ? 1 : POST_CALLS_MAX;
    uint64_t end_us = clock_us(CLOCK_MONOTONIC) + post->rounds_us;
    post_client_init(client, &post->boot->limits, calls, &outcome->faults);
    if (!open_pair(&serving->listeners[0], &client->handle)) {
        post_fault_say(&outcome->faults, "cannot open a socket: %s", strerror(errno));
        return;
    }
    client_hello(client);
    serve_alone(serving);
    do {
        serve_together(serving);
    } while (clock_us(CLOCK_MONOTONIC) < end_us && outcome->faults.count == 0);
    compare_canaries(post, client, &outcome->faults);
    snprintf(outcome->amount, sizeof outcome->amount, "%llu calls, %016llx",
             (unsigned long long)client->calls_total, (unsigned long long)client->asked[0].known);
}

const struct post_check post_call = {plan_call, init_call, run_call};
