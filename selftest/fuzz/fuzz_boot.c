/* SPDX-License-Identifier: MIT */
/*
 * Goal: a configuration that boots is one that serves: the plan's memory is what the loop takes, to
 * the byte, and passes go on, with a client that connects, until it drains. What does not boot is
 * refused by a message.
 * Method: the input is the INI file, over small defaults; the model is 512 words without weights.
 * Plans beyond PLAN_BYTES_MAX are planned only. Engines compute nothing: they answer.
 */
#include <string.h>
#include <sys/mman.h>

#include "appliance/loop.h"
#include "config/access.h"
#include "config/keys.h"
#include "config/model/gguf.h"
#include "config/prefixes.h"
#include "config/vocab/vocab.h"
#include "selftest/fake/fake_world.h"
#include "selftest/fuzz/message.h"
#include "selftest/fuzz/option_words.h"

#define PLAN_BYTES_MAX (UINT64_C(64) << 20)
#define PASSES         40
#define PASS_US        20000

static const char small[] =
    "[limits]\ncalls = 8\nprograms = 16\nconnections = 8\ncontext_tokens = 64\nclasses = 8\n"
    "ended = 16\nreplies = 4\n[workflow]\nworkflows = 0\ncache = 0\n[kv]\nblock_tokens = 16\n"
    "[sched]\nbatch = 4\n";

/* Of one input. What most never come to stands apart: clearing it would take half the time. */
static struct {
    struct options options;
    struct limits limits;
    struct vocab vocab;
} of;

static struct {
    struct loop loop;
    struct fake_world fake;
    struct arena arena;
} booted;

static struct config_keys no_keys;
static struct config_prefixes no_prefixes;
static struct options defaults;
static uint8_t *memory;

static void begin(void)
{
    struct config_error error;
    config_defaults(&defaults);
    ASSERT(config_load_bytes(&defaults, "small", small, sizeof small - 1, &error) == STATUS_OK);
    memory = mmap(NULL, PLAN_BYTES_MAX, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT(memory != MAP_FAILED);
}

/* As boot does it, without the files that options name. */
static enum status configure(const uint8_t *bytes, size_t count, struct loop_settings *settings,
                             struct config_error *error)
{
    static const struct model_shape shape = {.vocab_tokens = 512, .context_tokens = 4096};
    static const struct config_machine machine = {.cpus = 4};
    TRY(config_load_bytes(&of.options, "fuzz.ini", (const char *)bytes, count, error));
    TRY(config_check(&of.options, error));
    of.options.auth_uids.text[0] = of.options.auth_gids.text[0] = '\0';
    TRY(config_access_fill(&settings->access, &of.options, 0, error));
    TRY(config_limits(&of.limits, &of.options, &shape, &machine, error));
    config_limits_choose_kv(&of.limits, of.limits.kv_blocks_least);
    return config_quotas_check(&no_keys, &of.limits, error);
}

/* False: more than is worth the time. */
static bool take_memory(struct loop_settings *settings)
{
    static struct memory_plan plan;
    uint32_t engines = of.limits.engines;
    memset(&plan, 0, sizeof plan);
    settings->step.layout = loop_step_layout(&of.limits);
    loop_plan_memory(&plan, &of.options, &of.limits, &of.vocab.info);
    uint64_t bytes = loop_memory_bytes(&plan);
    uint64_t steps = engines * settings->step.layout.total_bytes;
    if (bytes > PLAN_BYTES_MAX || steps > PLAN_BYTES_MAX - bytes) {
        return false;
    }
    madvise(memory, PLAN_BYTES_MAX, MADV_DONTNEED);
    arena_init(&booted.arena, memory, bytes);
    settings->step.base = memory + bytes;
    return true;
}

/* It drains at once where calls are, and there are none. */
static void serve(void)
{
    static const int32_t listeners[NET_LISTENERS_MAX] = {FAKE_LISTENER_HANDLE(0), -1};
    struct loop_orders orders = {.load_permille = 1000, .idle_us = PASS_US};
    int32_t peer = FAKE_NONE;
    bool goes_on = true;
    for (uint32_t pass = 0; pass < PASSES && goes_on; pass++) {
        orders.drain = pass > PASSES / 2;
        goes_on = loop_pass(&booted.loop, &orders, listeners);
        loop_check(&booted.loop);
        peer = pass == PASSES / 4 ? fake_client_connect(&booted.fake, 0) : peer;
        booted.fake.now_us += PASS_US;
    }
    ASSERT(booted.arena.used_bytes == booted.arena.size_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct config_error error = {{0}};
    if (memory == NULL) {
        begin();
    }
    memset(&of, 0, sizeof of);
    of.options = defaults;
    of.vocab.info = (struct gguf_vocab_info){
        .tokens = 512, .bos_id = GGUF_NO_TOKEN, .eos_id = GGUF_NO_TOKEN, .unk_id = GGUF_NO_TOKEN,
        .eot_id = GGUF_NO_TOKEN};
    struct loop_settings settings = {
        .options = &of.options, .limits = &of.limits, .vocab = &of.vocab, .model_name = "fuzzed",
        .keys = &no_keys, .prefixes = &no_prefixes};
    if (configure(bytes, count, &settings, &error) != STATUS_OK) {
        message_check(&error);
        return 0;
    }
    settings.drain_us = of.options.limits_drain.number;
    if (take_memory(&settings)) {
        memset(&booted.loop, 0, sizeof booted.loop);
        memset(&booted.fake, 0, sizeof booted.fake);
        fake_world_init(&booted.fake);
        loop_init(&booted.loop, &settings, &booted.fake.world, &booted.arena);
        ASSERT(booted.arena.used_bytes == booted.arena.size_bytes);
        loop_check(&booted.loop);
        if (of.limits.engines == 1) {   /* the fake world's */
            serve();
        }
    }
    return 0;
}

void dictionary_write(void)
{
    option_words_write();
}
