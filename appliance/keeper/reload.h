/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: SIGHUP: the keeper reads the configuration again and passes on to the core who may come in
 * from now on: auth.keys, auth.uids, auth.gids. Everything else is memory that was planned, or part
 * of it, and takes a restart.
 */
#include "appliance/boot/boot.h"

struct reload {
    struct boot *boot;
    struct config_keys known;       /* domains since the core's start, without keys */
    char keys_path[CONFIG_TEXT_BYTES];  /* auth.keys, as it was taken up last */
    bool is_due;                    /* SIGHUP came, or may have come before, and the core has yet
                                       to take the last one */
};

/* Before the fork of the core. */
void reload_init(struct reload *reload, struct boot *boot);
/* In the core, and in a worker: closes what is not theirs of the pipe. */
void reload_close(struct boot *boot, bool is_core);
/* After the fork of a core, in the keeper: the core alone needs the keys, and has its own. */
void reload_begin(struct reload *reload);
/* The core has ended: reads the keys for the next one, and no other option. False: not so, the log
 * says why. */
bool reload_renew(struct reload *reload);
/* The core that waits gets what was read by the pipe. False: it is to be forked with it. */
bool reload_hand_over(struct reload *reload);
/* When it is due, and now and then. */
void reload_tick(struct reload *reload);
