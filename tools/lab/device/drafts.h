/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what drafts bring to programs of a class, as it was measured in texts (tools/bench/drafts):
 * in how many rounds no draft was found, and in how many one of STEP_DRAFTS_MAX tokens was found of
 * which so many agreed.
 *
 *     agentix-drafts 1
 *     # class  none    0   1   2 ...  15
 *     *        5321  211  80  41 ... 120
 *     react     812   34  12   9 ...   7
 *
 * `#` begins a comment of a whole line. `*` stands for every class without a line of its own, and
 * must be there. A line has counts of rounds, at least one of them above 0.
 *
 * The lab's texts do not repeat themselves, so the table stands in for them. A call's output is cut
 * into stretches. Each is drawn by call and by the place where it begins: none, then it is a token
 * long; or a draft of which n tokens agree: n + 1 tokens long. A draft at the j-th token of such a
 * stretch has n - j tokens that agree. So drafts of STEP_DRAFTS_MAX tokens have what was measured,
 * shorter ones what follows from it, and a place has the same draft however rounds and steps were
 * cut (docs/decisions/0104).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/step.h"
#include "tools/trace/trace.h"

#define DRAFTS_CLASSES_MAX 64
#define DRAFTS_FILE_BYTES  65536                /* at most */
#define DRAFTS_OUTCOMES    (STEP_DRAFTS_MAX + 2)    /* none; 0 .. STEP_DRAFTS_MAX agreed */
#define DRAFTS_COUNT_MAX   1000000000u          /* rounds of an outcome */
#define DRAFTS_FAULT_BYTES 160

struct drafts_class {
    char name[TRACE_CLASS_BYTES_MAX + 1];       /* "*": any other */
    uint64_t up_to[DRAFTS_OUTCOMES];            /* rounds of this outcome and those before it */
};
struct drafts {
    struct drafts_class classes[DRAFTS_CLASSES_MAX];
    uint32_t count;
};

/* False: `fault` is "LINE:COLUMN: expected ..., found ...". */
bool drafts_read(struct drafts *drafts, const char *text, size_t bytes,
                 char fault[DRAFTS_FAULT_BYTES]);
/* 0, or an exit code after a message. */
int drafts_load(struct drafts *drafts, const char *path);
/* That of this name, or `*`. */
const struct drafts_class *drafts_class_of(const struct drafts *drafts, const char *name);

/* A stretch of a call's output; all zero before the first one. */
struct drafts_stretch {
    uint32_t begin, tokens;         /* place in the output of the first; how many */
    bool has_draft;
};
/* Moves to the stretch that has this place, of the text with this key. O(1) for a place in this
 * stretch or the next one. */
void drafts_seek(struct drafts_stretch *stretch, const struct drafts_class *of, uint64_t key,
                 uint32_t place);
/* Tokens that agree of a draft of any length that is made at this place of the stretch. */
uint32_t drafts_agree(const struct drafts_stretch *stretch, uint32_t place);
