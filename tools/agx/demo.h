/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the demo's three programs. A program goes through turns; a turn opens one or more calls,
 * and when all of them are done the script says how long the next one waits (a person reads, a
 * tool works). demo.c moves the calls, demo_scripts.c says what is asked.
 */
#include <stdbool.h>
#include <stdint.h>

#include "tools/agx/dial.h"
#include "tools/agx/screen.h"

#define DEMO_PROGRAMS    SCREEN_PANELS
#define DEMO_CALLS_MAX   4          /* of one turn */
#define DEMO_TEXT_BYTES  4096

enum demo_state { DEMO_TIMED, DEMO_QUEUED, DEMO_RUNNING, DEMO_DONE };
struct demo_call {
    enum demo_state state;
    uint64_t id;
    uint64_t due_us;                /* TIMED: when it is sent (again) */
    uint64_t sent_us, first_us;
    uint32_t thread, max_tokens;
    char prompt[DEMO_TEXT_BYTES], said[DEMO_TEXT_BYTES];
    uint32_t said_bytes;
};
struct demo_program {
    const struct demo_script *script;
    uint32_t panel;
    uint8_t id[AGX_ID_BYTES];
    uint32_t turn, calls_count;     /* calls of this turn */
    uint32_t first_number;          /* of the turn's first call, from 1 */
    struct demo_call calls[DEMO_CALLS_MAX];
    uint64_t next_us;               /* when the next turn starts */
    bool in_turn, has_ended;
    char history[DEMO_TEXT_BYTES];  /* the script's own */
    uint32_t calls_done, tokens;
    uint64_t wait_us, service_us;
};
struct demo {
    struct dial dial;
    struct screen screen;
    struct demo_program programs[DEMO_PROGRAMS];
    uint32_t max_tokens;
    uint64_t next_id, start_us;
    uint32_t ended;
};

struct demo_script {
    const char *name, *about;
    uint32_t turns, calls;          /* calls: in all turns together */
    /* Fills the turn's calls with demo_ask(). */
    void (*begin)(struct demo *demo, struct demo_program *program);
    /* All calls of the turn are done; returns the pause before the next turn, in microseconds. */
    uint64_t (*end)(struct demo *demo, struct demo_program *program);
};
extern const struct demo_script demo_scripts[DEMO_PROGRAMS];

/* Adds a call to the turn. The prompt is cut at its front to what surely fits the context. */
void demo_ask(struct demo *demo, struct demo_program *program, const char *prompt,
              uint32_t max_tokens, const char *label);
