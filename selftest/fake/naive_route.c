/* SPDX-License-Identifier: MIT */
/* What: the naive load balancer (naive_route.h). */
#include "selftest/fake/naive_route.h"

#include <string.h>

void naive_routes_init(struct naive_routes *routes, const struct sched_settings *settings)
{
    ASSERT(settings->engines <= NAIVE_ENGINES_MAX);
    memset(routes, 0, sizeof *routes);
    routes->engines = settings->engines;
    routes->balance = settings->balance;
    routes->balance_tokens = settings->balance_tokens;
    routes->batch = settings->batch_calls;
    for (uint32_t i = 0; i < NAIVE_PROGRAMS_MAX; i++) {
        routes->assigned[i] = NAIVE_ENGINE_NONE;
    }
}

bool naive_any_serves(const struct naive_routes *routes)
{
    for (uint32_t i = 0; i < routes->engines; i++) {
        if (routes->serves[i]) {
            return true;
        }
    }
    return false;
}

static bool may_have(const struct naive_routes *routes, uint32_t engine)
{
    return routes->serves[engine] || !naive_any_serves(routes);
}

static uint32_t use_of(const struct naive_routes *routes, uint32_t engine)
{
    uint32_t calls = 0;
    for (uint32_t i = 0; i < NAIVE_CALLS_MAX; i++) {
        calls += routes->calls[i].open && routes->calls[i].engine == engine;
    }
    return calls;
}

/* The first one that may have the call, from the turn on; `by_use`: of the least used ones. */
static uint32_t choose(struct naive_routes *routes, bool by_use)
{
    uint32_t chosen = NAIVE_ENGINE_NONE;
    for (uint32_t i = routes->turn; i < routes->turn + routes->engines; i++) {
        uint32_t engine = i % routes->engines;
        bool is_better = chosen == NAIVE_ENGINE_NONE ||
                         (by_use && use_of(routes, engine) < use_of(routes, chosen));
        chosen = may_have(routes, engine) && is_better ? engine : chosen;
    }
    ASSERT(chosen != NAIVE_ENGINE_NONE);
    routes->turn = (chosen + 1) % routes->engines;
    return chosen;
}

static uint32_t assigned(struct naive_routes *routes, uint32_t program)
{
    uint32_t *engine = &routes->assigned[program];
    if (*engine == NAIVE_ENGINE_NONE || !may_have(routes, *engine)) {
        *engine = choose(routes, true);
    }
    return *engine;
}

/* It is alone, and the call before found nothing. */
static bool may_leave(const struct naive_routes *routes, const struct naive_asked *asked)
{
    bool may = asked->misses && !asked->was_open;
    for (uint32_t i = 0; i < NAIVE_CALLS_MAX; i++) {
        may = may && !(routes->calls[i].open && routes->calls[i].program == asked->program);
    }
    return may;
}

/* The program's engine, unless it has nothing there that it would lose. */
static uint32_t assigned_by_history(struct naive_routes *routes, const struct naive_asked *asked)
{
    uint32_t own = assigned(routes, asked->program), turn = routes->turn;
    uint32_t other = choose(routes, true);
    if (may_leave(routes, asked) && use_of(routes, own) > use_of(routes, other) &&
        asked->found[own] == 0) {
        return routes->assigned[asked->program] = other;
    }
    routes->turn = turn;
    return own;
}

static uint32_t assigned_unless_full(struct naive_routes *routes, const struct naive_asked *asked)
{
    uint32_t own = assigned(routes, asked->program), turn = routes->turn;
    uint32_t other = choose(routes, true);
    bool leaves = use_of(routes, own) > use_of(routes, other) && may_leave(routes, asked);
    if ((use_of(routes, own) > 1 && use_of(routes, other) == 0) ||
        (leaves && asked->found[own] == 0)) {
        return routes->assigned[asked->program] = other;
    }
    if (use_of(routes, own) >= routes->batch && use_of(routes, own) > 2 * use_of(routes, other)) {
        return other;
    }
    routes->turn = turn;
    return own;
}

/* The engine that holds most of the prompt, and of several the one that is used less. */
static uint32_t holder(const struct naive_routes *routes, const struct naive_asked *asked)
{
    uint32_t found = NAIVE_ENGINE_NONE;
    for (uint32_t i = 0; i < routes->engines; i++) {
        bool holds = may_have(routes, i) && asked->found[i] > asked->prompt / 2;
        bool is_better = found == NAIVE_ENGINE_NONE || asked->found[i] > asked->found[found] ||
                         (asked->found[i] == asked->found[found] &&
                          use_of(routes, i) < use_of(routes, found));
        found = holds && is_better ? i : found;
    }
    return found;
}

static uint32_t engine_for(struct naive_routes *routes, const struct naive_asked *asked)
{
    switch (routes->balance) {
    case SCHED_BALANCE_AUTO:
        return assigned_unless_full(routes, asked);
    case SCHED_BALANCE_PROGRAM:
        return assigned(routes, asked->program);
    case SCHED_BALANCE_LOCAL:
        if (asked->prompt > routes->balance_tokens) {
            return assigned_by_history(routes, asked);
        }
        break;
    case SCHED_BALANCE_PREBLE:
        if (holder(routes, asked) != NAIVE_ENGINE_NONE) {
            return holder(routes, asked);
        }
        break;
    case SCHED_BALANCE_RR:
        return choose(routes, false);
    case SCHED_BALANCE_LEAST:
        break;
    }
    return choose(routes, true);
}

bool naive_must_ask(const struct naive_routes *routes, const struct naive_asked *asked)
{
    bool is_bound = routes->balance == SCHED_BALANCE_AUTO ||
                    (routes->balance == SCHED_BALANCE_LOCAL &&
                     asked->prompt > routes->balance_tokens);
    return routes->balance == SCHED_BALANCE_PREBLE || (is_bound && may_leave(routes, asked));
}

uint32_t naive_route(struct naive_routes *routes, const struct naive_asked *asked)
{
    ASSERT(!routes->calls[asked->call].open);
    uint32_t engine = routes->engines == 1 ? 0 : engine_for(routes, asked);
    routes->calls[asked->call] = (struct naive_place){
        .open = true, .engine = engine, .program = asked->program};
    return engine;
}

void naive_serves(struct naive_routes *routes, uint32_t engine, bool serves)
{
    routes->serves[engine] = serves;
    for (uint32_t i = 0; i < NAIVE_PROGRAMS_MAX && !serves && naive_any_serves(routes); i++) {
        if (routes->assigned[i] == engine) {
            routes->assigned[i] = NAIVE_ENGINE_NONE;
        }
    }
}

/* ---- an engine begins to serve --------------------------------------------------------------- */

static double mean_use(const struct naive_routes *routes)
{
    double calls = 0, engines = 0;
    for (uint32_t i = 0; i < routes->engines; i++) {
        engines += routes->serves[i];
        calls += routes->serves[i] ? use_of(routes, i) : 0;
    }
    return calls / engines;
}

static bool is_alone(const struct naive_routes *routes, uint32_t program)
{
    uint32_t calls = 0;
    for (uint32_t i = 0; i < NAIVE_CALLS_MAX; i++) {
        calls += routes->calls[i].open && routes->calls[i].program == program;
    }
    return calls == 1;
}

bool naive_may_go(const struct naive_routes *routes, uint32_t call, uint32_t to)
{
    const struct naive_place *place = &routes->calls[call];
    uint32_t here = use_of(routes, place->engine), there = use_of(routes, to);
    return here >= there + 2 && here > mean_use(routes) &&
           (routes->balance != SCHED_BALANCE_PROGRAM || is_alone(routes, place->program));
}

void naive_go(struct naive_routes *routes, uint32_t call, uint32_t to)
{
    struct naive_place *place = &routes->calls[call];
    uint32_t *assigned_to = &routes->assigned[place->program];
    if (*assigned_to == place->engine && is_alone(routes, place->program)) {
        *assigned_to = to;
    }
    place->engine = to;
}
