/* SPDX-License-Identifier: MIT */
/*
 * What: the load balancer (paper 000, 4.3): which engine a call goes to, by sched.balance.
 *
 *   auto      the engine of the program, as long as that has a free row, or is used no more than
 *             twice as much as another; else the engine that is used least. So a program stays
 *             with its history, and one that has more calls than rows uses all engines; whether
 *             the KV holds them is not asked (decision 0072). It moves for good where
 *             another engine has nothing to do and its own two calls, or where call after call
 *             finds nothing, as when each prompt is cut at the front, and another is used less
 *   local     Algorithm 2: a prompt of at most sched.balance_tokens goes to the engine that is used
 *             least; a longer one to the engine that its program is assigned to, where its history
 *             is; a program without one is assigned to the engine that is used least, and so is
 *             one whose calls find nothing at its own, as with auto
 *   program   the same for all prompts
 *   rr        engines take turns
 *   least     the engine that is used least
 *   preble    the engine where most of the prompt is found, if that is more than half of it; else
 *             the engine that is used least
 *
 * Use is the number of open calls; the calls of one pass see each other. Ties go to engines in
 * turn, or the first one would have all of a box that is not busy.
 *
 * Only engines that serve get calls, as long as there is one. A call that has no engine to run on
 * waits at one that may be back (reroute.c).
 * Invariants: what the program is assigned to is a fact of program.engine alone.
 * Bounds: O(engines), and what preble asks of each engine's cache, and auto and local of one.
 */
#include "sched/balance.h"

#include "sched/engine/residency.h"

bool sched_balance_any_serves(const struct sched *sched)
{
    for (uint32_t i = 0; i < sched->settings.engines; i++) {
        if (sched->engines[i].serves) {
            return true;
        }
    }
    return false;
}

/* True when the engine may get a call. */
static bool is_open(const struct sched *sched, uint32_t engine)
{
    return sched->engines[engine].serves || !sched_balance_any_serves(sched);
}

/* The engines in turn: the first open one after the last that was chosen so. */
static uint32_t next_in_turn(const struct sched *sched)
{
    uint32_t count = sched->settings.engines, at = sched->engine_turn % count;
    while (!is_open(sched, at)) {
        at = (at + 1) % count;
    }
    return at;
}

static uint32_t take_turn(struct sched *sched, uint32_t engine)
{
    sched->engine_turn = (engine + 1) % sched->settings.engines;
    return engine;
}

static uint32_t find_least_used(const struct sched *sched)
{
    uint32_t count = sched->settings.engines, least = next_in_turn(sched);
    for (uint32_t i = 1; i < count; i++) {
        uint32_t at = (sched->engine_turn + i) % count;
        bool is_less = sched->engines[at].open_calls < sched->engines[least].open_calls;
        least = is_open(sched, at) && is_less ? at : least;
    }
    return least;
}

static uint32_t least_used(struct sched *sched)
{
    return take_turn(sched, find_least_used(sched));
}

/* The engine of the program; if need be, it is assigned to one now. */
static uint32_t assigned(struct sched *sched, struct program *program)
{
    if (program->engine == SCHED_ENGINE_NONE || !is_open(sched, program->engine)) {
        program->engine = least_used(sched);
    }
    return program->engine;
}

/* Positions of the call's prompt that the engine has. */
static uint32_t found_at(const struct sched_engine *engine, const struct call *call)
{
    return sched_residency_ask(engine, call, false).positions;
}

/* True when the program loses nothing by leaving `own` for an engine that is used less: it has no
 * call open, the one before found nothing, and `own` has nothing of this one's prompt. A single
 * call that finds nothing says little: it may be the first of another thread. */
static bool is_free_to_go(const struct sched_engine *own, const struct sched_engine *least,
                          const struct call *call)
{
    const struct program *program = &own->sched->programs[call->program];
    return program->active_calls == 0 && program->misses &&
           own->open_calls > least->open_calls && found_at(own, call) == 0;
}

/* True when `least` takes the program over. An idle engine does: no other program would come to one
 * that is back after its death while programs live long. */
static bool should_move(const struct sched_engine *own, const struct sched_engine *least,
                        const struct call *call)
{
    return (least->open_calls == 0 && own->open_calls > 1) || is_free_to_go(own, least, call);
}

/* The engine of the program; one that has no history there is assigned as if it were new. */
static uint32_t assigned_by_history(struct sched *sched, struct program *program,
                                    const struct call *call)
{
    const struct sched_engine *own = &sched->engines[assigned(sched, program)];
    const struct sched_engine *least = &sched->engines[find_least_used(sched)];
    if (is_free_to_go(own, least, call)) {
        program->engine = take_turn(sched, least->index);
    }
    return program->engine;
}

/* The engine of the program, or where it has more calls than rows, another that has far fewer. */
static uint32_t assigned_or_free(struct sched *sched, struct program *program,
                                 const struct call *call)
{
    const struct sched_engine *own = &sched->engines[assigned(sched, program)];
    const struct sched_engine *least = &sched->engines[find_least_used(sched)];
    if (should_move(own, least, call)) {
        return program->engine = take_turn(sched, least->index);
    }
    bool is_full = own->open_calls >= sched->settings.batch_calls;
    return is_full && own->open_calls > 2 * least->open_calls ? take_turn(sched, least->index)
                                                              : own->index;
}

/* Where most of the prompt is found, if that is more than half of it; of two alike, the engine that
 * is used less. */
static uint32_t longest_match(struct sched *sched, const struct call *call)
{
    uint32_t found = SCHED_ENGINE_NONE, most = call->prompt_tokens / 2;
    for (uint32_t i = 0; i < sched->settings.engines; i++) {
        const struct sched_engine *engine = &sched->engines[i];
        uint32_t positions = is_open(sched, i) ? found_at(engine, call) : 0;
        bool ties = found != SCHED_ENGINE_NONE && positions == most &&
                    engine->open_calls < sched->engines[found].open_calls;
        if (positions > most || ties) {
            most = positions;
            found = i;
        }
    }
    return found != SCHED_ENGINE_NONE ? found : least_used(sched);
}

uint32_t sched_balance_route(struct sched *sched, const struct call *call)
{
    struct program *program = &sched->programs[call->program];
    if (sched->settings.engines == 1) {
        return program->engine = 0;
    }
    switch (sched->settings.balance) {
    case SCHED_BALANCE_AUTO:
        return assigned_or_free(sched, program, call);
    case SCHED_BALANCE_LOCAL:
        return call->prompt_tokens > sched->settings.balance_tokens
                   ? assigned_by_history(sched, program, call) : least_used(sched);
    case SCHED_BALANCE_PROGRAM:
        return assigned(sched, program);
    case SCHED_BALANCE_RR:
        return take_turn(sched, next_in_turn(sched));
    case SCHED_BALANCE_PREBLE:
        return longest_match(sched, call);
    case SCHED_BALANCE_LEAST:
        break;
    }
    return least_used(sched);
}

bool sched_balance_may_go(const struct sched *sched, const struct call *call)
{
    return sched->settings.balance != SCHED_BALANCE_PROGRAM ||
           sched->programs[call->program].active_calls == 1;
}

void sched_balance_take_along(const struct sched_engine *from, const struct call *call,
                              const struct sched_engine *to)
{
    struct program *program = &from->sched->programs[call->program];
    if (program->engine == from->index && program->active_calls == 1) {
        program->engine = to->index;
    }
}

void sched_balance_forget(struct sched *sched, const struct sched_engine *engine)
{
    for (uint32_t i = 0; i < sched->settings.programs; i++) {
        struct program *program = &sched->programs[i];
        program->engine = program->engine == engine->index ? SCHED_ENGINE_NONE : program->engine;
    }
}
