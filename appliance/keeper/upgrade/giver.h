/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the running keeper's side of an upgrade: it listens for a keeper that takes over, gives it
 * handles of everything, and decides when its own core ends. Until it has agreed that the other
 * keeper's core serves, it can take everything back. If the two are not alike, the other keeper
 * serves beside it, and then has it drain.
 */
#include <sys/types.h>

#include "appliance/boot/boot.h"
#include "appliance/keeper/upgrade/message.h"

enum giver_state {
    GIVER_IDLE,                     /* there is no other keeper */
    GIVER_ASKED,                    /* there is one, which has yet to ask */
    GIVER_OFFERED,                  /* the other one has handles of everything, and boots */
    GIVER_GIVEN,                    /* the other one is ready; its core will wait for kept memory */
    GIVER_YIELDS,                   /* this one's core is to end */
    GIVER_GONE,                     /* this one has no core; the other one has yet to say that it
                                       serves */
    GIVER_RECALLS,                  /* this one has a core again, which waits for kept memory until
                                       the other one's core has ended */
    GIVER_BESIDE,                   /* the other one serves by itself, this one has agreed; the
                                       message that relieves it is due */
    GIVER_RELIEVED,                 /* that has come: this one's core drains */
};

/* What the keeper has to do. */
enum giver_order {
    GIVER_NOTHING,
    GIVER_END_CORE,                 /* CONTROL_YIELD */
    GIVER_KILL_CORE,                /* it has not ended */
    GIVER_BEGIN_CORE,               /* the other keeper has not taken over: start a core again */
    GIVER_LEAVE,                    /* CONTROL_LEAVE */
    GIVER_END,                      /* all is given */
};

struct giver_facts {
    bool may_give;                  /* it serves, and was not told to end */
    bool has_core;
    const struct config_keys *domains;  /* their names, by number */
    uint64_t weights;               /* digest */
    uint64_t now_us;
};

struct giver {
    const struct boot *boot;
    struct upgrade_likeness likeness;
    enum giver_state state;
    int socket;                     /* to the other keeper; -1: none */
    pid_t peer;
    uint64_t since_us;              /* of the state, and of its agreement */
    bool has_agreed;                /* the other one's core has kept memory for good */
    uint32_t domains_told;
    char version[UPGRADE_TEXT_BYTES];   /* the other's */
};

/* BOOT_ONLY: opens boot->upgrade_listener, by which the next one finds this one, and makes its
 * leash. */
void giver_listen(struct boot *boot);
/* BOOT_ONLY: once the plan is made. */
void giver_init(struct giver *giver, const struct boot *boot);
/* No other keeper finds this one any more. */
void giver_forget(struct boot *boot);
/* In a child: closes what is the keeper's. */
void giver_close(const struct giver *giver);
/* As often as the keeper wakes up; while it is not idle, every GIVER_TICK_US at least. */
#define GIVER_TICK_US UINT64_C(10000)
enum giver_order giver_tick(struct giver *giver, const struct giver_facts *facts);
/* The keeper was told to end, and what has come was heard: that ends an upgrade by which this one
 * is not bound. */
void giver_refuse(struct giver *giver, const char *why);
/* True when there is no reload, for its domains would be numbered otherwise than the other one
 * knows, and no end: it is not known yet which of both serves. All of that has a bound in time. */
static inline bool giver_is_bound(const struct giver *giver)
{
    return giver->state >= GIVER_GIVEN && giver->state != GIVER_RELIEVED;
}
