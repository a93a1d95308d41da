/* SPDX-License-Identifier: MIT */
/*
 * What: draws the run; see swarm.h. It sets values as an operator would: so the appliance accepts
 * them, and the report of a failure can name them.
 */
#include "selftest/sim/swarm.h"

#include <stdarg.h>
#include <string.h>

#include "config/options.h"
#include "selftest/sim/sim.h"

#define SEND_BYTES_MIN 4096         /* options.def */

static const struct fault_row {
    const char *name, *text;
} fault_rows[SIM_FAULTS] = {
#define FAULT(name, text) {#name, text},
#include "selftest/sim/faults.def"
#undef FAULT
};

const char *sim_fault_name(enum sim_fault fault)
{
    return fault_rows[fault].name;
}

void swarm_set(struct sim *sim, const char *assignment)
{
    struct config_error error;
    sim_say(sim, "set %s", assignment);
    if (config_set(&sim->options, assignment, &error) != STATUS_OK) {
        sim_fail(sim, INVARIANT_WORLD, "%s", error.text);
    }
}

void swarm_setf(struct sim *sim, const char *format, ...)
{
    char assignment[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(assignment, sizeof assignment, format, arguments);
    va_end(arguments);
    swarm_set(sim, assignment);
}

/* Small values are likelier: with them pools run empty. */
static uint32_t small(struct sim *sim, uint32_t low, uint32_t high)
{
    return sim_between(sim, low, sim_between(sim, low, high));
}

static const char *word(struct sim *sim, const char *const *words, uint32_t count)
{
    return words[sim_choose(sim, count)];
}

/* Any word of the option. */
static const char *any(struct sim *sim, const char *section, const char *key)
{
    const struct option_row *row = config_options_find(section, key);
    return row->words[sim_choose(sim, row->words_count)].word;
}

static void draw_active_set(struct sim *sim)
{
    uint32_t most = sim_choose(sim, 3);
    if (most == 0) {
        swarm_setf(sim, "sched.active_set=off");
    } else if (most == 1) {
        swarm_setf(sim, "sched.active_set=auto");
    } else {
        swarm_setf(sim, "sched.active_set=%u", small(sim, 1, 16));
    }
    swarm_setf(sim, "sched.exchange_share=0.%03u", 1 + sim_choose(sim, 999));
    swarm_setf(sim, "sched.small_share=0.%u", sim_choose(sim, 4));
}

static void draw_balance(struct sim *sim)
{
    swarm_setf(sim, "sched.balance=%s", any(sim, "sched", "balance"));
    swarm_setf(sim, "sched.balance_tokens=%u", sim_choose(sim, 2) * small(sim, 1, SIM_CONTEXT_MAX));
}

static void draw_speculation(struct sim *sim)
{
    swarm_setf(sim, "sched.speculate=%u", sim_choose(sim, 2) * small(sim, 1, STEP_DRAFTS_MAX));
    swarm_setf(sim, "sched.recall=%u", small(sim, 0, 64));
}

static void draw_sched(struct sim *sim)
{
    swarm_setf(sim, "sched.policy=%s", any(sim, "sched", "policy"));
    swarm_setf(sim, "sched.service=%s", any(sim, "sched", "service"));
    swarm_setf(sim, "sched.queues=%u", sim_between(sim, 1, 6));
    if (sim_choose(sim, 4) == 0) {
        swarm_setf(sim, "sched.quantum=auto");
    } else {
        swarm_setf(sim, "sched.quantum=%lluus", 1 + (unsigned long long)sim_time(sim, 200000));
    }
    swarm_setf(sim, "sched.quantum_growth=%u", sim_between(sim, 1, 4));
    swarm_setf(sim, "sched.beta=%u", sim_choose(sim, 2) * small(sim, 1, 64));
    swarm_setf(sim, "sched.wait_max=%lluus",
               sim_choose(sim, 2) * (1 + (unsigned long long)sim_time(sim, 10 * SIM_SECOND_US)));
    swarm_setf(sim, "sched.steps_per_plan=%u", sim_between(sim, 1, 10));
    swarm_setf(sim, "sched.cut_steps=%s", any(sim, "sched", "cut_steps"));
    swarm_setf(sim, "sched.batch=%u", small(sim, 1, 24));
    swarm_setf(sim, "sched.prefill_tokens=%u", small(sim, 1, 96));
    swarm_setf(sim, "sched.standby=%u", sim_choose(sim, 2) * sim_between(sim, 1, 8));
    swarm_setf(sim, "sched.half_life=%lluus",
               (sim_choose(sim, 4) == 3) * (1 + (unsigned long long)sim_time(sim, SIM_SECOND_US)));
    swarm_setf(sim, "sched.prefetch=%s", any(sim, "sched", "prefetch"));
    swarm_setf(sim, "sched.virtual_clock=%s", any(sim, "sched", "virtual_clock"));
    swarm_setf(sim, "sched.retag=%s", any(sim, "sched", "retag"));
    draw_active_set(sim);
    if (sim->swarm.engines > 1) {       /* else nothing is drawn: runs of one stay as they are */
        draw_balance(sim);
    }
}

/* Programs that starve at once, on a device that holds one of them: they take the place from each
 * other all the time, and what they leave is computed again in many steps. */
static void draw_rivals(struct sim *sim, uint32_t least)
{
    swarm_setf(sim, "sched.wait_max=%uus", 1 + sim_choose(sim, 64));
    swarm_setf(sim, "sched.prefill_tokens=%u", sim_between(sim, 1, 2));
    swarm_setf(sim, "sched.active_set=%s", sim_choose(sim, 2) == 0 ? "1" : "auto");
    swarm_setf(sim, "kv.device_blocks=%u", least);
    swarm_setf(sim, "kv.host_ratio=0.0");
}

/* Few programs of many calls, an engine that has hardly any credit for what is computed again, and
 * levels that calls soon leave: calls without blocks are kept out of the KV. */
static void draw_miser(struct sim *sim, uint32_t least)
{
    sim->swarm.programs_max = 2;
    swarm_setf(sim, "sched.policy=%s", sim_choose(sim, 2) == 0 ? "plas" : "mlfq");
    swarm_setf(sim, "sched.queues=%u", sim_between(sim, 2, 6));
    swarm_setf(sim, "sched.quantum=%uus", 1 + sim_choose(sim, 64));
    swarm_setf(sim, "sched.wait_max=%us", sim_choose(sim, 2));
    swarm_setf(sim, "sched.active_set=auto");
    swarm_setf(sim, "sched.exchange_share=0.001");
    swarm_setf(sim, "kv.device_blocks=%u", small(sim, least, 2 * least));
    swarm_setf(sim, "kv.host_ratio=0.0");
}

static void draw_block(struct sim *sim)
{
    swarm_setf(sim, "kv.block_tokens=%u", 8 * sim_between(sim, 1, SIM_BLOCK_TOKENS / 8));
}

static void draw_sharing(struct sim *sim)
{
    static const char *const sharing[] = {"program", "off", "domain"};
    swarm_setf(sim, "kv.sharing=%s", word(sim, sharing, 3));
}

static void draw_kv(struct sim *sim)
{
    uint32_t block_tokens = (uint32_t)sim->options.kv_block_tokens.number;
    uint32_t context_tokens = (uint32_t)sim->options.limits_context_tokens.number;
    uint32_t least = (context_tokens + block_tokens - 1) / block_tokens;
    uint64_t retain_us = sim_choose(sim, 2) * sim_time(sim, 20 * SIM_SECOND_US);
    swarm_setf(sim, "kv.device_blocks=%u", small(sim, least, 4 * least + 64));
    swarm_setf(sim, "kv.host_ratio=%u.%u", sim_choose(sim, 4), sim_choose(sim, 10));
    for (uint32_t i = 0; i < 3; i++) {
        static const char *const keys[] = {"device", "host", "drop"};
        swarm_setf(sim, "kv.retain_%s=%lluus", keys[i], (unsigned long long)retain_us);
        retain_us += sim_choose(sim, 2) * sim_time(sim, 60 * SIM_SECOND_US);
    }
    uint32_t kind = sim_choose(sim, 8);
    if (kind == 7) {
        draw_rivals(sim, least);
    } else if (kind == 6) {
        draw_miser(sim, least);
    }
}

static void draw_limits(struct sim *sim)
{
    uint32_t calls = small(sim, 1, SIM_CALLS_MAX);
    uint32_t context_tokens = sim_between(sim, 8, SIM_CONTEXT_MAX);
    swarm_setf(sim, "limits.connections=%u", small(sim, 1, SIM_CONNECTIONS_MAX));
    swarm_setf(sim, "limits.calls=%u", calls);
    swarm_setf(sim, "limits.calls_per_connection=%u", sim_between(sim, 1, calls));
    swarm_setf(sim, "limits.calls_per_program=%u", sim_choose(sim, 2) * small(sim, 1, calls));
    swarm_setf(sim, "limits.replies=%u", sim_choose(sim, 4) * small(sim, 1, 16));
    swarm_setf(sim, "limits.reply_tokens=%u", small(sim, 1, 1024));
    swarm_setf(sim, "limits.call_deadline=%lluus",
        (sim_choose(sim, 4) == 3) * (1 + (unsigned long long)sim_time(sim, 20 * SIM_SECOND_US)));
    swarm_setf(sim, "limits.programs=%u", small(sim, 1, SIM_PROGRAMS_MAX));
    swarm_setf(sim, "limits.classes=%u", small(sim, 1, SIM_CLASSES_MAX));
    swarm_setf(sim, "limits.context_tokens=%u", context_tokens);
    swarm_setf(sim, "limits.program_idle=%lluus",
               1000 + (unsigned long long)sim_time(sim, 600 * SIM_SECOND_US));
    swarm_setf(sim, "limits.drain=%lluus", (unsigned long long)sim_time(sim, 30 * SIM_SECOND_US));
    swarm_setf(sim, "limits.events=%u", sim_choose(sim, 2) * 256);
    swarm_setf(sim, "limits.ended=16");
}

static void draw_net(struct sim *sim)
{
    static const char *const keys[] = {"handshake", "frame_deadline", "write_deadline", "idle"};
    for (uint32_t i = 0; i < 4; i++) {
        if (sim_choose(sim, 4) == 3) {
            sim->swarm.excuses_all = true;
            swarm_setf(sim, "net.%s=%lluus", keys[i],
                1000 + (unsigned long long)sim_time(sim, 20 * SIM_SECOND_US));
        }
    }
    uint32_t frames = sim_choose(sim, 2) == 0 ? 8 : small(sim, 1, 64);
    uint32_t needed = CONFIG_TOKEN_FRAME_BYTES + CONFIG_REPLY_BYTES * frames;
    uint32_t least = needed > SEND_BYTES_MIN ? needed : SEND_BYTES_MIN;
    swarm_setf(sim, "net.frames_per_pass=%u", frames);
    swarm_setf(sim, "net.send_bytes=%u",
               sim_choose(sim, 2) == 0 ? 65536 : sim_between(sim, least, least + 4096));
    swarm_setf(sim, "net.bytes_per_pass=%u",
               sim_choose(sim, 2) == 0 ? 65536 : small(sim, 1024, 8192));
    swarm_setf(sim, "engine.canary=%llums",
               (sim_choose(sim, 2) == 1) * (10 + (unsigned long long)sim_time(sim, 10000)));
    swarm_setf(sim, "engine.doubt=%s", (const char *const[]){"0", "0.1", "1"}[sim_choose(sim, 3)]);
    swarm_setf(sim, "net.preauth=%u", small(sim, 1, 16));
    swarm_setf(sim, "auth.uids=%u, %u, %u", USER, FLOW_USER, FLOW_USER + 1);
    swarm_setf(sim, "net.unsent_tokens=%u", small(sim, 1, 64));
    if (sim->options.limits_replies.number > 0 && sim_choose(sim, 2) == 1) {
        swarm_set(sim, "limits.replies_file=/replies");     /* none is opened here */
        swarm_set(sim, "limits.replies_sync=yes");
    }
}

#define KEY_DOMAINS 3               /* at most */

/* A key for each client on TCP in turn; several may be of one domain, and some domains have numbers
 * of their own, but for connections: in the calm phase none leaves for another. */
static void draw_keys(struct sim *sim)
{
    struct config_keys *keys = &sim->keys;
    sim->swarm.has_keys = sim_choose(sim, 2) == 1;
    if (!sim->swarm.has_keys) {
        return;
    }
    swarm_setf(sim, "auth.tcp=psk");
    swarm_setf(sim, "auth.keys=drawn");
    swarm_setf(sim, "net.unix=/drawn");
    swarm_setf(sim, "limits.reserve=0.%03u", sim_choose(sim, 901));
    swarm_setf(sim, "limits.calls_per_key=%u", small(sim, 1, SIM_CALLS_MAX));
    keys->domains_count = sim_between(sim, 1, KEY_DOMAINS);
    keys->count = SIM_KEYS;
    for (uint32_t i = 0; i < keys->domains_count; i++) {
        keys->weights[i] = 1;           /* the naive scheduler's */
        keys->domains[i][0] = (char)('a' + i);
        for (enum quota_kind kind = 0; kind < QUOTA_KINDS; kind++) {
            bool has_word = sim_choose(sim, 8) == 7 && kind != QUOTA_CONNECTIONS;
            keys->quotas[i][kind] = has_word ? (struct quota_bounds){0, small(sim, 1, 64)}
                                             : (struct quota_bounds){0, 0};
        }
    }
    for (uint32_t i = 0; i < SIM_KEYS; i++) {
        keys->keys[i] = (struct config_key){.domain = i % keys->domains_count,
                                            .calls_max = sim_choose(sim, 2) * small(sim, 1, 8)};
        keys->keys[i].id[0] = keys->keys[i].secret[0] = (uint8_t)('k' + i);
    }
}

/* Half of the runs have none, since lockstep ends when one is opened; of those with a vocabulary,
 * without which none can be opened, fewer. */
static void draw_workflows(struct sim *sim)
{
    bool are_any = sim_choose(sim, 4) > (sim->swarm.has_words ? 0 : 2);
    uint32_t cache = are_any ? sim_choose(sim, 2) * small(sim, 1, 64) : 0;
    sim->swarm.flows_apart = cache > 0;
    sim->swarm.flow_clients = are_any ? sim_between(sim, 1, 6) : 0;
    swarm_setf(sim, "workflow.workflows=%u", are_any ? small(sim, 1, SIM_WORKFLOWS_MAX) : 0);
    swarm_setf(sim, "workflow.order=%s", any(sim, "workflow", "order"));
    swarm_setf(sim, "workflow.window=%u", sim_choose(sim, 2) * small(sim, 1, 16));
    swarm_setf(sim, "workflow.lambda=%lluus",
               1000 + (unsigned long long)sim_time(sim, 60 * SIM_SECOND_US));
    swarm_setf(sim, "workflow.linger=%lluus",
               (unsigned long long)sim_time(sim, 60 * SIM_SECOND_US));
    swarm_setf(sim, "workflow.nodes=%u", SIM_FLOW_NODES - small(sim, 0, 4));
    swarm_setf(sim, "workflow.pieces=%u", 32 - small(sim, 0, 28));
    swarm_setf(sim, "workflow.tokens=%u", 128 - small(sim, 0, 120));
    swarm_setf(sim, "workflow.rows=%u", small(sim, 1, 12));
    swarm_setf(sim, "workflow.values=%u", sim_choose(sim, 2) == 0 ? 4096 : small(sim, 16, 512));
    swarm_setf(sim, "workflow.cache=%u", cache);
    swarm_setf(sim, "workflow.cache_tokens=%u", 16 * small(sim, 1, 64));
}

/* Declared prefixes follow themes, as prompts do; each may leave its theme at some position. */
static void draw_prefixes(struct sim *sim)
{
    struct config_prefixes *prefixes = &sim->prefixes;
    uint32_t block_tokens = sim->limits.kv_block_tokens;
    uint32_t blocks_max = (sim->limits.context_tokens - 1) / block_tokens;
    uint32_t count = sim_choose(sim, 2) * sim_between(sim, 1, CONFIG_PREFIXES_MAX);
    prefixes->count = blocks_max > 0 ? count : 0;
    for (uint32_t i = 0; i < prefixes->count; i++) {
        uint32_t tokens_count = block_tokens * sim_between(sim, 1, blocks_max);
        uint32_t theme = sim_theme_choose(sim);
        uint32_t parts = sim_choose(sim, 2) == 0 ? tokens_count : sim_choose(sim, tokens_count);
        for (uint32_t at = 0; at < tokens_count; at++) {
            uint32_t token = sim_theme_token(sim, theme, at) + (at >= parts);
            sim->prefix_tokens[i][at] = token % sim->limits.vocab_tokens;
        }
        prefixes->each[i] = (struct config_prefix){
            .option = i, .file_tokens = tokens_count, .tokens_count = tokens_count,
            .tokens = sim->prefix_tokens[i]};
        sim_say(sim, "a declared prefix of %u tokens, theme %u up to the %uth", tokens_count,
                theme, parts);
    }
    config_limits_add_prefixes(&sim->limits, prefixes);
}

#define OFTEN 400       /* calls of the world for a death, where they are to be many */
#define STORES_OFTEN 16 /* passes */
#define GARBLES_OFTEN 3 /* deaths */
#define UPGRADES_OFTEN 64   /* passes */

/* Where it is on at all. */
static uint32_t rate_if(const struct sim *sim, enum sim_fault fault, uint32_t rate)
{
    return sim->swarm.rate[fault] > 0 ? rate : 0;
}

static void draw_faults(struct sim *sim)
{
    static const uint64_t rare = 1u << SIM_FAULT_RESET | 1u << SIM_FAULT_FINISH |
                                 1u << SIM_FAULT_LEAVE | 1u << SIM_FAULT_GAP |
                                 1u << SIM_FAULT_HANG | 1u << SIM_FAULT_DEATH |
                                 1u << SIM_FAULT_GIVEN_UP;
    for (uint32_t i = 0; i < SIM_FAULTS; i++) {
        if (i == SIM_FAULT_TOGETHER && sim->swarm.engines == 1) {
            continue;               /* so the runs of one engine stay as they are */
        }
        bool is_on = sim_choose(sim, 3) == 2;
        uint32_t rate = 2u << sim_choose(sim, 8);
        sim->swarm.rate[i] = is_on ? rate << ((rare >> i & 1) != 0 ? 3 : 0) : 0;
        if (i == SIM_FAULT_GIVEN_UP) {
            sim->swarm.rate[i] *= 8;        /* it ends the run's work */
        } else if (i == SIM_FAULT_STORE || i == SIM_FAULT_UPGRADE) {
            sim->swarm.rate[i] *= 8;        /* a pass takes a hundred times as long with it */
        } else if (i == SIM_FAULT_CORE) {
            sim->swarm.rate[i] *= 64;       /* there are many calls of the world in a pass */
        }
        if (is_on) {
            sim_say(sim, "fault %s, one time in %u: %s", fault_rows[i].name, sim->swarm.rate[i],
                    fault_rows[i].text);
        }
    }
    if (sim->tape->deaths > 0) {
        sim->swarm.rate[SIM_FAULT_CORE] = OFTEN;
        sim->swarm.rate[SIM_FAULT_STORE] = rate_if(sim, SIM_FAULT_STORE, STORES_OFTEN);
        sim->swarm.rate[SIM_FAULT_GARBLE] = rate_if(sim, SIM_FAULT_GARBLE, GARBLES_OFTEN);
        sim->swarm.rate[SIM_FAULT_UPGRADE] = rate_if(sim, SIM_FAULT_UPGRADE, UPGRADES_OFTEN);
        sim->swarm.rate[SIM_FAULT_SCRIBBLE] = 0;    /* it goes with no death (deaths/core.c) */
    }
}

/* No option has it. */
static void draw_free_blocks(struct sim *sim)
{
    sim->limits.kv_free_blocks = sim_choose(sim, 2) * 8 * sim_between(sim, 1, 3);
}

static void draw_world(struct sim *sim)
{
    struct swarm *swarm = &sim->swarm;
    uint32_t most = sim->limits.connections + 4;
    swarm->clients = sim_between(sim, 1, most < SIM_CLIENTS_MAX ? most : SIM_CLIENTS_MAX);
    swarm->hostiles = sim_choose(sim, 3) == 2 ? sim_between(sim, 1, swarm->clients) : 0;
    swarm->operators = sim_choose(sim, 4) == 3 ? sim_between(sim, 1, 12) : 0;
    swarm->programs = sim_between(sim, 1, swarm->programs_max);
    swarm->excuses_all = swarm->excuses_all || sim->nth.is_on || swarm->rate[SIM_FAULT_LATE] > 0 ||
                         swarm->rate[SIM_FAULT_AGAIN] > 0;
    swarm->descriptors = SIM_PEERS_MAX;
    swarm->ring_bytes = sim_choose(sim, 2) == 0 ? SIM_RING_BYTES : sim_between(sim, 64, 2048);
    swarm->round_us_max = 1 + sim_time(sim, 20000);
    swarm->think_us_max = 1 + sim_time(sim, 100000);
    swarm->ends_by_drain = sim_choose(sim, 4) == 3;
    for (uint32_t i = 0; i < 8; i++) {
        swarm->action_weights[i] = (i == 0) + sim_choose(sim, i == 0 ? 32 : 4);
    }
    swarm->deadline_rate = 2 + sim_choose(sim, 8);
    swarm->appetite = small(sim, 1, 12);
    draw_free_blocks(sim);
    sim_say(sim, "%u clients, %u of them hostile, %u operators, %u with workflows, %u programs",
            swarm->clients, swarm->hostiles, swarm->operators, swarm->flow_clients,
            swarm->programs);
    sim_say(sim, "sockets of %u bytes, rounds up to %llu us, clients think up to %llu us",
            swarm->ring_bytes, (unsigned long long)swarm->round_us_max,
            (unsigned long long)swarm->think_us_max);
}

void swarm_derive(struct sim *sim)
{
    struct config_error error;
    const struct model_shape shape = {.context_tokens = SIM_CONTEXT_MAX,
                                      .vocab_tokens = sim->swarm.vocab_tokens};
    const struct config_machine machine = {.cpus = 1, .has_device = true};
    if (config_check(&sim->options, &error) != STATUS_OK ||
        config_limits(&sim->limits, &sim->options, &shape, &machine, &error) != STATUS_OK) {
        sim_fail(sim, INVARIANT_WORLD, "%s", error.text);
    }
    SIM_REQUIRE(sim, sim->swarm.engines > 0 && sim->swarm.engines <= SIM_ENGINES_MAX,
                INVARIANT_WORLD, "%u engines", sim->swarm.engines);
    sim->limits.engines = sim->swarm.engines;
}

void swarm_draw(struct sim *sim)
{
    config_defaults(&sim->options);
    sim->swarm.engines = sim->tape->engines;
    sim->swarm.programs_max = SIM_PROGRAMS_MAX;
    sim->swarm.has_words = sim_choose(sim, 2) == 1;
    sim->swarm.vocab_tokens =
        sim->swarm.has_words ? sim_words()->info.tokens : sim_between(sim, 6, 200);
    draw_limits(sim);
    draw_sched(sim);
    draw_speculation(sim);
    draw_block(sim);
    draw_sharing(sim);
    draw_kv(sim);
    draw_net(sim);
    draw_workflows(sim);
    draw_keys(sim);
    swarm_derive(sim);
    draw_prefixes(sim);
    draw_faults(sim);
    draw_world(sim);
}

/* Not what the model of the world makes tokens of: whether it repeats itself, whose KV is shared,
 * and what is declared. Blocks of other sizes do not fit what is. */
void swarm_draw_anew(struct sim *sim)
{
    if (sim_choose(sim, 2) == 0) {
        return;
    }
    if (sim->tape->engines > 1) {
        sim->swarm.engines = sim_between(sim, 1, SIM_ENGINES_MAX);
    }
    draw_sched(sim);
    if (sim->prefixes.count == 0) {
        draw_block(sim);
    }
    draw_kv(sim);
    swarm_derive(sim);
    config_limits_add_prefixes(&sim->limits, &sim->prefixes);
    draw_free_blocks(sim);
}
