/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the isolation oracle. One tenant, the victim, makes the calls of a fixed program, one at a
 * time. They run twice from one seed: alone, and beside tenants that attack. Part of sim.h.
 *
 *   seed --> configuration, the victim's program --> alone:    latency, tokens found in the cache
 *                                                \-> attacked: the same, or a failure
 *
 * What must hold, whatever the others do (INVARIANT_TENANTS; oracle.c looks after the tokens):
 *   - no call of the victim is refused: it has one open, and its minimum is one at least
 *   - a call ends within the bound below
 *   - a connection is admitted within 20 ms for each time that the places of net.preauth are taken
 *     by all attackers
 *   - the table of programs and that of replies keep what is within the victim's minimum
 *
 * The bound. Let u be a round with what passes take around it, N the rounds of a step, P the
 * prefill budget. Alone a call of p prompt tokens that are not cached and t tokens needs at most
 *
 *     need = ceil(p / P) * N * u  +  t * u
 *
 * Beside others it has its weighted share of the engine, 1 / n of it for n tenants of equal weight
 * that ask for more, and what is dealt comes in steps: the one that runs when it comes, and one
 * that is dealt to each of the others before it is behind them. Where blocks are scarce the others
 * give theirs up once they are ahead by the break-even time e of an exchange (decision 0063).
 *
 *     bound = n * need  +  (n + 1) * N * u  +  (n - 1) * e
 */
#include <stdbool.h>
#include <stdint.h>

#define SIM_VICTIM          0u          /* its number among the clients */
#define SIM_VICTIM_CALLS    12          /* of its program, at most */

struct sim_victim_call {                /* as it was drawn */
    uint32_t program, more, max_tokens; /* more: prompt tokens after those of the last call */
    uint64_t think_us;                  /* before it */
    bool comes_anew;                    /* over a new connection */
};

struct sim_tenants {
    bool is_on;
    uint32_t attackers, tenants;        /* tenants: the victim, and those that attack */
    uint32_t calls_count, at;           /* at: the call that is open, or the next one */
    struct sim_victim_call calls[SIM_VICTIM_CALLS];
    uint64_t round_us, act_us;          /* act_us: the end of the victim's thinking */
    uint64_t came_us;                   /* when it connected; 0: it has been admitted */
    uint64_t break_even_us;             /* the longest while its call was open */
    struct sim_call *open;
    uint64_t ids;                       /* of the attackers' calls and programs */
};

struct sim;
struct tape;
struct sim_client;
/* The turn of a client, when its time has come. */
void sim_tenants_turn(struct sim *sim, uint32_t client);
/* attacker.c */
void sim_attacker_turn(struct sim *sim, uint32_t client);

/* Runs the victim of this seed alone, then attacked. Returns false after a failure, which is in
 * sim->failure. `script` is of the second run. */
bool sim_tenants_run(struct sim *sim, struct tape *tape, uint64_t seed);
/* The largest part of its bound that a call has taken so far, in thousandths. */
uint32_t sim_tenants_worst(void);

/* tenants/reload.c */
void sim_admit_all(struct sim *sim);
/* Other keys and users, for a core that takes over. */
void sim_draw_admission(struct sim *sim);
/* True when neither the client's key nor its user is known to the appliance, as the case may be. */
bool sim_is_shut_out(const struct sim *sim, const struct sim_client *client);
/* True when a group of the client's user would let it in now. */
bool sim_comes_by_group(const struct sim *sim, const struct sim_client *client);
/* Called before each pass, which may be told of other keys and users; and after it. */
void sim_may_reload(struct sim *sim);
void sim_reload_end(struct sim *sim);
