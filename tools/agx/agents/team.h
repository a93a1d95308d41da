/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: many agents at once, each a program of its own, over as few connections as their calls
 * need. A team has seats: a task takes a free seat, its agent works there, and the next task
 * follows. A watcher gets a call for every event.
 *
 *      tasks --> seat: agent --turn--> calls --> appliance
 *                  ^                               |
 *                  +---- words, ends, refusals ----+
 */
#include <stdbool.h>
#include <stdint.h>

#include "tools/agx/agents/agent.h"
#include "tools/agx/lanes.h"

#define TEAM_SEATS_MAX 256

/* DUE: to be sent, for the first time or after a busy answer. QUEUED: sent, no token yet. */
enum team_state { TEAM_DUE, TEAM_QUEUED, TEAM_RUNNING, TEAM_DONE };
struct team_call {
    enum team_state state;
    uint64_t due_us;                /* DUE: not before */
    uint64_t sent_us, first_us;     /* of the last try: sent, first token; 0: not yet */
    uint32_t max_tokens, lane, busy_tries;
    struct agx_call request;        /* what was sent; the library keeps a pointer to it */
};
struct team_seat {
    struct agent agent;
    struct team_call calls[AGENT_CALLS_MAX];    /* of agent.calls */
    uint8_t program_id[AGX_ID_BYTES];
    uint32_t number;                /* of the seat, from 0 */
    uint32_t turns;                 /* of this agent so far */
    bool is_taken, in_turn, is_over;
    bool has_failed;                /* the appliance did not serve a call */
    enum agent_next next;           /* between turns: what the agent does */
    bool is_unseen;                 /* the watcher still shows the last turn's words */
    uint64_t next_us;               /* else the start of the next turn */
    uint32_t calls_done, tokens;
    uint32_t queue;                 /* the scheduler's, of the last tokens; 0 is the highest */
    uint64_t wait_us, service_us;
};

/* Calls to a watcher; any may be NULL. */
struct team_view {
    void *context;
    void (*opened)(void *context, const struct team_seat *seat, uint32_t call);
    void (*said)(void *context, const struct team_seat *seat, uint32_t call, const char *text,
                 uint32_t bytes);
    void (*ended)(void *context, const struct team_seat *seat, uint32_t call);
    /* The tool has answered; the next turn begins. */
    void (*used_tool)(void *context, const struct team_seat *seat);
    void (*over)(void *context, const struct team_seat *seat);
    void (*look)(void *context);    /* every 40 ms, and after each event */
    /* True when the watcher has caught up: tools and readers begin only then. */
    bool (*has_seen)(void *context, const struct team_seat *seat);
};
struct team {
    /* set before team_open() */
    const struct task_book *book;
    uint32_t seats_count;
    uint64_t seed;
    struct retry retry;             /* of busy answers */
    uint64_t tool_us, reader_us;    /* how long a tool works, a person reads */
    struct team_view view;
    /* read by watchers */
    struct team_seat *seats;
    struct agx_welcome welcome;
    uint32_t tasks_over;
    uint32_t right[TASK_KINDS];
    /* private: only team.c */
    struct lanes lanes;
    uint32_t tasks_taken, ends_open;
    uint64_t heard_us;
    int code, served_code;
};

/* Connects and takes all memory. 0, or an exit code after a message. */
int team_open(struct team *team, const char *to);
/* Runs until every task is over. 0: the appliance has served all calls, right or wrong; else the
 * exit code of the first fault. */
int team_run(struct team *team);
void team_close(struct team *team);
/* Sum over the calls of the turn: how long each has waited for its first token. */
uint64_t team_waited_us(const struct team_seat *seat, uint64_t now_us);
