/* SPDX-License-Identifier: MIT */
/*
 * What: the levels. Queue i has a service range [low, high) and a quantum as wide, so that a job
 * which is demoted through a level has received what the level stands for. The last range is open
 * above.
 *
 *   fixed     queue i is quantum * growth^i wide
 *   learnt    (sched.quantum = auto) each range ends at so many times the end of the one above it:
 *             levels are equally wide on a log scale. The first ends at an eighth of the service
 *             that 5 % of the programs do not exceed, so that the shortest end in it; but it holds
 *             two whole steps: less no plan can tell apart. The last begins at about twice the
 *             service that 95 % do not exceed, or later (with fewer than four queues: sooner), so
 *             that few programs are served in the order of arrival. The ratio is 3 at least: finer
 *             levels cost more preemptions than they gain. A range that would end where promises
 *             (class/promise.h) have risen again ends past that: to demote a program there is to
 *             send it away just before it ends
 *
 * What is learnt: how much service programs have had when their last open call ends. A program that
 * comes back is taken out again until it is idle once more. When SCHED_LEVELS_WINDOW programs are
 * counted all counts are halved: older programs fade. Where the policy knows no programs, the
 * service of that last call counts.
 *
 * Jobs keep their queue when levels change, and go by the new ones from their next demotion on.
 * Invariants: ranges follow each other without a gap; integers only.
 * Bounds: O(1), but for SCHED_SERVICE_BUCKETS steps when levels are learnt anew, and as many for
 * each queue.
 */
#include "sched/levels.h"

#include "config/base/assert.h"
#include "sched/call.h"
#include "sched/services.h"

#define FIRST_US    UINT64_C(50000)     /* of the first guess, until programs were seen */
#define FIRST_SEEN  16u
#define ONE         (UINT64_C(1) << 16) /* of a ratio */
#define RATIO_MIN   (ONE * 3)
#define RATIO_GUESS (ONE * 3)
#define RATIO_MAX   (ONE * 16)
#define SURE_SEEN   (SCHED_LEVELS_WINDOW / 2)   /* fewer programs make rises by chance */
#define QUARTER     250                 /* permille */
#define RISE_PART   11                  /* of a promise: so much of it is no rise */

static uint64_t multiply_saturated(uint64_t a, uint64_t b)
{
    uint64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static bool is_learnt(const struct sched *sched)
{
    return sched->settings.quantum_us == 0;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static void set_fixed(struct sched *sched)
{
    const struct sched_settings *settings = &sched->settings;
    uint64_t quantum_us = settings->quantum_us;
    uint64_t low_us = 0;
    for (uint32_t i = 0; i < settings->queues; i++) {
        uint64_t high_us = sched_sum(low_us, quantum_us);
        sched->levels[i] = (struct sched_level){
            .service_low_us = low_us, .service_high_us = high_us, .quantum_us = quantum_us};
        low_us = high_us;
        quantum_us = multiply_saturated(quantum_us, settings->quantum_growth);
    }
    sched->levels[settings->queues - 1].service_high_us = UINT64_MAX;
}

static uint64_t scale(uint64_t us, uint64_t ratio)
{
    unsigned __int128 product = (unsigned __int128)us * ratio / ONE;
    return product > UINT64_MAX ? UINT64_MAX : (uint64_t)product;
}

static uint64_t scale_often(uint64_t us, uint64_t ratio, uint32_t times)
{
    while (times-- > 0) {
        us = scale(us, ratio);
    }
    return us;
}

/* The ratio of which `times` in a row lead from one to the other, rounded up. */
static uint64_t ratio_between(uint64_t from_us, uint64_t to_us, uint32_t times)
{
    uint64_t low = RATIO_MIN, high = RATIO_MAX;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        bool reaches = scale_often(from_us, middle, times) >= to_us;
        *(reaches ? &high : &low) = reaches ? middle : middle + 1;
    }
    return low;
}

/* The service that this many of a thousand programs do not exceed by a bucket. */
static uint64_t percentile_us(const struct sched_services *services, uint32_t permille)
{
    uint64_t seen = 0, wanted = ((uint64_t)services->count * permille + 999) / 1000;
    uint32_t bucket = 0;
    for (; bucket + 1 < SCHED_SERVICE_BUCKETS; bucket++) {
        seen += services->programs[bucket];
        if (seen >= wanted) {
            break;
        }
    }
    return sched_services_least_us(bucket);
}

/* The least service from `end_us` on at which the promise is no higher than where it was least
 * before, but for a tenth. What the shortest quarter of the programs promises does not count: where
 * all are about as long, promises rise from the beginning, and levels are of use all the same. */
static uint64_t past_rise_us(const struct sched *sched, uint64_t end_us)
{
    const uint64_t *promises = sched->promises.of;
    uint32_t at = sched_services_bucket(end_us);
    uint64_t least = UINT64_MAX;
    uint64_t from_us = percentile_us(&sched->services, QUARTER);
    for (uint32_t i = sched_services_bucket(from_us); i <= at; i++) {
        least = promises[i] < least ? promises[i] : least;
    }
    while (at + 1 < SCHED_SERVICE_BUCKETS && promises[at] - promises[at] / RISE_PART > least) {
        at++;
    }
    uint64_t past_us = sched_services_least_us(at);
    return past_us > end_us ? past_us : end_us;
}

/* The first range ends at `end_us`; each later one ends at so many times the end before, or past
 * the rise of promises that is there. */
static void set_ranges(struct sched *sched, uint64_t end_us, uint64_t ratio, bool by_promise)
{
    uint64_t low_us = 0;
    for (uint32_t i = 0; i < sched->settings.queues; i++) {
        if (i > 0 && by_promise) {
            end_us = past_rise_us(sched, end_us);
        }
        sched->levels[i] = (struct sched_level){
            .service_low_us = low_us, .service_high_us = end_us, .quantum_us = end_us - low_us};
        low_us = end_us;
        end_us = scale(end_us, ratio);
    }
    sched->levels[sched->settings.queues - 1].service_high_us = UINT64_MAX;
}

uint32_t sched_levels_find(const struct sched *sched, uint64_t service_us)
{
    uint32_t last = sched->settings.queues - 1;
    uint32_t queue = 0;
    while (queue < last && service_us >= sched->levels[queue].service_high_us) {
        queue++;
    }
    return queue;
}

/* ---- what is learnt -------------------------------------------------------------------------- */

uint8_t sched_levels_note(struct sched *sched, uint64_t service_us)
{
    STATIC_ASSERT(SCHED_SERVICE_BUCKETS <= UINT8_MAX + 1, "a note is a byte");
    return (uint8_t)sched_services_note(&sched->services, service_us);
}

void sched_levels_take_back(struct sched *sched, uint8_t bucket)
{
    struct sched_services *services = &sched->services;
    ASSERT(bucket < SCHED_SERVICE_BUCKETS);
    if (services->programs[bucket] > 0) {       /* it may have faded */
        services->programs[bucket]--;
        services->count--;
    }
}

void sched_levels_note_step(struct sched *sched, uint64_t duration_us, uint32_t rounds)
{
    uint64_t *round_us = &sched->round_us;
    uint64_t measured_us = duration_us / (rounds > 0 ? rounds : 1);
    *round_us = *round_us == 0 ? measured_us : (*round_us * 15 + measured_us) / 16;
}

void sched_levels_learn(struct sched *sched, bool stands_by_attained)
{
    struct sched_services *services = &sched->services;
    uint32_t queues = sched->settings.queues;
    if (!is_learnt(sched) || services->count < FIRST_SEEN ||
        services->since < SCHED_LEVELS_EVERY) {
        return;
    }
    services->since = 0;
    uint64_t steps_us = 2 * sched->round_us * sched->settings.steps_per_plan;
    uint64_t short_us = percentile_us(services, 50) / 8;
    uint64_t first_us = short_us > steps_us ? short_us : steps_us;
    first_us = first_us > 0 ? first_us : 1;
    uint64_t long_us = 2 * percentile_us(services, 950);
    uint64_t ratio = ratio_between(first_us, long_us, queues > 2 ? queues - 2 : 1);
    bool by_promise = stands_by_attained && sched->promises.ended.count >= SURE_SEEN;
    set_ranges(sched, first_us, ratio, by_promise);
}

void sched_levels_init(struct sched *sched)
{
    ASSERT(sched->settings.queues > 0 && sched->settings.queues <= SCHED_QUEUES_MAX);
    ASSERT(sched->settings.quantum_growth > 0);
    if (is_learnt(sched)) {
        set_ranges(sched, FIRST_US, RATIO_GUESS, false);
    } else {
        set_fixed(sched);
    }
}
