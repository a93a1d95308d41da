/* SPDX-License-Identifier: MIT */
/*
 * What: the prediction of a program's cost: a linear function of log(1 + count) of the 1- and
 * 2-grams of its first prompt, hashed into buckets and scaled to length 1, of the logarithm of the
 * prompt's length, and of 1. It gives log C. tools/predict/features.py has the same in Python, and
 * trains the weights.
 *
 * Why floats, in this one file of sched: the features need logarithms and a norm, and the weights
 * come from a regression. No float leaves the file: a cost is an integer.
 * Why logarithm and exponential of our own: libm's differ in the last bit from one version to the
 * next, and then two appliances would order programs differently. Here are only IEEE additions,
 * products, divisions and conversions, in the order in which they are written (the build contracts
 * none).
 *
 * Invariant: weights are finite (config/model/predictor.c), so sums of PREDICTOR_WEIGHTS products
 * stay far below what a double holds.
 * Bounds: PREDICTOR_TOKENS and PREDICTOR_BUCKETS steps, 2 KiB of stack, no allocation.
 */
#include "sched/class/predictor.h"

#include <string.h>

#include "config/base/assert.h"

#define LN2   0.69314718055994530942
#define LANES 4                     /* sums that do not wait for each other */

STATIC_ASSERT(2 * PREDICTOR_TOKENS <= UINT16_MAX, "a bucket counts all grams");
STATIC_ASSERT((PREDICTOR_BUCKETS & (PREDICTOR_BUCKETS - 1)) == 0, "the top bits of a hash");
STATIC_ASSERT(PREDICTOR_BUCKETS % LANES == 0, "all buckets are in lanes");

/* ---- logarithm and exponential --------------------------------------------------------------- */

/* 2 atanh((m - 1) / (m + 1)) for m in [sqrt(1/2), sqrt(2)]: ten terms are exact to a double. */
static double log_of_mantissa(double m)
{
    double s = (m - 1) / (m + 1), squared = s * s, sum = 0;
    for (int32_t odd = 19; odd > 0; odd -= 2) {
        sum = sum * squared + 1.0 / odd;
    }
    return 2 * s * sum;
}

/* Of a normal number above 0. */
static double logarithm(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int32_t exponent = (int32_t)(bits >> 52) - 1023;
    bits = (bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(0x3ff0000000000000);
    memcpy(&x, &bits, sizeof bits);
    if (x > 1.41421356237309504880) {
        x /= 2;
        exponent++;
    }
    return exponent * LN2 + log_of_mantissa(x);
}

/* Of -700 to 700: 2^k e^r with |r| <= ln(2) / 2, of which 14 terms are exact to a double. */
static double exponential(double x)
{
    int32_t k = (int32_t)(x / LN2 + (x < 0 ? -0.5 : 0.5));
    double r = x - k * LN2, sum = 1, power;
    for (int32_t n = 14; n > 0; n--) {
        sum = 1 + sum * r / n;
    }
    uint64_t bits = (uint64_t)(k + 1023) << 52;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

/* log(1 + count). Nearly all counts are small. */
static double log_of_count(uint32_t count)
{
    static const double known[] = {
        0.0,                 0.6931471805599453, 1.0986122886681098, 1.3862943611198906,
        1.6094379124341003,  1.791759469228055,  1.9459101490553132, 2.0794415416798357,
        2.1972245773362196,  2.302585092994046,  2.3978952727983707, 2.4849066497880004,
        2.5649493574615367,  2.6390573296152584, 2.70805020110221,   2.772588722239781,
    };
    return count < sizeof known / sizeof known[0] ? known[count] : logarithm(1.0 + count);
}

/* ---- features -------------------------------------------------------------------------------- */

#define NO_TOKEN UINT32_MAX         /* before a 1-gram; no vocabulary has so many */

static uint32_t bucket_of(uint32_t before, uint32_t token)
{
    uint64_t gram = (uint64_t)before << 32 | token;
    return (uint32_t)((gram * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - 10));
}
STATIC_ASSERT(PREDICTOR_BUCKETS == 1u << 10, "bits of a bucket's number");

static void count_grams(uint16_t *counts, const uint32_t *tokens, uint32_t count)
{
    uint32_t read = count < PREDICTOR_TOKENS ? count : PREDICTOR_TOKENS;
    memset(counts, 0, PREDICTOR_BUCKETS * sizeof *counts);
    for (uint32_t i = 0; i < read; i++) {
        counts[bucket_of(NO_TOKEN, tokens[i])]++;
    }
    for (uint32_t i = 1; i < read; i++) {
        counts[bucket_of(tokens[i - 1], tokens[i])]++;
    }
}

/* The weighted sum of the buckets of a prompt, whose square sum is 1 by then. */
static double sum_of_buckets(const float *weights, const uint16_t *counts)
{
    double products[LANES] = {0}, squares[LANES] = {0};
    for (uint32_t i = 0; i < PREDICTOR_BUCKETS; i += LANES) {
        for (uint32_t lane = 0; lane < LANES; lane++) {
            double value = log_of_count(counts[i + lane]);
            products[lane] += weights[i + lane] * value;
            squares[lane] += value * value;
        }
    }
    double product = (products[0] + products[1]) + (products[2] + products[3]);
    double square = (squares[0] + squares[1]) + (squares[2] + squares[3]);
    STATIC_ASSERT(LANES == 4, "all lanes are added");
    return square > 0 ? product * exponential(-logarithm(square) / 2) : 0;
}

/* ---- costs ----------------------------------------------------------------------------------- */

uint64_t sched_predictor_cost(const struct predictor_class *class, const uint32_t *tokens,
                              uint32_t count)
{
    uint16_t counts[PREDICTOR_BUCKETS];
    count_grams(counts, tokens, count);
    double log_cost = sum_of_buckets(class->weights, counts) +
                      class->weights[PREDICTOR_BUCKETS] * logarithm(count > 0 ? count : 1) +
                      class->weights[PREDICTOR_BUCKETS + 1];
    log_cost = log_cost < class->low ? class->low : log_cost > class->high ? class->high : log_cost;
    ASSERT(log_cost >= 0 && log_cost <= PREDICTOR_LOG_MAX);
    return (uint64_t)(exponential(log_cost) + 0.5);
}

const struct predictor_class *sched_predictor_find(const struct predictor *predictor,
                                                   const char *name, uint32_t bytes)
{
    uint32_t low = 0, high = predictor != NULL ? predictor->count : 0;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct predictor_class *class = &predictor->classes[middle];
        int order = predictor_order(class->name, class->name_bytes, name, bytes);
        if (order == 0) {
            return class;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return NULL;
}
