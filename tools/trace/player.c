/* SPDX-License-Identifier: MIT */
/*
 * What: the state of every call of every run, and a heap of those that are due.
 * Invariants: a call is in exactly one place (enum player_place); TIMED calls, and only they, are
 * in the timer. blocked_by counts the calls before it that are not over. The calls of a run that
 * has not arrived are BLOCKED. While runs of a closed load are still to arrive, as many are open as
 * it has sessions.
 * Bounds: O(log calls) for each call; memory is taken once.
 */
#include "tools/trace/player.h"

#include <stdlib.h>

#include "config/base/assert.h"
#include "config/base/bounds.h"

/* ---- before the first arrival ---------------------------------------------------------------- */

static uint32_t runs_of(const struct trace *trace, uint32_t programs)
{
    return programs != 0 ? programs : trace->programs_count;
}

double player_natural_rate(const struct trace *trace, uint32_t programs)
{
    uint32_t count = lesser(runs_of(trace, programs), trace->programs_count);
    uint64_t span_us = trace->programs[count - 1].arrival_us - trace->programs[0].arrival_us;
    return span_us > 0 ? (double)(count - 1) * 1e6 / (double)span_us : 0;
}

uint64_t player_calls(const struct trace *trace, uint32_t programs)
{
    uint32_t count = runs_of(trace, programs);
    if (count == 0) {
        return 0;
    }
    uint32_t rest = count % trace->programs_count;
    uint64_t calls = (uint64_t)(count / trace->programs_count) * trace->calls_count;
    return calls + (rest > 0 ? trace->programs[rest].calls_first : 0);
}

static uint64_t arrival_us(const struct player *player, uint32_t run, uint32_t cycle)
{
    const struct trace *trace = player->trace;
    double natural = player_natural_rate(trace, cycle), rate = player->settings.rate;
    if (rate == 0 || player->settings.sessions > 0) {
        return player->settings.start_us;
    }
    if (natural == 0) {
        return player->settings.start_us + (uint64_t)(run * 1e6 / rate);
    }
    uint64_t offset = trace->programs[run % cycle].arrival_us - trace->programs[0].arrival_us;
    return player->settings.start_us +
           (uint64_t)((double)offset * natural / rate + (double)(run / cycle) * cycle * 1e6 / rate);
}

static uint64_t draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return *state >> 33;
}

/* Chooses the program of each run: the first `cycle` of the trace, again and again. */
static void deal(struct player *player, uint32_t cycle)
{
    uint64_t state = player->settings.seed;
    for (uint32_t first = 0; first < player->runs_count; first += cycle) {
        struct player_run *runs = &player->runs[first];
        uint32_t count = lesser(player->runs_count - first, cycle);
        for (uint32_t i = 0; i < count; i++) {
            runs[i].program = &player->trace->programs[i];
        }
        for (uint32_t i = count; player->settings.seed != 0 && i-- > 1;) {
            uint32_t other = (uint32_t)(draw(&state) % (i + 1));
            const struct trace_program *program = runs[i].program;
            runs[i].program = runs[other].program;
            runs[other].program = program;
        }
    }
}

static uint64_t gap_us(const struct player *player, uint32_t call)
{
    uint64_t traced_us = player->trace->calls[player_traced(player, call)].gap_us;
    double max_us = player->settings.gap_s_max * 1e6;
    double gap = max_us > 0 && (double)traced_us > max_us ? max_us : (double)traced_us;
    return (uint64_t)(gap * player->settings.gap_scale);
}

static void set_timer(struct player *player, uint32_t index, uint64_t at_us)
{
    player->calls[index].place = PLAYER_TIMED;
    timer_push(&player->timer, at_us, index);
}

static void prepare_run(struct player *player, uint32_t index, uint32_t calls_first)
{
    struct player_run *run = &player->runs[index];
    run->calls_first = calls_first;
    run->calls_left = run->program->calls_count;
    run->arrival_us = UINT64_MAX;
    for (uint32_t n = 0; n < run->calls_left; n++) {
        struct player_call *call = &player->calls[calls_first + n];
        uint32_t blocked_by = player->trace->calls[run->program->calls_first + n].after_count;
        *call = (struct player_call){.run = index, .number = n, .blocked_by = blocked_by};
    }
}

/* Sets the timer of calls that wait for no other. */
static void let_arrive(struct player *player, uint64_t at_us)
{
    struct player_run *run = &player->runs[player->runs_arrived++];
    run->arrival_us = at_us;
    for (uint32_t n = 0; n < run->program->calls_count; n++) {
        uint32_t index = run->calls_first + n;
        struct player_call *call = &player->calls[index];
        if (call->blocked_by == 0) {
            call->due_us = at_us + gap_us(player, index);
            set_timer(player, index, call->due_us);
        }
    }
}

/* All of an open load, the first of each session of a closed one. */
static void let_first_arrive(struct player *player, uint32_t cycle)
{
    uint32_t sessions = player->settings.sessions;
    uint32_t count = sessions > 0 ? lesser(sessions, player->runs_count) : player->runs_count;
    while (player->runs_arrived < count) {
        let_arrive(player, arrival_us(player, player->runs_arrived, cycle));
    }
}

enum player_start player_init(struct player *player, const struct trace *trace,
                              const struct player_settings *settings)
{
    uint32_t runs = runs_of(trace, settings->programs), calls_first = 0;
    uint32_t cycle = lesser(runs, trace->programs_count);
    uint64_t calls = player_calls(trace, runs);
    *player = (struct player){.trace = trace, .settings = *settings};
    if (calls > settings->calls_max) {
        return PLAYER_TOO_MANY_CALLS;
    }
    player->runs = calloc(runs, sizeof *player->runs);
    player->calls = calloc(calls, sizeof *player->calls);
    if (player->runs == NULL || player->calls == NULL ||
        !timer_init(&player->timer, (uint32_t)calls)) {
        return PLAYER_NO_MEMORY;
    }
    player->runs_count = player->runs_left = runs;
    player->calls_count = (uint32_t)calls;
    deal(player, cycle);
    for (uint32_t i = 0; i < runs; i++) {
        prepare_run(player, i, calls_first);
        calls_first += player->runs[i].program->calls_count;
    }
    ASSERT(calls_first == player->calls_count);
    let_first_arrive(player, cycle);
    return PLAYER_READY;
}

void player_free(struct player *player)
{
    free(player->runs);
    free(player->calls);
    timer_free(&player->timer);
}

/* ---- a call's way ---------------------------------------------------------------------------- */

bool player_due(struct player *player, uint64_t now_us, uint32_t *call)
{
    if (!timer_pop(&player->timer, now_us, call)) {
        return false;
    }
    ASSERT(player->calls[*call].place == PLAYER_TIMED);
    player->calls[*call].place = PLAYER_OPEN;
    return true;
}

uint64_t player_next_us(const struct player *player)
{
    return timer_next_us(&player->timer);
}

void player_again(struct player *player, uint32_t call, uint64_t at_us)
{
    ASSERT(player->calls[call].place == PLAYER_OPEN);
    set_timer(player, call, at_us);
}

/* Sets the timer of calls that waited for `done` alone; its chain took `path_us`. */
static void release_next(struct player *player, const struct player_call *done, uint64_t path_us,
                         uint64_t now_us)
{
    const struct player_run *run = &player->runs[done->run];
    const struct trace_call *traced =
        &player->trace->calls[run->program->calls_first + done->number];
    for (uint32_t i = 0; i < traced->next_count; i++) {
        uint32_t index = run->calls_first + player->trace->links[traced->next_first + i];
        struct player_call *next = &player->calls[index];
        ASSERT(next->place == PLAYER_BLOCKED && next->blocked_by > 0);
        next->path_us = path_us > next->path_us ? path_us : next->path_us;
        if (--next->blocked_by == 0) {
            next->due_us = now_us + gap_us(player, index);
            set_timer(player, index, next->due_us);
        }
    }
}

/* A run is complete or has failed: its session plays the next one. */
static void end_run(struct player *player, uint64_t now_us)
{
    player->runs_left--;
    if (player->runs_arrived < player->runs_count) {
        let_arrive(player, now_us);
    }
}

bool player_over(struct player *player, uint32_t index, uint64_t now_us)
{
    struct player_call *call = &player->calls[index];
    struct player_run *run = &player->runs[call->run];
    uint64_t path_us = call->path_us + (now_us - call->due_us);
    ASSERT(call->place == PLAYER_OPEN && run->calls_left > 0);
    call->place = PLAYER_OVER;
    run->calls_left--;
    if (run->failed) {
        return false;
    }
    run->path_us = path_us > run->path_us ? path_us : run->path_us;
    release_next(player, call, path_us, now_us);
    if (run->calls_left > 0) {
        return false;
    }
    end_run(player, now_us);
    return true;
}

bool player_fail(struct player *player, uint32_t index, uint64_t now_us)
{
    struct player_call *call = &player->calls[index];
    struct player_run *run = &player->runs[call->run];
    ASSERT(call->place == PLAYER_OPEN);
    call->place = PLAYER_OVER;
    if (run->failed) {
        return false;
    }
    run->failed = true;
    end_run(player, now_us);
    return true;
}
