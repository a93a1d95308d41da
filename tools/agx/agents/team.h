/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: many programs at once, over as few connections as their calls need. A team has seats: a
 * program takes a free seat, and an agent works there on each of its tasks, one after the other;
 * then the seat is free again. A watcher gets a call for every event.
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
    uint32_t max_tokens, lane, busy_tries;
    struct agx_call request;        /* what was sent; the library keeps a pointer to it */
};
struct team_seat {
    struct agent agent;
    struct team_call calls[AGENT_CALLS_MAX];    /* of agent.calls */
    uint8_t program_id[AGX_ID_BYTES];
    uint32_t number;                /* of the seat, from 0 */
    uint32_t task, tasks_end;       /* of the book: the agent's, and the end of the program's */
    uint32_t turns;                 /* of this program so far */
    bool is_taken, in_turn;
    bool is_named;                  /* its class was sent */
    bool is_over;                   /* the program */
    bool has_failed;                /* the appliance did not serve a call */
    enum agent_next next;           /* between turns: what the agent does */
    uint64_t next_us;               /* start of the next turn */
    uint64_t start_us, end_us;      /* of the program; its end: when it is over */
    /* of this program so far */
    uint32_t calls_done, tasks_done, tasks_right, tokens;
    uint64_t digest;                /* over the tokens of its ended calls, in any order */
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
    void (*over)(void *context, const struct team_seat *seat);      /* the agent */
    void (*look)(void *context);    /* every 40 ms, and after each event */
};
struct team {
    /* set before team_open() */
    const struct task_book *book;
    uint32_t seats_count;
    uint64_t seed;
    struct retry retry;             /* of busy answers */
    const char *class_name;         /* of all programs; NULL: none */
    uint64_t tool_us, reader_us;    /* how long a tool works, a person reads */
    bool is_gated;                  /* program n, alone in seat n, begins with team_admit() n */
    struct team_view view;
    /* read by watchers */
    struct team_seat *seats;
    struct agx_welcome welcome;
    uint32_t tasks_over, programs_over;
    uint32_t right[TASK_KINDS];
    uint32_t tokens;                /* of all programs so far */
    uint32_t admitted;              /* programs, if they are gated */
    /* private: only team.c */
    struct lanes lanes;
    uint32_t tasks_taken, ends_open;
    uint64_t heard_us, ends_us;
    int code, served_code;
};

/* Connects and takes all memory. 0, or an exit code after a message. */
int team_open(struct team *team, const char *to);
/* Runs until every task is over. 0: the appliance has served all calls, right or wrong; else the
 * exit code of the first fault. */
int team_run(struct team *team);
void team_close(struct team *team);
/* The same in passes, for a caller with more than one team: team_begin(), then team_pass() until it
 * returns false, then team_code(). A pass starts what is due, waits at most `wait_us` for an event,
 * and takes all that has come. */
void team_begin(struct team *team);
void team_admit(struct team *team, uint64_t now_us);
bool team_pass(struct team *team, uint64_t wait_us);
int team_code(const struct team *team);
