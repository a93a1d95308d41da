/* SPDX-License-Identifier: MIT */
/*
 * What: the loop of a replay; no threads:
 *
 *     timer --due--> submit --> appliance --> tokens, done --> successors into the timer
 *                       ^                        |
 *                       +----- busy, closed -----+
 *
 * Invariants: a call is in exactly one place (enum replay_place). Its response time counts from
 * when it was due, so waiting for a refused slot counts too. Call ids are the indices of the
 * calls, so an answer finds its call without a search.
 * Bounds: a pass takes at most EVENTS_PER_LANE events from each lane; a call is sent again only
 * after a pause, and a bounded number of times.
 */
#include "tools/agx/replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/base/assert.h"

#define LANE_WAIT_US      1000      /* when every lane is full */
#define EVENTS_PER_LANE   256
#define CLOSED_TRIES_MAX  8         /* a call is sent again this often over broken connections */
#define ENDS_WAIT_US      1000000
#define COMPLAINTS_MAX    5
#define PROGRESS_US       500000

static uint64_t now_us(const struct replay *replay)
{
    return dial_now_us() - replay->start_us;
}

/* ---- a program's end ------------------------------------------------------------------------- */

static void fail_run(struct replay *replay, struct replay_run *run, const char *why)
{
    if (run->failed) {
        return;
    }
    run->failed = true;
    replay->runs_left--;
    replay->measure.failed++;
    if (replay->complaints++ < COMPLAINTS_MAX) {
        fprintf(stderr, "agx: program %u failed: %s\n", (unsigned)(run - replay->runs), why);
    }
}

static void end_run(struct replay *replay, struct replay_run *run, uint32_t lane)
{
    measure_program(&replay->measure, run->path_us, now_us(replay) - run->arrival_us, run->tokens);
    replay->runs_left--;
    /* If the request finds no room, the appliance forgets the idle program by itself. */
    if (agx_program_end(&replay->lanes.lane[lane].dial.agx, run->program_id) == AGX_OK) {
        replay->ends_open++;
    }
}

/* ---- a call's way ---------------------------------------------------------------------------- */

static void schedule(struct replay *replay, uint32_t index, uint64_t due_us)
{
    replay->calls[index].place = REPLAY_TIMED;
    timer_push(&replay->timer, due_us, index);
}

static enum agx_result send_call(struct replay *replay, uint32_t index, uint32_t lane)
{
    const struct replay_call *call = &replay->calls[index];
    const struct replay_run *run = &replay->runs[call->run];
    uint32_t traced = run->program->calls_first + call->number;
    struct prompt_source source = {.program = run->program, .run = call->run,
                                   .outputs = replay->outputs + run->calls_first};
    prompt_write(&replay->book, &source, call->number, replay->prompt);
    struct agx_call request = {.call_id = index, .thread = call->number, .ignore_eos = 1,
                               .max_tokens = replay->book.out[traced],
                               .prompt_ids = replay->prompt,
                               .prompt_ids_count = prompt_tokens(&replay->book, traced)};
    memcpy(request.program_id, run->program_id, AGX_ID_BYTES);
    return agx_call_start(&replay->lanes.lane[lane].dial.agx, &request);
}

static void submit(struct replay *replay, uint32_t index)
{
    struct replay_call *call = &replay->calls[index];
    ASSERT(call->place == REPLAY_TIMED);
    if (replay->runs[call->run].failed) {
        call->place = REPLAY_OVER;
        return;
    }
    int lane = lanes_pick(&replay->lanes);
    if (lane < 0) {
        schedule(replay, index, now_us(replay) + LANE_WAIT_US);
        replay->code = lane == LANES_FAIL ? EXIT_CONNECT : replay->code;
        return;
    }
    enum agx_result result = send_call(replay, index, (uint32_t)lane);
    if (result == AGX_OK) {
        call->place = REPLAY_OPEN;
        call->lane = (uint32_t)lane;
        replay->lanes.lane[lane].open_calls++;
    } else if (result == AGX_AGAIN || !agx_is_open(&replay->lanes.lane[lane].dial.agx)) {
        schedule(replay, index, now_us(replay) + LANE_WAIT_US);     /* read_lane() sees why */
    } else {
        call->place = REPLAY_OVER;
        replay->code = dial_fail(&replay->lanes.lane[lane].dial.agx, result, "call");
    }
}

static void release_next(struct replay *replay, const struct replay_run *run,
                         const struct replay_call *done, uint64_t path_us)
{
    const struct trace *trace = &replay->trace;
    const struct trace_call *traced = &trace->calls[run->program->calls_first + done->number];
    for (uint32_t i = 0; i < traced->next_count; i++) {
        uint32_t number = trace->links[traced->next_first + i];
        uint32_t index = run->calls_first + number;
        struct replay_call *next = &replay->calls[index];
        ASSERT(next->place == REPLAY_BLOCKED && next->blocked_by > 0);
        next->path_us = path_us > next->path_us ? path_us : next->path_us;
        if (--next->blocked_by == 0) {
            uint64_t gap_us = trace->calls[run->program->calls_first + number].gap_us;
            next->due_us = now_us(replay) + (uint64_t)((double)gap_us * replay->gap_scale);
            schedule(replay, index, next->due_us);
        }
    }
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
}

static void on_done(struct replay *replay, struct replay_call *call, const struct agx_event *event)
{
    struct replay_run *run = &replay->runs[call->run];
    uint32_t traced = run->program->calls_first + call->number;
    uint64_t path_us = call->path_us + (now_us(replay) - call->due_us);
    call->place = REPLAY_OVER;
    add_done(&replay->measure, event);
    replay->measure.cut_prompts +=
        prompt_tokens(&replay->book, traced) < replay->book.whole[traced];
    if (event->finish != AGX_FINISH_LENGTH || event->generated_tokens != replay->book.out[traced]) {
        fail_run(replay, run, agx_finish_text(event->finish));
    }
    if (run->failed) {
        return;
    }
    run->tokens += event->generated_tokens;
    run->path_us = path_us > run->path_us ? path_us : run->path_us;
    release_next(replay, run, call, path_us);
    ASSERT(run->calls_left > 0);
    if (--run->calls_left == 0) {
        end_run(replay, run, call->lane);
    }
}

static void on_refused(struct replay *replay, uint32_t index, const struct agx_fault *fault)
{
    struct replay_call *call = &replay->calls[index];
    uint64_t pause_us;
    if (!fault->is_busy || !retry_again(&replay->retry, fault, &call->busy_tries, &pause_us)) {
        call->place = REPLAY_OVER;
        fail_run(replay, &replay->runs[call->run], fault->text);
        return;
    }
    schedule(replay, index, now_us(replay) + pause_us);
}

static void on_event(struct replay *replay, uint32_t lane_index, const struct agx_event *event)
{
    const struct agx_fault *fault = agx_fault(&replay->lanes.lane[lane_index].dial.agx);
    uint32_t index = (uint32_t)event->call_id;
    if (event->kind == AGX_PROGRAM ||
        (event->kind == AGX_REFUSED && strcmp(fault->frame, "CALL") != 0)) {
        replay->ends_open -= replay->ends_open > 0;
    } else if (event->kind == AGX_TOKENS) {
        memcpy(replay->outputs[index] + event->first_index, event->tokens,
               event->tokens_count * sizeof *event->tokens);
    } else if (event->kind == AGX_DONE) {
        on_done(replay, &replay->calls[index], event);
    } else if (event->kind == AGX_REFUSED) {
        on_refused(replay, index, fault);
    }
}

/* The appliance went away: its open calls are sent again, and give the same tokens. */
static void on_closed(struct replay *replay, uint32_t lane)
{
    replay->measure.reconnects++;
    lanes_close(&replay->lanes, lane);
    for (uint32_t i = 0; i < replay->calls_count; i++) {
        struct replay_call *call = &replay->calls[i];
        if (call->place != REPLAY_OPEN || call->lane != lane) {
            continue;
        }
        if (call->closed_tries++ < CLOSED_TRIES_MAX) {
            schedule(replay, i, now_us(replay) + lanes_retry_us(0));
        } else {
            call->place = REPLAY_OVER;
            fail_run(replay, &replay->runs[call->run], agx_result_text(AGX_ERROR_CLOSED));
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
                (double)now / 1e6, replay->runs_count - replay->runs_left, replay->runs_count,
                replay->measure.generated_tokens);
    }
}

static void pass(struct replay *replay)
{
    uint32_t index;
    uint64_t now = now_us(replay);
    while (replay->code == EXIT_COMPLETE && timer_pop(&replay->timer, now, &index)) {
        submit(replay, index);
    }
    uint64_t next_us = timer_next_us(&replay->timer);
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
    while (replay->runs_left > 0 && replay->code == EXIT_COMPLETE) {
        pass(replay);
    }
    replay->measure.duration_us = now_us(replay);
    uint64_t last_us = replay->measure.duration_us + ENDS_WAIT_US;
    while (replay->ends_open > 0 && replay->code == EXIT_COMPLETE && now_us(replay) < last_us) {
        pass(replay);
    }
    if (replay->progress_us > 0) {
        fprintf(stderr, "\n");
    }
}
