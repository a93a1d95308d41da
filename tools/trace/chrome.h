/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a file of Chrome trace events, one JSON object each, which Perfetto and about:tracing read:
 * processes with tracks, stretches and instants on them.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct chrome {
    FILE *file;
    const char *path;
    uint64_t events;
    bool failed;                    /* one of them could not be made */
};
struct chrome_track {
    uint32_t pid, tid;              /* from 1 on: for Perfetto 0 has another meaning */
};
struct chrome_span { uint64_t from_us, to_us; };
/* A list of them ends with a name that is NULL. A value beyond 53 bits is written as a string. */
struct chrome_argument {
    const char *name;
    uint64_t value;
};

/* False: the file cannot be written. */
bool chrome_open(struct chrome *chrome, const char *path);
/* Completes the file. False: not all of it could be written. */
bool chrome_close(struct chrome *chrome);
/* Processes are shown in the order of their pids. */
void chrome_name_process(struct chrome *chrome, uint32_t pid, const char *name);
void chrome_name_track(struct chrome *chrome, struct chrome_track track, const char *name);
/* A stretch without length is not drawn. `arguments`: NULL for none. */
void chrome_stretch(struct chrome *chrome, struct chrome_track track, const char *name,
                    struct chrome_span span, const struct chrome_argument *arguments);
void chrome_instant(struct chrome *chrome, struct chrome_track track, const char *name,
                    uint64_t at_us, const struct chrome_argument *arguments);
