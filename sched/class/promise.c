/* SPDX-License-Identifier: MIT */
/*
 * What: the promise of a program that has had so much service: Gittins's index, from the services
 * of programs that have ended. Of all times for which one could go on with it, the
 * best one counts: the programs that end within it, each by the inverse of its whole service, for
 * that is how much a token of it gains; divided by the service that they all need for that.
 *
 *   many short programs, few long ones     it sinks with service: begin with what is new
 *   programs of about the same length      it grows with service: finish what has begun
 *
 * So who may displace whom follows from what this machine serves, and least attained service, which
 * levels stand for, needs not be right for it.
 * Why not for the order of calls, too: without an exchange it costs little to let a new program go
 * first, and levels are right for the short ones that nothing is known of.
 *
 * A bucket ends below 2^41 us, and SCHED_LEVELS_WINDOW are counted at most: no sum exceeds 64 bits.
 * Invariants: integers only; no promise where fewer than SEEN programs are known.
 * Bounds: in promise.h.
 */
#include "sched/class/promise.h"

#include "config/base/assert.h"

#define SEEN         16u
#define ONE_BITS     44             /* of a weight */
#define ONE          (UINT64_C(1) << ONE_BITS)
#define RATE_BITS    30             /* after the point */

static uint64_t weight_of(uint32_t bucket)
{
    return ONE / (sched_services_least_us(bucket) + 1);
}

/* a / b with RATE_BITS after the point; saturated. a > 0. */
static uint64_t divide(uint64_t a, uint64_t b)
{
    int shift = __builtin_clzll(a);
    uint64_t quotient = (a << shift) / b, rate = 0;
    if (shift >= RATE_BITS) {
        return quotient >> (shift - RATE_BITS);
    }
    bool is_over = __builtin_mul_overflow(quotient, UINT64_C(1) << (RATE_BITS - shift), &rate);
    return is_over ? UINT64_MAX : rate;
}

/* The best rate for programs at the beginning of this bucket. */
static uint64_t best_rate(const struct sched_services *services, uint32_t from, uint64_t survivors)
{
    uint64_t begin_us = sched_services_least_us(from), best = 0;
    uint64_t ended = 0, served_us = 0;
    for (uint32_t i = from; i < SCHED_SERVICE_BUCKETS && survivors > 0; i++) {
        uint64_t count = services->programs[i];
        if (count == 0) {
            continue;
        }
        uint64_t end_us = sched_services_least_us(i + 1);
        survivors -= count;
        ended += count * weight_of(i);
        served_us += count * (end_us - begin_us);
        uint64_t rate = divide(ended, served_us + survivors * (end_us - begin_us));
        best = rate > best ? rate : best;
    }
    return best;
}

void sched_promise_note(struct sched_promises *promises, uint64_t service_us)
{
    sched_services_note(&promises->ended, service_us);
}

void sched_promise_learn(struct sched_promises *promises)
{
    struct sched_services *ended = &promises->ended;
    uint64_t survivors = ended->count;
    if (ended->count < SEEN || ended->since < SCHED_LEVELS_EVERY) {
        return;
    }
    ended->since = 0;
    for (uint32_t i = 0; i < SCHED_SERVICE_BUCKETS; i++) {
        promises->of[i] = best_rate(ended, i, survivors);
        survivors -= ended->programs[i];
    }
}

uint64_t sched_promise_of(const struct sched_promises *promises, uint64_t service_us)
{
    return promises->of[sched_services_bucket(service_us)];
}

static uint64_t square_root(uint64_t value)
{
    uint64_t root = 0;
    for (uint64_t bit = UINT64_C(1) << 31; bit > 0; bit /= 2) {
        uint64_t larger = root + bit;
        root = larger * larger <= value ? larger : root;
    }
    return root;
}

/* A promise is 1 / (all service * what is left of it) where that is certain. */
uint64_t sched_promise_remaining_us(const struct sched_promises *promises, uint64_t service_us)
{
    STATIC_ASSERT((ONE_BITS + RATE_BITS) % 2 == 0, "it has a root");
    uint64_t root = square_root(sched_promise_of(promises, service_us));
    return root > 0 ? (UINT64_C(1) << (ONE_BITS + RATE_BITS) / 2) / root : UINT64_MAX;
}
