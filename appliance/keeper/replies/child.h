/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the process that writes the file of replies, as the keeper's child: forked, replaced when
 * it dies, and waited for at the end. It outlives a keeper that is killed, to write the rest.
 * Owner: the keeper.
 */
#include <sys/types.h>

#include "appliance/boot/boot.h"
#include "appliance/keeper/replies/header.h"

struct replies_child {
    struct boot *boot;
    union replies_page header;      /* the first page of its file */
    void (*begin)(void *context);   /* called in the child first: leaves what is the parent's */
    void *context;
    pid_t pid;                      /* 0: there is none yet; -1: it has died */
    uint32_t pause_ticks;           /* before there is one */
};

/* Each GUARD_TICK_US, or less often, while this keeper serves: there is a writer from then on. */
void replies_child_tick(struct replies_child *child);
/* True when there should be one and is none. */
static inline bool replies_child_is_due(const struct replies_child *child)
{
    return child->boot->replies_handle > 0 && child->pid <= 0;
}
/* True when the child was the writer. */
bool replies_child_reap(struct replies_child *child, pid_t pid);
/* No core is left: closes the bell, so that it ends, and waits for what it has to write. */
void replies_child_end(struct replies_child *child);
