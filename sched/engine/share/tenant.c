/* SPDX-License-Identifier: MIT */
/*
 * What: the table of tenants. A tenant is a trust domain: all programs of all keys that name it, or
 * of one user of the unix socket. Each has a virtual time: what it has had of the engines, divided
 * by its weight. Plans deal their rows to the tenant whose virtual time is least (deal.c),
 * so a program id that is new brings its tenant nothing.
 *
 *   cost      of a step: its duration, times the largest of three parts that the tenant's rows had
 *             of it: of the service of all rows, of the prefill budget, of the engine's KV blocks
 *             (the dominant resource of Ghodsi et al.)
 *   floor     the least virtual time of the tenants that the last plan has refused something. A
 *             tenant that has had all it asked for saves nothing up: its virtual time is the floor
 *             at least (as in VTC). When no tenant was refused anything, all are even
 *   lag       what a tenant that is refused can save up is bounded by LAG_MAX: calls that
 *             want a row and can never have one are not worth more
 *   due       what the tenant should have had of each step: all it has had, where it asked for no
 *             more; the others share what is left, by weight (the weighted max-min share)
 *
 * Tenant 0 has no domain of its own: domains that find no place in the table share it. With
 * sched.tenants = off it is the only one, and all programs are its.
 *
 * Invariants: entries 0 .. count - 1 are in use, for good; the domain of one that has neither
 * programs nor a name may be replaced. No virtual time is below the floor.
 * Bounds: O(tenants) for a program that starts and for a step; integers only. A cost counts in
 * 1/1024 us: virtual times last for 500,000 years of an engine at weight 1.
 */
#include "sched/engine/share/tenant.h"

#include <string.h>

#include "config/base/bounds.h"

#define LATELY_US  UINT64_C(60000000)       /* after twice this time what tenants had counts half */
#define LAG_MAX    (UINT64_C(10000000) * SCHED_COST_PARTS)
#define SHARED     0u

void sched_tenant_plan_memory(struct memory_plan *plan, const struct sched_settings *settings)
{
    uint32_t tenants = settings->tenants > 0 ? settings->tenants : 1;
    memory_plan_add(plan, MEMORY_CORE, "sched tenants", tenants, sizeof(struct sched_tenant));
    memory_plan_add(plan, MEMORY_CORE, "sched lanes", (uint64_t)settings->engines * tenants,
                    sizeof(struct sched_lane));
    memory_plan_add(plan, MEMORY_CORE, "sched lanes dealt", (uint64_t)settings->engines * tenants,
                    sizeof(uint32_t));
}

void sched_tenant_init(struct sched *sched, struct arena *arena)
{
    struct sched_settings *settings = &sched->settings;
    settings->tenants = settings->tenants > 0 ? settings->tenants : 1;
    sched->tenants = (struct sched_tenants){
        .of = arena_take(arena, settings->tenants, sizeof(struct sched_tenant)), .count = 1};
    sched->tenants.of[SHARED] = (struct sched_tenant){.weight = 1};
}

/* ---- the table ------------------------------------------------------------------------------- */

void sched_forget_names(struct sched *sched)
{
    for (uint32_t i = 1; i < sched->tenants.count; i++) {
        struct sched_tenant *tenant = &sched->tenants.of[i];
        tenant->weight = tenant->name[0] != '\0' ? 1 : tenant->weight;
        memset(tenant->name, 0, sizeof tenant->name);
    }
}

/* The place for a new tenant: that of one without programs which has saved up least, in a full
 * table; SHARED: there is none. */
static uint32_t place_for(struct sched *sched)
{
    struct sched_tenants *tenants = &sched->tenants;
    uint32_t found = SHARED;
    if (tenants->count < sched->settings.tenants) {
        return tenants->count++;
    }
    for (uint32_t i = 1; i < tenants->count; i++) {
        const struct sched_tenant *tenant = &tenants->of[i];
        bool is_less = found == SHARED ||
                       tenant->virtual_time < tenants->of[found].virtual_time;
        bool is_free = tenant->programs == 0 && tenant->name[0] == '\0';
        found = is_free && is_less ? i : found;
    }
    return found;
}

uint32_t sched_tenant_of(struct sched *sched, uint64_t domain)
{
    struct sched_tenants *tenants = &sched->tenants;
    for (uint32_t i = 1; i < tenants->count; i++) {
        if (tenants->of[i].domain == domain) {
            return i;
        }
    }
    uint32_t place = place_for(sched);
    if (place != SHARED) {
        tenants->of[place] = (struct sched_tenant){.domain = domain, .weight = 1,
                                                   .virtual_time = tenants->floor};
    }
    return place;
}

void sched_name_tenant(struct sched *sched, uint64_t domain, uint32_t weight, const char *name)
{
    uint32_t index = sched->settings.tenants == 1 ? SHARED : sched_tenant_of(sched, domain);
    size_t bytes = strlen(name);
    ASSERT(weight > 0 && bytes > 0 && bytes < SCHED_TENANT_NAME_BYTES);
    if (index != SHARED) {
        sched->tenants.of[index].weight = weight;
        memcpy(sched->tenants.of[index].name, name, bytes);
    }
}

void sched_tenant_enter(struct sched *sched, uint32_t tenant)
{
    ASSERT(tenant < sched->tenants.count);
    sched->tenants.of[tenant].programs++;
}

void sched_tenant_leave(struct sched *sched, uint32_t tenant)
{
    ASSERT(tenant < sched->tenants.count && sched->tenants.of[tenant].programs > 0);
    sched->tenants.of[tenant].programs--;
}

bool sched_tenant_leaves_reserve(const struct sched *sched, uint32_t tenant)
{
    const struct sched_tenants *tenants = &sched->tenants;
    return tenants->of[tenant].wants && tenants->count > SHARED + 2;
}

/* ---- the account ----------------------------------------------------------------------------- */

/* Without a product that 64 bits cannot hold. Calls that share blocks may use more than all. */
static uint64_t part_of(uint64_t use, uint64_t all, uint64_t whole)
{
    while (all > UINT32_MAX) {
        use /= 2;
        all /= 2;
    }
    return use >= all ? whole : whole / all * use + whole % all * use / all;
}

uint64_t sched_tenant_dominant(const struct sched_use *use, const struct sched_use *all,
                               uint64_t whole)
{
    uint64_t cost = use->rows > 0 ? part_of(use->rows, all->rows, whole) : 0;
    cost = greater(cost, part_of(use->prompt_tokens, all->prompt_tokens, whole));
    return greater(cost, part_of(use->blocks, all->blocks, whole));
}

void sched_tenant_use(struct sched *sched, uint32_t tenant, const struct sched_use *use)
{
    struct sched_use *sum = &sched->tenants.of[tenant].use;
    ASSERT(tenant < sched->tenants.count);
    sum->rows += use->rows;
    sum->prompt_tokens += use->prompt_tokens;
    sum->blocks += use->blocks;
}

static void charge(struct sched_tenant *tenant, uint64_t cost)
{
    uint64_t weighted = cost + tenant->remainder;
    tenant->virtual_time += weighted / tenant->weight;
    tenant->remainder = (uint32_t)(weighted % tenant->weight);
    tenant->got += cost;
    tenant->use = (struct sched_use){.rows = 0};
}

/* Each tenant pays for its part of the step. Returns what all have paid. */
static uint64_t charge_all(struct sched_engine *engine, uint64_t duration_us)
{
    struct sched_tenants *tenants = &engine->sched->tenants;
    struct sched_use all = {.prompt_tokens = engine->sched->settings.prefill_tokens,
                            .blocks = engine->kv->settings.device_blocks};
    uint64_t paid = 0;
    for (uint32_t i = 0; i < tenants->count; i++) {
        all.rows += tenants->of[i].use.rows;
    }
    for (uint32_t i = 0; i < tenants->count; i++) {
        struct sched_tenant *tenant = &tenants->of[i];
        tenant->paid = sched_tenant_dominant(&tenant->use, &all, sched_tenant_cost(duration_us));
        paid += tenant->paid;
        charge(tenant, tenant->paid);
    }
    return paid;
}

/* What those that were refused nothing have had was due to them; the others share the rest. */
static void share_out(struct sched_tenants *tenants, uint64_t paid)
{
    uint64_t weights = 0;
    for (uint32_t i = 0; i < tenants->count; i++) {
        struct sched_tenant *tenant = &tenants->of[i];
        weights += tenant->wants ? tenant->weight : 0;
        tenant->due += tenant->wants ? 0 : tenant->paid;
        paid -= tenant->wants ? 0 : tenant->paid;
    }
    for (uint32_t i = 0; i < tenants->count; i++) {
        struct sched_tenant *tenant = &tenants->of[i];
        tenant->due += tenant->wants ? part_of(tenant->weight, weights, paid) : 0;
    }
}

/* Shares are of what was had lately. */
static void fade(struct sched_tenants *tenants, uint64_t duration_us)
{
    tenants->lately_us += duration_us;
    if (tenants->lately_us < 2 * LATELY_US) {
        return;
    }
    tenants->lately_us /= 2;
    for (uint32_t i = 0; i < tenants->count; i++) {
        tenants->of[i].got /= 2;
        tenants->of[i].due /= 2;
    }
}

/* The largest virtual time, and the least of those that want more. */
static void raise_floor(struct sched_tenants *tenants)
{
    uint64_t most = 0, least = UINT64_MAX;
    for (uint32_t i = 0; i < tenants->count; i++) {
        most = greater(most, tenants->of[i].virtual_time);
    }
    for (uint32_t i = 0; i < tenants->count; i++) {
        const struct sched_tenant *tenant = &tenants->of[i];
        bool is_less = tenant->wants && tenant->virtual_time < least;
        least = is_less ? tenant->virtual_time : least;
    }
    least = least < most ? least : most;
    tenants->floor = greater(tenants->floor, most - least > LAG_MAX ? most - LAG_MAX : least);
    for (uint32_t i = 0; i < tenants->count; i++) {
        struct sched_tenant *tenant = &tenants->of[i];
        tenant->virtual_time = greater(tenant->virtual_time, tenants->floor);
        tenant->wanted = tenant->wants;
    }
}

void sched_tenant_settle(struct sched_engine *engine, uint64_t duration_us)
{
    struct sched_tenants *tenants = &engine->sched->tenants;
    engine->step_cost = greater(sched_tenant_cost(duration_us), SCHED_STEP_COST_MIN);
    share_out(tenants, charge_all(engine, duration_us));
    fade(tenants, duration_us);
    raise_floor(tenants);
}

void sched_tenant_check(const struct sched *sched)
{
    const struct sched_tenants *tenants = &sched->tenants;
    uint32_t programs = 0;
    ASSERT(tenants->count > SHARED && tenants->count <= sched->settings.tenants);
    for (uint32_t i = 0; i < tenants->count; i++) {
        const struct sched_tenant *tenant = &tenants->of[i];
        ASSERT(tenant->weight > 0 && tenant->remainder < tenant->weight);
        ASSERT(tenant->virtual_time >= tenants->floor);
        ASSERT(tenant->virtual_time - tenants->floor <= LAG_MAX);
        programs += tenant->programs;
    }
    ASSERT(programs == sched->programs_count);
}
