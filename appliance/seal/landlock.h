/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: Linux's Landlock: rights to files that a process and all that it forks lose for ever, but
 * for the paths that rules name. A kernel has it or not, and knows some of the rights: others are
 * not taken. docs/decisions/0095 says who loses what.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/status.h"

/* Rights, as the kernel numbers them. */
enum landlock_right {
    LANDLOCK_EXECUTE = 1 << 0, LANDLOCK_WRITE = 1 << 1, LANDLOCK_READ = 1 << 2,
    LANDLOCK_LIST = 1 << 3, LANDLOCK_REMOVE_FOLDER = 1 << 4, LANDLOCK_REMOVE = 1 << 5,
    LANDLOCK_MAKE = 0x7f << 6,          /* files, folders, links, devices, FIFOs, sockets */
    LANDLOCK_MOVE = 1 << 13, LANDLOCK_TRUNCATE = 1 << 14, LANDLOCK_IOCTL = 1 << 15,
};
#define LANDLOCK_CHANGES (LANDLOCK_WRITE | LANDLOCK_REMOVE_FOLDER | LANDLOCK_REMOVE | \
                          LANDLOCK_MAKE | LANDLOCK_MOVE | LANDLOCK_TRUNCATE)
#define LANDLOCK_ALL     (LANDLOCK_CHANGES | LANDLOCK_EXECUTE | LANDLOCK_READ | LANDLOCK_LIST | \
                          LANDLOCK_IOCTL)

struct landlock_loss {
    uint64_t files;                     /* rights, of enum landlock_right */
    bool tcp;                           /* to bind and to connect */
    bool signals;                       /* to processes that have not lost the same */
    bool abstract_sockets;              /* of such processes: to connect to them */
};

struct landlock {
    int32_t version;                    /* of the kernel's; below 1: it has none */
    int rules;                          /* descriptor; -1: there are none, and `error` says why */
    int error;
    uint64_t files;                     /* rights that will be lost */
};

/* Where it fails, as on a kernel without Landlock, so does landlock_end(). */
void landlock_begin(struct landlock *landlock, const struct landlock_loss *loss);
/* Keeps rights to a file, or to all beneath a folder; to what is not there, none. */
void landlock_keep(const struct landlock *landlock, const char *path, uint64_t rights);
/* The same for the folder of a path: a file there may be replaced, and is then another one. */
void landlock_keep_folder_of(const struct landlock *landlock, const char *path, uint64_t rights);
/* Takes effect; no_new_privs has to be set. If the result is not OK, errno says why. */
MUST_CHECK enum status landlock_end(struct landlock *landlock);
