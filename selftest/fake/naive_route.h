/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the naive load balancer: what sched.balance says (docs/scheduling.md), written down beside
 * the real one. It keeps which call is where, and counts anew for every choice.
 *
 *   local     short prompts: least used; long ones: the program's engine, or least used, which it
 *             is assigned to from then on
 *   program   as local, and all prompts are long
 *   rr        in turn          least   least used
 *   preble    where more than half of the prompt, and the most of it, is found; else least used
 *   auto      as program, but the program is assigned to the least used engine where that has no
 *             call and its own has several; or where that has fewer, the program's last call found
 *             nothing, and its own has nothing for this call, which is alone. A call whose engine
 *             is full, and used more than twice as much as another, goes there for once
 *
 * Least used: the fewest open calls; of several, the first after the engine that was chosen last
 * so, or in turn. Where an engine serves, only such are chosen. One that begins to serve takes
 * waiting calls from each other one until that has as many, or as many as all have in the mean.
 */
#include "selftest/fake/naive_sched.h"

#define NAIVE_ENGINE_NONE NAIVE_ENGINES_MAX

struct naive_routes {
    uint32_t engines;
    enum sched_balance balance;
    uint32_t balance_tokens, batch;
    bool serves[NAIVE_ENGINES_MAX];
    uint32_t turn;                  /* the engine after the one that was chosen last */
    uint32_t assigned[NAIVE_PROGRAMS_MAX];      /* NAIVE_ENGINE_NONE: to none */
    struct naive_place {
        bool open;
        uint32_t engine, program;
    } calls[NAIVE_CALLS_MAX];
};

/* What decides where a call goes. */
struct naive_asked {
    uint32_t call, program, prompt;
    bool misses;                    /* its program's last call, a long one, found nothing */
    bool was_open;                  /* it comes from another engine */
    const uint32_t *found;          /* positions of the prompt on each engine, or NULL */
};

void naive_routes_init(struct naive_routes *routes, const struct sched_settings *settings);
bool naive_any_serves(const struct naive_routes *routes);
/* True when nothing can be said without `found`. */
bool naive_must_ask(const struct naive_routes *routes, const struct naive_asked *asked);
/* The call is open there from now on. Returns that engine. */
uint32_t naive_route(struct naive_routes *routes, const struct naive_asked *asked);
/* The engine serves, or does not: then no program is assigned to it any more, if another serves. */
void naive_serves(struct naive_routes *routes, uint32_t engine, bool serves);
/* True when the call may go there, though its own engine serves: that one has two calls more, and
 * more than the mean of all that serve. */
bool naive_may_go(const struct naive_routes *routes, uint32_t call, uint32_t to);
/* It goes; a program that has no other call open, and is assigned, goes along. */
void naive_go(struct naive_routes *routes, uint32_t call, uint32_t to);
