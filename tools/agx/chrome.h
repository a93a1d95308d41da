/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a file of Chrome trace events, one JSON object each, which Perfetto and about:tracing read:
 * processes with tracks, stretches and instants on them. Names and values are ours: no character in
 * them needs an escape.
 */
#include <stdint.h>
#include <stdio.h>

struct chrome {
    FILE *file;
    const char *path;
    uint64_t events;
};
struct chrome_track {
    uint32_t pid, tid;              /* from 1 on: 0 means something else to Perfetto */
};
/* A list of them ends with a name that is NULL. A value beyond 53 bits is written as a string. */
struct chrome_argument {
    const char *name;
    uint64_t value;
};

/* EXIT_COMPLETE, or an exit code after a message. */
int chrome_open(struct chrome *chrome, const char *path);
/* The file is complete, whatever has been written; EXIT_SYSTEM after a message when it is not. */
int chrome_close(struct chrome *chrome);
/* Processes are shown in the order of their pids. */
void chrome_name_process(struct chrome *chrome, uint32_t pid, const char *name);
void chrome_name_track(struct chrome *chrome, struct chrome_track track, const char *name);
/* Nothing is drawn where the stretch has no length. `arguments`: NULL for none. */
void chrome_stretch(struct chrome *chrome, struct chrome_track track, const char *name,
                    uint64_t from_us, uint64_t to_us, const struct chrome_argument *arguments);
void chrome_instant(struct chrome *chrome, struct chrome_track track, const char *name,
                    uint64_t at_us, const struct chrome_argument *arguments);
