/* SPDX-License-Identifier: MIT */
/*
 * What: tenants of the naive scheduler (naive_sched.h): their accounts, and the order in which a
 * plan comes to their calls. Which tenant a call belongs to, and how many there are, is the real
 * table's to say.
 */
#include "selftest/fake/naive_call.h"
#include "selftest/fake/sched_view.h"

#define COST_PARTS 1024
#define LAG_MAX    (UINT64_C(10000000) * COST_PARTS)

void naive_meet_tenants(struct naive *m)
{
    m->tenants_count = sched_view_tenants(m->sched);
    ASSERT(m->tenants_count <= NAIVE_TENANTS_MAX);
    for (uint32_t i = 0; i < m->tenants_count; i++) {
        uint64_t domain = sched_view_tenant(m->sched, i)->domain;
        if (!m->tenants[i].is_known || m->tenants[i].domain != domain) {
            m->tenants[i] =
                (struct naive_tenant){.is_known = true, .domain = domain, .time = m->floor};
        }
    }
}

static uint64_t naive_part(uint64_t use, uint64_t all, uint64_t whole)
{
    use = use < all ? use : all;
    return use == 0 ? 0 : (uint64_t)((unsigned __int128)use * whole / all);
}

static uint64_t naive_cost(const struct naive *m, const struct naive_tenant *tenant,
                           uint64_t all_rows, uint64_t whole)
{
    uint64_t cost = naive_part(tenant->rows, all_rows, whole);
    uint64_t prompt = naive_part(tenant->prompt, m->set.prefill_tokens, whole);
    uint64_t blocks = naive_part(tenant->blocks,
                                 naive_kv(m)->settings.device_blocks, whole);
    cost = prompt > cost ? prompt : cost;
    return blocks > cost ? blocks : cost;
}

static void naive_clear_use(struct naive_tenant *tenant)
{
    tenant->rows = tenant->prompt = tenant->blocks = 0;
}

static void naive_weigh(const struct naive *m, uint32_t index)
{
    struct naive_tenant *tenant = (struct naive_tenant *)&m->tenants[index];
    uint64_t least = UINT64_C(1) << 20;
    uint64_t step_cost = m->on->step_cost > least ? m->on->step_cost : least;
    uint64_t cost = naive_cost(m, tenant, m->set.batch_calls, step_cost);
    tenant->key = tenant->time + cost / sched_view_tenant(m->sched, index)->weight;
}

void naive_deal_begin(struct naive *m)
{
    naive_meet_tenants(m);
    m->tenants_dealt = 0;
    m->last_key = 0;
    for (uint32_t t = 0; t < m->tenants_count; t++) {
        struct naive_tenant *tenant = &m->tenants[t];
        naive_clear_use(tenant);
        tenant->dealt = tenant->done = tenant->in_vain = tenant->keeps_out = false;
        tenant->last_queue = 0;
        tenant->passed = NAIVE_PROGRAMS_MAX;
        naive_weigh(m, t);
    }
    for (uint32_t i = 0; i < NAIVE_CALLS_MAX; i++) {
        struct naive_tenant *tenant = &m->tenants[m->calls[i].tenant];
        m->calls[i].visited = false;
        bool is_here = naive_is_here(m, &m->calls[i]);
        m->tenants_dealt += is_here && !tenant->dealt;
        tenant->dealt = tenant->dealt || is_here;
    }
}

/* True when the call at place i is the next one of a tenant with a smaller key. */
static bool naive_comes_first(const struct naive *m, uint32_t a, uint32_t b)
{
    uint32_t tenant_a = m->calls[a].tenant, tenant_b = m->calls[b].tenant;
    uint64_t key_a = m->tenants[tenant_a].key, key_b = m->tenants[tenant_b].key;
    if (key_a != key_b || m->tenants[tenant_a].wanted == m->tenants[tenant_b].wanted) {
        return key_a != key_b ? key_a < key_b : tenant_a < tenant_b;
    }
    return m->tenants[tenant_b].wanted;      /* else it was lifted to where the other one is */
}

/* True when the first row may be this tenant's. With several tenants a call may be left out before
 * it, and a plan that is made again may begin with a tenant whose call computes again what it had
 * lost: only the real scheduler knows how calls came by their blocks. */
static bool naive_may_begin(const struct naive *m, uint32_t tenant)
{
    const struct step *step = naive_step(m);
    bool is_known = m->on->rows_count > 0 || m->tenants_dealt == 1 ||
                    step_header(step)->rows_active == 0;
    return is_known || m->calls[step_row(step, 0)->call].tenant == tenant;
}

bool naive_deal(struct naive *m, uint32_t *sorted, uint32_t count, uint32_t at)
{
    uint32_t found = count;
    for (uint32_t i = at; i < count; i++) {
        uint32_t tenant = m->calls[sorted[i]].tenant;
        if (!m->tenants[tenant].done && naive_may_begin(m, tenant) &&
            (found == count || naive_comes_first(m, sorted[i], sorted[found]))) {
            found = i;
        }
    }
    if (found == count) {
        return false;
    }
    uint32_t call = sorted[found];
    for (; found > at; found--) {
        sorted[found] = sorted[found - 1];
    }
    sorted[at] = call;
    return true;
}

void naive_deal_row(struct naive *m, uint32_t index, uint32_t chunk)
{
    uint32_t tenant = m->calls[index].tenant;
    m->tenants[tenant].rows++;
    m->tenants[tenant].prompt += chunk - 1;
    m->on->blocks[m->on->rows_count - 1] = kvmem_call_blocks(naive_kv(m), index);
    m->tenants[tenant].blocks += m->on->blocks[m->on->rows_count - 1];
    naive_weigh(m, tenant);
}

/* True when the tenant has a call that can run, and has no row in the batch. */
static bool naive_may_want(struct naive *m, uint32_t tenant)
{
    for (uint32_t i = 0; i < NAIVE_CALLS_MAX; i++) {
        const struct naive_call *call = &m->calls[i];
        bool has_row = false;
        for (uint32_t row = 0; row < m->on->rows_active; row++) {
            has_row = has_row || m->on->rows[row] == i;
        }
        if (naive_is_here(m, call) && call->tenant == tenant && !has_row && !call->paused &&
            !call->cancel) {
            return true;
        }
    }
    return false;
}

void naive_deal_end(struct naive *m)
{
    for (uint32_t t = 0; t < m->tenants_count; t++) {
        m->on->wants[t] = sched_view_wants(m->sched, m->on->index, t);
        /* Without budget, what a call finds decides whether it has a row. */
        ASSERT(!m->on->wants[t] || m->is_short || naive_may_want(m, t));
        m->tenants[t].wants = false;
        for (uint32_t i = 0; i < m->set.engines; i++) {
            m->tenants[t].wants = m->tenants[t].wants || m->engines[i].wants[t];
        }
        naive_clear_use(&m->tenants[t]);
    }
}

void naive_use(struct naive *m, uint32_t row, uint64_t service)
{
    struct naive_tenant *tenant = &m->tenants[m->calls[m->on->rows[row]].tenant];
    tenant->rows += service;
    tenant->prompt += m->on->chunk[row] - 1;
    tenant->blocks += m->on->blocks[row];
}

/* No virtual time is less than that of a tenant that wants more, nor lags too far. */
void naive_charge(struct naive *m, uint64_t duration)
{
    uint64_t service = 0, most = 0, least = UINT64_MAX;
    for (uint32_t t = 0; t < m->tenants_count; t++) {
        service += m->tenants[t].rows;
    }
    m->on->step_cost = duration * COST_PARTS;
    for (uint32_t t = 0; t < m->tenants_count; t++) {
        struct naive_tenant *tenant = &m->tenants[t];
        tenant->time += naive_cost(m, tenant, service, m->on->step_cost);
        ASSERT(sched_view_tenant(m->sched, t)->weight == 1);
        naive_clear_use(tenant);
        most = tenant->time > most ? tenant->time : most;
        least = tenant->wants && tenant->time < least ? tenant->time : least;
    }
    least = least < most ? least : most;
    least = most - least > LAG_MAX ? most - LAG_MAX : least;
    m->floor = least > m->floor ? least : m->floor;
    for (uint32_t t = 0; t < m->tenants_count; t++) {
        struct naive_tenant *tenant = &m->tenants[t];
        tenant->time = tenant->time > m->floor ? tenant->time : m->floor;
        tenant->wanted = tenant->wants;
    }
}
