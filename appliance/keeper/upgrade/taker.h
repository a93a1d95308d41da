/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the side of an upgrade that takes over (agentix --upgrade). At boot it gets from the
 * running keeper what this one is to go on with; then it boots as ever, but for its core. Once its
 * workers are ready it asks for the rest, and its core goes on.
 *
 * If the other keeper is gone at any time, all that there is, is here: it goes on by itself.
 */
#include "appliance/boot/boot.h"
#include "appliance/keeper/upgrade/message.h"

/* ---- boot ------------------------------------------------------------------------------------ */

/* Before listeners are opened, and before rights are given up: gets them, kept memory and what the
 * service manager has told the other one. */
enum boot_exit taker_ask(struct boot *boot);
/* Once there are pockets: they are those of the other one from now on. */
enum boot_exit taker_take_pockets(struct boot *boot);
/* Once the plan is made: one that is not alike takes nothing but the listeners, and has
 * connections, calls and programs of its own. The other one drains when this one serves. */
enum boot_exit taker_compare(struct boot *boot);

/* ---- the keeper ------------------------------------------------------------------------------ */

enum taker_order {
    TAKER_NOTHING,
    TAKER_BEGIN_CORE,               /* it will wait until the other one's has ended, if it goes on
                                       with what that has */
    TAKER_TELL_LAUNCHER,            /* it serves, and no word of the other one ends it any more */
    TAKER_DONE,                     /* this is the appliance now */
    TAKER_END,                      /* the other one goes on: this one has failed, the log says
                                       why */
};

struct taker_facts {
    bool is_ready;                  /* workers are */
    bool core_waits, core_serves;
    bool has_launcher;              /* it is a child of the command that has started it */
    uint64_t weights;               /* digest */
    uint64_t now_us;
};

/* As often as the keeper wakes up. */
enum taker_order taker_tick(const struct taker_facts *facts);
/* Keepers before this one. */
uint32_t taker_upgrades(void);
/* Trust domains of what is taken over, by number; nothing: they stay. */
void taker_domains(struct config_keys *domains);
/* True when a core of this keeper that dies has a successor: the other keeper is gone, or has
 * agreed that this one serves. Before that the other one goes on instead. */
bool taker_has_all(void);
/* The command that began it knows that it serves: what comes is for an appliance that does. */
bool taker_has_told(void);
/* In a child: closes what is the keeper's. */
void taker_close(void);
