/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: programs counted by their service, in buckets of a quarter of an octave. When
 * SCHED_LEVELS_WINDOW are counted all counts are halved: older programs fade. Private to sched/.
 */
#include "config/base/histogram.h"

#define SCHED_SERVICE_BITS    2         /* four buckets for an octave */
#define SCHED_SERVICE_BUCKETS 160       /* of microseconds: up to 25 days */
#define SCHED_LEVELS_WINDOW   512       /* programs after which what was learnt counts half */
#define SCHED_LEVELS_EVERY    16        /* new programs after which one learns anew */

struct sched_services {
    uint32_t programs[SCHED_SERVICE_BUCKETS];
    uint32_t count;                 /* of them all */
    uint32_t since;                 /* noted since one learnt from them */
};

static inline uint32_t sched_services_bucket(uint64_t us)
{
    uint32_t bucket = octave_bucket(us, SCHED_SERVICE_BITS);
    return bucket < SCHED_SERVICE_BUCKETS ? bucket : SCHED_SERVICE_BUCKETS - 1;
}

static inline uint64_t sched_services_least_us(uint32_t bucket)
{
    return octave_least(bucket, SCHED_SERVICE_BITS);
}

/* One more program has had this service; returns its bucket. O(1), but for one time in half a
 * window. */
static inline uint32_t sched_services_note(struct sched_services *services, uint64_t us)
{
    uint32_t bucket = sched_services_bucket(us);
    services->programs[bucket]++;
    services->count++;
    services->since++;
    if (services->count < SCHED_LEVELS_WINDOW) {
        return bucket;
    }
    services->count = 0;
    for (uint32_t i = 0; i < SCHED_SERVICE_BUCKETS; i++) {
        services->programs[i] /= 2;
        services->count += services->programs[i];
    }
    return bucket;
}
