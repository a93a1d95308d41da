/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what is drawn before a run: a configuration, down to the smallest that boots, and the kinds
 * of faults with their rates. Many runs with a few kinds of faults find more than a run with all.
 */
#include <stdbool.h>
#include <stdint.h>

/* Uids that may use the unix socket, besides root. */
#define USER      1000              /* any client's */
#define FLOW_USER 1001              /* this and the next: of clients with workflows only */

enum sim_fault {
#define FAULT(name, text) SIM_FAULT_##name,
#include "selftest/sim/faults.def"
#undef FAULT
    SIM_FAULTS
};

struct swarm {
    uint32_t rate[SIM_FAULTS];      /* one opportunity in so many; 0: never */
    uint32_t engines;
    uint32_t hostiles, operators;   /* numbers of clients */
    uint32_t flow_clients;
    bool flows_apart;               /* they have trust domains of their own */
    uint32_t clients, programs, descriptors, ring_bytes;
    bool has_words;
    uint32_t vocab_tokens;
    uint64_t round_us_max, think_us_max;
    uint64_t round_us;              /* of every round; 0: each takes its own time */
    bool ends_by_drain;
    bool excuses_all;               /* every client may miss a deadline of net */
    uint32_t programs_max;          /* of the world; 1 to */
    uint32_t action_weights[8];     /* clients.c */
    uint32_t deadline_rate;         /* one call in so many has a deadline */
    bool has_keys;                  /* clients on TCP prove one */
    uint32_t appetite;              /* open calls from which on a client makes none */
};

const char *sim_fault_name(enum sim_fault fault);

struct sim;
/* Draws everything; fills options and limits. */
void swarm_draw(struct sim *sim);
/* For one core to go on with what another has left: what may be otherwise. */
void swarm_draw_anew(struct sim *sim);
/* One option, as --set would; and limits from the options, once they are set. */
void swarm_set(struct sim *sim, const char *assignment);
void swarm_setf(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void swarm_derive(struct sim *sim);
