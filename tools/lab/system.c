/* SPDX-License-Identifier: MIT */
/*
 * What: the systems that are compared, as settings of the appliance. In order, later words win:
 * the lab's own, the machine's (cost.c), the system's, --policy, --no-prefix-sharing, --set.
 *
 *   vllm       FCFS, no prefix sharing, prompts not chunked, a decision at every decoding step
 *   vllm-opt   FCFS with prefix sharing, chunked prompts, several steps for each decision
 *   mlfq       vllm-opt with FastServe's queues: each new call starts in the first one
 *   agentix    program-level queues: PLAS with live service; steps that end when a call can make
 *              use of it
 *
 * The host: vLLM's developers saw the GPU idle for about 4 ms between two steps, with one round in
 * a step as with eight (vLLM issue 6854, "Multi-Step Scheduling", July 2024; it says 5 to 13 ms in
 * general). That is consistent with their blog on 0.6.0: of the time of Llama 3 8B on an H100, 29 %
 * were scheduling and 38 % the GPU. FastServe's queues are in the same engine. Ours is measured
 * (cost.c).
 *
 * All have the same largest batch; where prefixes are shared, all programs share them, as
 * in one trust domain.
 *
 * A policy that no option offers, because it must be told the future, has a word for --policy only.
 */
#include <stdio.h>
#include <string.h>

#include "config/base/assert.h"
#include "tools/lab/lab.h"

#define SYSTEM_SETS_MAX 6
#define VLLM_HOST_S     4e-3

static const struct system_row {
    const char *name;
    double host_s;                  /* between two steps; 0: the machine's, which is ours */
    const char *sets[SYSTEM_SETS_MAX];
} systems[] = {
    {"vllm", VLLM_HOST_S, {"sched.policy=fcfs", "sched.steps_per_plan=1",
                           "sched.prefill_tokens=16384", "kv.sharing=off", "sched.standby=0",
                           "sched.active_set=off"}},
    {"vllm-opt", VLLM_HOST_S, {"sched.policy=fcfs", "kv.sharing=domain", "sched.cut_steps=no",
                               "sched.active_set=off"}},
    {"mlfq", VLLM_HOST_S, {"sched.policy=mlfq", "kv.sharing=domain", "sched.cut_steps=no",
                               "sched.active_set=off"}},
    {"agentix", 0, {"sched.policy=plas", "kv.sharing=domain"}},
};
#define SYSTEMS_COUNT (sizeof systems / sizeof systems[0])

/* A trace may be quiet for longer than the most that net.idle can say, which is a day. */
#define NEVER_IDLE_US (UINT64_MAX / 2)

/* No listeners; clients whose calls are many and long. */
static const char *const base_sets[] = {
    "net.unix=", "net.tcp=", "text.listen=", "net.send_bytes=16MiB",
    "limits.calls=16384", "limits.calls_per_connection=16384",
    "limits.calls_per_program=0", "limits.call_deadline=0", "limits.programs=65536",
    "engine.canary=0", "sched.speculate=0",
};

static const struct system_row *find(const char *name)
{
    for (uint32_t i = 0; i < SYSTEMS_COUNT; i++) {
        if (strcmp(systems[i].name, name) == 0) {
            return &systems[i];
        }
    }
    return NULL;
}

/* ---- policies: those of the option, and those that only the lab has ---- */

static const struct policy_row {
    enum sched_policy policy;
    const char *word;
} policies[] = {
#define POLICY(name, word, ...) {SCHED_##name, word},
#include "config/policies.def"
};

const char *lab_policies(void)
{
#define POLICY(name, word, ...) ", " word
    static const char list[] =
#include "config/policies.def"
        ;
    return list + strlen(", ");
}

static const struct policy_row *find_policy(const char *word)
{
    for (uint32_t i = 0; i < SCHED_POLICIES; i++) {
        if (strcmp(policies[i].word, word) == 0) {
            return &policies[i];
        }
    }
    return NULL;
}

bool lab_policy_exists(const char *name)
{
    return find_policy(name) != NULL;
}

const char *lab_policy_name(enum sched_policy policy)
{
    ASSERT(policies[policy].policy == policy);
    return policies[policy].word;
}

/* ---- systems ---- */

bool lab_system_exists(const char *name)
{
    return find(name) != NULL;
}

const char *lab_systems(void)
{
    STATIC_ASSERT(SYSTEMS_COUNT == 4, "lab_systems() names each");
    return "vllm, vllm-opt, mlfq, agentix";
}

static int set(struct lab *lab, const char *assignment)
{
    struct config_error error = {.text = "unknown"};
    if (config_set(&lab->options, assignment, &error) == STATUS_OK) {
        return LAB_EXIT_OK;
    }
    fprintf(stderr, "agentix-lab: %s\n", error.text);
    return LAB_EXIT_USAGE;
}

static int set_all(struct lab *lab, const char *const *sets, uint32_t count)
{
    int code = LAB_EXIT_OK;
    for (uint32_t i = 0; i < count && sets[i] != NULL && code == LAB_EXIT_OK; i++) {
        code = set(lab, sets[i]);
    }
    return code;
}

static int derive(struct lab *lab)
{
    struct config_error error = {.text = "unknown"};
    const struct model_shape shape = {.context_tokens = lab->settings->cost->context_tokens,
                                      .vocab_tokens = lab->settings->cost->vocab_tokens};
    const struct config_machine machine = {.cpus = 1, .has_device = true};
    if (config_check(&lab->options, &error) != STATUS_OK ||
        config_limits(&lab->limits, &lab->options, &shape, &machine, &error) != STATUS_OK) {
        fprintf(stderr, "agentix-lab: %s\n", error.text);
        return LAB_EXIT_USAGE;
    }
    lab->limits.engines = lab->settings->engines > 0 ? lab->settings->engines : 1;
    ASSERT(lab->limits.engines <= WORLD_ENGINES_MAX);
    return LAB_EXIT_OK;
}

/* So many workflows, and room for the values of as many rows as may be open. */
static int set_workflows(struct lab *lab)
{
    char assignment[64];
    if (lab->settings->flow.batches == 0) {
        return LAB_EXIT_OK;
    }
    snprintf(assignment, sizeof assignment, "workflow.workflows=%u",
             lab->settings->flow.clients * (lab->settings->flow.mix ? lab->settings->flow.batches
                                                                    : 1));
    int code = set(lab, assignment);
    snprintf(assignment, sizeof assignment, "workflow.order=%s", lab->settings->order);
    code = code != LAB_EXIT_OK ? code : set(lab, assignment);
    return code != LAB_EXIT_OK ? code : set(lab, "workflow.values=4194304");
}

/* A connection for each tenant, and one to spare. */
static int set_connections(struct lab *lab)
{
    uint32_t tenants = lab->settings->tenants ? lab->trace->classes_count : 1;
    char assignment[64];
    if (tenants > LAB_TENANTS_MAX) {
        fprintf(stderr, "agentix-lab: --tenants: the trace has %u classes; at most %u\n", tenants,
                LAB_TENANTS_MAX);
        return LAB_EXIT_USAGE;
    }
    snprintf(assignment, sizeof assignment, "limits.connections=%u", tenants + 1);
    return set(lab, assignment);
}

/* The unit knows no host. */
static double host_s(const struct lab_settings *settings, const struct system_row *system)
{
    bool is_ours = settings->equal_host || settings->cost->unit_s > 0 || system->host_s == 0;
    return is_ours ? settings->cost->host_s : system->host_s;
}

int lab_configure(struct lab *lab)
{
    const struct lab_settings *settings = lab->settings;
    const struct system_row *system = find(settings->system);
    ASSERT(system != NULL);
    lab->result.host_s = host_s(settings, system);
    lab->host_us = (uint64_t)(lab->result.host_s * 1e6 + 0.5);
    config_defaults(&lab->options);
    int code = set_all(lab, base_sets, sizeof base_sets / sizeof base_sets[0]);
    lab->options.net_idle.number = NEVER_IDLE_US;
    if (code == LAB_EXIT_OK && settings->drafts != NULL) {
        code = set(lab, "sched.speculate=7");
    }
    code = code != LAB_EXIT_OK ? code : set_connections(lab);
    code = code != LAB_EXIT_OK ? code : set_workflows(lab);
    code = code != LAB_EXIT_OK ? code : set_all(lab, settings->cost->settings, COST_SETTINGS_MAX);
    code = code != LAB_EXIT_OK ? code : set_all(lab, system->sets, SYSTEM_SETS_MAX);
    if (code == LAB_EXIT_OK && settings->policy != NULL) {
        lab->options.sched_policy.value.number = find_policy(settings->policy)->policy;
    }
    if (code == LAB_EXIT_OK && settings->no_sharing) {
        code = set(lab, "kv.sharing=off");
    }
    code = code != LAB_EXIT_OK ? code : set_all(lab, settings->sets, settings->sets_count);
    return code != LAB_EXIT_OK ? code : derive(lab);
}
