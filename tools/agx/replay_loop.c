/* SPDX-License-Identifier: MIT */
/*
 * What: the loop of a replay; no threads:
 *
 *     player --due--> submit --> appliance --> tokens, done --> player: the next calls
 *                       ^                         |
 *                       +------ busy, closed -----+
 *
 * Invariants: a call's response time counts from when it was due, so waiting for a refused slot
 * counts too. Call ids are the indices of the calls, so an answer finds its call without a search.
 * Bounds: a pass takes at most EVENTS_PER_LANE events from each lane. A call is sent again only
 * after a pause, and a bounded number of times.
 */
#include "tools/agx/replay.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/base/assert.h"

#define LANE_WAIT_US      1000      /* when every lane is full */
#define EVENTS_PER_LANE   256
#define CLOSED_TRIES_MAX  8         /* tries of a call over connections that break */
#define ENDS_WAIT_US      1000000
#define COMPLAINTS_MAX    5
#define PROGRESS_US       500000

static uint64_t now_us(const struct replay *replay)
{
    return dial_now_us() - replay->start_us;
}

/* ---- a program's end ------------------------------------------------------------------------- */

/* The call has failed, and its program with it. */
static void fail_call(struct replay *replay, uint32_t index, const char *why)
{
    if (!player_fail(&replay->player, index, now_us(replay))) {
        return;
    }
    replay->measure.failed++;
    sessions_failure(&replay->measure.sessions, now_us(replay));
    if (replay->complaints++ < COMPLAINTS_MAX) {
        fprintf(stderr, "agx: program %" PRIu32 " failed: %s\n", replay->player.calls[index].run,
                why);
    }
}

static void end_run(struct replay *replay, uint32_t index, uint32_t lane)
{
    const struct player_run *played = &replay->player.runs[index];
    const struct replay_run *run = &replay->runs[index];
    measure_program(&replay->measure, played->path_us, now_us(replay) - played->arrival_us,
                    run->tokens);
    sessions_program(&replay->measure.sessions, played->path_us, run->tokens, now_us(replay));
    /* If the request finds no room, the appliance forgets the idle program by itself. */
    if (agx_program_end(&replay->lanes.lane[lane].dial.agx, run->program_id) == AGX_OK) {
        replay->asked++;
    }
}

/* ---- a call's way ---------------------------------------------------------------------------- */

static void pause_call(struct replay *replay, uint32_t index, uint64_t pause_us)
{
    player_again(&replay->player, index, now_us(replay) + pause_us);
}

/* Into replay->prompt. */
static void write_prompt(struct replay *replay, uint32_t index)
{
    const struct player_call *call = &replay->player.calls[index];
    const struct player_run *run = &replay->player.runs[call->run];
    struct prompt_source source = {.program = run->program, .run = call->run,
                                   .outputs = replay->outputs + run->calls_first};
    prompt_write(&replay->book, &source, call->number, replay->prompt);
}

/* Before its first call. A name that the protocol does not take is not told. */
static enum agx_result name_program(struct replay *replay, uint32_t index, uint32_t lane)
{
    const struct trace_program *program = replay->player.runs[index].program;
    struct replay_run *run = &replay->runs[index];
    enum agx_result result = agx_program_start_class(
        &replay->lanes.lane[lane].dial.agx, run->program_id,
        replay->trace.classes[program->class].name);
    replay->asked += result == AGX_OK;
    run->is_named = result == AGX_OK || result == AGX_ERROR_ARGUMENT;
    return run->is_named ? AGX_OK : result;
}

static enum agx_result send_call(struct replay *replay, uint32_t index, uint32_t lane)
{
    const struct player_call *call = &replay->player.calls[index];
    uint32_t traced = player_traced(&replay->player, index);
    enum agx_result result = AGX_OK;
    if (!replay->runs[call->run].is_named) {
        result = name_program(replay, call->run, lane);
    }
    if (result != AGX_OK) {
        return result;
    }
    write_prompt(replay, index);
    struct agx_call request = {.call_id = index, .thread = call->number, .ignore_eos = 1,
                               .max_tokens = replay->book.out[traced],
                               .prompt_ids = replay->prompt,
                               .prompt_ids_count = prompt_tokens(&replay->book, traced)};
    memcpy(request.program_id, replay->runs[call->run].program_id, AGX_ID_BYTES);
    return agx_call_start(&replay->lanes.lane[lane].dial.agx, &request);
}

static void submit(struct replay *replay, uint32_t index)
{
    const struct player *player = &replay->player;
    if (player->runs[player->calls[index].run].failed) {
        return;
    }
    int lane = lanes_pick(&replay->lanes, player->calls[index].run);
    if (lane < 0) {
        pause_call(replay, index, LANE_WAIT_US);
        replay->code = lane == LANES_FAIL ? EXIT_CONNECT : replay->code;
        return;
    }
    enum agx_result result = send_call(replay, index, (uint32_t)lane);
    if (result == AGX_OK) {
        replay->calls[index].is_sent = true;
        replay->calls[index].lane = (uint32_t)lane;
        replay->lanes.lane[lane].open_calls++;
    } else if (result == AGX_AGAIN || !agx_is_open(&replay->lanes.lane[lane].dial.agx)) {
        pause_call(replay, index, LANE_WAIT_US);    /* read_lane() sees why */
    } else {
        replay->code = dial_fail(&replay->lanes.lane[lane].dial.agx, result, "call");
    }
}

/* As tools/predict/calls.py reads it. */
static void log_call(struct replay *replay, uint32_t index, const struct agx_event *event)
{
    const struct player_call *call = &replay->player.calls[index];
    const struct trace_program *program = replay->player.runs[call->run].program;
    char name[16];
    snprintf(name, sizeof name, "%" PRIu32, call->run);
    json_t *line = json_pack("{s:s, s:I, s:I}", "program", name, "prompt",
                             (json_int_t)event->prompt_tokens, "output",
                             (json_int_t)event->generated_tokens);
    if (call->number == 0) {
        json_t *tokens = json_array();
        write_prompt(replay, index);
        for (uint32_t i = 0; i < event->prompt_tokens; i++) {
            json_array_append_new(tokens, json_integer(replay->prompt[i]));
        }
        json_object_set_new(line, "class", json_string(replay->trace.classes[program->class].name));
        json_object_set_new(line, "tokens", tokens);
    }
    json_dumpf(line, replay->calls_log, JSON_COMPACT);
    fputc('\n', replay->calls_log);
    json_decref(line);
}

static void add_done(struct measure *measure, const struct agx_event *event)
{
    measure->calls++;
    measure->prompt_tokens += event->prompt_tokens;
    measure->cached_tokens += event->cached_tokens;
    measure->generated_tokens += event->generated_tokens;
    measure->preemptions += event->preemptions;
    measure->wait_us += event->wait_us;
    measure->service_us += event->service_us;
    sessions_call(&measure->sessions, event->generated_tokens, event->prompt_tokens,
                  event->cached_tokens);
}

static void on_done(struct replay *replay, uint32_t index, const struct agx_event *event)
{
    uint32_t traced = player_traced(&replay->player, index);
    uint32_t run = replay->player.calls[index].run;
    replay->calls[index].is_sent = false;
    add_done(&replay->measure, event);
    replay->measure.cut_prompts +=
        prompt_tokens(&replay->book, traced) < replay->book.whole[traced];
    replay->measure.cut_outputs += prompt_cuts_output(&replay->book, traced);
    if (event->finish != AGX_FINISH_LENGTH || event->generated_tokens != replay->book.out[traced]) {
        fail_call(replay, index, agx_finish_text(event->finish));
        return;
    }
    if (replay->calls_log != NULL) {
        log_call(replay, index, event);
    }
    replay->runs[run].tokens += event->generated_tokens;
    const uint64_t times_us[] = {replay->player.calls[index].due_us,
                                 replay->calls[index].first_us, now_us(replay)};
    serving_call(&replay->measure.serving, times_us, event->generated_tokens);
    if (player_over(&replay->player, index, now_us(replay))) {
        end_run(replay, run, replay->calls[index].lane);
    }
}

static void on_refused(struct replay *replay, uint32_t index, const struct agx_fault *fault)
{
    struct replay_call *call = &replay->calls[index];
    uint64_t pause_us;
    call->is_sent = false;
    if (fault->is_busy && retry_again(&replay->retry, fault, &call->busy_tries, &pause_us)) {
        replay->runs[replay->player.calls[index].run].is_named = false;     /* nor known, perhaps */
        pause_call(replay, index, pause_us);
    } else {
        fail_call(replay, index, fault->text);
    }
}

static void on_event(struct replay *replay, uint32_t lane_index, const struct agx_event *event)
{
    const struct agx_fault *fault = agx_fault(&replay->lanes.lane[lane_index].dial.agx);
    uint32_t index = (uint32_t)event->call_id;
    if (event->kind == AGX_PROGRAM ||
        (event->kind == AGX_REFUSED && strcmp(fault->frame, "CALL") != 0)) {
        replay->asked -= replay->asked > 0;
    } else if (event->kind == AGX_TOKENS) {
        uint64_t *first_us = &replay->calls[index].first_us;
        *first_us = *first_us > 0 ? *first_us : now_us(replay);
        memcpy(replay->outputs[index] + event->first_index, event->tokens,
               event->tokens_count * sizeof *event->tokens);
    } else if (event->kind == AGX_DONE) {
        on_done(replay, index, event);
    } else if (event->kind == AGX_REFUSED) {
        on_refused(replay, index, fault);
    }
}

/* The appliance went away: its open calls are sent again, and yield the same tokens. What answers
 * next may be another one, which has not heard of their programs. */
static void on_closed(struct replay *replay, uint32_t lane)
{
    replay->measure.reconnects++;
    lanes_close(&replay->lanes, lane);
    for (uint32_t i = 0; i < replay->player.calls_count; i++) {
        struct replay_call *call = &replay->calls[i];
        if (!call->is_sent || call->lane != lane) {
            continue;
        }
        call->is_sent = false;
        replay->runs[replay->player.calls[i].run].is_named = false;
        if (call->closed_tries++ < CLOSED_TRIES_MAX) {
            pause_call(replay, i, lanes_retry_us(0));
        } else {
            fail_call(replay, i, agx_result_text(AGX_ERROR_CLOSED));
        }
    }
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void read_lane(struct replay *replay, uint32_t index)
{
    struct agx_event event;
    enum agx_result result = AGX_OK;
    for (uint32_t i = 0; i < EVENTS_PER_LANE && result == AGX_OK; i++) {
        result = lanes_next(&replay->lanes, index, &event);
        if (result == AGX_OK) {
            on_event(replay, index, &event);
        }
    }
    if (result == AGX_ERROR_CLOSED) {
        on_closed(replay, index);
    } else if (result != AGX_OK && result != AGX_AGAIN) {
        replay->code = dial_fail(&replay->lanes.lane[index].dial.agx, result, "replay");
    }
}

static void show_progress(struct replay *replay)
{
    uint64_t now = now_us(replay);
    if (now - replay->progress_us >= PROGRESS_US && isatty(STDERR_FILENO)) {
        replay->progress_us = now;
        fprintf(stderr, "\r%8.1f s  %" PRIu32 " of %" PRIu32 " programs, %" PRIu64 " tokens ",
                (double)now / 1e6, replay->player.runs_count - replay->player.runs_left,
                replay->player.runs_count, replay->measure.generated_tokens);
    }
}

static void pass(struct replay *replay)
{
    uint32_t index;
    uint64_t now = now_us(replay);
    while (replay->code == EXIT_COMPLETE && player_due(&replay->player, now, &index)) {
        submit(replay, index);
    }
    uint64_t next_us = player_next_us(&replay->player);
    now = now_us(replay);
    uint64_t wait_us = next_us > now ? next_us - now : 0;
    lanes_wait(&replay->lanes, wait_us < PROGRESS_US ? wait_us : PROGRESS_US);
    for (uint32_t i = 0; i < replay->lanes.count && replay->code == EXIT_COMPLETE; i++) {
        if (replay->lanes.lane[i].is_open) {
            read_lane(replay, i);
        }
    }
    show_progress(replay);
}

void replay_run(struct replay *replay)
{
    replay->start_us = dial_now_us();
    while (replay->player.runs_left > 0 && replay->code == EXIT_COMPLETE) {
        pass(replay);
    }
    replay->measure.duration_us = now_us(replay);
    uint64_t last_us = replay->measure.duration_us + ENDS_WAIT_US;
    while (replay->asked > 0 && replay->code == EXIT_COMPLETE && now_us(replay) < last_us) {
        pass(replay);
    }
    if (replay->progress_us > 0) {
        fprintf(stderr, "\n");
    }
}
