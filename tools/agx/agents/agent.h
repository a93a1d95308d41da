/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: an agent: one program that works on one task, in turns. A turn is one or more calls. After
 * the last of them has ended, the agent uses a tool, lets a person read, goes on at once, or is
 * over:
 *
 *      agent_begin --> agent_begin_turn --> calls --> agent_end_turn --> AGENT_OVER
 *                            ^                              |
 *                            +---- TOOL, READER, GO_ON -----+
 *
 * The agent knows no appliance: its owner sends `calls`, and adds the model's words with
 * agent_hear(). How agents work is in agent.c alone.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/agx/agents/task.h"

#define AGENT_CALLS_MAX    TASK_PROMPTS_MAX     /* of one turn */
#define AGENT_TURNS_MAX    12                   /* of a loop with tools */
#define AGENT_MAX_TOKENS   160                  /* of one call */
#define AGENT_SAID_BYTES   4096                 /* of one call; 25 bytes a token */
#define AGENT_TEXT_BYTES   65536                /* what the model is told in a later turn */
#define AGENT_RECORD_BYTES 131072
#define AGENT_GOT_BYTES    160

enum agent_next { AGENT_GO_ON, AGENT_TOOL, AGENT_READER, AGENT_OVER };

struct agent_call {
    const char *prompt;             /* all that the model is told */
    size_t prompt_bytes;
    const char *news;               /* what a person has not seen of it yet; may be "" */
    float temperature;
    uint64_t seed;
    char said[AGENT_SAID_BYTES];    /* the answer so far, terminated */
    uint32_t said_bytes;
};
struct agent_text { char *bytes; size_t count, room; bool is_full; };
struct agent {
    const struct task *task;
    uint32_t turn, calls_count;
    struct agent_call calls[AGENT_CALLS_MAX];
    char observed[AGENT_GOT_BYTES]; /* AGENT_TOOL: what the tool said */
    bool is_right;                  /* AGENT_OVER */
    char expected[TASK_ANSWER_BYTES_MAX + 1], got[AGENT_GOT_BYTES];
    struct agent_text record;       /* every word that was said */
    /* private: only agent.c */
    struct agent_text text;         /* the next call's prompt; a merge begins a new one */
    uint64_t seed;
    bool is_merging;
    char text_bytes[AGENT_TEXT_BYTES], record_bytes[AGENT_RECORD_BYTES];
};

/* Samples are drawn with the seeds `seed`, `seed` + 1, ... */
void agent_begin(struct agent *agent, const struct task *task, uint64_t seed);
/* Fills `calls`; their answers are empty. */
void agent_begin_turn(struct agent *agent);
/* More of a call's answer. */
void agent_hear(struct agent_call *call, const char *text, size_t bytes);
/* All calls have ended. */
enum agent_next agent_end_turn(struct agent *agent);
/* The appliance did not serve this agent: it is over, and wrong. */
void agent_fail(struct agent *agent, const char *why);
