/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the predictor of what programs cost, as tools/predict has trained it and as its file
 * (sched.predictor) says it: for each class of programs a linear function of a prompt. Here it is
 * read and checked; sched/class/predictor.h computes with it.
 *
 * The file is GGUF: general.architecture is "predictor", and with that as prefix there are
 *
 *     version, buckets, tokens   u32: PREDICTOR_VERSION, PREDICTOR_BUCKETS, PREDICTOR_TOKENS
 *     classes                    texts: names in strictly ascending order of their bytes
 *     samples                    i32s: how many each class was trained with, 1 or more
 *     means, lows, highs         f32s: of log C of these samples, 0 <= low <= mean <= high
 *     weights                    the one tensor, F32: a row of PREDICTOR_WEIGHTS for each class
 *
 * C is in KV token-rounds (sched/cost.h). `version` stands for all that makes numbers out of
 * tokens: hash, logarithms, norm.
 */
#include <string.h>

#include "config/base/arena.h"
#include "config/base/bounds.h"
#include "config/base/call.h"
#include "config/model/gguf.h"

#define PREDICTOR_VERSION    1
#define PREDICTOR_TOKENS     1024u  /* of a prompt that are looked at */
#define PREDICTOR_BUCKETS    1024u  /* of its 1- and 2-grams */
#define PREDICTOR_WEIGHTS    (PREDICTOR_BUCKETS + 2)    /* and log length, and 1 */
#define PREDICTOR_LOG_MAX    43.0f  /* of C: below 2^63 */

struct predictor_class {
    char name[CALL_CLASS_BYTES];    /* not terminated */
    uint32_t name_bytes;
    uint32_t samples;
    float mean, low, high;          /* of log C */
    float weights[PREDICTOR_WEIGHTS];
};

/* The order of names in the file, as memcmp() has it; of two with one beginning the shorter one is
 * first. */
static inline int predictor_order(const char *a, uint32_t a_bytes, const char *b, uint32_t b_bytes)
{
    int order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);
    return order != 0 ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

struct predictor {
    uint32_t count;                 /* of classes; 0: there is no predictor */
    uint32_t samples;               /* of all classes; saturates */
    struct predictor_class *classes;    /* [count], by name */
    /* private: where they are in the file */
    uint64_t names_offset, samples_offset, means_offset, lows_offset, highs_offset;
    uint64_t weights_offset;
};

/* BOOT_ONLY. Reads and checks the whole file, and keeps nothing but where things are. `scratch` is
 * overwritten. */
MUST_CHECK enum status predictor_measure(struct predictor *predictor,
                                         const struct gguf_source *source, struct gguf *scratch,
                                         struct config_error *error);
void predictor_plan_memory(struct memory_plan *plan, const struct predictor *predictor);
/* BOOT_ONLY. Reads the classes again, checks them again and keeps them. */
MUST_CHECK enum status predictor_load(struct predictor *predictor,
                                      const struct gguf_source *source, struct arena *arena,
                                      struct config_error *error);
