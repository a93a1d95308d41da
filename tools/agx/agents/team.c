/* SPDX-License-Identifier: MIT */
#include "tools/agx/agents/team.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/assert.h"
#include "config/base/status.h"

/*
 * What: the loop of a team; no threads: start what is due, wait, take what has come.
 *
 * Invariants: a call is in one state (enum team_state). A turn ends when all of its calls are DONE.
 * The id of a call encodes its program's turn, its seat and its place in the turn, so a program
 * never uses an id twice. A lane that breaks goes on when the appliance is back, and its calls go
 * on with it.
 * Bounds: a pass looks at every call of every seat, 2^14 at most. When the appliance refuses or
 * fails a call, its agent is over, and the others go on.
 */

#define LOOK_US           40000     /* the longest wait between two looks */
#define ROOM_WAIT_US      5000      /* when every lane is full */
#define SILENCE_US        60000000  /* the longest time without an event */
#define ENDS_WAIT_US      1000000

/* ---- turns ----------------------------------------------------------------------------------- */

static void begin_agent(struct team *team, struct team_seat *seat)
{
    const struct task *task = &team->book->tasks[seat->task];
    seat->in_turn = seat->has_failed = false;
    seat->next = AGENT_GO_ON;
    seat->next_us = 0;
    agent_begin(&seat->agent, task, team->seed);
}

static void take_program(struct team *team, struct team_seat *seat, uint64_t start_us)
{
    seat->task = team->tasks_taken;
    seat->tasks_end = team->tasks_taken = task_book_next(team->book, seat->task);
    seat->is_taken = true;
    seat->is_over = seat->is_named = false;
    seat->start_us = start_us;
    seat->calls_done = seat->tasks_done = seat->tasks_right = seat->tokens = seat->queue = 0;
    seat->turns = 0;
    seat->digest = seat->wait_us = seat->service_us = 0;
    dial_unique_id(team->book->tasks[seat->task].name, seat->program_id);
    begin_agent(team, seat);
}

static void begin_turn(struct team *team, struct team_seat *seat)
{
    seat->in_turn = true;
    seat->turns++;
    agent_begin_turn(&seat->agent);
    ASSERT(seat->agent.calls_count > 0 && seat->agent.calls_count <= AGENT_CALLS_MAX);
    for (uint32_t i = 0; i < seat->agent.calls_count; i++) {
        seat->calls[i] = (struct team_call){.max_tokens = AGENT_MAX_TOKENS};
        if (team->view.opened != NULL) {
            team->view.opened(team->view.context, seat, i);
        }
    }
}

static void end_program(struct team *team, struct team_seat *seat, uint32_t lane)
{
    seat->is_taken = false;
    seat->is_over = true;
    seat->end_us = dial_now_us();
    team->programs_over++;
    /* If the request finds no room, the appliance forgets the idle program by itself. */
    if (team->lanes.lane[lane].is_open &&
        agx_program_end(&team->lanes.lane[lane].dial.agx, seat->program_id) == AGX_OK) {
        team->ends_open++;
    }
}

static void end_agent(struct team *team, struct team_seat *seat, uint32_t lane)
{
    team->right[seat->agent.task->kind] += seat->agent.is_right;
    team->tasks_over++;
    seat->tasks_done++;
    seat->tasks_right += seat->agent.is_right;
    seat->task++;
    if (seat->task == seat->tasks_end) {
        end_program(team, seat, lane);
    }
    if (team->view.over != NULL) {
        team->view.over(team->view.context, seat);
    }
    if (seat->is_taken) {
        begin_agent(team, seat);
    }
}

/* One more call of the turn has ended; the last one ends the turn. */
static void settle_call(struct team *team, struct team_seat *seat, uint32_t lane)
{
    for (uint32_t i = 0; i < seat->agent.calls_count; i++) {
        if (seat->calls[i].state != TEAM_DONE) {
            return;
        }
    }
    seat->in_turn = false;
    seat->next = seat->has_failed ? AGENT_OVER : agent_end_turn(&seat->agent);
    if (seat->next == AGENT_OVER) {
        end_agent(team, seat, lane);
    } else {
        seat->next_us = dial_now_us() + (seat->next == AGENT_TOOL     ? team->tool_us
                                         : seat->next == AGENT_READER ? team->reader_us : 0);
    }
}

/* Between two turns the tool works, or the person reads. */
static void pause_turn(struct team *team, struct team_seat *seat, uint64_t now_us)
{
    if (seat->next_us > now_us) {
        return;
    }
    if (seat->next == AGENT_TOOL && team->view.used_tool != NULL) {
        team->view.used_tool(team->view.context, seat);
    }
    begin_turn(team, seat);
}

/* The appliance did not serve call `index`: the agent is over when its other calls are. */
static void fail_call(struct team *team, struct team_seat *seat, uint32_t index, const char *why,
                      int code)
{
    seat->calls[index].state = TEAM_DONE;
    for (uint32_t i = 0; i < seat->agent.calls_count; i++) {
        if (seat->calls[i].state == TEAM_DUE) {
            seat->calls[i].state = TEAM_DONE;
        }
    }
    if (!seat->has_failed) {
        seat->has_failed = true;
        agent_fail(&seat->agent, why);
    }
    team->served_code = team->served_code != EXIT_COMPLETE ? team->served_code : code;
    settle_call(team, seat, seat->calls[index].lane);
}

/* ---- a call's way ---------------------------------------------------------------------------- */

static uint64_t call_id(const struct team_seat *seat, uint32_t index)
{
    return ((uint64_t)seat->turns * TEAM_SEATS_MAX + seat->number) * AGENT_CALLS_MAX + index;
}

/* The class goes before the first call, on its lane. */
static enum agx_result name_class(struct team *team, struct team_seat *seat, uint32_t lane)
{
    if (seat->is_named || team->class_name == NULL) {
        return AGX_OK;
    }
    enum agx_result result = agx_program_start_class(&team->lanes.lane[lane].dial.agx,
                                                     seat->program_id, team->class_name);
    seat->is_named = result == AGX_OK;
    return result;
}

static enum agx_result start_call(struct team *team, struct team_seat *seat, uint32_t index,
                                  uint32_t lane)
{
    const struct agent_call *call = &seat->agent.calls[index];
    enum agx_result named = name_class(team, seat, lane);
    if (named != AGX_OK) {
        return named;
    }
    struct agx_call *request = &seat->calls[index].request;
    *request = (struct agx_call){
        .call_id = call_id(seat, index), .thread = index,
        .max_tokens = seat->calls[index].max_tokens, .temperature = call->temperature,
        .seed = call->seed, .want_text = 1, .prompt_text = call->prompt,
        .prompt_text_bytes = call->prompt_bytes};
    memcpy(request->program_id, seat->program_id, AGX_ID_BYTES);
    return agx_call_start(&team->lanes.lane[lane].dial.agx, request);
}

static void send_call(struct team *team, struct team_seat *seat, uint32_t index, uint64_t now_us)
{
    struct team_call *call = &seat->calls[index];
    int lane = lanes_pick(&team->lanes, 0);
    if (lane < 0) {
        call->due_us = now_us + ROOM_WAIT_US;
        team->code = lane == LANES_FAIL ? EXIT_CONNECT : team->code;
        return;
    }
    enum agx_result result = start_call(team, seat, index, (uint32_t)lane);
    if (result == AGX_OK) {
        call->state = TEAM_QUEUED;
        call->lane = (uint32_t)lane;
        team->lanes.lane[lane].open_calls++;
    } else if (result == AGX_AGAIN || !agx_is_open(&team->lanes.lane[lane].dial.agx)) {
        call->due_us = now_us + ROOM_WAIT_US;       /* read_lane() sees why */
    } else {
        team->code = dial_fail(&team->lanes.lane[lane].dial.agx, result, seat->agent.task->name);
    }
}

static void hear(struct team *team, struct team_seat *seat, uint32_t index,
                 const struct agx_event *event)
{
    seat->calls[index].state = TEAM_RUNNING;
    seat->tokens += event->tokens_count;
    team->tokens += event->tokens_count;
    seat->queue = event->queue;
    agent_hear(&seat->agent.calls[index], event->text, event->text_bytes);
    if (team->view.said != NULL) {
        team->view.said(team->view.context, seat, index, event->text, event->text_bytes);
    }
}

/* Of a call's id and tokens. Sums of these do not depend on the order in which calls end. */
static uint64_t digest_of(const struct agx_event *event)
{
    uint64_t mixed = (event->digest ^ event->call_id) * 0x9e3779b97f4a7c15u;
    return mixed ^ mixed >> 32;
}

static void finish(struct team *team, struct team_seat *seat, uint32_t index,
                   const struct agx_event *event)
{
    struct team_call *call = &seat->calls[index];
    seat->calls_done++;
    seat->digest += digest_of(event);
    seat->wait_us += event->wait_us;
    seat->service_us += event->service_us;
    if (team->view.ended != NULL) {
        team->view.ended(team->view.context, seat, index);
    }
    if (event->finish > AGX_FINISH_STOP_TEXT) {
        fail_call(team, seat, index, agx_finish_text(event->finish), EXIT_INCOMPLETE);
        return;
    }
    call->state = TEAM_DONE;
    settle_call(team, seat, call->lane);
}

/* The tokens that a long prompt leaves for the answer, or 0. */
static uint32_t smaller_answer(const struct team_call *call, const struct agx_fault *fault)
{
    uint64_t prompt = fault->found - call->max_tokens;
    bool is_known = status_from_wire(fault->code) == STATUS_BAD_PROMPT_LENGTH &&
                    fault->found > call->max_tokens && prompt < fault->max;
    return is_known ? (uint32_t)(fault->max - prompt) : 0;
}

static void on_refused(struct team *team, struct team_seat *seat, uint32_t index,
                       const struct agx_fault *fault)
{
    struct team_call *call = &seat->calls[index];
    uint32_t smaller = fault->is_busy ? 0 : smaller_answer(call, fault);
    uint64_t pause_us = 0;
    if (!seat->has_failed &&
        (smaller > 0 || (fault->is_busy && retry_again(&team->retry, fault, &call->busy_tries,
                                                       &pause_us)))) {
        call->state = TEAM_DUE;
        call->due_us = dial_now_us() + pause_us;
        call->max_tokens = smaller > 0 ? smaller : call->max_tokens;
        return;
    }
    fail_call(team, seat, index, fault->text, EXIT_REFUSED);
}

static void on_event(struct team *team, uint32_t lane, const struct agx_event *event)
{
    const struct agx_fault *fault = agx_fault(&team->lanes.lane[lane].dial.agx);
    team->heard_us = dial_now_us();
    if (event->kind == AGX_PROGRAM ||
        (event->kind == AGX_REFUSED && strcmp(fault->frame, "CALL") != 0)) {
        bool is_end = event->kind == AGX_PROGRAM ? event->program_has_ended
                                                 : strcmp(fault->frame, "PROGRAM_END") == 0;
        team->ends_open -= is_end && team->ends_open > 0;
        return;
    }
    uint32_t index = (uint32_t)(event->call_id % AGENT_CALLS_MAX);
    uint32_t number = (uint32_t)(event->call_id / AGENT_CALLS_MAX % TEAM_SEATS_MAX);
    ASSERT(number < team->seats_count);                             /* the id is an open call's */
    struct team_seat *seat = &team->seats[number];
    if (event->kind == AGX_TOKENS) {
        hear(team, seat, index, event);
    } else if (event->kind == AGX_DONE) {
        finish(team, seat, index, event);
    } else if (event->kind == AGX_REFUSED) {
        on_refused(team, seat, index, fault);
    }
}

/* The lane breaks every time, perhaps because of one of its calls: all of them fail. */
static void give_up(struct team *team, uint32_t lane)
{
    lanes_close(&team->lanes, lane);
    for (uint32_t i = 0; i < team->seats_count; i++) {
        struct team_seat *seat = &team->seats[i];
        for (uint32_t k = 0; seat->in_turn && k < seat->agent.calls_count; k++) {
            const struct team_call *call = &seat->calls[k];
            if (call->lane == lane && call->state != TEAM_DUE && call->state != TEAM_DONE) {
                fail_call(team, seat, k, agx_result_text(AGX_ERROR_CLOSED), EXIT_INCOMPLETE);
            }
        }
    }
}

/* The appliance went away: open calls go on when it is back. */
static enum agx_result on_closed(struct team *team, uint32_t lane)
{
    if (!team->lanes.lane[lane].is_open) {
        return AGX_AGAIN;               /* no call was open there */
    }
    enum agx_result result = lanes_resume(&team->lanes, lane);
    if (result == AGX_ERROR_CLOSED) {
        give_up(team, lane);
        return AGX_AGAIN;
    }
    return result;
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* True when the next program may take this free seat. */
static bool can_begin(const struct team *team, const struct team_seat *seat)
{
    bool is_closed = team->is_gated && (seat->is_over || seat->number >= team->admitted);
    return !is_closed && team->tasks_taken < team->book->count;
}

/* Starts what is due in one seat. Returns when its next act is due, or `next_us` if that is sooner.
 * */
static uint64_t advance(struct team *team, struct team_seat *seat, uint64_t now_us,
                        uint64_t next_us)
{
    if (!seat->is_taken && can_begin(team, seat)) {
        take_program(team, seat, team->is_gated ? seat->start_us : now_us);
    }
    if (seat->is_taken && !seat->in_turn) {
        pause_turn(team, seat, now_us);
    }
    if (!seat->in_turn) {
        return seat->is_taken && seat->next_us < next_us ? seat->next_us : next_us;
    }
    for (uint32_t i = 0; i < seat->agent.calls_count && team->code == EXIT_COMPLETE; i++) {
        struct team_call *call = &seat->calls[i];
        if (call->state == TEAM_DUE && call->due_us <= now_us) {
            send_call(team, seat, i, now_us);
        }
        if (call->state == TEAM_DUE && call->due_us < next_us) {
            next_us = call->due_us;
        }
    }
    return next_us;
}

static void read_lane(struct team *team, uint32_t index)
{
    struct agx_event event;
    const struct agx *agx = &team->lanes.lane[index].dial.agx;
    enum agx_result result = agx_is_open(agx) ? AGX_OK : AGX_ERROR_CLOSED;
    while (result == AGX_OK && team->code == EXIT_COMPLETE) {
        result = lanes_next(&team->lanes, index, &event);
        if (result == AGX_OK) {
            on_event(team, index, &event);
        }
    }
    if (result == AGX_ERROR_CLOSED) {
        result = on_closed(team, index);
    }
    if (result != AGX_OK && result != AGX_AGAIN) {
        team->code = dial_fail(agx, result, "agents");
    }
}

static bool is_complete(const struct team *team, uint64_t now_us)
{
    return team->tasks_over == team->book->count &&
           (team->ends_open == 0 || now_us >= team->ends_us);
}

bool team_pass(struct team *team, uint64_t wait_us)
{
    uint64_t now_us = dial_now_us(), next_us = now_us + wait_us;
    if (team->code != EXIT_COMPLETE || is_complete(team, now_us)) {
        return false;
    }
    for (uint32_t i = 0; i < team->seats_count && team->code == EXIT_COMPLETE; i++) {
        next_us = advance(team, &team->seats[i], now_us, next_us);
    }
    now_us = dial_now_us();
    lanes_wait(&team->lanes, next_us > now_us ? next_us - now_us : 0);
    for (uint32_t i = 0; i < team->lanes.count && team->code == EXIT_COMPLETE; i++) {
        if (team->lanes.lane[i].is_open) {
            read_lane(team, i);
        }
    }
    if (team->view.look != NULL) {
        team->view.look(team->view.context);
    }
    now_us = dial_now_us();
    if (team->tasks_over < team->book->count) {
        team->ends_us = now_us + ENDS_WAIT_US;
    }
    if (now_us - team->heard_us > SILENCE_US && team->code == EXIT_COMPLETE) {
        fprintf(stderr, "agx: nothing has come for a minute\n");
        team->code = EXIT_CONNECT;
    }
    return true;
}

void team_begin(struct team *team)
{
    team->heard_us = dial_now_us();
}

void team_admit(struct team *team, uint64_t now_us)
{
    ASSERT(team->is_gated && team->admitted < team->seats_count);
    team->seats[team->admitted++].start_us = now_us;
}

int team_code(const struct team *team)
{
    return team->code != EXIT_COMPLETE ? team->code : team->served_code;
}

int team_run(struct team *team)
{
    team_begin(team);
    while (team_pass(team, LOOK_US)) {
    }
    return team_code(team);
}

int team_open(struct team *team, const char *to)
{
    ASSERT(team->seats_count > 0 && team->seats_count <= TEAM_SEATS_MAX);
    team->seats = calloc(team->seats_count, sizeof *team->seats);
    if (team->seats == NULL) {
        fprintf(stderr, "agx: out of memory\n");
        return EXIT_SYSTEM;
    }
    for (uint32_t i = 0; i < team->seats_count; i++) {
        team->seats[i].number = i;
    }
    return lanes_init(&team->lanes, to, &team->retry, &team->welcome);
}

void team_close(struct team *team)
{
    lanes_free(&team->lanes);
    free(team->seats);
    team->seats = NULL;
}
